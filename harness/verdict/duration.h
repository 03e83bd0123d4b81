// A test's duration, how many tests ran in parallel, and whether it changed.
#pragma once
#include <deque>
#include <optional>
#include <string>

#include "harness/model/record.h"

namespace recapture {

// How many tests of the run ran in parallel with one of this case: 1 for a race. 0 if unknown.
int width_of(const Record& record, const std::string& case_id);

// "2.6 s", "0.04 s"
std::string render_seconds(double seconds);

// ", 8 at once"; "" if the width is unknown.
std::string at_once(int width);

// The last runs of a test on one kind of machine with one width.
class Durations {
 public:
  static constexpr size_t kRuns = 5;

  // Adds a run. Returns the median of the kRuns before it if the run took three times as long as that and 5 s more.
  std::optional<double> add(double seconds);

  const std::deque<double>& last() const { return last_; }

 private:
  std::deque<double> last_;
};

}  // namespace recapture
