// The causes that a text can indicate: cases/diagnoses.toml. Cases of the catalogue by their id, and causes without a
// case.
#pragma once
#include <re2/re2.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "harness/explain/terms.h"
#include "harness/model/catalogue.h"

namespace recapture::explain {

// What fails.
enum class Scope {
  Capture,  // A capture.
  Graph,    // A captured graph: its replays, its memory, its end.
  Other,    // Neither.
};

struct Cause {
  std::string id, title;
  bool has_case = false;
  Scope scope = Scope::Capture;
  bool other_thread = false;       // A thread that does not capture makes the call.
  bool victim = false;             // Its texts follow from an earlier capture error; without codes, always.
  bool only_possible = false;      // Never reported as the culprit.
  bool harmless = false;           // A message that reports no failure: after each cause of one.
  bool alone = false;              // The case of an error itself: possible if the text names no cause.
  std::vector<int> codes;          // CUDA errors that it raises itself, so not a victim's 901.
  std::vector<std::string> says;   // Text that only this failure prints.
  std::vector<std::string> calls;  // CUDA calls that raise it, in the runtime's and the driver's spelling.
  std::vector<std::string> names;  // What a text with this cause mentions, if it shows a failure.
  std::vector<std::string> hints;  // Make it likelier if there is other evidence.
  std::vector<std::shared_ptr<const RE2>> messages;    // What a line of an error says, in lower case.
  std::vector<std::shared_ptr<const RE2>> statements;  // Python statements that fail this way.
  std::vector<std::shared_ptr<const RE2>> symptoms;    // How people describe it, in lower case.
  std::vector<std::shared_ptr<const RE2>> topics;      // What a capture forbids here, in lower case.
  std::map<std::string, int> terms;                    // Words that people use for it, with weights.
  std::vector<std::string> also;                       // Cases with the same texts,
  std::vector<std::string> also_fixes;  // and those of their fixes that are for this cause; all if empty.
  std::vector<std::string> fixes;       // Remedies, if no case has them.
  std::vector<std::string> useless;     // Common advice that cannot help.
  std::string why;                      // In a sentence.
  std::string no_case;                  // The reason why no case runs it.
  std::string link;                     // Upstream, or the document.
};

// Throws ExitError(Usage) with its place if an entry is invalid or names an unknown case.
std::vector<Cause> read_causes(const std::string& root, const Catalogue& catalogue);

// The cases that no text can identify, each with the reason. Throws likewise.
std::map<std::string, std::string> read_unnamed(const std::string& root, const Catalogue& catalogue);

// Of each cause the cases with the same texts; reads nothing else of the file. Throws likewise.
std::map<std::string, std::vector<std::string>> read_alike(const std::string& root);

// What LogReader looks for in a long log.
std::vector<std::string> cues_of(const std::vector<Cause>& causes);

}  // namespace recapture::explain
