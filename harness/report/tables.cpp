#include "harness/report/tables.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <utility>

#include "harness/base/text.h"
#include "harness/compare/sides.h"
#include "harness/model/release.h"
#include "harness/report/bisect.h"
#include "harness/report/markdown_kit.h"
#include "harness/store/machine_runs.h"
#include "harness/timeline/bisect.h"

namespace recapture::report {
namespace {

// One machine's releases, including those without a record.
struct Column {
  std::string machine;
  std::vector<compare::Side> sides;
  bool is_usual = true;  // Without chosen variables or libraries.
};

// Leaves out the driver, unless machines with the same GPU differ in it.
std::vector<Column> columns_of(std::vector<compare::MachineSides> machines, const std::vector<std::string>& matrix,
                               const Rules& rules) {
  std::map<std::string, std::set<std::string>> drivers;  // By GPU.
  for (const compare::MachineSides& machine : machines) {
    drivers[machine.environment.machine.gpu].insert(machine.environment.machine.driver);
  }
  std::vector<Column> columns;
  for (compare::MachineSides& machine : machines) {
    for (compare::Side& side :
         machine.releases) {  // A result of older code is no evidence for the case's current claim.
      for (JudgedRun& run : side.runs) {
        const auto is_stale = [&](const TestVerdict& row) { return rules.is_stale_test(run.record, row.test); };
        std::erase_if(run.rows, is_stale);
      }
    }
    const bool one_driver = drivers.at(machine.environment.machine.gpu).size() == 1;
    const MachineId id = machine.environment.machine;
    columns.push_back({label(id, {.driver = !one_driver, .variables = true, .overrides = true}),
                       timeline::with_gaps(std::move(machine.releases), matrix),
                       machine.environment.kind.machine.is_plain()});
  }
  return columns;
}

// All machines as one, for cases that need no GPU and are the same everywhere.
Column of_any_machine(const std::vector<Column>& columns, const std::vector<std::string>& matrix) {
  std::map<std::string, compare::Side> releases;
  for (const Column& column : columns) {
    for (const compare::Side& side : column.sides) {
      if (!column.is_usual) continue;
      compare::Side& its = releases.emplace(side.name, compare::Side{side.name, {}}).first->second;
      its.runs.insert(its.runs.end(), side.runs.begin(), side.runs.end());
    }
  }
  Column all;
  for (auto& [name, side] : releases) {
    sort_newest_first(side.runs);
    all.sides.push_back(std::move(side));
  }
  all.sides = timeline::with_gaps(std::move(all.sides), matrix);
  return all;
}

std::vector<Column> columns_of(TableInput& input) {
  return columns_of(compare::sides_by_machine(std::move(input.records), input.background), input.matrix,
                    input.background.rules);
}

// A test's result on one machine, and on machines that add nothing.
struct MachineCourse {
  const std::vector<compare::Side>* sides;
  timeline::Timeline course;
  std::string on;  // "NVIDIA H200; NVIDIA H100 80GB HBM3 for 2.11.0"

  const std::string& release(size_t side) const { return (*sides)[side].name; }
};

class Machines {
 public:
  explicit Machines(TableInput& input)
      : columns_(columns_of(input)),
        any_(of_any_machine(columns_, input.matrix)),
        on_any_(any_.sides, input.background) {
    courses_.reserve(columns_.size());
    for (const Column& column : columns_) courses_.emplace_back(column.sides, input.background);
    for (const CatalogueCase& one : input.background.catalogue) {
      if (one.needs.gpus == 0) need_no_gpu_.insert(one.id);
    }
  }

  // Machines with the most results come first. For cases that need no GPU, the machines' results are combined unless
  // they contradict each other.
  std::vector<MachineCourse> of(const std::string& test) {
    std::vector<MachineCourse> all, kept;
    for (size_t i = 0; i < columns_.size(); ++i) {
      MachineCourse shown{&columns_[i].sides, courses_[i].of(test), columns_[i].machine};
      if (!shown.course.known().empty()) all.push_back(std::move(shown));
    }
    std::vector<timeline::TimelineView> courses;
    courses.reserve(all.size());
    for (const MachineCourse& shown : all) courses.push_back({&shown.course, shown.sides});
    const auto groups = timeline::grouped(courses);
    if (all.size() > 1 && need_no_gpu_.count(case_of(test)) != 0) {
      std::vector<std::string> machines;
      for (const std::vector<size_t>& group : groups) {
        for (const size_t i : group) machines.push_back(all[i].on);
      }
      MachineCourse any{&any_.sides, on_any_.of(test), join(machines, "; ")};
      const timeline::TimelineView its{&any.course, any.sides};
      const auto is_said = [&](const timeline::TimelineView& one) { return timeline::subsumes(its, one); };
      if (std::ranges::all_of(courses, is_said)) return {any};
    }
    for (const std::vector<size_t>& group : groups) {
      MachineCourse shown = all[group.front()];
      for (size_t i = 1; i < group.size(); ++i) {
        const MachineCourse& other = all[group[i]];
        shown.on += "; " + other.on;
        if (other.course.known().size() == shown.course.known().size()) continue;
        std::vector<std::string> releases;
        for (const size_t side : other.course.known()) releases.push_back(other.release(side));
        shown.on += fmt::format(" for {}", fmt::join(releases, ", "));
      }
      kept.push_back(std::move(shown));
    }
    return kept;
  }

  // The releases with records, by machine.
  std::string on_record() const {
    std::string text;
    for (const Column& column : columns_) {
      std::vector<std::string> releases;
      for (const compare::Side& side : column.sides) {
        if (!side.runs.empty()) releases.push_back(side.name);
      }
      if (!releases.empty())
        text += fmt::format("* {}: {}\n", escape_markdown(column.machine), fmt::join(releases, ", "));
    }
    return text;
  }

 private:
  const std::vector<Column> columns_;
  const Column any_;
  std::vector<timeline::TimelineBuilder> courses_;
  timeline::TimelineBuilder on_any_;
  std::set<std::string> need_no_gpu_;
};

// "reproduced from 2.6.0 (older: a guess) to 2.9.1; healthy from 2.10.0 to 2.15.0": adjacent equal results form a
// range; a bound without a record is a guess. A release outside the matrix that ran a few tests leaves no gap in the
// others.
std::string history_of(const timeline::Timeline& course, const std::vector<compare::Side>& sides,
                       const std::vector<std::string>& matrix) {
  const std::vector<size_t> known = course.known();
  if (known.empty()) return "";
  const auto side_at = [&](size_t at) { return sides.begin() + static_cast<std::ptrdiff_t>(at); };
  const auto is_of_matrix = [&](const compare::Side& side) { return contains(matrix, side.name); };
  std::vector<std::string> parts;
  const auto part = [&](size_t first, size_t last) {
    const bool is_older_guess = first == known.front() && std::any_of(sides.begin(), side_at(first), is_of_matrix);
    const bool is_newer_guess = last == known.back() && std::any_of(side_at(last + 1), sides.end(), is_of_matrix);
    const std::string result = course.stands[first].result;
    const char* guess = is_older_guess && is_newer_guess ? " (older, newer: a guess)"
                        : is_older_guess                 ? " (older: a guess)"
                        : is_newer_guess                 ? " (newer: a guess)"
                                                         : "";
    parts.push_back(first == last
                        ? fmt::format("{} in {}{}", result, sides[first].name, guess)
                        : fmt::format("{} from {} to {}{}", result, sides[first].name, sides[last].name, guess));
  };
  size_t first = known.front();
  for (const timeline::Transition& border : course.borders) {
    part(first, border.from);
    if (!border.is_tight()) parts.push_back(between(border, sides) + ": a guess");
    first = border.to;
  }
  part(first, known.back());
  return join(parts, "; ");
}

std::string link(const std::string& number, const std::string& url) {
  return url.empty() ? escape_markdown(number) : fmt::format("[{}]({})", escape_markdown(number), url);
}

// The upstream changes of all borders, and how certain their first release is if records do not bound it.
std::string upstream_cell(const timeline::Timeline& course, const std::vector<compare::Side>& sides) {
  std::vector<std::string> words;
  for (const timeline::Transition& border : course.borders) {
    std::vector<std::string> numbers;
    std::string since;
    for (const compare::UpstreamChange& one : border.upstream) {
      const bool is_change = !border.upstream.front().what.empty();
      numbers.push_back((is_change ? "" : "see ") + link(one.number, one.url));
      if (is_change && !one.since.empty()) since = one.since;
    }
    std::string its = join(numbers);
    if (!since.empty()) {
      its += " since " + since;
      const std::string bounds = bounds_of(since, border, sides);
      if (bounds.rfind("the records contradict", 0) == 0) its += ": " + bounds;
    }
    if (!its.empty()) add_once(words, its);
  }
  return join(words, "; ");
}

std::string names_of(const std::vector<std::string>& tests) {
  std::vector<std::string> names;
  names.reserve(tests.size());
  for (const std::string& test : tests) names.push_back(name_of(test));
  return join(names);
}

// Tests grouped by equal cells.
using TestsByCells = std::map<std::vector<std::string>, std::vector<std::string>>;

std::string how_it_changed(const timeline::Timeline& course, const std::vector<compare::Side>& sides) {
  std::vector<std::string> sentences;
  for (const timeline::Transition& border : course.borders) {
    sentences.push_back(escape_markdown(sentence_of(border, sides)));
  }
  return join(sentences, "; ");
}

constexpr const char* kGuess =
    "A range goes from the oldest to the newest release on record that shows it. *A guess* is what no record bounds:\n"
    "the releases between two that differ, and what is older or newer than all on record. Releases on record:\n\n";

}  // namespace

std::string render_failures(TableInput input) {
  Machines machines(input);
  const compare::CompareContext& background = input.background;
  struct Failures {
    std::vector<std::string> cases, with_tests;
    size_t tests = 0;
    std::string since;  // The first release that differs.
  };
  std::map<std::vector<std::string>, Failures> changes, same;  // By the text of a row.
  std::vector<std::string> single;                             // Cases without two comparable releases.
  for (const CatalogueCase& one : background.catalogue) {
    if (one.fidelity == Fidelity::Simulated) continue;
    bool compared = false;
    TestsByCells alike;
    for (const CatalogueTest& test : one.tests) {
      const std::string id = one.id + "." + test.name;
      for (const auto& [sides, course, on] : machines.of(id)) {
        if (course.known().size() < 2) continue;
        compared = true;
        const std::string history = history_of(course, *sides, input.matrix);
        if (!course.borders.empty()) {
          const std::vector<std::string> cells = {history, how_it_changed(course, *sides),
                                                  upstream_cell(course, *sides), on};
          changes[cells].since = (*sides)[course.borders.front().to].name;
          alike[cells].push_back(id);
        } else if (kind_of_id(id) == Kind::Reproduces) {
          alike[{history, on}].push_back(id);
        }
      }
    }
    const std::string link = case_link(one.id, background);
    if (!compared) single.push_back(link);
    for (const auto& [cells, tests] : alike) {
      const auto known = changes.find(cells);
      Failures& its = known == changes.end() ? same[cells] : known->second;
      its.tests += tests.size();
      its.cases.push_back(tests.size() == 1 ? link : fmt::format("{} ({})", link, tests.size()));
      its.with_tests.push_back(fmt::format("{} ({})", link, names_of(tests)));
    }
  }
  std::vector<std::pair<Release, std::string>> changed;  // The first release that differs, and a row.
  for (const auto& [cells, its] : changes) {
    constexpr size_t kFewCases = 3;
    const std::string cases = join(its.cases.size() > kFewCases ? its.cases : its.with_tests);
    changed.emplace_back(Release(its.since), row_of({cases, cells[0], cells[1], cells[2], escape_markdown(cells[3])}));
  }
  std::ranges::stable_sort(changed, {}, &std::pair<Release, std::string>::first);
  const std::string head = head_of({"failures", "since when, until when", "changed how", "change upstream", "on"});
  std::string text =
      "# Since when, until when\n\n"
      "Each failure by LibTorch release. `recapture bisect TEST` has the same of one test.\n\n" +
      std::string(kGuess) + machines.on_record() + "\n## What changed\n\n" + head;
  for (const auto& [since, row] : changed) text += row;
  text += "\n## What did not change\n\nFailures, with the number of their tests where there are several.\n\n" +
          head_of({"since when, until when", "tests", "failures", "on"});
  for (const auto& [key, its] : same) {
    text += row_of({key[0], fmt::format("{}", its.tests), join(its.cases), escape_markdown(key[1])});
  }
  if (!single.empty()) {
    text +=
        fmt::format("\nNo two releases on record can be compared for {}: {}\n",
                    single.size() == 1 ? "one case" : fmt::format("{} cases", single.size()), fmt::join(single, ", "));
  }
  return text;
}

namespace {

// Whether the result is the documented one.
bool is_documented(const std::string& test, const std::string& result) {
  return result == to_string(kind_of_id(test) == Kind::Reproduces ? Result::Reproduced : Result::Holds);
}

// Whether a covering test shows that a claim is right or wrong; nothing if neither.
std::optional<bool> is_right(const lint::CoveringTest& test, const std::string& result) {
  const bool documented = is_documented(test.id, result);
  switch (test.shows) {
    case lint::Shows::Any:
      return std::nullopt;
    case lint::Shows::Against:
      if (documented) return false;
      return result == to_string(Result::Healthy) ? std::optional(true) : std::nullopt;
    case lint::Shows::Fails:
    case lint::Shows::Documented:
      if (documented || (test.shows == lint::Shows::Fails && result == to_string(Result::Different))) return true;
      if (result == to_string(Result::Unseen) || result == to_string(Result::Inapplicable)) return std::nullopt;
      return false;
  }
  return std::nullopt;
}

// The same by a fact of the test's record.
std::optional<bool> is_right_by_fact(const lint::CoveringTest& test, const compare::Side& side,
                                     const std::string& record) {
  const auto run = std::ranges::find_if(side.runs, [&](const JudgedRun& one) { return one.record.path == record; });
  const TestRecord* found = run == side.runs.end() ? nullptr : run->record.find(test.id);
  if (found == nullptr) return std::nullopt;
  bool has_it = false;
  if (test.fact == "frames") {
    const Json culprit = found->part("culprit");
    if (!culprit.contains("frames")) return std::nullopt;
    for (const Json& frame : culprit.at("frames")) {
      has_it = has_it || (frame.is_string() && frame.get<std::string>().find(test.value) != std::string::npos);
    }
  } else {
    const JsonObject facts = found->object("facts");
    if (!facts.has(test.fact)) return std::nullopt;
    has_it = facts.text(test.fact) == test.value;
  }
  return has_it != (test.shows == lint::Shows::Against);
}

// What cases/expectations.toml expects of a test there; nullptr for nothing.
std::pair<const Deviation*, const Expectation*> expectation_there(const std::string& test, const compare::Side& side,
                                                                  const compare::CompareContext& background) {
  for (const Deviation& change : background.changes) {
    for (const Expectation& e : change.expectations) {
      if (e.test == test && e.where.covers(side.runs.front().record)) return {&change, &e};
    }
  }
  return {};
}

// "never", "no longer", "not yet", or "not always" if the course contradicts a claim somewhere; "" if it does not. And
// the side that shows it: the first after the last that agrees, or the newest.
std::pair<std::string, size_t> contradiction_of(const timeline::Timeline& course,
                                                const std::vector<compare::Side>& sides, const lint::CoveringTest& test,
                                                const compare::CompareContext& background) {
  std::vector<size_t> right, wrong;
  for (const size_t side : course.known()) {
    if (!in_range(sides[side].name, test.releases)) continue;
    const Expectation* expected = expectation_there(test.id, sides[side], background).second;
    if (expected != nullptr && expected->inapplicable) continue;  // What it needs is not there.
    const std::optional<bool> is = test.fact.empty() ? is_right(test, course.stands[side].result)
                                                     : is_right_by_fact(test, sides[side], course.stands[side].record);
    if (is) (*is ? right : wrong).push_back(side);
  }
  if (wrong.empty()) return {"", 0};
  if (right.empty()) return {"never", wrong.back()};
  if (wrong.back() < right.front()) return {"not yet", wrong.back()};
  if (right.back() < wrong.front()) return {"no longer", wrong.front()};
  return {"not always", wrong.back()};
}

// Without borders at which only the words or the call change, not the result.
timeline::Timeline by_result(timeline::Timeline course) {
  const auto is_same = [&](const timeline::Transition& border) {
    return course.stands[border.from].result == course.stands[border.to].result;
  };
  std::erase_if(course.borders, is_same);
  return course;
}

// What cases/expectations.toml expects there.
std::string expected_there(const std::string& test, const compare::Side& side,
                           const compare::CompareContext& background) {
  const auto [change, expected] = expectation_there(test, side, background);
  if (change != nullptr) {
    const CitedSource* found = find_source(background.sources, change->number);
    return fmt::format("{}: {}", found == nullptr ? escape_markdown(change->number) : link(found->id, found->url),
                       escape_markdown(expected->why));
  }
  return "nothing in `cases/expectations.toml`";
}

}  // namespace

std::string render_documents(TableInput input) {
  Machines machines(input);
  const compare::CompareContext& background = input.background;
  std::vector<std::pair<std::string, std::string>> rows;  // With each row's document.
  for (const lint::DocumentLine& claim : input.documents) {
    const auto tests = claim.tests();
    // Evidence against a claim whose limits other tests show.
    const bool has_others = std::ranges::any_of(tests, [](const lint::CoveringTest& test) {
      return test.shows == lint::Shows::Documented || test.shows == lint::Shows::Fails;
    });
    TestsByCells found;
    for (const lint::CoveringTest& test : tests) {
      for (const auto& [sides, all, on] : machines.of(test.id)) {
        const timeline::Timeline course = by_result(all);
        auto [holds, side] = contradiction_of(course, *sides, test, background);
        if (holds.empty()) continue;
        if (test.shows == lint::Shows::Against && has_others && holds == "never") holds = "not always";
        std::string record = course.stands[side].record;
        if (record.rfind(input.folder + "/", 0) == 0) record.erase(0, input.folder.size() + 1);
        const std::string why = test.shows == lint::Shows::Against
                                    ? case_link(test.id.substr(0, test.id.find('.')), background) + " shows it"
                                    : expected_there(test.id, (*sides)[side], background);
        found[{holds, history_of(course, *sides, input.matrix), why,
               fmt::format("[{0}](../reports/{0})", escape_markdown(record)), on}]
            .push_back(escape_markdown(test.id));
      }
    }
    for (const auto& [cells, some] : found) {
      const std::string count = some.size() == tests.size() ? "" : fmt::format("{} of {}: ", some.size(), tests.size());
      rows.emplace_back(claim.document,
                        row_of({claim.lines, escape_markdown(claim.heading), escape_markdown(claim.says), cells[0],
                                cells[1], count + join(some), cells[2], cells[3], escape_markdown(cells[4])}));
    }
  }
  const std::string head =
      head_of({"line", "heading", "claim", "holds", "since when, until when", "by", "why", "record", "on"});
  std::string text =
      "# What the documents say that does not hold\n\n"
      "Claims of the documents, by their lines or pages, that a test shows otherwise on some release: *never* right\n"
      "on any on record, *no longer* on newer ones, *not yet* on older ones. What stands behind \"not so\" is ours.\n"
      "Where some of a claim's tests do not speak against it, the others are counted: \"1 of 3\".\n\n" +
      std::string(kGuess) + machines.on_record();
  std::string document;
  for (const auto& [its, row] : rows) {
    if (its != document) text += fmt::format("\n## {}\n\n{}", escape_markdown(its), head);
    document = its;
    text += row;
  }
  return text;
}

}  // namespace recapture::report
