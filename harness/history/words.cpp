#include "harness/history/words.h"

#include <fmt/format.h>

#include <algorithm>

#include "harness/judge/version.h"
#include "harness/record/visible.h"

namespace recapture {
namespace {

constexpr size_t kMost = 5;    // Outcomes and turns that are told; JSON has all.
constexpr size_t kWidth = 96;  // Of what was seen.

// Of a run the day, and where several are of one day the time.
class When {
 public:
  explicit When(const Series& series) {
    const auto same_day = [](const Shown& a, const Shown& b) {
      return a.run->started.substr(0, kDay) == b.run->started.substr(0, kDay);
    };
    with_time_ = std::adjacent_find(series.runs.begin(), series.runs.end(), same_day) != series.runs.end();
  }
  std::string operator()(const Run& run) const {
    if (run.started.empty()) return "no date";
    std::string text = run.started.substr(0, with_time_ ? kTime : kDay);  // 2026-11-22T03:08:17Z
    if (text.size() > kDay) text[kDay] = ' ';
    return visible(text);
  }

 private:
  static constexpr size_t kDay = 10, kTime = 16;
  bool with_time_ = false;
};

std::string count(size_t number, const std::string& what) {
  return fmt::format("{} {}{}", number, what, number == 1 ? "" : "s");
}

std::string machine_words(const Environment& environment) {
  const MachineKind kind = environment.kind;
  const Detail all = {.driver = true, .runtime = true, .packed = true, .variables = true, .overrides = true};
  return (is_version(kind.release) ? "LibTorch " : "") + visible(kind.release) + ", " + label(kind.machine, all);
}

std::string how_often(const Series& series, const Outcome& outcome, const When& when) {
  const Run &first = *outcome.first, &last = *outcome.newest.run;
  if (outcome.runs == series.runs.size()) return outcome.runs == 1 ? "in its only run" : "in all of them";
  if (last.path != series.runs.back().run->path) {
    return fmt::format("{}, {}{}", count(outcome.runs, "run"), outcome.runs == 1 ? "on " : "last on ", when(last));
  }
  // A race's runs without it end no row.
  const bool is_row = !series.turns.empty() && series.in_a_row < series.runs.size();
  if (!is_row) return fmt::format("{} since {}", count(outcome.runs, "run"), when(first));
  const Run& begin = *series.runs[series.runs.size() - series.in_a_row].run;
  std::string words = series.in_a_row == 1 ? fmt::format("since the last run, {}", when(begin))
                                           : fmt::format("since {}, {} runs in a row", when(begin), series.in_a_row);
  if (outcome.runs > series.in_a_row) words += fmt::format("; {} in all", outcome.runs);
  return words;
}

// Of two outcomes with one result also what tells them apart.
std::string outcome_words(const Showing& showing, const Showing& other) {
  std::string words(word(showing.row.result));
  if (showing.row.result == other.row.result) words += fmt::format(" ({})", cut(showing.signature, kWidth));
  return words;
}

std::string turn_line(const Turn& turn, const When& when) {
  std::string with;
  for (const Difference& difference : turn.with) {
    with += with.empty() ? "; with it " : ", ";
    with += visible(difference.what);
    if (!difference.from.empty()) with += " " + visible(difference.from) + " -> " + visible(difference.to);
  }
  if (with.empty()) with = "; nothing else on record changed";
  return fmt::format("    {}  {} -> {}{}\n", when(*turn.after.run), outcome_words(*turn.before.what, *turn.after.what),
                     outcome_words(*turn.after.what, *turn.before.what), with);
}

std::string series_text(const Series& series) {
  const When when(series);
  std::string text = fmt::format("  {}: {}, {}", machine_words(series.machine), count(series.runs.size(), "run"),
                                 when(*series.runs.front().run));
  if (when(*series.runs.front().run) != when(*series.runs.back().run)) {
    text += " to " + when(*series.runs.back().run);
  }
  text += series.not_run == 0 ? "\n" : fmt::format("; {} more did not come to it\n", series.not_run);
  for (size_t i = 0; i < std::min(series.outcomes.size(), kMost); ++i) {
    const Outcome& outcome = series.outcomes[i];
    const Showing& newest = *outcome.newest.what;
    text += fmt::format("    {:<12} {:<14} {}\n", word(newest.row.result), i == 0 ? word(newest.row.verdict) : "",
                        how_often(series, outcome, when));
    const bool is_told = newest.is_rate && !newest.row.seen.empty();  // By the rate.
    if (const std::string seen = cut(render_seen(newest.row), kWidth); !seen.empty() && !is_told) {
      text += fmt::format("    {:<27} {}\n", "", seen);
    }
  }
  if (series.outcomes.size() > kMost)
    text += fmt::format("    and {} older outcomes\n", series.outcomes.size() - kMost);
  if (!series.rates.empty()) text += fmt::format("    {:<27} {}\n", "rate", words_of(series.rates));
  for (size_t i = 0; i < std::min(series.turns.size(), kMost); ++i) text += turn_line(series.turns[i], when);
  if (series.turns.size() > kMost) text += fmt::format("    and {} older changes\n", series.turns.size() - kMost);
  return text;
}

Json run_json(const Run& run, const std::string& records) {
  return {{"started", run.started}, {"record", records + "/" + run.path}, {"revision", run.revision}};
}

Json shown_json(const Shown& shown) {
  return {{"result", word(shown.what->row.result)}, {"seen", render_seen(shown.what->row)}};
}

Json series_json(const Series& series, const std::string& records) {
  const Row& newest = series.runs.back().what->row;
  Json json = {{"case", newest.case_id},
               {"test", newest.name},
               {"release", series.machine.release},
               {"gpu", series.machine.machine.gpu},
               {"driver", series.machine.machine.driver},
               {"cuda_runtime", series.machine.machine.runtime},
               {"packed", series.machine.machine.packed},
               {"env", series.machine.machine.variables},
               {"nccl", text_at(series.machine.json(), "nccl")},
               {"runs", series.runs.size()},
               {"not_run", series.not_run},
               {"result", word(newest.result)},
               {"verdict", word(newest.verdict)},
               {"seen", render_seen(newest)},
               {"in_a_row", series.in_a_row},
               {"since", run_json(*series.runs[series.runs.size() - series.in_a_row].run, records)},
               {"newest", run_json(*series.runs.back().run, records)},
               {"outcomes", Json::array()},
               {"changes", Json::array()}};
  for (const Outcome& outcome : series.outcomes) {
    Json one = shown_json(outcome.newest);
    one["runs"] = outcome.runs;
    one["first"] = run_json(*outcome.first, records);
    one["last"] = run_json(*outcome.newest.run, records);
    json["outcomes"].push_back(std::move(one));
  }
  for (const Turn& turn : series.turns) {
    Json one = {{"before", shown_json(turn.before)}, {"after", shown_json(turn.after)}, {"with", Json::array()}};
    one["before"].update(run_json(*turn.before.run, records));
    one["after"].update(run_json(*turn.after.run, records));
    for (const Difference& each : turn.with) {
      one["with"].push_back({{"what", each.what}, {"from", each.from}, {"to", each.to}});
    }
    json["changes"].push_back(std::move(one));
  }
  if (!series.rates.empty()) {
    Json rate = {{"runs", series.rates.size()}, {"words", words_of(series.rates)}};
    if (const auto known = rate_of(series.rates)) {
      rate.update({{"share", known->share}, {"low", known->low}, {"high", known->high}});
    }
    json["rate"] = std::move(rate);
  }
  return json;
}

}  // namespace

std::string as_text(const std::vector<Series>& all) {
  std::string text, test;
  for (const Series& series : all) {
    if (series.test != test) {
      test = series.test;
      text += (text.empty() ? "" : "\n") + test + "\n";
    }
    text += series_text(series);
  }
  return text;
}

Json as_json(const std::vector<Series>& all, const std::string& records) {
  Json json = Json::array();
  for (const Series& series : all) json.push_back(series_json(series, records));
  return json;
}

}  // namespace recapture
