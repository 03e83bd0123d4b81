// What of CUDA graphs a program uses: observed while it ran (blame/features.h), kept as a file that a person can
// correct, and the scope of a gate.
#pragma once
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "harness/case/tags.h"
#include "harness/model/catalogue.h"

namespace recapture::compare {

enum class Use { Used, Assumed, NotUsed };  // Assumed: it cannot be known, and counts as used.
std::string_view to_string(Use use);

struct Feature {
  const Tag* tag = nullptr;
  Use use = Use::Assumed;
  std::string how;  // How it was seen, or why it is assumed; may be "" for what is not used.
};

struct Features {
  std::string program;                 // Its words, "" where they are not known.
  std::string torch;                   // The release of its PyTorch, "" where it has none.
  size_t captures = 0;                 // How many were seen.
  std::vector<std::string> modes;      // Theirs, sorted.
  std::vector<std::string> operators;  // ATen's in captures, sorted.
  std::vector<Feature> all;            // Of every tag but "any program", in the order of kTags.

  std::vector<const Feature*> of(Use use) const;
};

// The file, as TOML with a comment for each feature.
std::string render_toml(const Features& features);
// A feature that the file leaves out is assumed. Throws ExitError(Usage) with file and line where it is no such file.
Features read_features(const std::string& path);

// The cases whose first tag is used or assumed: without that feature no program meets the case. Those of any program,
// and the case of all operators, are always among them.
std::set<std::string> cases_in_scope(const Features& features, const Catalogue& catalogue);

}  // namespace recapture::compare
