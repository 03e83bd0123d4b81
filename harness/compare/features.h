// The CUDA-graph features that a program uses: observed while it ran (blame/features.h), kept in a file that a person
// can correct, and used as the scope of a gate.
#pragma once
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "harness/case/tags.h"
#include "harness/model/catalogue.h"

namespace recapture::compare {

enum class Use { Used, Assumed, NotUsed };  // Assumed: unknown, and treated as used.
std::string_view to_string(Use use);

struct Feature {
  const Tag* tag = nullptr;
  Use use = Use::Assumed;
  std::string how;  // How it was seen, or why it is assumed; may be "" if it is not used, or not in the file.
};

struct Features {
  std::string program;                 // Its command line; "" if unknown.
  std::string torch;                   // The release of its PyTorch; "" if none.
  size_t captures = 0;                 // Observed captures.
  std::vector<std::string> modes;      // Of the captures, sorted.
  std::vector<std::string> operators;  // ATen's in captures, sorted.
  std::vector<Feature> all;            // Every tag except "any program", in the order of kTags.

  std::vector<const Feature*> of(Use use) const;
};

// A feature that the file lacks is assumed. Throws ExitError(Usage) with file and line if it is not a features file.
Features read_features(const std::string& path);

// The cases whose first tag is used or assumed: what a gate lists for the program. Also the cases of any program and
// the case of all operators. A change blocks only if the program can meet it: cases_not_met().
std::set<std::string> cases_in_scope(const Features& features, const Catalogue& catalogue);

}  // namespace recapture::compare
