// What a process did and said, as a test's line in the record.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "harness/model/record.h"
#include "harness/run/process.h"

namespace recapture::run {

// Replaces the folders of this machine, which mean nothing to the reader of a record.
class Anonymous {
 public:
  void hide(const std::string& folder, const std::string& as);
  std::string operator()(std::string text) const;

 private:
  std::vector<std::pair<std::string, std::string>> folders_;
};

// What ran, beside what it did.
struct Ran {
  std::string test;
  std::string how;       // "fork" or "exec".
  std::string stopping;  // Of a rate: what ended its tries.
  std::string program;   // What ran.
};

Json line_of(const Ran& ran, const Observation& seen, const Anonymous& anonymous);

// The line of a test that could not run here.
Json line_of_skipped(const std::string& test, const std::string& reason);

}  // namespace recapture::run
