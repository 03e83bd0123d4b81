#include "harness/report/night.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <set>
#include <tuple>
#include <utility>

#include "harness/base/colour.h"
#include "harness/base/escape.h"
#include "harness/base/text.h"
#include "harness/model/release.h"
#include "harness/report/change.h"
#include "harness/report/markdown_kit.h"
#include "harness/verdict/duration.h"

namespace recapture::report {
namespace {

using nightly::MissingTask;
using nightly::NightReport;
using nightly::NightState;
using nightly::PlaceState;
using nightly::Tally;
using nightly::TestState;

constexpr size_t kMostSummaryBytes = size_t{1000} * 1000;  // GitHub takes 1 MiB.

// "12 tests of a, b, c and 2 more cases"
std::string describe(const std::vector<std::string>& tests) {
  constexpr size_t kMost = 3;
  std::set<std::string> cases;
  for (const std::string& test : tests) cases.insert(case_of(test));
  std::vector<std::string> names(cases.begin(), cases.end());
  const size_t more = names.size() > kMost ? names.size() - kMost : 0;
  names.resize(names.size() - more);
  return fmt::format("{} of {}{}", plural(tests.size(), "test"), join(names),
                     more == 0 ? "" : " and " + plural(more, "more case"));
}

// "2 red (1 new, 1 still since 2026-11-21), 1 flaky, 1 healed"
std::string describe(const Tally& tally, bool with_date) {
  std::vector<std::string> red, all;
  if (tally.fresh > 0) red.push_back(fmt::format("{} new", tally.fresh));
  if (tally.still > 0) {
    red.push_back(fmt::format("{} still{}", tally.still, with_date ? " since " + tally.oldest : ""));
  }
  if (tally.flaky_red > 0) red.push_back(fmt::format("{} flaky", tally.flaky_red));
  all.push_back(red.empty() ? "0 red" : fmt::format("{} red ({})", tally.red(), join(red)));
  const auto add = [&](size_t count, const char* what) {
    if (count > 0) all.push_back(fmt::format("{} {}", count, what));
  };
  add(tally.flaky, "flaky");
  add(tally.healed, "healed");
  add(tally.closed, "closed");
  add(tally.open, "still open and not judged");
  add(tally.accepted, "accepted");
  add(tally.changes, "changed");
  return join(all);
}

// "LibTorch 2.11.0 on NVIDIA H200: 2 red (1 new, 1 still since 2026-11-21), 575 tests judged, 812.4 s, 14 at once"
std::string heading(const PlaceState& place) {
  if (!place.is_here) return place.name + ": no record tonight; " + describe(tally_of(place), true);
  const std::string took = place.seconds < 1 ? "" : ", " + render_seconds(place.seconds) + at_once(place.width);
  return fmt::format("{}: {}, {} judged{}{}", place.name, describe(tally_of(place), true), plural(place.judged, "test"),
                     took, place.is_first ? "; its first night, and its baseline" : "");
}

// Machines of the plan without a record on any night.
size_t unseen_machines(const NightReport& report) {
  std::set<std::pair<std::string, std::string>> machines;
  for (const MissingTask& missing : report.missing) {
    const nightly::NightTask& task = missing.lacking.task;
    const bool is_seen = std::ranges::any_of(
        report.places, [&](const PlaceState& place) { return nightly::is_of_place(task, place.environment); });
    if (!missing.is_closed && !is_seen) machines.insert({Release(task.release).without_nightly_date(), task.gpu});
  }
  return machines.size();
}

// Whether it is green and needs no further lines.
bool is_quiet(const PlaceState& place) {
  return place.is_here && place.tests.empty() && place.moves.empty() && place.changes.empty() &&
         place.not_judged.empty() && place.new_baseline.empty() && place.unexpected.empty() && place.slower.empty();
}

std::string missing_line(const MissingTask& task) {
  if (task.is_closed) {
    return fmt::format("{} {}; it was missing or incomplete since {}", task.lacking.task.name(),
                       task.is_planned ? "has its record again" : "is not planned any more", task.since);
  }
  return fmt::format("{}; {}", task.lacking.reason, task.is_new ? "new" : "still since " + task.since);
}

// A block of lines below a heading of its own.
struct Block {
  std::string title;
  std::vector<std::string> lines;
};

// A test and the text about it.
struct TestWords {
  std::string test, words;
  std::optional<double> seconds = {};
};

// "2.1 s", "2.1 to 3.0 s"; "" if unknown.
std::string describe(const std::vector<double>& seconds) {
  if (seconds.empty()) return "";
  const auto [least, most] = std::minmax_element(seconds.begin(), seconds.end());
  const std::string low = render_seconds(*least), high = render_seconds(*most);
  return low == high ? low : fmt::format("{} to {}", low, high);
}

// Tests of one case with the same text share a line: "c (A, B): new errors: …".
std::vector<std::string> grouped(const std::vector<TestWords>& tests) {
  struct Group {
    std::string case_id, words;
    std::vector<std::string> names = {};
    std::vector<double> seconds = {};
  };
  std::vector<Group> groups;
  for (const TestWords& each : tests) {
    auto at = std::ranges::find_if(
        groups, [&](const Group& group) { return group.case_id == case_of(each.test) && group.words == each.words; });
    if (at == groups.end()) at = groups.insert(groups.end(), Group{case_of(each.test), each.words});
    at->names.push_back(name_of(each.test));
    if (each.seconds) at->seconds.push_back(*each.seconds);
  }
  std::vector<std::string> lines;
  for (const Group& group : groups) {
    const std::string took = group.seconds.empty() ? "" : "; took " + describe(group.seconds);
    lines.push_back(escape_control(fmt::format("{} ({}): {}{}", group.case_id, join(group.names), group.words, took)));
  }
  return lines;
}

std::vector<std::string> lines_of(const PlaceState& place, const std::function<bool(const TestState&)>& is_of,
                                  const std::function<std::string(const TestState&)>& words) {
  std::vector<TestWords> tests;
  for (const TestState& test : place.tests) {
    if (is_of(test)) tests.push_back({test.change.test, words(test), test.seconds});
  }
  return grouped(tests);
}

std::string change_words(const nightly::TestChange& change) {
  if (!change.has_change()) return "a repetition or another run of a night gave another result";
  return fmt::format("{}: {}", change.what(), sentence_of(change));
}

// Of tonight, with the runs that disagree.
std::string change_words(const TestState& test) {
  std::string words = change_words(test.change);
  if (!test.runs.empty()) words = test.runs + "; " + words;
  if (!test.unresolved.empty() && is_open(test.state)) words += fmt::format("; edited since {}", test.unresolved);
  return words;
}

// "1 test of c: inconclusive; since 2026-11-22; accepted until 2027-05-01: …"
std::vector<std::string> lines_of(const std::vector<nightly::NotJudged>& tests, const std::string& night) {
  std::map<std::string, std::vector<std::string>> reasons;
  for (const nightly::NotJudged& test : tests) {
    reasons[fmt::format("{}; {}{}{}", test.reason, test.is_never ? "never judged, " : "",
                        test.since == night ? "new" : "since " + test.since,
                        test.accepted.empty() ? "" : "; accepted " + test.accepted)]
        .push_back(test.test);
  }
  std::vector<std::string> lines;
  for (const auto& [reason, names] : reasons) lines.push_back(escape_control(describe(names) + ": " + reason));
  return lines;
}

std::vector<std::string> lines_of(const nightly::TestsByReason& reasons) {
  std::vector<std::string> lines;
  for (const auto& [reason, tests] : reasons) lines.push_back(escape_control(describe(tests) + ": " + reason));
  return lines;
}

std::vector<std::string> lines_of(const std::vector<nightly::TestChange>& changes) {
  std::vector<TestWords> tests;
  tests.reserve(changes.size());
  for (const nightly::TestChange& change : changes) tests.push_back({change.test, change_words(change)});
  return grouped(tests);
}

// "c.Reproduces: 78.0 s, 31 times its median of 2.5 s in 5 runs, 14 at once"
std::vector<std::string> lines_of(const std::vector<nightly::TestTime>& slower) {
  std::vector<std::string> lines;
  for (const nightly::TestTime& time : slower) {
    const double median = time.median.value_or(0);
    const std::string times = median > 0 ? fmt::format(", {:.0f} times its", time.seconds / median) : " after a";
    lines.push_back(fmt::format("{}: {}{} median of {} in {}{}", time.test, render_seconds(time.seconds), times,
                                render_seconds(median), plural(Durations::kRuns, "run"), at_once(time.width)));
  }
  return lines;
}

// "driver 580 -> 590: nothing changed with it"
std::vector<std::string> move_lines(const PlaceState& place) {
  const Tally tally = tally_of(place);
  const bool is_same =
      tally.fresh + tally.flaky_red + tally.healed + tally.closed + tally.changes + tally.not_judged == 0;
  std::vector<std::string> lines;
  for (const std::string& move : place.moves) lines.push_back(move + (is_same ? ": nothing changed with it" : ""));
  return lines;
}

std::vector<Block> blocks_of(const PlaceState& place, const std::string& night) {
  const auto of = [](NightState state) { return [state](const TestState& test) { return test.state == state; }; };
  const auto change = [](const TestState& test) { return change_words(test); };
  const auto with_nights = [](const TestState& test) {
    return fmt::format("{} (since {}, {})", change_words(test), test.since, streak_in_words(test));
  };
  const auto flaky = [](const TestState& test) {
    return fmt::format("{}, {}; {}", streak_in_words(test), test.is_red ? "red tonight" : "not red tonight",
                       change_words(test));
  };
  const auto unresolved = [](const TestState& test) {
    return fmt::format("{}; {}{}", unresolved_words(test), change_words(test.change),
                       test.accepted.empty() ? "" : "; accepted " + test.accepted);
  };
  const auto closed = [](const TestState& test) {
    const std::string since = test.since.empty() ? "flaky" : "red since " + test.since;
    return fmt::format("{}; it was {} ({})", closing_words(test.state), since, streak_in_words(test));
  };
  const auto open = [](const TestState& test) {
    return fmt::format("{} (since {})", change_words(test.change), test.since);
  };
  const char* unexpected = "not as documented or expected in the baseline";
  std::vector<Block> blocks = {
      {"moved", move_lines(place)},
      {"new", lines_of(place, of(NightState::New), change)},
      {"still red", lines_of(place, of(NightState::Still), with_nights)},
      {"flaky", lines_of(place, of(NightState::Flaky), flaky)},
      {"healed", lines_of(
                     place, [](const TestState& test) { return is_closed(test.state); }, closed)},
      {"still open, edited or no longer planned", lines_of(
                                                      place,
                                                      [](const TestState& test) {
                                                        return test.state == NightState::Edited ||
                                                               test.state == NightState::Unplanned;
                                                      },
                                                      unresolved)},
      {"still open, not judged tonight", lines_of(place, of(NightState::NotJudged), open)},
      {"not judged tonight", lines_of(place.not_judged, night)},
      {"changed, and breaks nothing", lines_of(place.changes)},
      {"slower", lines_of(place.slower)},
      {"a new baseline tonight", lines_of(place.new_baseline)},
      {unexpected, place.unexpected}};
  std::erase_if(blocks, [](const Block& block) { return block.lines.empty(); });
  return blocks;
}

std::vector<std::string> quiet_lines(const NightReport& report) {
  std::vector<std::string> lines;
  for (const PlaceState& place : report.places) {
    if (is_quiet(place)) lines.push_back(heading(place));
  }
  return lines;
}

// Worst first.
std::vector<const PlaceState*> in_order(const NightReport& report) {
  std::vector<const PlaceState*> places;
  for (const PlaceState& place : report.places) {
    if (!is_quiet(place)) places.push_back(&place);
  }
  const auto rank = [](const PlaceState* place) {
    const Tally tally = tally_of(*place);
    return std::tuple(tally.fresh == 0, tally.red() == 0, place->is_here && tally.not_judged == 0);
  };
  std::ranges::stable_sort(places, [&](const auto* a, const auto* b) { return rank(a) < rank(b); });
  return places;
}

Json json_of(const TestState& test) {
  return {{"test", test.change.test},
          {"state", to_string(test.state)},
          {"red", test.is_red},
          {"since", test.since},
          {"consequence", test.change.has_change() ? test.change.what() : ""},
          {"sentence", sentence_of(test.change)},
          {"fingerprint", test.fingerprint},
          {"runs", test.runs},
          {"nights", test.red_nights},
          {"window", test.window},
          {"seconds", test.seconds ? Json(*test.seconds) : Json()}};
}

Json json_of(const MissingTask& task) {
  const char* state = task.is_closed ? "healed" : task.is_new ? "new" : "still";
  return {{"task", task.lacking.task.name()},
          {"release", task.lacking.task.release},
          {"gpu", task.lacking.task.gpu},
          {"state", state},
          {"since", task.since},
          {"incomplete", task.lacking.is_incomplete},
          {"reason", task.lacking.reason}};
}

Json json_of(const nightly::TestsByReason& reasons) {
  Json all = Json::array();
  for (const auto& [reason, tests] : reasons) all.push_back({{"reason", reason}, {"tests", tests}});
  return all;
}

Json json_of(const std::vector<nightly::NotJudged>& tests) {
  std::map<std::array<std::string, 3>, std::vector<std::string>> groups;
  std::map<std::array<std::string, 3>, bool> never;
  for (const nightly::NotJudged& test : tests) {
    const std::array<std::string, 3> key = {test.reason, test.since, test.accepted};
    groups[key].push_back(test.test);
    never[key] = test.is_never;
  }
  Json all = Json::array();
  for (const auto& [key, names] : groups) {
    all.push_back(
        {{"reason", key[0]}, {"since", key[1]}, {"accepted", key[2]}, {"never", never[key]}, {"tests", names}});
  }
  return all;
}

Json json_of(const std::vector<nightly::TestTime>& times) {
  Json all = Json::array();
  for (const nightly::TestTime& time : times) {
    all.push_back({{"test", time.test}, {"seconds", time.seconds}, {"jobs", time.width}});
  }
  return all;
}

Json json_of(const PlaceState& place, const NightReport& report) {
  Json red = Json::array(), flaky = Json::array(), healed = Json::array(), open = Json::array(),
       missing = Json::array(), changes = Json::array();
  for (const TestState& test : place.tests) {
    if (test.is_red && !is_closed(test.state)) red.push_back(json_of(test));
    if (test.state == NightState::Flaky) flaky.push_back(json_of(test));
    if (is_closed(test.state)) healed.push_back(json_of(test));
    if (!is_open(test.state) && !is_closed(test.state)) open.push_back(json_of(test));
  }
  for (const MissingTask& task : report.missing) {
    if (nightly::is_of_place(task.lacking.task, place.environment)) missing.push_back(json_of(task));
  }
  for (const nightly::TestChange& change : place.changes) {
    const ChangeWords words = words_of(change.change);
    changes.push_back({{"test", change.test},
                       {"consequence", change.what()},
                       {"was", words.was},
                       {"is", words.is},
                       {"sentence", sentence_of(change)}});
  }
  return {{"machine", place.name},
          {"release", place.release},
          {"gpu", place.gpu},
          {"first", place.is_first},
          {"judged", place.judged},
          {"changed", place.moves},
          {"red", red},
          {"flaky", flaky},
          {"healed", healed},
          {"open", open},
          {"missing", missing},
          {"changes", changes},
          {"slower", lines_of(place.slower)},
          {"seconds", place.seconds},
          {"jobs", place.width},
          {"slowest", json_of(place.slowest)},
          {"not_judged", json_of(place.not_judged)},
          {"not_compared", json_of(place.new_baseline)},
          {"unexpected", place.unexpected}};
}

std::string answer_of(const NightReport& report) {
  if (tally_of(report).red() > 0) return "red";
  return report.is_complete() ? "green" : "incomplete";
}

// "2026-11-22: red: 2 red (1 new, 1 still), 1 flaky, 1 healed, 3 machines of 3"
std::string first_line(const NightReport& report, const std::string& answer) {
  const auto here = std::ranges::count_if(report.places, [](const PlaceState& place) { return place.is_here; });
  const Tally tally = tally_of(report);
  std::vector<std::string> parts = {describe(tally, false)};
  if (const size_t tasks = missing_tasks(report); tasks > 0) {
    parts.push_back(plural(tasks, "task") + " without a complete record");
  }
  if (tally.not_judged > 0) parts.push_back(plural(tally.not_judged, "test") + " not judged");
  parts.push_back(fmt::format("{} of {}", plural(static_cast<size_t>(here), "machine"),
                              report.places.size() + unseen_machines(report)));
  const bool is_first = !report.places.empty() &&
                        std::ranges::all_of(report.places, [](const PlaceState& place) { return place.is_first; });
  return fmt::format("{}: {}: {}{}", report.night, answer, join(parts),
                     is_first ? "; it is the first night, and the baseline of those to come" : "");
}

// "2026-11-21, 22, 24"
std::string nights_in_words(const std::vector<std::string>& nights) {
  std::string words, month;
  for (const std::string& night : nights) {
    const size_t day = night.rfind('-') + 1;  // 0 where there is none.
    const bool is_same = day > 0 && night.substr(0, day) == month;
    words += (words.empty() ? "" : ", ") + (is_same ? night.substr(day) : night);
    month = night.substr(0, day);
  }
  return words;
}

}  // namespace

std::string sentence_of(const nightly::TestChange& change) {
  if (!change.verdict.empty()) return change.observed;
  return change.has_change() ? render_difference(change.change, change.from, change.to) : "";
}

std::string streak_in_words(const TestState& test) {
  return fmt::format("{} on {} of {}: {}", test.has_unconfirmed ? "red or not confirmed" : "red",
                     test.red_nights.size(), plural(test.window, "night"), nights_in_words(test.red_nights));
}

std::string unresolved_words(const TestState& test) {
  const std::string red = test.since.empty() ? "flaky before" : "red before, since " + test.since;
  return fmt::format("{} since {}, and {}", to_string(test.state), test.unresolved, red);
}

std::string closing_words(NightState state) {
  switch (state) {
    case NightState::Steady:
      return "no longer flaky";
    case NightState::Accepted:
      return "tonight's record is marked, and is the new baseline";
    default:
      return "healed";
  }
}

std::string render_text(const NightReport& report) {
  const std::string answer = answer_of(report);
  const Colour colour = answer == "red" ? Colour::Red : answer == "green" ? Colour::Green : Colour::Yellow;
  std::string text = first_line(report, in_colour(answer, colour)) + "\n";
  for (const std::string& flaw : report.flaws) text += flaw + "\n";
  for (const std::string& note : report.notes) text += note + "\n";
  for (const MissingTask& task : report.missing) text += missing_line(task) + "\n";
  for (const PlaceState* place : in_order(report)) {
    text += "\n" + heading(*place) + "\n";
    for (const Block& block : blocks_of(*place, report.night)) {
      text += "  " + block.title + "\n";
      for (const std::string& line : block.lines) text += "    " + escape_control(line) + "\n";
    }
  }
  const auto quiet = quiet_lines(report);
  for (size_t i = 0; i < quiet.size(); ++i) text += (i == 0 ? "\n" : "") + quiet[i] + "\n";
  return text;
}

std::string render_markdown(const NightReport& report) {
  std::string text = "# " + escape_markdown(first_line(report, answer_of(report))) + "\n\n";
  size_t left_out = 0;
  const auto add = [&](const std::string& part) {
    const bool fits = text.size() + part.size() < kMostSummaryBytes;
    if (fits) text += part;
    if (!fits) ++left_out;
  };
  for (const std::string& flaw : report.flaws) add(fmt::format("* {}\n", escape_markdown(flaw)));
  for (const std::string& note : report.notes) add(fmt::format("* {}\n", escape_markdown(note)));
  for (const MissingTask& task : report.missing) add(fmt::format("* {}\n", escape_markdown(missing_line(task))));
  for (const PlaceState* place : in_order(report)) {
    std::string part = fmt::format("\n## {}\n", escape_markdown(heading(*place)));
    for (const Block& block : blocks_of(*place, report.night)) {
      part += fmt::format("\n**{}**\n\n", block.title);
      for (const std::string& line : block.lines) part += fmt::format("* {}\n", code_span(line));
    }
    add(part);
  }
  std::string quiet;
  for (const std::string& line : quiet_lines(report)) quiet += fmt::format("* {}\n", escape_markdown(line));
  if (!quiet.empty()) add("\n" + quiet);
  if (left_out > 0)
    text += fmt::format("\n{} more are left out here; `recapture nightly diff` prints all.\n", left_out);
  return text;
}

Json render_json(const NightReport& report) {
  Json machines = Json::array(), missing = Json::array();
  for (const PlaceState& place : report.places) machines.push_back(json_of(place, report));
  for (const MissingTask& task : report.missing) missing.push_back(json_of(task));
  return {{"schema", 1},
          {"night", report.night},
          {"before", report.before},
          {"answer", answer_of(report)},
          {"complete", report.is_complete()},
          {"head", report.flaws},
          {"notes", report.notes},
          {"missing", missing},
          {"machines", machines}};
}

}  // namespace recapture::report
