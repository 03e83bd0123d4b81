// How much longer a run takes: what its tests took before on such a machine, corrected by how fast they go now.
#pragma once
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "harness/model/record.h"

namespace recapture::run {

class Estimate {
 public:
  // Of committed records those that count are not broken on purpose, and of this GPU ("" for none) or, for what never
  // ran on it, of another; one that was cut knows what its tests took. The newest of this release comes first, then the
  // newest of any.
  Estimate(const std::vector<Record>& committed, const std::string& gpu, const std::string& release);

  // What one test takes, in seconds: as before, else the mean of those that are known. Without any, each takes one.
  double of(const std::string& test) const;

  void plan(const std::string& test, bool alone);
  void finished(const std::string& test);

  // Seconds that are left, if `width` tests run at once and those that are planned alone run after all others. Nothing
  // as long as there is nothing to go by.
  std::optional<double> left(size_t width, double elapsed_s) const;

 private:
  std::map<std::string, double> before_;
  double mean_ = 1;
  std::map<std::string, bool> open_;  // Planned and not finished; whether it runs alone.
  double open_together_ = 0, open_alone_ = 0, done_together_ = 0, done_alone_ = 0;
};

}  // namespace recapture::run
