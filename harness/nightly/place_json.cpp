// A place's history as JSON: names and facts, no output of a test and no command.
#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "harness/base/escape.h"
#include "harness/base/text.h"
#include "harness/case/events.h"
#include "harness/model/record_text.h"
#include "harness/nightly/state.h"
#include "harness/words/observation.h"

namespace recapture::nightly {
namespace {

// The results that are a baseline, by the index of their run.
using RunIndex = std::map<std::string, size_t>;

constexpr std::array<std::string_view, 4> kMarks = {"fine", "red", "split", "unconfirmed"};

Verdict verdict_from(const std::string& word) {
  for (size_t i = 0; i < kVerdictCount; ++i) {
    if (to_string(static_cast<Verdict>(i)) == word) return static_cast<Verdict>(i);
  }
  throw std::runtime_error(fmt::format("there is no verdict '{}'", word));
}

// An observation that is the test's output is left out, and one that its line has.
Json json_of(const TestVerdict& row, const TestRecord& test) {
  Json json = {{"result", to_string(row.result)}, {"verdict", to_string(row.verdict)}};
  const std::string observed = to_string(row.observed);
  const bool is_output = observed == test.text("last_words");
  if (row.observed.kind == TestObservationKind::NotApplicable) {
    json["not_applicable"] = row.observed.text;
  } else if (!is_output && observed != test.seen()) {
    json["observed"] = observed;
  }
  if (row.code != 0) json["code"] = row.code;
  if (row.effect) json["effect"] = to_string(*row.effect);
  if (!row.reason.empty()) json["reason"] = row.reason;
  if (!row.source.empty()) json["source"] = row.source;
  if (row.is_simulated) json["simulated"] = true;
  return json;
}

TestObservation observation_from(const Json& json, const TestRecord& test) {
  if (json.contains("not_applicable")) return {TestObservationKind::NotApplicable, text_at(json, "not_applicable")};
  return {TestObservationKind::Text, json.contains("observed") ? text_at(json, "observed") : test.seen()};
}

TestVerdict row_from(const Json& json, const std::string& test, const Record& record) {
  const auto result = result_from(text_at(json, "result"));
  if (!result) throw std::runtime_error(fmt::format("there is no result '{}'", text_at(json, "result")));
  TestVerdict row;
  row.test = test;
  row.case_id = case_of(test);
  row.name = name_of(test);
  row.family = record.cases.at(row.case_id).family;
  row.release = record.environment.release.name();
  row.gpu = record.environment.machine.gpu;
  row.driver = record.environment.machine.driver;
  row.kind = kind_of_id(test);
  row.result = *result;
  row.ran = true;
  row.verdict = verdict_from(text_at(json, "verdict"));
  row.observed = observation_from(json, *record.find(test));
  row.code = int_at(json, "code").value_or(0);
  row.effect = effect_of(text_at(json, "effect"));
  row.reason = text_at(json, "reason");
  row.source = text_at(json, "source");
  row.is_simulated = json.contains("simulated");
  return row;
}

// What a comparison reads of a test's line: neither its command nor its output.
Json facts_of(const TestRecord& test) {
  constexpr std::array<std::string_view, 10> kKept = {"test", "seen",  "exception", "error",  "assertions",
                                                      "hits", "tries", "probing",   "probes", "facts"};
  Json line = Json::object();
  const Json all = test.json();
  for (const auto& [key, value] : all.items()) {
    if (contains(kKept, key)) line[key] = value;
  }
  if (const std::string call = test.culprit("api"); !call.empty()) line["culprit"] = {{"api", call}};
  return line;
}

Json facts_of(const CaseInfo& info) {
  Json line = info.to_json();
  line["title"] = line["documented"] = "";
  line["sources"] = Json::array();
  line["fixes"] = Json::object();
  line["tests"] = Json::array();
  return line;
}

Json json_of(const JudgedRun& run) {
  Json lines = Json::array({run.record.environment.json()}), rows = Json::object();
  for (const auto& [id, info] : run.record.cases) lines.push_back(facts_of(info));
  for (const TestVerdict& row : run.rows) {
    const TestRecord& test = *run.record.find(row.test);
    lines.push_back(facts_of(test));
    rows[row.test] = json_of(row, test);
  }
  return {{"lines", lines}, {"rows", rows}};
}

JudgedRun run_from(const Json& json, const std::string& path) {
  std::string text;
  for (const Json& line : json.at("lines")) text += to_text(line) + "\n";
  JudgedRun run;
  run.record = read_record_text(text, path);
  for (const auto& [test, row] : json.at("rows").items()) {
    if (run.record.find(test) == nullptr) throw std::runtime_error(fmt::format("it has no line of {}", test));
    run.rows.push_back(row_from(row, test, run.record));
  }
  return run;
}

Json json_of(const TestChange& change) {
  if (!change.verdict.empty()) return {{"verdict", change.verdict}, {"observed", change.observed}};
  if (!change.has_change()) return Json::object();
  return {{"consequence", to_string(change.consequence)},
          {"change", compare::to_json(change.change)},
          {"from", change.from},
          {"to", change.to}};
}

TestChange change_from(const Json& json, const std::string& test) {
  TestChange change;
  change.test = test;
  change.verdict = text_at(json, "verdict");
  change.observed = text_at(json, "observed");
  if (!json.contains("consequence")) return change;
  const auto consequence = compare::consequence_from(text_at(json, "consequence"));
  if (!consequence) throw std::runtime_error("an unknown consequence");
  change.consequence = *consequence;
  change.change = compare::change_from(json.at("change"));
  change.from = escape_control(text_at(json, "from"));
  change.to = escape_control(text_at(json, "to"));
  return change;
}

Json json_of(const compare::UpstreamChange& change) {
  return {{"what", change.what}, {"number", change.number}, {"since", change.since},
          {"url", change.url},   {"title", change.title},   {"contradicted", change.contradicted}};
}

compare::UpstreamChange upstream_from(const Json& json) {
  return {text_at(json, "what"), text_at(json, "number"), text_at(json, "since"),
          text_at(json, "url"),  text_at(json, "title"),  json.at("contradicted").get<bool>()};
}

// {"2": [2.4, 2.5]}: by how many tests ran at once.
Json json_of(const std::map<int, Durations>& times) {
  Json json = Json::object();
  for (const auto& [width, durations] : times) json[std::to_string(width)] = durations.last();
  return json;
}

std::map<int, Durations> times_from(const Json& json) {
  std::map<int, Durations> times;
  for (const auto& [width, seconds] : json.items()) {
    Durations& durations = times[std::stoi(width)];
    for (const Json& each : seconds) durations.add(each.get<double>());
  }
  return times;
}

// A name that is printed.
std::string name_at(const Json& json, const char* key) { return escape_control(text_at(json, key)); }

void put(Json& json, const char* key, const std::string& text) {
  if (!text.empty()) json[key] = text;
}

std::string path_of_run(size_t index) { return fmt::format("baseline {} of the state", index); }

Json indices_of(const std::set<std::string>& paths, const RunIndex& index) {
  Json json = Json::array();
  for (const std::string& path : paths) {
    if (const auto found = index.find(path); found != index.end()) json.push_back(found->second);
  }
  return json;
}

std::string run_at(const Json& index, size_t runs) {
  const auto number = index.get<size_t>();
  if (!index.is_number_unsigned() || number >= runs) throw std::runtime_error("a baseline that is not in it");
  return path_of_run(number);
}

std::set<std::string> runs_at(const Json& json, const char* key, size_t runs) {
  std::set<std::string> paths;
  if (!json.contains(key)) return paths;
  for (const Json& index : json.at(key)) paths.insert(run_at(index, runs));
  return paths;
}

}  // namespace

Json PlaceHistory::to_json() const {
  RunIndex index;
  Json runs = Json::array();
  for (const JudgedRun& run : runs_.runs) {
    index.emplace(run.record.path, runs.size());
    runs.push_back(json_of(run));
  }
  Json histories = Json::array();  // Most tests have the same one.
  std::map<std::string, size_t> known;
  const auto history_of = [&](const Test& test) {
    Json points = Json::array();
    for (const Point& point : test.points) points.push_back({point.night, kMarks.at(static_cast<size_t>(point.mark))});
    Json history = {{"nights", points}, {"fine", test.fine_night}, {"driver", test.driver}, {"runtime", test.runtime}};
    const auto [at, is_new] =
        known.emplace(history.dump(-1, ' ', false, Json::error_handler_t::replace), histories.size());
    if (is_new) histories.push_back(std::move(history));
    return at->second;
  };
  Json tests = Json::object();
  for (const auto& [name, test] : tests_) {
    Json json = Json::object();
    put(json, "code", test.code);
    if (const auto found = index.find(test.baseline); found != index.end()) json["baseline"] = found->second;
    if (!test.pool.empty()) json["pool"] = indices_of(test.pool, index);
    if (!test.unseen.empty()) json["unseen"] = indices_of(test.unseen, index);
    if (test.was_absent) json["absent"] = true;
    json["history"] = history_of(test);
    put(json, "since", test.since);
    if (!test.timing.by_width.empty()) {
      json["seconds"] = json_of(test.timing.by_width);
      if (test.timing.code != test.code) json["timed"] = test.timing.code;
    }
    if (!test.fingerprint.empty()) {  // It was red.
      json["fingerprint"] = test.fingerprint;
      json["change"] = json_of(test.change);
      json["seen"] = test.seen;
      for (const auto& change : test.upstream) json["upstream"].push_back(json_of(change));
    }
    put(json, "not_judged_since", test.not_judged_since);
    put(json, "accepted", test.accepted_result);
    if (test.unresolved) {
      json["unresolved"] = {{"why", test.unresolved->why},
                            {"night", test.unresolved->night},
                            {"code", test.unresolved->code},
                            {"since", test.unresolved->since},
                            {"fingerprint", test.unresolved->fingerprint},
                            {"seen", test.unresolved->seen},
                            {"change", json_of(test.unresolved->change)}};
    }
    tests[name] = std::move(json);
  }
  Json place = {{"environment", environment_.json()}};
  put(place, "absent_since", absent_since_);
  if (was_planned_) place["planned"] = true;
  place.update({{"seconds", json_of(total_.by_width)}, {"runs", runs}, {"histories", histories}, {"tests", tests}});
  return place;
}

PlaceHistory PlaceHistory::from_json(const Json& json, const compare::CompareContext& background) {
  PlaceHistory place(background);
  if (!json.at("environment").is_object()) throw std::runtime_error("a place without an environment");
  place.environment_ = read_record_text(to_text(json.at("environment")) + "\n", "environment").environment;
  place.absent_since_ = name_at(json, "absent_since");
  place.was_planned_ = json.contains("planned");
  place.total_.by_width = times_from(json.at("seconds"));
  for (const Json& run : json.at("runs")) {
    place.runs_.runs.push_back(run_from(run, path_of_run(place.runs_.runs.size())));
  }
  const size_t runs = place.runs_.runs.size();
  const auto check_baseline = [&](const std::string& path, const std::string& test) {
    const auto run =
        std::ranges::find_if(place.runs_.runs, [&](const JudgedRun& each) { return each.record.path == path; });
    if (run->record.find(test) == nullptr) throw std::runtime_error("a baseline without its result");
  };
  for (const auto& [name, from] : json.at("tests").items()) {
    if (escape_control(name) != name || name.find('.') == std::string::npos) throw std::runtime_error("a test's name");
    Test test;
    test.code = text_at(from, "code");
    if (from.contains("baseline")) test.baseline = run_at(from.at("baseline"), runs);
    test.pool = runs_at(from, "pool", runs);
    test.unseen = runs_at(from, "unseen", runs);
    if (!test.baseline.empty()) check_baseline(test.baseline, name);
    for (const std::string& path : test.pool) check_baseline(path, name);
    for (const std::string& path : test.unseen) check_baseline(path, name);
    test.was_absent = from.contains("absent");
    const Json& history = json.at("histories").at(from.at("history").get<size_t>());
    for (const Json& point : history.at("nights")) {
      const auto mark = detail::enum_of<Mark>(kMarks, point.at(1).get<std::string>());
      if (!mark) throw std::runtime_error("an unknown mark of a night");
      test.points.push_back({escape_control(point.at(0).get<std::string>()), *mark});
    }
    if (test.points.size() > kWindow + 1) throw std::runtime_error("more nights than a window has");
    test.fine_night = name_at(history, "fine");
    test.driver = name_at(history, "driver");
    test.runtime = name_at(history, "runtime");
    test.since = name_at(from, "since");
    if (from.contains("seconds")) {
      test.timing = {from.contains("timed") ? text_at(from, "timed") : test.code, times_from(from.at("seconds"))};
    }
    test.fingerprint = text_at(from, "fingerprint");
    if (from.contains("change")) test.change = change_from(from.at("change"), name);
    test.seen = text_at(from, "seen");
    if (from.contains("upstream")) {
      for (const Json& change : from.at("upstream")) test.upstream.push_back(upstream_from(change));
    }
    test.not_judged_since = name_at(from, "not_judged_since");
    test.accepted_result = text_at(from, "accepted");
    if (from.contains("unresolved")) {
      const Json& was = from.at("unresolved");
      test.unresolved = Unresolved{name_at(was, "why"),
                                   name_at(was, "night"),
                                   text_at(was, "code"),
                                   name_at(was, "since"),
                                   text_at(was, "fingerprint"),
                                   text_at(was, "seen"),
                                   change_from(was.at("change"), name)};
    }
    place.tests_.emplace(name, std::move(test));
  }
  return place;
}

}  // namespace recapture::nightly
