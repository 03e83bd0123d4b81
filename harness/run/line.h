// A test's line in the record, from what its process did and reported.
#pragma once
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "harness/model/record.h"
#include "harness/run/process.h"

namespace recapture::run {

// Replaces the folders of this machine, which mean nothing to a record's reader.
class Anonymous {
 public:
  void hide(const std::string& folder, const std::string& as);
  std::string operator()(std::string text) const;

 private:
  std::vector<std::pair<std::string, std::string>> folders_;
};

// What ran, besides its observation.
struct Ran {
  std::string test;
  std::string how;                      // "fork" or "exec".
  std::string stopping;                 // Of a rate: when its tries stop.
  std::string program;                  // The binary that ran.
  std::string code = {};                // The hash of its program in Python, if it is a test of one.
  std::optional<int> connections = {};  // Hardware connections to the GPU that it was given.
};

Json line_of(const Ran& ran, const Observation& seen, const Anonymous& anonymous);

// The line of a test that could not run here.
Json line_of_skipped(const std::string& test, const std::string& code, const std::string& reason);

}  // namespace recapture::run
