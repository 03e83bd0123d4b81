#include "harness/report/neighbour.h"

#include <fmt/format.h>

#include <algorithm>

#include "harness/base/escape.h"
#include "harness/base/text.h"
#include "harness/words/neighbour.h"

namespace recapture::report {
namespace {

// "197 results are as expected of"
std::string expected_of(size_t count) {
  return fmt::format("{} {} as expected of", plural(count, "result"), count == 1 ? "is" : "are");
}

// "197 results are as expected of the nearest on record, NVIDIA H200"; "the nearest on record is NVIDIA H200" if none
// is.
std::string expected_of_nearest(size_t count, const std::string& nearest) {
  if (count == 0) return "the nearest on record is " + nearest;
  return fmt::format("{} the nearest on record, {}", expected_of(count), nearest);
}

}  // namespace

std::vector<std::string> neighbour_notes(const Environment& environment, const Neighbour& neighbour,
                                         const std::vector<const TestVerdict*>& rows) {
  const auto guesses =
      static_cast<size_t>(std::ranges::count_if(rows, [](const TestVerdict* row) { return row->is_guess; }));
  const std::string release = escape_control(environment.release.name());
  std::vector<std::string> notes;
  if (!neighbour.has_record_of_release()) {
    notes.push_back(fmt::format("no expectation names a record of {}; {} {}, the nearest release that has one", release,
                                expected_of(guesses), neighbour.release));
  } else if (guesses > 0 && neighbour.has_record_of_machine()) {
    notes.push_back(
        fmt::format("{} other releases, and no expectation names a record of {}", expected_of(guesses), release));
  }
  if (!neighbour.has_record_of_machine()) {
    const auto expected = static_cast<size_t>(
        std::ranges::count_if(rows, [](const TestVerdict* row) { return row->verdict == Verdict::AsExpected; }));
    notes.push_back(fmt::format("no record is of {}; {}",
                                name_of({environment.machine.gpu, environment.machine.driver}),
                                expected_of_nearest(expected, nearest_machine(neighbour))));
  }
  return notes;
}

std::string render_neighbour(const Environment& environment, const Neighbour& neighbour,
                             const std::vector<TestVerdict>& rows) {
  std::vector<const TestVerdict*> all;
  all.reserve(rows.size());
  for (const TestVerdict& row : rows) all.push_back(&row);
  std::string text;
  for (const std::string& note : neighbour_notes(environment, neighbour, all)) text += "note: " + note + "\n";
  return text;
}

}  // namespace recapture::report
