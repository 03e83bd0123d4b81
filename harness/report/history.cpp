#include "harness/report/history.h"

#include <fmt/format.h>

#include <algorithm>

#include "harness/base/escape.h"
#include "harness/base/text.h"
#include "harness/model/release.h"
#include "harness/words/measurement.h"
#include "harness/words/observation.h"

namespace recapture::report {
namespace {

constexpr size_t kMost = 5;    // Outcomes and changes in the text; JSON has all.
constexpr size_t kWidth = 96;  // Of an observation.

// A run's day; with the time if there are several runs on one day.
class When {
 public:
  explicit When(const timeline::TestHistory& series) {
    const auto same_day = [](const timeline::Shown& a, const timeline::Shown& b) {
      return a.started().substr(0, kDay) == b.started().substr(0, kDay);
    };
    with_time_ = std::ranges::adjacent_find(series.runs, same_day) != series.runs.end();
  }
  std::string operator()(const timeline::Shown& run) const {
    if (run.started().empty()) return "no date";
    std::string text = run.started().substr(0, with_time_ ? kTime : kDay);  // 2026-11-22T03:08:17Z
    if (text.size() > kDay) text[kDay] = ' ';
    return escape_control(text);
  }

 private:
  static constexpr size_t kDay = 10, kTime = 16;
  bool with_time_ = false;
};

std::string describe_machine(const Environment& environment) {
  const MachineKind kind = environment.kind;
  const Detail all = {.driver = true, .runtime = true, .packed = true, .variables = true, .overrides = true};
  return (kind.release.is_version() ? "LibTorch " : "") + escape_control(kind.release.name()) + ", " +
         label(kind.machine, all);
}

std::string how_often(const timeline::TestHistory& series, const timeline::Outcome& outcome, const When& when) {
  const timeline::Shown &first = outcome.first, &last = outcome.newest;
  if (outcome.runs == series.runs.size())
    return outcome.runs == 1 ? "in its only run: nothing to compare" : "in all of them";
  if (last.run.run != series.runs.back().run.run) {
    return fmt::format("{}, {}{}", plural(outcome.runs, "run"), outcome.runs == 1 ? "on " : "last on ", when(last));
  }
  // For a race, runs without it do not end a streak.
  const bool is_row = !series.turns.empty() && series.in_a_row < series.runs.size();
  if (!is_row) return fmt::format("{} since {}", plural(outcome.runs, "run"), when(first));
  const timeline::Shown& begin = series.runs[series.runs.size() - series.in_a_row];
  std::string words = series.in_a_row == 1 ? fmt::format("since the last run, {}", when(begin))
                                           : fmt::format("since {}, {} runs in a row", when(begin), series.in_a_row);
  if (outcome.runs > series.in_a_row) words += fmt::format("; {} in all", outcome.runs);
  return words;
}

// Of two outcomes with the same result, also the difference.
std::string outcome_words(const timeline::Shown& showing, const timeline::Shown& other) {
  std::string words(to_string(showing.row().result));
  if (showing.row().result == other.row().result) words += fmt::format(" ({})", truncated(showing.signature, kWidth));
  return words;
}

std::string turn_line(const timeline::ResultChange& turn, const When& when) {
  std::string with;
  for (const timeline::Difference& difference : turn.with) {
    with += with.empty() ? "; with it " : ", ";
    with += escape_control(difference.what);
    if (!difference.from.empty())
      with += " " + escape_control(difference.from) + " -> " + escape_control(difference.to);
  }
  if (with.empty()) with = "; nothing else on record changed";
  return fmt::format("    {}  {} -> {}{}\n", when(turn.after), outcome_words(turn.before, turn.after),
                     outcome_words(turn.after, turn.before), with);
}

std::string series_text(const timeline::TestHistory& series) {
  const When when(series);
  std::string text = fmt::format("  {}: {}, {}", describe_machine(series.machine), plural(series.runs.size(), "run"),
                                 when(series.runs.front()));
  if (when(series.runs.front()) != when(series.runs.back())) {
    text += " to " + when(series.runs.back());
  }
  text += series.not_run == 0 ? "\n" : fmt::format("; {} more did not come to it\n", series.not_run);
  for (size_t i = 0; i < std::min(series.outcomes.size(), kMost); ++i) {
    const timeline::Outcome& outcome = series.outcomes[i];
    const timeline::Shown& newest = outcome.newest;
    text += fmt::format("    {:<12} {:<14} {}\n", to_string(newest.row().result),
                        i == 0 ? to_string(newest.row().verdict) : "", how_often(series, outcome, when));
    const bool is_told = newest.run.is_rate && !newest.row().observed.is_empty();  // By the rate.
    if (const std::string seen = truncated(render_observed(newest.row()), kWidth); !seen.empty() && !is_told) {
      text += fmt::format("    {:<27} {}\n", "", seen);
    }
  }
  if (series.outcomes.size() > kMost)
    text += fmt::format("    and {} older outcomes\n", series.outcomes.size() - kMost);
  if (!series.rates.empty()) text += fmt::format("    {:<27} {}\n", "rate", describe(series.rates));
  for (size_t i = 0; i < std::min(series.turns.size(), kMost); ++i) text += turn_line(series.turns[i], when);
  if (series.turns.size() > kMost) text += fmt::format("    and {} older changes\n", series.turns.size() - kMost);
  return text;
}

Json run_json(const timeline::Shown& run, const std::string& records) {
  return {{"started", run.started()},
          {"record", records + "/" + run.record().path},
          {"revision", run.record().env("revision")}};
}

Json shown_json(const timeline::Shown& shown) {
  return {{"result", to_string(shown.row().result)}, {"seen", render_observed(shown.row())}};
}

Json series_json(const timeline::TestHistory& series, const std::string& records) {
  const TestVerdict& newest = series.runs.back().row();
  Json json = {{"case", newest.case_id},
               {"test", newest.name},
               {"release", series.machine.release.name()},
               {"gpu", series.machine.machine.gpu},
               {"driver", series.machine.machine.driver},
               {"cuda_runtime", series.machine.machine.runtime},
               {"packed", series.machine.machine.packed},
               {"env", series.machine.machine.variables},
               {"nccl", text_at(series.machine.json(), "nccl")},
               {"runs", series.runs.size()},
               {"not_run", series.not_run},
               {"result", to_string(newest.result)},
               {"verdict", to_string(newest.verdict)},
               {"seen", render_observed(newest)},
               {"in_a_row", series.in_a_row},
               {"since", run_json(series.runs[series.runs.size() - series.in_a_row], records)},
               {"newest", run_json(series.runs.back(), records)},
               {"outcomes", Json::array()},
               {"changes", Json::array()}};
  for (const timeline::Outcome& outcome : series.outcomes) {
    Json one = shown_json(outcome.newest);
    one["runs"] = outcome.runs;
    one["first"] = run_json(outcome.first, records);
    one["last"] = run_json(outcome.newest, records);
    json["outcomes"].push_back(std::move(one));
  }
  for (const timeline::ResultChange& turn : series.turns) {
    Json one = {{"before", shown_json(turn.before)}, {"after", shown_json(turn.after)}, {"with", Json::array()}};
    one["before"].update(run_json(turn.before, records));
    one["after"].update(run_json(turn.after, records));
    for (const timeline::Difference& each : turn.with) {
      one["with"].push_back({{"what", each.what}, {"from", each.from}, {"to", each.to}});
    }
    json["changes"].push_back(std::move(one));
  }
  if (!series.rates.empty()) {
    Json rate = {{"runs", series.rates.size()}, {"words", describe(series.rates)}};
    if (const auto known = rate_of(series.rates)) {
      rate.update({{"share", known->share}, {"low", known->low}, {"high", known->high}});
    }
    json["rate"] = std::move(rate);
  }
  return json;
}

}  // namespace

std::string render_text(const std::vector<timeline::TestHistory>& all) {
  std::string text, test;
  for (const timeline::TestHistory& series : all) {
    if (series.test != test) {
      test = series.test;
      text += (text.empty() ? "" : "\n") + test + "\n";
    }
    text += series_text(series);
  }
  return text;
}

Json render_json(const std::vector<timeline::TestHistory>& all, const std::string& records) {
  Json json = Json::array();
  for (const timeline::TestHistory& series : all) json.push_back(series_json(series, records));
  return json;
}

}  // namespace recapture::report
