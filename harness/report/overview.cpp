#include "harness/report/overview.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "harness/base/escape.h"
#include "harness/base/text.h"
#include "harness/model/release.h"
#include "harness/report/neighbour.h"
#include "harness/report/text.h"
#include "harness/store/select.h"

namespace recapture::report {
namespace {

std::string counts(const std::map<Verdict, int>& by_verdict) {
  std::string text;
  for (const auto& [verdict, count] : by_verdict) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, to_string(verdict));
  }
  return text;
}

std::map<Verdict, int> count(const OnMachine& one) {
  std::map<Verdict, int> by_verdict;
  for (const Latest& latest : one.rows) {
    if (!one.is_accepted(*latest.row)) ++by_verdict[latest.row->verdict];
  }
  return by_verdict;
}

// The records of the shown results, and the newest record, which may have none of them: each once.
std::vector<const JudgedRun*> records_of(const OnMachine& one) {
  std::vector<const JudgedRun*> all;
  const auto add = [&](const JudgedRun* judged) {
    if (std::find(all.begin(), all.end(), judged) == all.end()) all.push_back(judged);
  };
  for (const Latest& latest : one.rows) add(latest.judged);
  add(one.newest);
  return all;
}

// How many of them are incomplete; the notes have the details.
size_t cut_runs(const OnMachine& one) {
  const auto all = records_of(one);
  return static_cast<size_t>(
      std::count_if(all.begin(), all.end(), [](const JudgedRun* judged) { return !judged->record.is_complete(); }));
}

}  // namespace

std::string machines_text(const std::vector<OnMachine>& all) {
  std::string text;
  std::string machine;
  for (const OnMachine& one : all) {
    if (one.machine != machine || one.broken == Break::Nothing) {
      machine = one.machine;
      text += title_of(one, one.newest->record) + "\n";
    }
    text += "  ";
    if (one.broken != Break::Nothing) text += fmt::format("{} broken on purpose: ", to_string(one.broken));
    if (!one.rows.empty()) text += counts(count(one));
    if (!one.rows.empty() && !one.operators.empty()) text += "; ";
    if (!one.operators.empty()) text += "operators: " + render_operator_counts(one.operators);
    if (one.rows.empty() && one.operators.empty()) {
      text += fmt::format("{} of models of ours, which say nothing of a release", plural(one.simulated.size(), "test"));
    }
    text += "\n";
    if (one.broken == Break::Nothing) {
      std::vector<const TestVerdict*> rows;
      for (const auto* part : {&one.rows, &one.operators}) {
        for (const Latest& latest : *part) rows.push_back(latest.row);
      }
      for (const std::string& note : neighbour_notes(one.newest->record.environment, one.newest->neighbour, rows)) {
        text += "  note: " + note + "\n";
      }
    }
    for (const JudgedRun* judged : records_of(one)) {
      const Record& its = judged->record;
      for (const std::string& note : its.notes) text += fmt::format("  note: {}: {}\n", its.path, note);
      if (!its.end.empty() && its.end != "complete") {
        text += fmt::format("  note: {}: the run ended early: {}\n", its.path, escape_control(its.end));
      }
    }
  }
  return text;
}

std::string surprises(const std::vector<OnMachine>& all) {
  constexpr size_t kMostStaleCases = 10;  // Stale cases to name; more mean that the whole run is out of date.
  std::string text;
  for (const OnMachine& one : all) {
    std::map<std::string, int> stale;
    std::string lines;
    for (const Latest& latest : one.rows) {
      if (one.is_accepted(*latest.row)) continue;
      if (latest.row->verdict == Verdict::Stale) {
        ++stale[latest.row->case_id];
      } else if (is_surprise(latest.row->verdict)) {
        lines += "  " + render_line(*latest.row) + "\n";
      }
    }
    if (stale.size() > kMostStaleCases) {
      lines += fmt::format(
          "  {} cases have changed since this run, and their results are stale; running them again, as "
          "`ci/suite {}` does, makes new ones\n",
          stale.size(), one.newest->record.env("release"));
      stale.clear();
    }
    for (const auto& [id, tests] : stale) {
      lines += fmt::format("  {:<62} {:<12} {:<14} the case has changed since ({})\n", id, "-",
                           to_string(Verdict::Stale), plural(static_cast<size_t>(tests), "test"));
    }
    if (lines.empty()) continue;
    text += title_of(one);
    if (one.broken != Break::Nothing) text += fmt::format(", {} broken on purpose", to_string(one.broken));
    text += "\n" + lines;
  }
  return text;
}

std::string accepted_text(const std::vector<OnMachine>& all) {
  std::string text;
  for (const OnMachine& one : all) {
    std::map<std::string, std::vector<std::string>> by_reason;
    for (const auto& [test, reason] : one.accepted) by_reason[reason].push_back(test);
    if (!by_reason.empty()) text += title_of(one) + "\n";
    for (const auto& [reason, tests] : by_reason) text += fmt::format("  {}: {}\n", join(tests), reason);
  }
  return text;
}

std::string last_line(const std::vector<OnMachine>& all) {
  std::map<Verdict, int> surprising;
  std::set<std::string> machines;
  size_t results = 0, surprised = 0, cut = 0, lost = 0, accepted = 0;
  for (const OnMachine& one : all) {
    machines.insert(one.machine);
    cut += cut_runs(one);
    accepted += one.accepted.size();
    lost += static_cast<size_t>(
        std::count_if(one.rows.begin(), one.rows.end(), [](const Latest& latest) { return !latest.row->ran; }));
    for (const auto& [verdict, number] : count(one)) {
      results += static_cast<size_t>(number);
      if (!is_surprise(verdict)) continue;
      surprising[verdict] += number;
      surprised += static_cast<size_t>(number);
    }
  }
  const std::string of = fmt::format("{} results on {}", results, plural(machines.size(), "machine"));
  // What a cut run left may have run later, so both numbers are shown.
  std::string rest = cut == 0 ? "" : fmt::format("; {} {} incomplete", cut, cut == 1 ? "run is" : "runs are");
  if (lost > 0) rest += fmt::format(", and {} {} not run", lost, lost == 1 ? "test has" : "tests have");
  if (accepted > 0) rest += fmt::format("; {} accepted", accepted);
  if (surprised == 0) return of + ", no surprises" + rest + "\n";
  return fmt::format("{}, {}: {}{}\n", of, plural(surprised, "surprise"), counts(surprising), rest);
}

std::vector<Verdict> verdicts_of(const std::vector<OnMachine>& all) {
  std::vector<Verdict> verdicts;
  for (const OnMachine& one : all) {
    for (const Latest& latest : one.rows) {
      if (!one.is_accepted(*latest.row)) verdicts.push_back(latest.row->verdict);
    }
    if (cut_runs(one) > 0) verdicts.push_back(Verdict::NotRun);
  }
  return verdicts;
}

}  // namespace recapture::report
