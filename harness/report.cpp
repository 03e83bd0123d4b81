#include "harness/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <pugixml.hpp>
#include <set>
#include <sstream>

#include "harness/pattern.h"

namespace recapture {
namespace {

std::string broken_on_purpose(const Record& record) { return record.environment.value("break", "nothing"); }

// What a reader wants to know of a test, in a few words.
std::string seen_words(const TestRecord& test) {
  for (const char* key : {"skipped", "inapplicable"}) {
    if (test.has(key)) return test.text(key);
  }
  if (test.has("tries")) {
    const int hits = test.line.at("hits"), tries = test.line.at("tries");
    const auto [low, high] = wilson(hits, tries);
    const auto percent = [](double share) {
      return share < 0.1 ? fmt::format("{:.2g}", 100 * share) : fmt::format("{:.0f}", 100 * share);
    };
    return fmt::format("{} of {} tries, {} to {} %", hits, tries, percent(low), percent(high));
  }
  std::string words = test.text("seen");
  if (test.has("culprit")) {
    const Json& culprit = test.line.at("culprit");
    words += fmt::format(" by {} on the {} thread", culprit.value("api", "?"), culprit.value("thread", "?"));
  }
  if (words.empty() && test.has("assertions")) words = test.line.at("assertions").front();
  if (words.empty() && test.has("last_words")) words = test.text("last_words");
  return words;
}

// The same test again by plain exec, where that was asked for: agreement is needed for any verdict.
bool confirmed(const Record& record, Kind kind, const TestRecord& test, Result result) {
  const auto found = record.confirmations.find(test.id());
  if (found == record.confirmations.end()) return true;
  return std::all_of(found->second.begin(), found->second.end(), [&](const TestRecord& again) {
    return classify(kind, again) == result && (test.has("tries") || again.text("seen") == test.text("seen"));
  });
}

Verdict verdict_when_broken(const std::string& how, Kind kind, Result result, const TestRecord& test) {
  if (kind != (how == "remedy" ? Kind::Fix : Kind::Reproduces)) return Verdict::NotRun;
  if (result == Result::Unavailable) return Verdict::Unavailable;
  if (result == Result::Inapplicable) return Verdict::NotApplicable;
  if (how == "remedy" && !test.has("remedy")) return Verdict::NotApplicable;  // The test says nothing that can go.
  const bool as_it_must = how == "trigger" ? result == Result::Healthy || result == Result::Unseen
                          : how == "value" ? result == Result::Different || result == Result::Invalid
                                           : result == Result::Broken || result == Result::Crashed;
  return as_it_must ? Verdict::AsExpected : Verdict::Changed;
}

bool missing(const Record& record, const Row& row, const TestRecord& test, const Rules& rules) {
  const bool needs_gpu = record.cases.at(row.case_id).needs.find("gpu") != std::string::npos;
  if (rules.require_gpu && needs_gpu && row.result == Result::Unavailable && record.where("gpu").empty()) return true;
  if (row.result == Result::Unavailable && rules.available.count(key_of(record, row.test)) != 0) return true;
  const bool needs_recorder = test.has("raised_by") && row.result == Result::Reproduced;
  return rules.require_recorder && needs_recorder && !test.has("culprit");
}

std::string column_of(const Record& record) {
  const std::string gpu = record.where("gpu");
  return record.where("release") + (gpu.empty() ? ", no GPU" : ", " + gpu);
}

}  // namespace

std::string key_of(const Record& record, const std::string& test) {
  return fmt::format("{}|{}|{}|{}", record.where("release"), record.where("gpu"),
                     record.environment.value("packed", false), test);
}

std::set<std::string> available_in(const std::vector<Record>& records) {
  std::set<std::string> keys;
  for (const Record& record : records) {
    for (const TestRecord& test : record.tests) {
      const Kind kind = kind_of(test.name()).value_or(Kind::Control);
      if (classify(kind, test) != Result::Unavailable) keys.insert(key_of(record, test.id()));
    }
  }
  return keys;
}

std::vector<Row> judge_record(const Record& record, const Rules& rules) {
  std::vector<Row> rows;
  std::vector<std::string> order = record.plan;
  for (const TestRecord& test : record.tests) {
    if (std::find(order.begin(), order.end(), test.id()) == order.end()) order.push_back(test.id());
  }
  std::map<std::string, bool> control_fails;
  for (const std::string& id : order) {
    Row row;
    row.test = id;
    row.case_id = id.substr(0, id.find('.'));
    row.name = id.substr(id.find('.') + 1);
    row.release = record.where("release");
    row.gpu = record.where("gpu");
    row.driver = record.where("driver");
    row.kind = kind_of(row.name).value_or(Kind::Control);
    if (const auto info = record.cases.find(row.case_id); info != record.cases.end()) row.family = info->second.family;
    if (const TestRecord* test = record.find(id)) {
      const std::string how = broken_on_purpose(record);
      row.ran = true;
      row.result = classify(row.kind, *test);
      row.seen = seen_words(*test);
      row.code = test->line.value("error", 0);
      if (test->has("volatile")) row.seconds = test->line.at("volatile").value("seconds", 0.0);
      const Expectation* expected = find_expectation(rules.expectations, id, row.release, row.gpu);
      row.verdict = how == "nothing" ? judge(row.kind, row.result, expected, test->text("seen"))
                                     : verdict_when_broken(how, row.kind, row.result, *test);
      if (missing(record, row, *test, rules)) row.verdict = Verdict::Missing;
      if (!confirmed(record, row.kind, *test, row.result)) row.verdict = Verdict::Inconclusive;
      const auto now = rules.hashes.find(row.case_id);
      const std::string then = record.cases.at(row.case_id).hash;
      if (!rules.hashes.empty() && (now == rules.hashes.end() || now->second != then)) row.verdict = Verdict::Stale;
      if (row.verdict == Verdict::ControlFails) control_fails[row.case_id] = true;
    }
    rows.push_back(row);
  }
  // Where a control does not hold, the other tests of the case mean nothing.
  for (Row& row : rows) {
    const bool green = row.verdict == Verdict::AsDocumented || row.verdict == Verdict::AsExpected ||
                       row.verdict == Verdict::NewlyFixed;
    if (green && control_fails[row.case_id]) row.verdict = Verdict::Inconclusive;
  }
  return rows;
}

std::vector<Verdict> verdicts_of(const std::vector<Row>& rows) {
  std::vector<Verdict> verdicts;
  verdicts.reserve(rows.size());
  for (const Row& row : rows) verdicts.push_back(row.verdict);
  return verdicts;
}

std::string as_line(const Row& row) {
  std::string seen = row.seen.substr(0, row.seen.find('\n'));
  if (seen.size() > 160) seen = seen.substr(0, 157) + "...";
  return fmt::format("{:<62} {:<12} {:<14} {}", row.test, row.ran ? word(row.result) : "-", word(row.verdict), seen);
}

std::string heading(const Record& record) {
  const Json& e = record.environment;
  const std::string gpu = record.where("gpu");
  std::string text = fmt::format("LibTorch {}{}, CUDA runtime {}, {}", record.where("release"),
                                 e.value("packed", false) ? " (packed)" : "", record.where("cuda_runtime"),
                                 gpu.empty() ? "no GPU" : gpu + ", driver " + record.where("driver"));
  const std::string how = broken_on_purpose(record);
  if (how != "nothing") text += ", broken on purpose: " + how;
  text += "\n";
  for (const std::string& note : record.notes) text += "note: " + note + "\n";
  if (!record.end.empty() && record.end != "complete") text += "note: the run ended early: " + record.end + "\n";
  return text;
}

std::string summary(const std::vector<Row>& rows) {
  std::map<Verdict, int> counts;
  std::map<std::string, std::vector<std::string>> reasons;
  for (const Row& row : rows) {
    ++counts[row.verdict];
    if (row.verdict == Verdict::Unavailable || row.verdict == Verdict::Missing ||
        row.verdict == Verdict::NotApplicable) {
      reasons[std::string(word(row.verdict)) + ": " + row.seen].push_back(row.test);
    }
  }
  std::string text;
  for (const auto& [verdict, count] : counts)
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, word(verdict));
  text += "\n";
  for (const auto& [reason, tests] : reasons) {
    text += fmt::format("  {} ({}: {}{})\n", reason, tests.size(), tests.front(), tests.size() > 1 ? ", …" : "");
  }
  return text;
}

std::string observed_tables(const Record& record, const std::vector<Row>& rows) {
  constexpr std::string_view kTable = "table.";
  std::string text, current;
  for (const Row& row : rows) {
    const TestRecord* test = record.find(row.test);
    if (test == nullptr || !test->has("facts") || row.verdict == Verdict::Stale) continue;
    for (const auto& [key, value] : test->line.at("facts").items()) {
      if (key.rfind(kTable, 0) != 0) continue;
      if (row.case_id != current) {
        current = row.case_id;
        text += fmt::format("\n{}: {}\n  {:<48} {}\n", current, record.cases.at(current).title, "the document",
                            record.cases.at(current).documented);
      }
      text += fmt::format("  {:<48} {}\n", key.substr(kTable.size()), value.get<std::string>());
    }
  }
  return text;
}

Json as_json(const std::vector<Row>& rows) {
  Json all = Json::array();
  for (const Row& row : rows) {
    all.push_back({{"case", row.case_id},
                   {"test", row.name},
                   {"release", row.release},
                   {"gpu", row.gpu},
                   {"driver", row.driver},
                   {"result", row.ran ? std::string(word(row.result)) : "not run"},
                   {"verdict", std::string(word(row.verdict))},
                   {"seen", row.seen},
                   {"code", row.code},
                   {"seconds", row.seconds}});
  }
  return all;
}

void write_junit(const std::vector<Row>& rows, const Record& record, const std::string& path) {
  pugi::xml_document document;
  auto suites = document.append_child("testsuites");
  std::map<std::string, pugi::xml_node> by_case;
  std::map<std::string, std::array<int, 4>> counts;  // Tests, failures, errors, skipped.
  std::map<std::string, double> seconds;
  for (const Row& row : rows) {
    auto& suite = by_case[row.case_id];
    if (!suite) {
      suite = suites.append_child("testsuite");
      suite.append_attribute("name") = row.case_id.c_str();
      auto properties = suite.append_child("properties");
      for (const char* key : {"release", "gpu", "driver", "cuda_runtime", "revision"}) {
        auto property = properties.append_child("property");
        property.append_attribute("name") = key;
        property.append_attribute("value") = record.where(key).c_str();
      }
    }
    auto test = suite.append_child("testcase");
    test.append_attribute("classname") = (row.family + "." + row.case_id).c_str();
    test.append_attribute("name") = row.name.c_str();
    test.append_attribute("time") = fmt::format("{:.3f}", row.seconds).c_str();
    auto& count = counts[row.case_id];
    ++count[0];
    seconds[row.case_id] += row.seconds;
    const char* element = nullptr;
    switch (row.verdict) {
      case Verdict::AsDocumented:
      case Verdict::AsExpected:
        break;
      case Verdict::Unavailable:
      case Verdict::NotApplicable:
      case Verdict::NotRun:
        element = "skipped";
        ++count[3];
        break;
      case Verdict::Inconclusive:
      case Verdict::Stale:
      case Verdict::Missing:
        element = "error";
        ++count[2];
        break;
      default:
        element = "failure";
        ++count[1];
    }
    if (element != nullptr) {
      auto child = test.append_child(element);
      const std::string message =
          fmt::format("{}: {} {}", word(row.verdict), row.ran ? word(row.result) : "", row.seen);
      child.append_attribute("message") = message.c_str();
    }
    if (!row.seen.empty()) test.append_child("system-out").text() = row.seen.c_str();
  }
  for (auto& [id, suite] : by_case) {
    const auto& count = counts[id];
    suite.append_attribute("tests") = count[0];
    suite.append_attribute("failures") = count[1];
    suite.append_attribute("errors") = count[2];
    suite.append_attribute("skipped") = count[3];
    suite.append_attribute("time") = fmt::format("{:.3f}", seconds[id]).c_str();
  }
  if (!document.save_file(path.c_str(), "  ")) throw Stop(Exit::Infrastructure, path + ": cannot write it");
}

std::string as_markdown(const std::vector<Record>& records, const Rules& rules) {
  std::vector<std::string> columns;
  std::map<std::string, std::map<std::string, std::vector<Row>>> cells;  // By case, by column.
  std::map<std::string, CaseInfo> cases;
  for (const Record& record : records) {
    if (broken_on_purpose(record) != "nothing") continue;
    const std::string column = column_of(record);
    if (std::find(columns.begin(), columns.end(), column) == columns.end()) columns.push_back(column);
    for (const auto& [id, info] : record.cases) cases[id] = info;
    for (const Row& row : judge_record(record, rules)) {
      auto& cell = cells[row.case_id][column];
      if (!row.ran || row.result == Result::Unavailable) continue;
      // A later record of the same machine stands for what it ran again.
      const auto before = std::find_if(cell.begin(), cell.end(), [&](const Row& r) { return r.test == row.test; });
      if (before == cell.end()) {
        cell.push_back(row);
      } else if (row.verdict != Verdict::Stale) {
        *before = row;
      }
    }
  }
  std::sort(columns.begin(), columns.end(), [](const std::string& a, const std::string& b) { return older(a, b); });
  std::vector<std::string> order;
  order.reserve(cases.size());
  for (const auto& [id, info] : cases) order.push_back(id);
  std::stable_sort(order.begin(), order.end(),
                   [&](const auto& a, const auto& b) { return cases[a].family < cases[b].family; });
  std::string text = "| case | what happens |";
  std::string rule = "\n| --- | --- |";
  for (const std::string& column : columns) {
    text += " " + column + " |";
    rule += " --- |";
  }
  text += rule + "\n";
  for (const std::string& id : order) {
    text += fmt::format("| [{}](cases/{}/{}.cpp) | {} |", id, cases[id].family, id, cases[id].title);
    for (const std::string& column : columns) {
      std::vector<std::string> words;  // Each word once, in the tests' order.
      int fixes = 0, holding = 0;
      bool stale = false;
      for (const Row& row : cells[id][column]) {
        stale = stale || row.verdict == Verdict::Stale;
        if (row.kind == Kind::Reproduces) {
          const std::string found(word(row.result));
          if (std::find(words.begin(), words.end(), found) == words.end()) words.push_back(found);
        } else if (row.kind == Kind::Fix && row.result != Result::Inapplicable) {
          ++fixes;
          holding += row.result == Result::Holds ? 1 : 0;
        }
      }
      std::string cell;
      for (const std::string& found : words) cell += (cell.empty() ? "" : ", ") + found;
      if (fixes > 0) cell += fmt::format("; {} of {} fixes hold", holding, fixes);
      if (stale) cell = "stale";
      text += " " + cell + " |";
    }
    text += "\n";
  }
  return text;
}

std::vector<std::string> expectation_errors(const std::vector<Expectation>& all, const std::vector<Release>& matrix,
                                            const std::vector<Record>& records) {
  std::vector<std::string> errors;
  std::set<std::string> known;
  for (const Record& record : records) {
    for (const auto& [id, info] : record.cases) {
      for (const std::string& test : info.tests) known.insert(fmt::format("{}.{}", id, test));
    }
  }
  for (size_t i = 0; i < all.size(); ++i) {
    const Expectation& e = all[i];
    if (known.count(e.test) == 0) errors.push_back(e.place + ": no record knows the test " + e.test);
    const bool somewhere =
        std::any_of(matrix.begin(), matrix.end(), [&](const Release& r) { return satisfies(r.version, e.release); });
    if (!somewhere) errors.push_back(e.place + ": unused: no release of the matrix is " + e.release);
    for (size_t j = 0; j < i; ++j) {
      const Expectation& other = all[j];
      const bool both = other.test == e.test && std::any_of(matrix.begin(), matrix.end(), [&](const Release& r) {
                          return satisfies(r.version, e.release) && satisfies(r.version, other.release) &&
                                 (e.gpu.empty() || other.gpu.empty() || e.gpu == other.gpu);
                        });
      if (both) errors.push_back(e.place + ": shadowed by " + other.place + ": both can apply to " + e.test);
    }
    for (const std::string& name : e.records) {
      const auto record = std::find_if(records.begin(), records.end(), [&](const Record& r) {
        return std::filesystem::path(r.path).filename() == name;
      });
      if (record == records.end()) {
        errors.push_back(e.place + ": there is no record " + name);
        continue;
      }
      const TestRecord* test = record->find(e.test);
      const Kind kind = kind_of(e.test.substr(e.test.find('.') + 1)).value_or(Kind::Control);
      if (test == nullptr || !e.applies(record->where("release"), record->where("gpu")) ||
          judge(kind, classify(kind, *test), &e, test->text("seen")) != Verdict::AsExpected) {
        errors.push_back(e.place + ": unused: " + name + " does not show it");
      } else if (e.source.rfind("open question", 0) == 0 &&
                 (record->confirmations.count(e.test) == 0 || record->confirmations.at(e.test).size() < 2)) {
        errors.push_back(e.place + ": an open question needs two confirmations by plain exec in " + name);
      }
    }
  }
  return errors;
}

std::vector<std::string> loose_signatures(const std::vector<Record>& records,
                                          const std::map<std::string, std::string>& hashes) {
  struct Observed {
    const TestRecord* test;
    std::string whole;  // Everything that tells failures apart.
  };
  std::vector<Observed> reproduced, all;
  for (const Record& record : records) {
    if (broken_on_purpose(record) != "nothing") continue;
    for (const TestRecord& test : record.tests) {
      if (kind_of(test.name()) != Kind::Reproduces || !test.has("seen")) continue;
      const auto now = hashes.find(test.case_id());
      if (!hashes.empty() && (now == hashes.end() || now->second != record.cases.at(test.case_id()).hash)) continue;
      const std::string api = test.has("culprit") ? test.line.at("culprit").value("api", "") : "";
      const Observed seen{&test, test.text("seen") + " by " + api};
      all.push_back(seen);
      if (classify(Kind::Reproduces, test) == Result::Reproduced) reproduced.push_back(seen);
    }
  }
  std::map<std::string, std::set<std::string>>
      own;  // What each test itself shows, on any release: never foreign to it.
  for (const Observed& mine : reproduced) own[mine.test->id()].insert(mine.test->text("seen"));
  std::set<std::string> errors;
  for (const Observed& mine : reproduced) {
    for (const Observed& other : all) {
      if (mine.test->case_id() == other.test->case_id() || mine.whole == other.whole) continue;
      const bool call_fits = !mine.test->has("raised_by") || !other.test->has("culprit") ||
                             matches(mine.test->text("raised_by"), other.test->line.at("culprit").value("api", ""));
      const bool same_words = own[mine.test->id()].count(other.test->text("seen")) != 0;
      if (!same_words && call_fits && matches(mine.test->text("documented"), other.test->text("seen"))) {
        errors.insert(fmt::format("{} documents '{}', which also takes {}'s '{}'", mine.test->id(),
                                  mine.test->text("documented"), other.test->id(), other.test->text("seen")));
      }
    }
  }
  return {errors.begin(), errors.end()};
}

}  // namespace recapture
