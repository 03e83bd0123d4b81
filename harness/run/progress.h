// Progress of a run: on a terminal one line that is updated, elsewhere a line for each test.
#pragma once
#include <chrono>
#include <cstddef>
#include <map>
#include <string>

#include "harness/run/estimate.h"

namespace recapture::run {

class Progress {
 public:
  Progress(size_t total, size_t width, Estimate estimate);
  void running(size_t worker, const std::string& test);
  void finished(size_t worker, const std::string& test);
  // Prints a permanent line.
  void show(const std::string& line);
  // Updates the line from time to time.
  void tick();
  // The test that a worker runs; "" for none.
  std::string run_by(size_t worker) const;

 private:
  void renew();

  size_t total_, width_, done_ = 0;
  bool terminal_;
  Estimate estimate_;
  std::map<size_t, std::string> running_;  // By worker.
  std::string latest_, shown_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace recapture::run
