// How long a test took, beside how many others, and whether that is news.
#pragma once
#include <deque>
#include <optional>
#include <string>

#include "harness/model/record.h"

namespace recapture {

// How many tests of the run ran at once while one of this case did: a race runs alone. 0 where it is not on record.
int width_of(const Record& record, const std::string& case_id);

// "2.6 s", "0.04 s"
std::string render_seconds(double seconds);

// ", 8 at once"; "" where the width is not on record.
std::string at_once(int width);

// The last runs of a test on one kind of machine at one width.
class Durations {
 public:
  static constexpr size_t kRuns = 5;

  // Takes a run in. The median of the kRuns before it, where the run took three times as long as that and 5 s more.
  std::optional<double> add(double seconds);

 private:
  std::deque<double> last_;
};

}  // namespace recapture
