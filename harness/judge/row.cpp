#include "harness/judge/row.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "harness/case/events.h"
#include "harness/case/signature.h"
#include "harness/judge/rate.h"

namespace recapture {
namespace {

// What a reader wants to know of a test, in a few words.
std::string seen_words(const TestRecord& test) {
  for (const char* reason : {key::skipped, key::inapplicable}) {
    if (test.has(reason)) return test.text(reason);
  }
  if (test.has(key::tries)) {
    const int hits = test.line.at(key::hits), tries = test.line.at(key::tries);
    const auto [low, high] = wilson(hits, tries);
    const auto percent = [](double share) {
      return share < 0.1 ? fmt::format("{:.2g}", 100 * share) : fmt::format("{:.0f}", 100 * share);
    };
    return fmt::format("{} of {} tries, {} to {} %", hits, tries, percent(low), percent(high));
  }
  std::string words = test.text(key::seen);
  if (test.has(key::culprit)) {
    words += fmt::format(" by {} on the {} thread", test.culprit("api"), test.culprit("thread"));
  }
  if (words.empty() && test.has("assertions")) words = test.line.at("assertions").front();
  if (words.empty() && test.has("last_words")) words = test.text("last_words");
  return words;
}

// Whether the record shows by itself that something was raised.
bool raised(const TestRecord& test) {
  if (const auto signature = Signature::read(test.text(key::seen))) {
    return signature->first != "ok" || signature->end.rfind("ok", 0) != 0;
  }
  return test.error() != 0 || test.has(key::exception);
}

// From the record where it shows it; else what the case declares of its documented outcome.
std::string effect_of(const Record& record, const Row& row, const TestRecord& test, const Rules& rules) {
  switch (row.result) {
    case Result::Healthy:
    case Result::Holds:
      return std::string(word(Effect::Works));
    case Result::Crashed:
      return std::string(word(Effect::Crashes));
    case Result::Hung:
      return std::string(word(Effect::Hangs));
    case Result::Reproduced:
    case Result::Different:
    case Result::Broken:
      break;
    default:
      return "";
  }
  if (row.result == Result::Different && raised(test)) return std::string(word(Effect::Raises));
  const auto declared = rules.effects.find(row.test);
  if (declared != rules.effects.end()) return declared->second;
  const CaseInfo& info = record.cases.at(row.case_id);
  if (!info.effect.empty()) return info.effects.value(row.name, info.effect);
  return std::string(word(raised(test) ? Effect::Raises : Effect::SilentlyWrong));
}

// The same test again by plain exec, where that was asked for: agreement is needed for any verdict.
bool confirmed(const Record& record, Kind kind, const TestRecord& test, Result result) {
  const auto found = record.confirmations.find(test.id());
  if (found == record.confirmations.end()) return true;
  return std::all_of(found->second.begin(), found->second.end(), [&](const TestRecord& again) {
    return classify(kind, again) == result && (test.has(key::tries) || again.text(key::seen) == test.text(key::seen));
  });
}

bool missing(const Record& record, const Row& row, const TestRecord& test, const Rules& rules) {
  const bool needs_gpu = record.cases.at(row.case_id).needs.gpus > 0;
  if (rules.demands.gpu && needs_gpu && row.result == Result::Unavailable && record.where("gpu").empty()) return true;
  const bool was_there = rules.available.count(key_of(record, row.test)) != 0;
  if (row.result == Result::Unavailable && was_there && record.broken() == Break::Nothing) return true;
  if (test.ending() == "not started" && test.text(key::skipped) == kNotBuilt) return true;
  const bool needs_recorder = test.has(key::raised_by) && row.result == Result::Reproduced;
  const bool demanded = rules.demands.recorder || record.where("require").find("recorder") != std::string::npos;
  return demanded && needs_recorder && !test.has(key::culprit);
}

Verdict verdict_of(const Record& record, const Row& row, const TestRecord& test, const Rules& rules) {
  if (rules.stale(record, row.case_id)) return Verdict::Stale;
  if (!confirmed(record, row.kind, test, row.result)) return Verdict::Inconclusive;
  if (missing(record, row, test, rules)) return Verdict::Missing;
  if (record.broken() != Break::Nothing) return judge_broken(record.broken(), row.kind, row.result, test);
  return judge(row.kind, row.result, find_expectation(rules.expectations, row.test, record), test.text(key::seen));
}

}  // namespace

std::vector<Row> judge_record(const Record& record, const Rules& rules) {
  std::vector<std::string> order = record.plan;
  std::set<std::string> planned(order.begin(), order.end());
  for (const TestRecord& test : record.tests) {
    if (planned.insert(test.id()).second) order.push_back(test.id());
  }
  std::vector<Row> rows;
  std::set<std::string> control_fails;
  for (const std::string& id : order) {
    Row row;
    row.test = id;
    row.case_id = case_of(id);
    row.name = name_of(id);
    row.release = record.where("release");
    row.gpu = record.where("gpu");
    row.driver = record.where("driver");
    row.kind = kind_of_id(id);
    if (const auto now = rules.tree.find(row.case_id); now != rules.tree.end()) {
      row.family = now->second.family;
    } else if (const auto then = record.cases.find(row.case_id); then != record.cases.end()) {
      row.family = then->second.family;
    }
    if (const TestRecord* test = record.find(id)) {
      row.ran = true;
      row.result = classify(row.kind, *test);
      row.seen = seen_words(*test);
      row.code = test->error();
      row.seconds = test->seconds();
      row.effect = effect_of(record, row, *test, rules);
      row.verdict = verdict_of(record, row, *test, rules);
      if (row.verdict == Verdict::ControlFails) control_fails.insert(row.case_id);
    }
    rows.push_back(row);
  }
  // Where a control does not hold, the other tests of the case mean nothing.
  for (Row& row : rows) {
    const bool good = tone_of(row.verdict) == Tone::Green || row.verdict == Verdict::NewlyFixed;
    if (good && control_fails.count(row.case_id) != 0) row.verdict = Verdict::Inconclusive;
  }
  return rows;
}

std::vector<Verdict> verdicts_of(const std::vector<Row>& rows) {
  std::vector<Verdict> verdicts;
  verdicts.reserve(rows.size());
  for (const Row& row : rows) verdicts.push_back(row.verdict);
  return verdicts;
}

}  // namespace recapture
