// The causes that a text can speak for: cases/diagnoses.toml. Cases of the catalogue by their id, and causes that have
// no case.
#pragma once
#include <string>
#include <vector>

#include "harness/model/catalogue.h"

namespace recapture::explain {

struct Cause {
  std::string id, title;
  bool has_case = false;
  bool capture = true;               // False: what it shows is no capture failure.
  bool other_thread = false;         // A thread that does not capture makes the call.
  bool victim = false;               // What it says follows from a capture error before it; without codes, always.
  std::vector<int> codes;            // CUDA errors that it raises itself; a victim's 901 is none of them.
  std::vector<std::string> says;     // Text that this failure alone prints.
  std::vector<std::string> calls;    // CUDA calls that raise it, as the runtime and as the driver spell them.
  std::vector<std::string> names;    // What a text mentions where this is the cause, if it shows a capture failure.
  std::vector<std::string> hints;    // What makes it likelier where something else speaks for it.
  std::vector<std::string> fixes;    // Remedies, where no case has them.
  std::vector<std::string> useless;  // What is often advised and cannot help.
};

// Throws ExitError(Usage) with its place where an entry is wrong, or names a case that the catalogue lacks.
std::vector<Cause> read_causes(const std::string& root, const Catalogue& catalogue);

}  // namespace recapture::explain
