// The causes that a text can speak for: cases/diagnoses.toml. Cases of the catalogue by their id, and causes that have
// no case.
#pragma once
#include <re2/re2.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "harness/explain/terms.h"
#include "harness/model/catalogue.h"

namespace recapture::explain {

// What a failure is one of.
enum class Scope {
  Capture,  // A capture.
  Graph,    // What a graph does once it is captured: its replays, its memory, its end.
  Other,    // Neither.
};

struct Cause {
  std::string id, title;
  bool has_case = false;
  Scope scope = Scope::Capture;
  bool other_thread = false;       // A thread that does not capture makes the call.
  bool victim = false;             // What it says follows from a capture error before it; without codes, always.
  bool only_possible = false;      // It is never told as the culprit.
  std::vector<int> codes;          // CUDA errors that it raises itself; a victim's 901 is none of them.
  std::vector<std::string> says;   // Text that this failure alone prints.
  std::vector<std::string> calls;  // CUDA calls that raise it, as the runtime and as the driver spell them.
  std::vector<std::string> names;  // What a text mentions where this is the cause, if it shows a failure.
  std::vector<std::string> hints;  // What makes it likelier where something else speaks for it.
  std::vector<std::shared_ptr<const RE2>> statements;  // Of Python, that fail so.
  std::vector<std::shared_ptr<const RE2>> symptoms;    // What people write of it, in lower case.
  std::vector<std::shared_ptr<const RE2>> topics;      // Words for what a capture forbids here, in lower case.
  std::map<std::string, int> terms;                    // Words that people use of it, with their weights.
  std::vector<std::string> also;                       // Cases whose texts read the same.
  std::vector<std::string> fixes;                      // Remedies, where no case has them.
  std::vector<std::string> useless;                    // What is often advised and cannot help.
  std::string why;                                     // In a sentence.
  std::string no_case;                                 // The reason why no case runs it.
  std::string link;                                    // Upstream, or the document.
};

// Throws ExitError(Usage) with its place where an entry is wrong, or names a case that the catalogue lacks.
std::vector<Cause> read_causes(const std::string& root, const Catalogue& catalogue);

// The cases that no text can name, each with the reason. Throws likewise.
std::map<std::string, std::string> read_unnamed(const std::string& root, const Catalogue& catalogue);

// What a reader of a long log looks for.
std::vector<std::string> cues_of(const std::vector<Cause>& causes);

}  // namespace recapture::explain
