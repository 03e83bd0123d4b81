// Estimates a run's remaining time: earlier times of its tests on such a machine, scaled by the current speed.
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
  // Uses committed records that are not broken on purpose, of this GPU ("" for none) or, for tests that never ran on
  // it, of another; incomplete ones too. Those of this release come first. Of several with the newest one's code, the
  // median time counts, of two the lesser.
  Estimate(const std::vector<Record>& committed, const std::string& gpu, const std::string& release);

  // A test's time in seconds: the earlier one, else the mean of the known ones, else one second.
  double of(const std::string& test) const;

  void plan(const std::string& test, bool alone);
  void finished(const std::string& test);

  // The remaining seconds, if `width` tests run in parallel and tests that run alone come last. Nothing without any
  // data.
  std::optional<double> left(size_t width, double elapsed_s) const;

 private:
  std::map<std::string, double> before_;
  double mean_ = 1;
  std::map<std::string, bool> open_;  // Planned, not finished tests; whether each runs alone.
  double open_together_ = 0, open_alone_ = 0, done_together_ = 0, done_alone_ = 0;
};

}  // namespace recapture::run
