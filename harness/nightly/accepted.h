// Tests that a night need not judge: ci/accepted.toml, beside ci/matrix.toml.
#pragma once
#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "harness/model/environment.h"
#include "harness/verdict/judge.h"

namespace recapture::nightly {

// The longest time from an entry's commit to its `until`, and from a night to the `until` of an entry that counts.
inline constexpr std::chrono::days kLongestAcceptance{180};

struct Acceptance {
  std::string test;     // "item_in_capture.FixIt", or all tests of a case, "item_in_capture.*", or "*".
  std::string machine;  // "2.15.0, NVIDIA H200", as `show` names it; of a build its name in place of the release.
  std::string reason;   // Names a run or an issue.
  std::chrono::sys_days until;
  int line = 0;  // Of the file.

  bool is_of(const std::string& test_id, const std::string& machine_name) const;
};

// "2.15.0, NVIDIA H200": of a nightly build, "nightly, NVIDIA H200".
std::string accepted_name(const Environment& environment);

// "2026-11-29", also at the beginning of a longer text; nothing if it is no date.
std::optional<std::chrono::sys_days> date_of(const std::string& text);
std::string to_string(std::chrono::sys_days date);

inline constexpr const char* kAcceptedFile = "ci/accepted.toml";

// The entries of ci/accepted.toml; none without the file. Throws ExitError(Usage) with file and line.
std::vector<Acceptance> read_accepted(const std::string& root);

// The entries that count for a night.
class AcceptedTests {
 public:
  // `started` is the night's; without a date no entry counts.
  AcceptedTests(const std::vector<Acceptance>& entries, const std::string& started);

  // "until 2027-05-01: …"; "" if no entry accepts that the test has no judgement there.
  std::string words(const std::string& test, const std::string& machine) const;
  // The entries that do not count, a sentence each.
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  std::vector<Acceptance> valid_;
  std::vector<std::string> notes_;
};

// Whether a night counts the result as not judged, so that an entry may accept it.
bool is_unjudged(const TestVerdict& row);

}  // namespace recapture::nightly
