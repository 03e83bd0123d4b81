#include "harness/nightly/report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <tuple>

#include "harness/base/escape.h"
#include "harness/compare/sides.h"

namespace recapture::nightly {
namespace {

constexpr size_t kMostBytes = size_t{1000} * 1000;  // GitHub takes 1 MiB.

std::string counted(size_t count, const std::string& noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

// "12 tests of a, b, c and 2 more cases"
std::string counted(const std::vector<std::string>& tests) {
  constexpr size_t kMost = 3;
  std::set<std::string> cases;
  for (const std::string& test : tests) cases.insert(case_of(test));
  std::vector<std::string> names(cases.begin(), cases.end());
  const size_t more = names.size() > kMost ? names.size() - kMost : 0;
  names.resize(names.size() - more);
  return fmt::format("{} of {}{}", counted(tests.size(), "test"), fmt::join(names, ", "),
                     more == 0 ? "" : " and " + counted(more, "more case"));
}

// Which tasks lack a record, since when, and which have one again.
std::vector<MissingTask> missing_of(const std::vector<Night>& nights) {
  const auto same = [](const NightTask& a, const NightTask& b) {
    return without_nightly_date(a.release) == without_nightly_date(b.release) && a.gpu == b.gpu && a.shard == b.shard &&
           a.of == b.of;
  };
  const auto missing_symbol = [&](const Night& night, const NightTask& task) {
    return std::any_of(night.lacking.begin(), night.lacking.end(),
                       [&](const LackingTask& each) { return same(each.task, task); });
  };
  const auto since = [&](size_t last, const NightTask& task) {
    while (last > 0 && missing_symbol(nights[last - 1], task)) --last;
    return nights[last].name;
  };
  const size_t tonight = nights.size() - 1;
  std::vector<MissingTask> all;
  for (const LackingTask& lacking : nights[tonight].lacking) {
    const bool is_new = tonight == 0 || !missing_symbol(nights[tonight - 1], lacking.task);
    all.push_back({lacking, false, true, since(tonight, lacking.task), is_new});
  }
  if (tonight == 0) return all;
  for (const LackingTask& lacking : nights[tonight - 1].lacking) {
    if (missing_symbol(nights[tonight], lacking.task)) continue;
    const NightPlan& plan = nights[tonight].plan;
    const bool is_planned =
        std::any_of(plan.begin(), plan.end(), [&](const NightTask& task) { return same(task, lacking.task); });
    all.push_back({lacking, true, is_planned, since(tonight - 1, lacking.task), false});
  }
  return all;
}

struct Tally {
  size_t fresh = 0, still = 0, flaky_red = 0, flaky = 0, healed = 0, closed = 0, open = 0, changes = 0, not_judged = 0;
  std::string oldest;  // Since when the oldest of those that are still red is.

  size_t red() const { return fresh + still + flaky_red; }
};

Tally tally_of(const PlaceState& place) {
  Tally tally;
  for (const TestState& test : place.tests) {
    const bool is_still = test.state == NightState::Still;
    tally.fresh += test.state == NightState::New ? 1 : 0;
    tally.still += is_still ? 1 : 0;
    tally.flaky += test.state == NightState::Flaky && !test.is_red ? 1 : 0;
    tally.flaky_red += test.state == NightState::Flaky && test.is_red ? 1 : 0;
    const bool is_healed = test.state == NightState::Healed || test.state == NightState::Steady;
    tally.healed += is_healed ? 1 : 0;
    tally.closed += is_closed(test.state) && !is_healed ? 1 : 0;
    tally.open += test.state == NightState::NotJudged ? 1 : 0;
    if (is_still && (tally.oldest.empty() || test.since < tally.oldest)) tally.oldest = test.since;
  }
  tally.changes = place.changes.size();
  for (const auto& [reason, tests] : place.not_judged) tally.not_judged += tests.size();
  return tally;
}

Tally tally_of(const NightReport& report) {
  Tally all;
  for (const PlaceState& place : report.places) {
    const Tally tally = tally_of(place);
    all.fresh += tally.fresh;
    all.still += tally.still;
    all.flaky += tally.flaky;
    all.flaky_red += tally.flaky_red;
    all.healed += tally.healed;
    all.closed += tally.closed;
    all.open += tally.open;
    all.changes += tally.changes;
    all.not_judged += tally.not_judged;
  }
  return all;
}

// "2 red (1 new, 1 still since 2026-11-21), 1 flaky, 1 healed"
std::string describe(const Tally& tally) {
  std::vector<std::string> red, all;
  if (tally.fresh > 0) red.push_back(fmt::format("{} new", tally.fresh));
  if (tally.still > 0) {
    red.push_back(fmt::format("{} still{}", tally.still, tally.oldest.empty() ? "" : " since " + tally.oldest));
  }
  if (tally.flaky_red > 0) red.push_back(fmt::format("{} flaky", tally.flaky_red));
  all.push_back(red.empty() ? "0 red" : fmt::format("{} red ({})", tally.red(), fmt::join(red, ", ")));
  const auto add = [&](size_t count, const char* what) {
    if (count > 0) all.push_back(fmt::format("{} {}", count, what));
  };
  add(tally.flaky, "flaky");
  add(tally.healed, "healed");
  add(tally.closed, "closed");
  add(tally.open, "still open and not judged");
  add(tally.changes, "changed");
  return fmt::format("{}", fmt::join(all, ", "));
}

size_t missing_tasks(const NightReport& report) {
  return static_cast<size_t>(std::count_if(report.missing.begin(), report.missing.end(),
                                           [](const MissingTask& task) { return !task.is_closed; }));
}

// Of the plan, of which no night has a record.
size_t unseen_machines(const NightReport& report) {
  std::set<std::pair<std::string, std::string>> machines;
  for (const MissingTask& missing : report.missing) {
    const NightTask& task = missing.lacking.task;
    const bool is_seen = std::any_of(report.places.begin(), report.places.end(),
                                     [&](const PlaceState& place) { return is_of_place(task, place.environment); });
    if (!missing.is_closed && !is_seen) machines.insert({without_nightly_date(task.release), task.gpu});
  }
  return machines.size();
}

// Whether it is green, and there is no more to say of it.
bool is_quiet(const PlaceState& place) {
  return place.is_here && place.tests.empty() && place.moves.empty() && place.changes.empty() &&
         place.not_judged.empty() && place.never_judged.empty() && place.new_baseline.empty() &&
         place.unexpected.empty() && place.slower.empty();
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

// A test and what is to be said of it.
using TestWords = std::pair<std::string, std::string>;

// Tests of one case of which the same is to be said share a line: "c (A, B): new errors: …".
std::vector<std::string> grouped(const std::vector<TestWords>& tests) {
  std::vector<std::pair<TestWords, std::vector<std::string>>> groups;
  for (const auto& [test, words] : tests) {
    const TestWords key{case_of(test), words};
    auto at = std::find_if(groups.begin(), groups.end(), [&](const auto& group) { return group.first == key; });
    if (at == groups.end()) at = groups.insert(groups.end(), {key, {}});
    at->second.push_back(name_of(test));
  }
  std::vector<std::string> lines;
  for (const auto& [key, names] : groups) {
    lines.push_back(escape_control(fmt::format("{} ({}): {}", key.first, fmt::join(names, ", "), key.second)));
  }
  return lines;
}

std::vector<std::string> lines_of(const PlaceState& place, const std::function<bool(const TestState&)>& is_of,
                                  const std::function<std::string(const TestState&)>& words) {
  std::vector<TestWords> tests;
  for (const TestState& test : place.tests) {
    if (is_of(test)) tests.emplace_back(test.change.test, words(test));
  }
  return grouped(tests);
}

std::string change_words(const TestChange& change) {
  if (change.sentence.empty()) return "a repetition within a night gave another result";
  return fmt::format("{}: {}", to_string(change.consequence), change.sentence);
}

std::vector<std::string> lines_of(const TestsByReason& reasons) {
  std::vector<std::string> lines;
  for (const auto& [reason, tests] : reasons) lines.push_back(escape_control(counted(tests) + ": " + reason));
  return lines;
}

std::vector<std::string> lines_of(const std::vector<TestChange>& changes) {
  std::vector<TestWords> tests;
  for (const TestChange& change : changes) tests.emplace_back(change.test, change_words(change));
  return grouped(tests);
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

std::vector<Block> blocks_of(const PlaceState& place) {
  const auto of = [](NightState state) { return [state](const TestState& test) { return test.state == state; }; };
  const auto change = [](const TestState& test) { return change_words(test.change); };
  const auto with_nights = [](const TestState& test) {
    return fmt::format("{} (since {}, {})", change_words(test.change), test.since, streak_in_words(test));
  };
  const auto flaky = [](const TestState& test) {
    return fmt::format("{}, {}; {}", streak_in_words(test), test.is_red ? "red tonight" : "not red tonight",
                       change_words(test.change));
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
      {"still open, not judged tonight", lines_of(place, of(NightState::NotJudged), open)},
      {"not judged tonight", lines_of(place.not_judged)},
      {"changed, and breaks nothing", lines_of(place.changes)},
      {"slower", place.slower},
      {"a new baseline tonight", lines_of(place.new_baseline)},
      {unexpected, place.unexpected},
      {"never judged", lines_of(place.never_judged)}};
  blocks.erase(std::remove_if(blocks.begin(), blocks.end(), [](const Block& block) { return block.lines.empty(); }),
               blocks.end());
  return blocks;
}

// For Markdown's code, in which nothing else has a meaning.
std::string without_ticks(const std::string& line) {
  std::string text = escape_control(line);
  std::replace(text.begin(), text.end(), '`', '\'');
  return text;
}

std::vector<std::string> quiet_lines(const NightReport& report) {
  std::vector<std::string> lines;
  for (const PlaceState& place : report.places) {
    if (is_quiet(place)) lines.push_back(heading(place));
  }
  return lines;
}

// What is worse stands first.
std::vector<const PlaceState*> in_order(const NightReport& report) {
  std::vector<const PlaceState*> places;
  for (const PlaceState& place : report.places) {
    if (!is_quiet(place)) places.push_back(&place);
  }
  const auto rank = [](const PlaceState* place) {
    const Tally tally = tally_of(*place);
    return std::tuple(tally.fresh == 0, tally.red() == 0, place->is_here && tally.not_judged == 0);
  };
  std::stable_sort(places.begin(), places.end(), [&](const auto* a, const auto* b) { return rank(a) < rank(b); });
  return places;
}

Json json_of(const TestState& test) {
  return {{"test", test.change.test},
          {"state", to_string(test.state)},
          {"red", test.is_red},
          {"since", test.since},
          {"consequence", test.change.sentence.empty() ? "" : to_string(test.change.consequence)},
          {"sentence", test.change.sentence},
          {"nights", test.red_nights},
          {"window", test.window}};
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

Json json_of(const TestsByReason& reasons) {
  Json all = Json::array();
  for (const auto& [reason, tests] : reasons) all.push_back({{"reason", reason}, {"tests", tests}});
  return all;
}

Json json_of(const PlaceState& place, const NightReport& report) {
  Json red = Json::array(), flaky = Json::array(), healed = Json::array(), open = Json::array(),
       missing = Json::array(), changes = Json::array();
  for (const TestState& test : place.tests) {
    if (test.is_red && !is_closed(test.state)) red.push_back(json_of(test));
    if (test.state == NightState::Flaky) flaky.push_back(json_of(test));
    if (is_closed(test.state)) healed.push_back(json_of(test));
    if (test.state == NightState::NotJudged) open.push_back(json_of(test));
  }
  for (const MissingTask& task : report.missing) {
    if (is_of_place(task.lacking.task, place.environment)) missing.push_back(json_of(task));
  }
  for (const TestChange& change : place.changes) {
    changes.push_back({{"test", change.test},
                       {"consequence", to_string(change.consequence)},
                       {"was", change.was},
                       {"is", change.is},
                       {"sentence", change.sentence}});
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
          {"slower", place.slower},
          {"not_judged", json_of(place.not_judged)},
          {"never_judged", json_of(place.never_judged)},
          {"not_compared", json_of(place.new_baseline)},
          {"unexpected", place.unexpected}};
}

std::string answer_of(const NightReport& report) {
  if (tally_of(report).red() > 0) return "red";
  return report.is_complete() ? "green" : "incomplete";
}

// The histories of all places, night by night.
class Layout {
 public:
  Layout(std::string folder, std::string baseline, const compare::CompareContext& background)
      : folder_(std::move(folder)), baseline_(std::move(baseline)), background_(background) {
    for (const std::string& path : compare::baselines_below(folder_)) {
      good_.insert((std::filesystem::path(folder_) / path).string());
    }
  }

  void add(const Night& night) {
    before_ = std::move(present_);
    present_.clear();
    states_.clear();
    for (auto& [key, runs] : read_runs(night.path, background_)) {
      const auto [at, is_new] = places_.emplace(key, PlaceHistory(background_));
      if (is_new && !baseline_.empty()) add_baseline(key, at->second);
      const bool is_complete = std::none_of(
          night.lacking.begin(), night.lacking.end(),
          [&](const LackingTask& lacking) { return is_of_place(lacking.task, runs.front().record.environment); });
      states_[key] = at->second.add({night.name, std::move(runs), is_complete}, good_);
      present_.insert(key);
    }
  }

  // Of the last night that was added; those without a run of it too, as long as they are planned.
  void tell(const Night& night, NightReport& report) {
    for (const auto& [key, place] : places_) {
      const bool planned = is_planned(night.plan, place.environment());
      if (present_.count(key) != 0) {
        report.places.push_back(std::move(states_.at(key)));
      } else if (planned) {
        report.places.push_back(place.without_run(planned));
      } else if (before_.count(key) != 0) {
        report.places.push_back(place.without_run(planned));
        report.flaws.push_back(report.places.back().name + " ran the last night, and is not planned any more");
      }
    }
  }

 private:
  void add_baseline(const MachineKind& key, PlaceHistory& place) {
    std::vector<JudgedRun> runs = read_runs(baseline_, key, background_);
    const std::filesystem::path path = std::filesystem::path(baseline_ + "/").lexically_normal().parent_path();
    if (!runs.empty()) place.add({escape_control(path.filename().string()), std::move(runs)}, {});
  }

  std::string folder_, baseline_;
  const compare::CompareContext& background_;
  std::set<std::string> good_;
  std::set<MachineKind> present_, before_;
  std::map<MachineKind, PlaceHistory> places_;
  std::map<MachineKind, PlaceState> states_;
};

}  // namespace

bool NightReport::is_complete() const {
  const auto is_judged = [](const PlaceState& place) {
    return place.is_here && place.judged > 0 && place.not_judged.empty() && tally_of(place).open == 0;
  };
  return flaws.empty() && missing_tasks(*this) == 0 && !places.empty() &&
         std::all_of(places.begin(), places.end(), is_judged);
}

NightReport report_of(const std::string& folder, const ReportChoice& choice,
                      const compare::CompareContext& background) {
  const Nights all = read_nights(folder, choice.night);
  NightReport report;
  report.night = all.tonight().name;
  if (all.nights.size() > 1) report.before = all.nights[all.nights.size() - 2].name;
  report.flaws = all.flaws;
  report.flaws.insert(report.flaws.end(), all.tonight().flaws.begin(), all.tonight().flaws.end());
  report.missing = missing_of(all.nights);
  Layout places(folder, choice.baseline, background);
  for (const Night& night : all.nights) places.add(night);
  places.tell(all.tonight(), report);
  return report;
}

std::string first_line(const NightReport& report) {
  const auto count_places = [&](bool is_here) {
    return static_cast<size_t>(std::count_if(report.places.begin(), report.places.end(),
                                             [&](const PlaceState& place) { return place.is_here == is_here; }));
  };
  std::vector<std::string> parts = {describe(tally_of(report))};
  if (const size_t tasks = missing_tasks(report); tasks > 0) {
    parts.push_back(fmt::format("{} without a complete record", counted(tasks, "task")));
  }
  if (const size_t tests = tally_of(report).not_judged; tests > 0) {
    parts.push_back(fmt::format("{} not judged", counted(tests, "test")));
  }
  parts.push_back(fmt::format("{} machine{} of {}", count_places(true), count_places(true) == 1 ? "" : "s",
                              report.places.size() + unseen_machines(report)));
  const bool is_first = !report.places.empty() && std::all_of(report.places.begin(), report.places.end(),
                                                              [](const PlaceState& place) { return place.is_first; });
  return fmt::format("{}: {}: {}{}", report.night, answer_of(report), fmt::join(parts, ", "),
                     is_first ? "; it is the first night, and the baseline of those to come" : "");
}

std::string heading(const PlaceState& place) {
  if (!place.is_here) return place.name + ": no record tonight; " + describe(tally_of(place));
  return fmt::format("{}: {}, {} judged{}", place.name, describe(tally_of(place)), counted(place.judged, "test"),
                     place.is_first ? "; its first night, and its baseline" : "");
}

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

std::string streak_in_words(const TestState& test) {
  return fmt::format("{} on {} of {} night{}: {}", test.has_unconfirmed ? "red or not confirmed" : "red",
                     test.red_nights.size(), test.window, test.window == 1 ? "" : "s",
                     nights_in_words(test.red_nights));
}

std::string closing_words(NightState state) {
  switch (state) {
    case NightState::Steady:
      return "no longer flaky";
    case NightState::Restarted:
      return "it cannot be compared with its baseline any more, and tonight is the new one";
    case NightState::Accepted:
      return "tonight's record is marked, and is the new baseline";
    case NightState::Removed:
      return "it is not part of the run any more";
    default:
      return "healed";
  }
}

std::string render_text(const NightReport& report) {
  std::string text = first_line(report) + "\n";
  for (const std::string& flaw : report.flaws) text += flaw + "\n";
  for (const MissingTask& task : report.missing) text += missing_line(task) + "\n";
  for (const PlaceState* place : in_order(report)) {
    text += "\n" + heading(*place) + "\n";
    for (const Block& block : blocks_of(*place)) {
      text += "  " + block.title + "\n";
      for (const std::string& line : block.lines) text += "    " + escape_control(line) + "\n";
    }
  }
  const auto quiet = quiet_lines(report);
  for (size_t i = 0; i < quiet.size(); ++i) text += (i == 0 ? "\n" : "") + quiet[i] + "\n";
  return text;
}

std::string render_markdown(const NightReport& report) {
  std::string text = "# " + escape_markdown(first_line(report)) + "\n\n";
  size_t left_out = 0;
  const auto add = [&](const std::string& part) {
    const bool fits = text.size() + part.size() < kMostBytes;
    if (fits) text += part;
    if (!fits) ++left_out;
  };
  for (const std::string& flaw : report.flaws) add(fmt::format("* {}\n", escape_markdown(flaw)));
  for (const MissingTask& task : report.missing) add(fmt::format("* {}\n", escape_markdown(missing_line(task))));
  for (const PlaceState* place : in_order(report)) {
    std::string part = fmt::format("\n## {}\n", escape_markdown(heading(*place)));
    for (const Block& block : blocks_of(*place)) {
      part += fmt::format("\n**{}**\n\n", block.title);
      for (const std::string& line : block.lines) part += fmt::format("* `{}`\n", without_ticks(line));
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
  return {{"night", report.night},       {"before", report.before},
          {"answer", answer_of(report)}, {"complete", report.is_complete()},
          {"head", report.flaws},        {"missing", missing},
          {"machines", machines}};
}

Exit exit_for(const NightReport& report) {
  const Tally tally = tally_of(report);
  if (tally.red() > 0) return Exit::Changed;
  if (!report.is_complete()) return Exit::Inconclusive;
  const bool is_back =
      std::any_of(report.missing.begin(), report.missing.end(), [](const MissingTask& task) { return task.is_closed; });
  const bool has_new_baseline = std::any_of(report.places.begin(), report.places.end(),
                                            [](const PlaceState& place) { return !place.new_baseline.empty(); });
  return tally.healed + tally.closed + tally.changes > 0 || is_back || has_new_baseline ? Exit::NewlyFixed
                                                                                        : Exit::AsExpected;
}

}  // namespace recapture::nightly
