#include "harness/report/operators.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "harness/base/escape.h"
#include "harness/base/text.h"
#include "harness/report/markdown_kit.h"
#include "harness/words/observation.h"

namespace recapture::report {
namespace {

using timeline::OperatorOnRelease;
using timeline::OperatorRow;
using timeline::OperatorTable;

constexpr char kAbsent[] = "not in this release", kNoType[] = "not for the GPU", kNoEager[] = "eager fails too",
               kInconclusive[] = "inconclusive";
constexpr size_t kFewKinds = 3;  // Kinds of an argument in a line of text.

std::string word_of(const OperatorOnRelease& on) {
  if (on.absent) return kAbsent;
  if (on.inconclusive) return kInconclusive;
  const auto worst = on.worst();
  if (worst) return std::string(to_string(*worst));
  const auto lacks_library = [](const auto& one) { return one.verdict == OperatorVerdict::Unavailable; };
  if (std::ranges::any_of(on.results, lacks_library)) {
    return std::string(to_string(OperatorVerdict::Unavailable));
  }
  return on.results.empty() ? kNoType : kNoEager;
}

// A missing library is a gap in the record, and what is inconclusive may be an accident.
bool cannot_be_captured(const OperatorOnRelease& on) {
  if (on.absent || on.inconclusive) return false;
  const auto worst = on.worst();
  if (!worst) return word_of(on) != to_string(OperatorVerdict::Unavailable);
  return *worst != OperatorVerdict::Captured && *worst != OperatorVerdict::Undefined;
}

// The same with the form if the forward pass is captured: "backward refused".
std::string phrase_of(const OperatorOnRelease& on) {
  const auto worst = on.worst();
  const OperatorResult* forward = on.find(OperatorForm::Forward);
  if (!worst || forward == nullptr || forward->verdict == *worst) return word_of(on);
  for (const OperatorResult& result : on.results) {
    if (result.verdict == *worst) return fmt::format("{} {}", to_string(result.form), to_string(*worst));
  }
  return word_of(on);
}

// The failure of an operator's worst form; nullptr if no form fails.
const OperatorFailure* cause_of(const OperatorOnRelease& on) {
  const auto worst = on.worst();
  for (const OperatorResult& result : on.results) {
    const bool counts = result.form != OperatorForm::Cold && result.form != OperatorForm::Instead;
    if (!worst || !counts || result.verdict != *worst) continue;
    for (const char* how : {"refused", "wrong", "replay", "crashed", "hung"}) {
      if (const OperatorFailure* failure = result.failure(how)) return failure;
    }
  }
  return nullptr;
}

// "2.6.0", "2.6.0 and 2.11.0", "2.6.0 to 2.15.0": adjacent releases with records form a range.
std::string range_of(const std::vector<std::string>& releases) {
  if (releases.size() < 3) return fmt::format("{}", fmt::join(releases, " and "));
  return releases.front() + " to " + releases.back();
}

// "refused in 2.6.0 to 2.15.0", by ranges of releases with the same result.
std::string course_of(const OperatorRow& row) {
  std::vector<std::pair<std::string, std::vector<std::string>>> runs;
  for (const OperatorOnRelease& on : row.releases) {
    const std::string word = phrase_of(on);
    if (runs.empty() || runs.back().first != word) runs.push_back({word, {}});
    runs.back().second.push_back(on.release);
  }
  std::vector<std::string> parts;
  for (const auto& [word, releases] : runs) {
    const bool is_all = runs.size() == 1 && releases.size() > 1;
    parts.push_back(word == kAbsent ? fmt::format("not in {}", range_of(releases))
                                    : fmt::format("{} in {}{}", word, is_all ? "all releases on record, " : "",
                                                  range_of(releases)));
  }
  return parts.empty() ? "not on record" : fmt::format("{}", fmt::join(parts, "; "));
}

bool is_advice_shown(const OperatorOnRelease& on) {
  const OperatorResult* instead = on.find(OperatorForm::Instead);
  return instead != nullptr && instead->verdict == OperatorVerdict::Captured;
}

std::string kinds_of(const Json& kinds) {
  std::vector<std::string> texts;
  for (const Json& kind : kinds) {
    if (kind.is_string() && texts.size() < kFewKinds) texts.push_back(escape_control(kind.get<std::string>()));
  }
  return fmt::format("{}", fmt::join(texts, ", "));
}

// Of the message: records cut the rest.
std::string first_sentence(const OperatorFailure& failure) {
  std::string text = escape_control(describe_failure(failure));
  if (const size_t end = text.find(". "); end != std::string::npos) text.erase(end);
  return text;
}

std::string form_line(const OperatorResult& result) {
  std::string line = fmt::format("  {:<9} {:<22} {} of {} samples", to_string(result.form), to_string(result.verdict),
                                 result.captured, result.tried);
  for (const OperatorFailure& failure : result.failures) {
    const bool says_more = failure.how != "eager" || result.verdict == OperatorVerdict::EagerFails;
    if (says_more) line += fmt::format("; {}", first_sentence(failure));
    if (says_more) break;
  }
  line += "\n";
  for (const auto& [argument, kinds] : result.decides.items()) {
    if (!kinds.is_object()) continue;
    line += fmt::format("  {:<9} {} decides: captured for {}; not for {}\n", "", escape_control(argument),
                        kinds_of(kinds.value("right", Json::array())), kinds_of(kinds.value("not", Json::array())));
  }
  return line;
}

// Advice for an operator that is not captured there; "" if there is none.
std::string advice_of(const OperatorRow& row, const OperatorOnRelease& on) {
  if (row.instead.name.empty()) return "";
  if (row.instead.call.empty() || is_advice_shown(on)) return row.instead.advice;
  return "";
}

const OperatorOnRelease* newest(const OperatorRow& row) {
  const auto found =
      std::find_if(row.releases.rbegin(), row.releases.rend(), [](const OperatorOnRelease& on) { return !on.absent; });
  return found == row.releases.rend() ? nullptr : &*found;
}

// The newest release that has the operator and cannot capture it; nullptr if there is none.
const OperatorOnRelease* newest_not_captured(const OperatorRow& row) {
  const auto found = std::find_if(row.releases.rbegin(), row.releases.rend(), cannot_be_captured);
  return found == row.releases.rend() ? nullptr : &*found;
}

std::vector<std::string> inconclusive_releases(const OperatorRow& row) {
  std::vector<std::string> releases;
  for (const OperatorOnRelease& on : row.releases) {
    if (on.inconclusive) releases.push_back(on.release);
  }
  return releases;
}

bool is_captured(const OperatorRow& row) {
  return newest_not_captured(row) == nullptr && inconclusive_releases(row).empty();
}

std::string cause_text(const OperatorFailure& failure) {
  std::string text = first_sentence(failure);
  for (const std::string refused : {"refused by ", "refused: "}) {
    if (text.compare(0, refused.size(), refused) == 0) return text.substr(refused.size());
  }
  return text;
}

// Why it cannot be captured, with the release if a newer one can; "" if every release can, or if the reason is unknown.
std::string why_not_captured(const OperatorRow& row) {
  const OperatorOnRelease* on = newest_not_captured(row);
  const OperatorFailure* cause = on == nullptr ? nullptr : cause_of(*on);
  if (cause == nullptr) return "";
  return (on == newest(row) ? "" : on->release + ": ") + cause_text(*cause);
}

std::string head_of_row(const OperatorRow& row) {
  const std::string variant = row.what.call.size() >= row.what.name.size() ? "" : " (" + row.what.name + ")";
  std::string text = row.what.call + variant + ": " + course_of(row);
  if (const std::string why = why_not_captured(row); !why.empty()) text += " (" + why + ")";
  const OperatorOnRelease* on = newest_not_captured(row);
  if (on == nullptr) return text;
  if (const std::string advice = advice_of(row, *on); !advice.empty()) text += ". " + advice;
  return text;
}

Json json_of(const OperatorFailure& failure) {
  Json json = {{"as", failure.how}, {"samples", failure.samples}};
  if (!failure.type.empty()) json["type"] = failure.type;
  if (!failure.text.empty()) json["text"] = failure.text;
  if (!failure.api.empty()) json["api"] = failure.api;
  if (failure.code != 0) json["code"] = failure.code;
  return json;
}

Json json_of(const OperatorResult& result) {
  Json json = {{"verdict", to_string(result.verdict)},
               {"captured", result.captured},
               {"tried", result.tried},
               {"types", result.types}};
  for (const OperatorFailure& failure : result.failures) json["failures"].push_back(json_of(failure));
  if (!result.decides.empty()) json["decides"] = result.decides;
  return json;
}

// The captured operators whose graph was not right after something between two replays, by release; "" without a record
// that asks.
std::string later_markdown(const OperatorTable& table) {
  if (!table.has_later()) return "";
  std::vector<std::string> head = {"operator"};
  head.insert(head.end(), table.releases.begin(), table.releases.end());
  std::string text =
      "\n## Captured, and not right after something between two replays\n\n"
      "[What is done between them](../docs/reference/operators.md#stays-right-afterwards).\n\n" +
      head_of(head);
  size_t right = 0;
  for (const OperatorRow& row : table.rows) {
    std::vector<std::string> cells = {"`" + row.what.name + "`"};
    bool is_asked = false, is_wrong = false;
    for (const std::string& release : table.releases) {
      const auto on = std::ranges::find(row.releases, release, &OperatorOnRelease::release);
      const bool is_here = on != row.releases.end() && on->later.has_value();
      is_asked = is_asked || is_here;
      is_wrong = is_wrong || (is_here && !on->later->wrong.empty());
      cells.push_back(!is_here                   ? "not measured"
                      : on->later->wrong.empty() ? "right"
                                                 : escape_markdown(describe_later(*on->later)));
    }
    if (is_wrong) text += row_of(cells);
    right += is_asked && !is_wrong;
  }
  return text + fmt::format("\n{} stay right wherever that was measured.\n", plural(right, "other operator"));
}

// The records of a table, each once: paths are long, and a release has few.
std::vector<std::string> records_of(const OperatorTable& table) {
  std::set<std::string> records;
  for (const OperatorRow& row : table.rows)
    for (const OperatorOnRelease& on : row.releases) records.insert(on.record);
  return {records.begin(), records.end()};
}

// Each result once, with the index of the record of each release that has it.
Json results_of(const OperatorRow& row, const std::vector<std::string>& records) {
  Json results = Json::array();
  for (const OperatorOnRelease& on : row.releases) {
    Json here = {{"verdict", word_of(on)}};
    for (const OperatorResult& result : on.results)
      here["forms"][std::string(to_string(result.form))] = json_of(result);
    if (on.later) here["later"] = {{"asked", on.later->asked}, {"wrong", on.later->wrong}};
    const auto has_same = [&](const Json& one, const char* key) {
      return one.value(key, Json()) == here.value(key, Json());
    };
    const auto same = std::find_if(results.begin(), results.end(), [&](const Json& one) {
      return has_same(one, "verdict") && has_same(one, "forms") && has_same(one, "later");
    });
    Json& result = same == results.end() ? results.emplace_back(std::move(here)) : *same;
    result["records"][on.release] = std::lower_bound(records.begin(), records.end(), on.record) - records.begin();
  }
  return results;
}

}  // namespace

std::string describe_later(const LaterResult& later) {
  return later.wrong.empty() ? fmt::format("right after {}", fmt::join(later.asked, ", "))
                             : fmt::format("not right after {}", fmt::join(later.wrong, ", "));
}

std::string later_line(const OperatorRow& row) {
  struct Answer {
    std::string text, failure;
    std::vector<std::string> releases;
  };
  std::vector<Answer> answers;
  for (auto on = row.releases.rbegin(); on != row.releases.rend(); ++on) {
    if (!on->later) continue;
    const std::string text = escape_control(describe_later(*on->later));
    auto same = std::ranges::find(answers, text, &Answer::text);
    if (same == answers.end()) {
      std::string failure;
      if (const auto& all = on->later->failures; !all.empty()) {
        failure = ": " + escape_control(describe_failure({.how = all.front().how, .text = all.front().text}));
      }
      same = answers.insert(same, {text, failure, {}});
    }
    same->releases.push_back(on->release);
  }
  std::vector<std::string> parts;
  for (const Answer& one : answers) {
    parts.push_back(fmt::format("{} ({}){}", one.text, fmt::join(one.releases, ", "), one.failure));
  }
  if (!row.known_later.case_id.empty()) {
    parts.push_back(fmt::format("not right {}: recapture show {}", row.known_later.why, row.known_later.case_id));
  }
  return fmt::format("{}", fmt::join(parts, "; "));
}

OperatorAnswers operator_answers(const OperatorTable& table, const std::string& release) {
  const bool is_on_record = contains(table.releases, release);
  OperatorAnswers answers;
  for (const OperatorRow& row : table.rows) {
    answers.known.push_back(row.what);
    const auto is_meant = [&](const OperatorOnRelease& on) {
      return (!is_on_record || on.release == release) && !on.results.empty() && cannot_be_captured(on);
    };
    const auto on = std::find_if(row.releases.rbegin(), row.releases.rend(), is_meant);
    if (on == row.releases.rend()) continue;
    answers.not_captured[row.what.name] = {row.what.name, head_of_row(row), advice_of(row, *on)};
  }
  return answers;
}

std::string render_text(const OperatorRow& row) {
  std::string text = head_of_row(row) + "\n";
  if (!row.untried.name.empty()) {
    text += fmt::format("  {:<9} {}: recapture show {}\n", "but", row.untried.why, row.untried.case_id);
  }
  const OperatorOnRelease* on = newest(row);
  if (on == nullptr) return text;
  for (const OperatorResult& result : on->results) text += form_line(result);
  if (const OperatorResult* cold = on->find(OperatorForm::Cold);
      cold != nullptr && cold->verdict == OperatorVerdict::Refused && !cannot_be_captured(*on)) {
    text += fmt::format("  {:<9} call it once before the capture: the first call of a process is refused\n", "");
  }
  if (const std::string later = later_line(row); !later.empty()) text += fmt::format("  {:<9} {}\n", "later", later);
  if (!row.instead.call.empty() && on->find(OperatorForm::Instead) != nullptr) {
    text += fmt::format(
        "  {:<9} {}{}\n", "tried as", row.instead.call,
        row.instead.call.find("eager") == std::string::npos ? "" : "  (eager: its result without a capture)");
  }
  return text + fmt::format("  record    {}\n", on->record);
}

std::vector<OperatorWord> operator_words() {
  constexpr std::array<const char*, kOperatorVerdicts.size()> kMeanings = {
      "every sample is captured, and its replays give eager's values",
      "captured; eager gives other values each time",
      "some samples are captured, and some are not",
      "no sample can be captured",
      "captured, and a replay fails or gives other values",
      "a sample does not come back",
      "a sample ends its process",
      "no sample can be computed without a capture",
      "a library that it calls was missing"};
  std::vector<OperatorWord> words;
  for (size_t i = 0; i < kOperatorVerdicts.size(); ++i) {
    const auto verdict = static_cast<OperatorVerdict>(i);
    const bool is_fine = verdict == OperatorVerdict::Captured || verdict == OperatorVerdict::Undefined;
    const bool is_refused = verdict == OperatorVerdict::SomeRefused || verdict == OperatorVerdict::Refused;
    const bool is_unknown = verdict == OperatorVerdict::EagerFails || verdict == OperatorVerdict::Unavailable;
    words.push_back({verdict == OperatorVerdict::EagerFails ? kNoEager : std::string(to_string(verdict)),
                     is_fine      ? "green"
                     : is_refused ? "amber"
                     : is_unknown ? "grey"
                                  : "red",
                     kMeanings.at(i)});
  }
  words.push_back(
      {kInconclusive, "grey", "the test broke, or a sample crashed or hung and no repetition has shown that again"});
  words.push_back({kNoType, "grey", "it has no data type that the GPU computes"});
  words.push_back({kAbsent, "grey", "the release has no such operator"});
  return words;
}

OperatorView view_of(const OperatorTable& table, const OperatorRow& row) {
  OperatorView view;
  for (const std::string& release : table.releases) {
    const auto on =
        std::ranges::find_if(row.releases, [&](const OperatorOnRelease& each) { return each.release == release; });
    view.words.push_back(on == row.releases.end() ? "" : word_of(*on));
    view.phrases.push_back(on == row.releases.end() ? "" : phrase_of(*on));
  }
  const OperatorOnRelease* on = newest_not_captured(row);
  view.is_captured = is_captured(row);
  view.why = why_not_captured(row);
  if (on == nullptr && !view.is_captured) {
    view.why = fmt::format("inconclusive in {}", range_of(inconclusive_releases(row)));
  }
  if (on != nullptr) view.instead = advice_of(row, *on);
  return view;
}

std::string render_text(const OperatorTable& table) {
  std::string text;
  std::map<std::string, std::map<std::string, size_t>> counts;  // By release, by word.
  for (const OperatorRow& row : table.rows) {
    for (const OperatorOnRelease& on : row.releases) ++counts[on.release][word_of(on)];
    if (!is_captured(row)) text += head_of_row(row) + "\n";
  }
  for (const std::string& release : table.releases) {
    std::vector<std::string> parts;
    for (const auto& [word, count] : counts[release]) parts.push_back(fmt::format("{} {}", count, word));
    text += fmt::format("{}: {}\n", release, fmt::join(parts, ", "));
  }
  return text;
}

Json render_json(const OperatorTable& table) {
  const std::vector<std::string> records = records_of(table);
  Json operators = Json::object();
  for (const OperatorRow& row : table.rows) {
    Json one = {{"call", row.what.call}, {"results", results_of(row, records)}};
    if (!row.instead.name.empty()) {
      one["instead"] = {{"advice", row.instead.advice}};
      if (!row.instead.call.empty()) one["instead"]["call"] = row.instead.call;
    }
    if (!row.untried.name.empty()) one["untried"] = {{"why", row.untried.why}, {"case", row.untried.case_id}};
    if (!row.known_later.case_id.empty()) {
      one["later"] = {{"why", row.known_later.why}, {"case", row.known_later.case_id}};
    }
    operators[row.what.name] = one;
  }
  return {{"schema", 3}, {"releases", table.releases}, {"records", records}, {"operators", operators}};
}

std::string render_json_lines(const OperatorTable& table) {
  const Json json = render_json(table);
  std::string text = fmt::format("{{\"schema\":{},\"releases\":{},\"records\":{},\"operators\":{{",
                                 to_text(json.at("schema")), to_text(json.at("releases")), to_text(json.at("records")));
  const char* between = "\n";
  for (const auto& [name, one] : json.at("operators").items()) {
    text += between + to_text(name) + ":" + to_text(one);
    between = ",\n";
  }
  return text + "\n}}\n";
}

std::string render_markdown(const OperatorTable& table) {
  std::string text =
      "# Which operators of PyTorch can be captured\n\n"
      "Generated from the records by `recapture dev tables operators > reports/operators.md`.\n"
      "[operators.json.xz](operators.json.xz) has the same for programs, with every form, and\n"
      "[docs/reference/operators.md](../docs/reference/operators.md) says what the words mean.\n"
      "`recapture operators NAME` prints one operator.\n\n";
  std::vector<std::string> head = {"operator"};
  head.insert(head.end(), table.releases.begin(), table.releases.end());
  head.insert(head.end(), {"why", "capture instead"});
  std::string captured;
  size_t fine = 0;
  text += head_of(head);
  for (const OperatorRow& row : table.rows) {
    if (newest(row) == nullptr) continue;
    const OperatorView view = view_of(table, row);
    if (view.is_captured) {
      ++fine;
      captured += fmt::format("{}`{}`", captured.empty() ? "" : ", ", row.what.name);
      continue;
    }
    std::vector<std::string> cells = {"`" + row.what.name + "`"};
    cells.insert(cells.end(), view.phrases.begin(), view.phrases.end());
    cells.insert(cells.end(), {escape_markdown(view.why), escape_markdown(view.instead)});
    text += row_of(cells);
  }
  if (fine > 0) {
    text +=
        fmt::format("\n## Captured in every release on record that has them and their libraries\n\n{} operators: {}.\n",
                    fine, captured);
  }
  return text + later_markdown(table);
}

}  // namespace recapture::report
