// A release's own Python, which runs the programs of the cases.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "harness/run/process.h"

namespace recapture::run {

struct ReleasePython {
  std::string interpreter;  // "" if there is none: `reason` has why.
  std::string reason = {};
  std::string site;  // Where torch/ lies.
};

// The interpreter for which the torch in a site-packages folder was built: the environment's own, or else the first of
// that name on PATH.
ReleasePython find_python(const std::string& site);

// Runs programs, each as `python FILE` does: with arguments, one; with --serve, what is asked for.
Program program_runner(const ReleasePython& python, const std::vector<std::string>& arguments,
                       std::map<std::string, std::string> variables);

}  // namespace recapture::run
