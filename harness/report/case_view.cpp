#include "harness/report/case_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <sstream>

#include "harness/base/escape.h"
#include "harness/base/regex.h"
#include "harness/base/text.h"
#include "harness/case/events.h"
#include "harness/model/bounds.h"
#include "harness/model/operator_cases.h"
#include "harness/model/release.h"
#include "harness/report/neighbour.h"
#include "harness/report/text.h"
#include "harness/store/machine_runs.h"
#include "harness/store/select.h"
#include "harness/verdict/duration.h"
#include "harness/words/measurement.h"
#include "harness/words/neighbour.h"
#include "harness/words/observation.h"

namespace recapture::report {
namespace {

std::string first_line(const std::string& text) { return escape_control(text.substr(0, text.find('\n'))); }

// Text wrapped and indented by `indent`, except the first line.
std::string wrapped(const std::string& text, size_t indent) {
  const std::string space(indent, ' ');
  const std::string lines = wrap(space, text, space);
  return lines.substr(indent, lines.size() - indent - 1);
}

std::string paragraphs(const std::string& text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find("\n\n", at), text.size());
    out += wrapped(text.substr(at, end - at), 0) + "\n\n";
    at = end + 2;
  }
  return out;
}

// A label before the first value only.
std::string labelled(const std::string& label, const std::vector<std::string>& values) {
  std::string out;
  for (const std::string& value : values) {
    out += fmt::format("{:<12}{}\n", out.empty() ? label : "", wrapped(value, 12));
  }
  return out;
}

// The sources that a text such as "pytorch#134442, pytorch#1344421" names; a number does not name its own prefix.
std::vector<const CitedSource*> sources_in(const CaseView& view, const std::string& text) {
  std::vector<const CitedSource*> found;
  for (const CitedSource& source : view.sources) {
    const size_t at = text.find(source.id);
    if (at == std::string::npos || source.id.find('#') == std::string::npos) continue;
    const size_t end = at + source.id.size();
    const bool goes_on = end < text.size() && std::isdigit(static_cast<unsigned char>(text[end])) != 0;
    const bool begins_before = at > 0 && std::isalnum(static_cast<unsigned char>(text[at - 1])) != 0;
    if (!goes_on && !begins_before) found.push_back(&source);
  }
  return found;
}

bool has_test(const CatalogueCase& one, const std::string& test_id) {
  return case_of(test_id) == one.id &&
         std::ranges::any_of(one.tests, [&](const CatalogueTest& test) { return test.name == name_of(test_id); });
}

bool is_simulated(const CaseView& view) { return view.one.fidelity == Fidelity::Simulated; }

// The rows of the case on one machine, in the case's order.
std::vector<Latest> rows_of(const CaseView& view, const OnMachine& on) {
  std::vector<Latest> rows;
  for (const CatalogueTest& test : view.one.tests) {
    const std::string id = view.one.id + "." + test.name;
    for (const Latest& latest : is_simulated(view) ? on.simulated : on.rows) {
      if (latest.row->test == id) rows.push_back(latest);
    }
  }
  return rows;
}

// For simulated cases, which are the same everywhere, only the newest run with current code.
void keep_newest(std::vector<std::pair<const OnMachine*, std::vector<Latest>>>& all) {
  const auto is_current = [](const auto& machine) {
    return std::ranges::none_of(machine.second,
                                [](const Latest& latest) { return latest.row->verdict == Verdict::Stale; });
  };
  const auto is_older = [&](const auto& machine, const auto& other) {
    if (is_current(machine) != is_current(other)) return is_current(other);
    return began_before(*machine.second.back().judged, *other.second.back().judged);
  };
  const auto newest = std::max_element(all.rbegin(), all.rend(), is_older);  // If of one day, the newest release.
  if (newest != all.rend()) all = {*newest};
}

// Results of the case's current code; machines without one are left out.
std::vector<std::pair<const OnMachine*, std::vector<Latest>>> results(const CaseView& view) {
  std::vector<std::pair<const OnMachine*, std::vector<Latest>>> all;
  for (const OnMachine& on : view.latest) {
    if (on.broken != Break::Nothing) continue;
    auto rows = rows_of(view, on);
    if (!rows.empty()) all.emplace_back(&on, std::move(rows));
  }
  if (is_simulated(view)) keep_newest(all);
  return all;
}

// A test's documented and healthy values, from the newest release.
struct Named {
  std::string documented, healthy, raised_by;
};
std::map<std::string, Named> named_values(const CaseView& view) {
  std::map<std::string, Named> named;
  for (const auto& [on, rows] : results(view)) {
    for (const Latest& latest : rows) {
      const TestRecord* test = latest.test();
      if (test == nullptr || !test->has(key::documented)) continue;
      named[latest.row->name] = {test->text(key::documented), test->text(key::healthy), test->text(key::raised_by)};
    }
  }
  return named;
}

std::string where_words(const Where& where) {
  std::string words;
  const auto add = [&](const char* what, const std::string& value) {
    if (!value.empty()) words += fmt::format("{}{} {}", words.empty() ? "" : ", ", what, value);
  };
  add("LibTorch", where.release);
  add("GPU", where.gpu);
  add("driver", where.driver);
  add("CUDA runtime", where.cuda_runtime);
  add("NCCL", where.nccl);
  return words.empty() ? "everywhere" : words;
}

// "names the same call", or the other call; "" if the message quotes no line of the driver's log.
std::string named_by_pytorch(const std::string& message, const std::string& api) {
  static const RE2 kQuoted(R"(Returning (\d+) \(\w+\) from (\w+))", RE2::Latin1);
  std::string first;
  for (const Match& quoted : all_matches(message, kQuoted)) {
    if (without_versions(std::string(quoted[2])) == without_versions(api)) return "names the same call";
    if (first.empty()) first = fmt::format("names {} instead, which returned {}", quoted[2], quoted[1]);
  }
  return first;
}

std::string details(const TestRecord& test) {
  const Details known = details_of(test);
  std::string text;
  const auto add = [&](const char* label, const std::string& value) {
    text += fmt::format("      {:<9}{}\n", label, escape_control(value));
  };
  if (!known.call.empty()) add("call", known.call);
  if (!known.log.empty()) add("log", known.log);
  if (!known.pytorch.empty()) add("PyTorch", known.pytorch);
  for (const std::string& frame : known.stack) add(&frame == &known.stack.front() ? "stack" : "", frame);
  if (test.has(key::message)) {
    add("message", first_line(known.message) + (known.exception.empty() ? "" : " (" + known.exception + ")"));
  }
  if (!known.after.empty()) add("after", known.after);
  return text;
}

std::string sources_text(const CaseView& view) {
  std::vector<std::string> lines;
  for (const Json& source : view.one.sources) {
    const std::string id = cited_id(source), heading = source.at("heading");
    lines.push_back(id == heading ? id : fmt::format("{}, {}", id, heading));
    if (const CitedSource* cited = find_source(view.sources, id)) {
      lines.push_back(cited->title);
      lines.push_back(cited->url);
    }
  }
  return labelled("sources", lines);
}

std::string signatures_text(const CaseView& view) {
  std::vector<std::string> lines;
  for (const auto& [test, named] : named_values(view)) {
    std::string line = fmt::format("{}: {}; healthy: {}", test, named.documented, named.healthy);
    if (!named.raised_by.empty()) line += "; raised by " + named.raised_by;
    lines.push_back(escape_control(line));
  }
  return labelled("signature", lines);
}

// Why none of the tests could run there; "" if one could, or if the reasons differ.
std::string common_reason(const std::vector<Latest>& rows) {
  for (const Latest& latest : rows) {
    if (latest.row->verdict != Verdict::Unavailable ||
        to_string(latest.row->observed) != to_string(rows.front().row->observed))
      return "";
  }
  return first_line(to_string(rows.front().row->observed));
}

// How many tests ran in parallel in all of these runs; 0 if unknown, or if the runs differ.
int width_of(const std::vector<Latest>& rows) {
  const auto width = [](const Latest& latest) { return width_of(latest.judged->record, latest.row->case_id); };
  const int first = width(rows.front());
  return std::ranges::all_of(rows, [&](const Latest& latest) { return width(latest) == first; }) ? first : 0;
}

// "2.6 s"; with the width if it differs from the common one.
std::string time_of(const Latest& latest, int common) {
  if (!latest.row->ran || latest.row->seconds == 0) return "";
  const int width = width_of(latest.judged->record, latest.row->case_id);
  return render_seconds(latest.row->seconds) + at_once(common > 0 ? 0 : width);
}

// What no record has of their release and machine.
std::vector<std::string> notes_on_neighbour(const std::vector<Latest>& rows) {
  const JudgedRun& judged = *rows.back().judged;
  if (judged.neighbour.is_on_record()) return {};
  std::vector<const TestVerdict*> verdicts;
  verdicts.reserve(rows.size());
  for (const Latest& latest : rows) verdicts.push_back(latest.row);
  return neighbour_notes(judged.record.environment, judged.neighbour, verdicts);
}

std::string results_text(const CaseView& view) {
  std::string text;
  std::map<std::string, std::string> known;  // Details by the place where they were shown.
  for (const auto& [on, rows] : results(view)) {
    text += (is_simulated(view) ? "\nSimulated: a model of ours on the host, no release. Run with " : "\n") +
            title_of(*on, rows.back().judged->record) + "\n";
    for (const std::string& note : notes_on_neighbour(rows)) text += "  " + wrapped("note: " + note, 4) + "\n";
    if (const std::string reason = common_reason(rows); !reason.empty()) {
      text += "  unavailable: " + reason + "\n";
      continue;
    }
    const int width = width_of(rows);
    if (width > 0) text += fmt::format("  times with {} at once\n", plural(static_cast<size_t>(width), "test"));
    for (const Latest& latest : rows) {
      const TestVerdict& row = *latest.row;
      std::string line =
          fmt::format("  {:<36} {:<12} {} {:>7}  {}", row.name, row.ran ? to_string(row.result) : "-",
                      render_verdict(row.verdict), time_of(latest, width), first_line(render_observed(row)));
      line.erase(line.find_last_not_of(' ') + 1);
      text += line + "\n";
      if (latest.test() == nullptr) continue;
      const std::string more = details(*latest.test());
      const bool is_short = std::ranges::count(more, '\n') < 3;
      const auto [first, is_new] = known.emplace(more, on->machine + ", " + row.name);
      text += is_new || is_short ? more : "      the same as " + first->second + "\n";
    }
  }
  for (const OnMachine& on : view.latest) {
    if (!lists_operators(view.one.id) || on.operators.empty()) continue;
    text += fmt::format("\n{}\n  {}\n", title_of(on, on.operators.back().judged->record),
                        render_operator_counts(on.operators));
  }
  return text.empty() ? "\nNo record contains it.\n" : text;
}

// The machines by a fix's outcome; those with an older form of the case last.
std::vector<std::pair<std::string, std::vector<std::string>>> by_outcome(const CaseView& view,
                                                                         const std::string& name) {
  std::vector<std::pair<std::string, std::vector<std::string>>> groups;
  const auto all = results(view);
  for (const bool stale : {false, true}) {
    for (const auto& [on, rows] : all) {
      for (const Latest& latest : rows) {
        if (latest.row->name != name || (latest.row->verdict == Verdict::Stale) != stale) continue;
        const std::string outcome = outcome_of(*latest.row);
        auto group = std::ranges::find_if(groups, [&](const auto& known) { return known.first == outcome; });
        if (group == groups.end()) group = groups.insert(groups.end(), {outcome, {}});
        group->second.push_back(on->machine);
      }
    }
  }
  return groups;
}

std::string fixes_text(const CaseView& view) {
  std::string text;
  for (const CatalogueTest& test : view.one.tests) {
    if (test.kind != Kind::Fix || repeats(view.one, test)) continue;
    text += "  " + wrapped(test.fix.empty() ? test.name : test.name + ": " + test.fix, 4) + "\n";
    for (const auto& [outcome, machines] : by_outcome(view, test.name)) {
      text += "    " + wrapped(outcome + (is_simulated(view) ? " in the model" : " on " + by_gpu(machines)), 6) + "\n";
    }
    for (const Prices& prices : view.prices) {
      const auto lines = prices_of(prices, view.one.id + "." + test.name);
      if (!lines.empty()) text += "    price on " + prices.machine() + "\n";
      for (const PriceLine* line : lines) text += "      " + wrapped(line->what + ": " + describe(*line), 8) + "\n";
    }
  }
  return text.empty() ? "" : "\nfixes\n" + text;
}

// The rate of each race, and whether it differs between kinds of machine.
std::string rates_text(const CaseView& view) {
  std::string text;
  std::string test;
  for (const RatePool& pool : view.rates) {
    if (!has_test(view.one, pool.test) || is_simulated(view)) continue;
    if (test != pool.test) text += "  " + name_of(pool.test) + "\n";
    text += fmt::format("    {}: {}\n", pool.machine, describe(pool.runs));
    for (const auto& [other, differs] : comparisons_of(pool, view.rates)) {
      text += fmt::format("      the runs {} those of {}\n", differs ? "differ from" : "cannot be told from",
                          other->machine);
    }
    test = pool.test;
  }
  return text.empty() ? "" : "\nrates\n" + text;
}

std::string expectations_text(const CaseView& view) {
  std::string text;
  for (const Deviation& change : view.changes) {
    for (const Expectation& e : change.expectations) {
      if (!has_test(view.one, e.test)) continue;
      text += fmt::format("  {}, {}: {}{}\n", name_of(e.test), where_words(e.where), to_string(e.result),
                          e.seen.empty() ? "" : ", " + e.seen);
      text += "    " + wrapped(e.why, 4) + "\n";
      const std::string since = change.since.empty() ? "" : ", since " + change.since;
      const auto cited = sources_in(view, e.source);
      if (cited.empty()) text += "    " + wrapped(e.source + since, 4) + "\n";
      for (const CitedSource* source : cited) {
        text += fmt::format("    {}{}: {}\n", source->id, since, source->title);
        text += "    " + source->url + "\n";
      }
      if (const std::string bounds = bounds_of(e); !bounds.empty()) {
        text += fmt::format("    on record for {}; beyond that a guess\n", bounds);
      }
    }
  }
  return text.empty() ? "" : "\nexpected instead of what the document says\n" + text;
}

}  // namespace

Details details_of(const TestRecord& test) {
  Details known;
  if (test.has(key::culprit)) {
    const Json culprit = test.part(key::culprit);
    known.call = text_at(culprit, "api");
    if (const int code = int_at(culprit, "code").value_or(0); code != 0)
      known.call += fmt::format(" returned {}", code);
    if (const std::string thread = text_at(culprit, "thread"); !thread.empty()) known.call += ", " + thread + " thread";
    if (const auto rank = int_at(culprit, "rank")) known.call += fmt::format(" of rank {}", *rank);
    if (const std::string mode = text_at(culprit, "mode"); !mode.empty()) known.call += ", capture mode " + mode;
    if (const std::string file = text_at(culprit, "file"); !file.empty())
      known.call += fmt::format(", at {}:{}", file, int_at(culprit, "line").value_or(0));
    for (const char* frames : {"python", "frames"}) {
      for (const Json& frame : culprit.contains(frames) ? culprit.at(frames) : Json::array()) {
        if (frame.is_string()) known.stack.push_back(frame.get<std::string>());
      }
    }
    known.log = text_at(culprit, "log");
    known.pytorch = named_by_pytorch(test.text(key::message), test.culprit("api"));
  }
  if (test.has(key::message)) {
    known.message = test.text(key::message);
    known.exception = test.text(key::exception);
  }
  if (test.has("probes")) {
    const Json probes = test.part("probes");
    for (const auto& [name, outcome] : probes.items()) {
      known.after += fmt::format("{}{} {}", known.after.empty() ? "" : ", ", name,
                                 outcome.is_string() ? outcome.get<std::string>() : outcome.dump());
    }
  }
  return known;
}

std::string by_gpu(const std::vector<std::string>& machines) {
  std::vector<std::pair<std::string, std::string>> groups;
  for (const std::string& machine : machines) {
    const size_t comma = std::min(machine.find(", "), machine.size());
    const std::string release = machine.substr(0, comma), gpu = machine.substr(std::min(comma + 2, machine.size()));
    auto group = std::ranges::find_if(groups, [&](const auto& known) { return known.first == gpu; });
    if (group == groups.end()) {
      groups.emplace_back(gpu, release);
    } else {
      group->second += ", " + release;
    }
  }
  std::string text;
  for (const auto& [gpu, releases] : groups) {
    text += fmt::format("{}{}: {}", text.empty() ? "" : "; ", gpu, releases);
  }
  return text;
}

std::string outcome_of(const TestVerdict& row) {
  if (!row.ran) return "not run";
  if (row.verdict == Verdict::Inconclusive || row.verdict == Verdict::Missing)
    return std::string(to_string(row.verdict));
  if (row.verdict != Verdict::Stale) return std::string(to_string(row.result));
  return fmt::format("{} in an older form of the test", row.result == Result::Holds ? "held" : to_string(row.result));
}

std::string render_text(const CaseView& view) {
  const CatalogueCase& one = view.one;
  std::string text = one.id + ": " + one.title + "\n\n" + paragraphs(one.why);
  text += labelled("documented", {one.documented});
  text += signatures_text(view);
  std::vector<std::string> effects = {std::string(to_string(one.effect))};
  for (const CatalogueTest& test : one.tests) {
    if (test.effect && *test.effect != one.effect) {
      effects.push_back(fmt::format("{}: {}", test.name, to_string(*test.effect)));
    }
  }
  text += labelled("effect", effects);
  text += labelled("nature", {std::string(to_string(one.nature))});
  text += labelled("fidelity", {std::string(to_string(one.fidelity))});
  text += labelled("needs", {one.needs.words()});
  text += sources_text(view);
  text += labelled("file", {fmt::format("cases/{}/{}.cpp", one.family, one.id)});
  return text + results_text(view) + rates_text(view) + fixes_text(view) + expectations_text(view);
}

Json render_json(const CaseView& view) {
  Json json = render_json(view.one);
  json["file"] = fmt::format("cases/{}/{}.cpp", view.one.family, view.one.id);
  for (Json& source : json["sources"]) {
    if (const CitedSource* cited = find_source(view.sources, cited_id(source))) {
      source["title"] = cited->title;
      source["url"] = cited->url;
    }
  }
  Json machines = Json::array();
  for (const auto& [on, rows] : results(view)) {
    Json tests = Json::array();
    for (const Latest& latest : rows) {
      const TestVerdict& row = *latest.row;
      Json test = {{"test", row.name},
                   {"result", row.ran ? std::string(to_string(row.result)) : "not run"},
                   {"verdict", std::string(to_string(row.verdict))},
                   {"seen", render_observed(row)},
                   {"code", row.code},
                   {"seconds", row.seconds},
                   {"jobs", width_of(latest.judged->record, row.case_id)}};
      if (const TestRecord* its = latest.test()) {
        for (const char* key : {key::documented, key::healthy, key::raised_by, key::culprit, key::exception,
                                key::message, static_cast<const char*>("probes")}) {
          if (its->has(key)) test[key] = its->part(key);
        }
      }
      test["record"] = latest.judged->record.path;
      tests.push_back(test);
    }
    const Record& record = rows.back().judged->record;
    machines.push_back({{"release", record.env("release")},
                        {"gpu", record.env("gpu")},
                        {"driver", record.env("driver")},
                        {"cuda_runtime", record.env("cuda_runtime")},
                        {"packed", record.environment.json().value("packed", false)},
                        {"nearest_release", rows.back().judged->neighbour.release},
                        {"nearest_machine", nearest_machine(rows.back().judged->neighbour)},
                        {"started", record.environment.started},
                        {"tests", tests}});
  }
  json["results"] = machines;
  Json rates = Json::array();
  for (const RatePool& pool : view.rates) {
    if (!has_test(view.one, pool.test) || is_simulated(view)) continue;
    Json runs = Json::array();
    for (const RateRun& run : pool.runs) runs.push_back({{"hits", run.hits}, {"tries", run.tries}});
    Json one = {{"test", name_of(pool.test)}, {"machine", pool.machine}, {"runs", runs}};
    if (const auto rate = rate_of(pool.runs)) {
      one["share"] = rate->share;
      one["low"] = rate->low;
      one["high"] = rate->high;
    }
    for (const auto& [other, differs] : comparisons_of(pool, view.rates)) {
      one["compared"].push_back({{"machine", other->machine}, {"differs", differs}});
    }
    rates.push_back(one);
  }
  json["rates"] = rates;
  Json all_prices = Json::array();
  for (const Prices& prices : view.prices) {
    for (const PriceLine& line : prices.lines) {
      const auto is_its = [&](const std::string& fix) { return has_test(view.one, fix); };
      if (std::ranges::none_of(line.fixes, is_its)) continue;
      if (!is_published(line) && line.why_not.empty()) continue;
      Json price = {{"machine", prices.machine()}, {"record", prices.path}};
      price.update(render_json(line));
      all_prices.push_back(price);
    }
  }
  json["prices"] = all_prices;
  Json expectations = Json::array();
  for (const Deviation& change : view.changes) {
    for (const Expectation& e : change.expectations) {
      if (!has_test(view.one, e.test)) continue;
      Json links = Json::array();
      for (const CitedSource* source : sources_in(view, e.source)) links.push_back(source->url);
      expectations.push_back({{"test", name_of(e.test)},
                              {"where", where_words(e.where)},
                              {"result", to_string(e.result)},
                              {"seen", e.seen},
                              {"why", e.why},
                              {"number", e.source},
                              {"since", change.since},
                              {"links", links}});
    }
  }
  json["expectations"] = expectations;
  return json;
}

std::vector<std::string> neighbour_notes(const CaseView& view) {
  std::vector<std::string> notes;
  for (const auto& [on, rows] : results(view)) {
    for (const std::string& note : notes_on_neighbour(rows)) add_once(notes, note);
  }
  return notes;
}

std::vector<Verdict> verdicts_of(const CaseView& view) {
  std::vector<Verdict> verdicts;
  for (const auto& [on, rows] : results(view)) {
    for (const Latest& latest : rows) verdicts.push_back(latest.row->verdict);
  }
  return verdicts;
}

}  // namespace recapture::report
