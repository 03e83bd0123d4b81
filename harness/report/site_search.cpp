#include "harness/report/site_search.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <set>

#include "harness/base/escape.h"
#include "harness/base/exit.h"
#include "harness/base/file.h"
#include "harness/base/lines.h"
#include "harness/base/text.h"
#include "harness/case/cuda_errors.h"
#include "harness/explain/explain.h"
#include "harness/model/release.h"
#include "harness/report/operators.h"

namespace recapture::report {
namespace {

namespace fs = std::filesystem;
using explain::Cause;
using explain::Explanation;

constexpr int kFirstCaptureError = 900, kLastCaptureError = 910;

// The part of a cue that a text must have: "Triton Error + is capturing" has two.
std::string as_text(std::string cue) {
  for (size_t at = 0; (at = cue.find(" + ", at)) != std::string::npos;) cue.replace(at, 3, " ");
  cue.erase(std::remove(cue.begin(), cue.end(), '*'), cue.end());
  return cue;
}

std::string sentence(std::string text) {
  if (text.empty()) return text;
  text.front() = static_cast<char>(std::toupper(static_cast<unsigned char>(text.front())));
  return text.back() == '.' ? text : text + ".";
}

// The answer to the first of a cause's texts that `recapture explain` puts down to it; "" if there is none.
std::string answer_of(const Cause& cause, const std::vector<Cause>& causes) {
  for (const std::string& cue : cause.says) {
    const Explanation found = find_causes(explain::parse_error_text(as_text(cue)), causes);
    if (!found.causes.empty() && found.causes.front().id == cause.id) return sentence(found.summary);
  }
  return "";
}

bool is_victim(const explain::Found& found, const std::vector<Cause>& causes) {
  const auto is_its = [&](const Cause& cause) { return cause.id == found.id && cause.victim; };
  return found.role == explain::Role::Victim || std::ranges::any_of(causes, is_its);
}

Json errors(const SearchInput& input) {
  Json all = Json::array();
  for (const CudaError& error : kCudaErrors) {
    if (error.code < kFirstCaptureError || error.code > kLastCaptureError) continue;
    const Explanation found =
        find_causes(explain::parse_error_text(fmt::format("CUDA error: {}", error.text)), input.causes);
    // A cause without weight is the error's own case: its text names no cause.
    const bool has_cause = !found.causes.empty() && found.causes.front().weight > 0;
    const bool follows = !found.causes.empty() && !has_cause && is_victim(found.causes.front(), input.causes);
    std::string shown_by, answer = sentence(found.summary);
    for (const CatalogueCase& one : input.catalogue) {
      if (one.id.starts_with(fmt::format("e{}_", error.code))) shown_by = one.id;
    }
    if (follows) answer = sentence(found.causes.front().title) + " " + answer;
    all.push_back({error.code, error.name, error.text, answer, has_cause ? found.causes.front().id : "",
                   follows ? found.causes.front().id : shown_by, follows});
  }
  return all;
}

const std::string* first_fix(const Cause& cause, const timeline::FailureRow* row) {
  if (row != nullptr) {
    if (const CatalogueTest* fix = row->instead(); fix != nullptr && !fix->fix.empty()) return &fix->fix;
  }
  return cause.fixes.empty() ? nullptr : &cause.fixes.front();
}

Json causes(const SearchInput& input, bool is_single) {
  std::map<std::string, const timeline::FailureRow*> rows;
  for (const timeline::FailureRow& row : input.failures.rows) rows.emplace(row.what->id, &row);
  Json all = Json::array();
  for (const Cause& cause : input.causes) {
    const auto row = rows.find(cause.id);
    if (cause.has_case && row == rows.end()) continue;                       // A model of ours.
    if (cause.alone && cause.says.empty() && cause.names.empty()) continue;  // It is among the errors.
    Json one = {{"id", cause.id}, {"title", cause.title}, {"url", url_of_failure(cause.id, is_single)}};
    if (!cause.has_case) one["no_case"] = true;
    if (cause.only_possible) one["only_possible"] = true;
    if (cause.victim) one["victim"] = true;
    if (const size_t met = input.met.of(cause.id); met > 0) one["met"] = met;
    for (const auto& [key, words] : {std::pair("says", &cause.says), std::pair("names", &cause.names),
                                     std::pair("calls", &cause.calls), std::pair("also", &cause.also)}) {
      if (!words->empty()) one[key] = *words;
    }
    if (!cause.codes.empty()) one["codes"] = cause.codes;
    for (const auto& statement : cause.statements) one["statements"].push_back(statement->pattern());
    for (const auto& symptom : cause.symptoms) one["symptoms"].push_back(symptom->pattern());
    if (const std::string answer = answer_of(cause, input.causes); !answer.empty()) one["answer"] = answer;
    if (const std::string* fix = first_fix(cause, cause.has_case ? row->second : nullptr)) one["fix"] = *fix;
    std::string terms;
    for (const auto& [term, weight] : cause.terms)
      terms += fmt::format("{}{}:{}", terms.empty() ? "" : " ", term, weight);
    if (!terms.empty()) one["terms"] = terms;
    all.push_back(std::move(one));
  }
  return all;
}

Json operators(const timeline::OperatorTable& table) {
  Json all = Json::array();
  for (const timeline::OperatorRow& row : table.rows) {
    const OperatorView view = view_of(table, row);
    std::string course = render_text(row);  // Its first line is "torch.linalg.inv: refused in …".
    course = course.substr(0, course.find('\n'));
    if (const size_t colon = course.find(": "); colon != std::string::npos) course.erase(0, colon + 2);
    all.push_back({row.what.call, row.what.name, escape_control(course), view.instead.empty() ? view.why : view.instead,
                   later_line(row)});
  }
  return all;
}

Json machines(const SearchInput& input) {
  std::set<std::string> gpus, drivers, nightlies;
  std::string newest;
  for (const JudgedRun& run : input.matrix.records()) {
    const Record& record = run.record;
    newest = std::max(newest, record.environment.started);
    if (record.env("release").find(".dev") != std::string::npos) nightlies.insert(record.env("release"));
    if (record.env("gpu").empty()) continue;
    gpus.insert(record.env("gpu"));
    drivers.insert(record.env("driver"));
  }
  return {{"gpus", gpus}, {"drivers", drivers}, {"nightlies", nightlies}, {"newest", newest.substr(0, 10)}};
}

}  // namespace

size_t Met::of(const std::string& cause) const {
  const auto found = causes.find(cause);
  return found == causes.end() ? 0 : found->second;
}

Met read_met(const std::string& root) {
  const std::string path = root + "/cases/met.tsv";
  Met met;
  if (std::error_code error; !fs::is_regular_file(path, error)) return met;
  size_t number = 0;
  for (const std::string& line : lines_in(contents_of(path))) {
    ++number;
    if (line.empty() || line.front() == '#') continue;
    const size_t tab = line.find('\t');
    size_t count = 0;
    const char* end = line.data() + line.size();
    if (tab == std::string::npos || tab == 0 || std::from_chars(line.data() + tab + 1, end, count).ptr != end) {
      throw ExitError(Exit::Usage,
                      fmt::format("{}:{}: it is not a cause with a count; tools/met writes the file", path, number));
    }
    const std::string cause = line.substr(0, tab);
    (cause == "all threads" ? met.threads : cause == "with a cause" ? met.with_cause : met.causes[cause]) = count;
  }
  return met;
}

std::string url_of_failure(const std::string& id, bool is_single) {
  return is_single ? "#failure-" + id : "failures/" + id + ".html";
}

Json search_data(const SearchInput& input, bool is_single) {
  Json columns = Json::array();
  for (const timeline::FailureColumn& column : input.failures.columns)
    columns.push_back({column.release, column.detail});
  Json endings = Json::array();
  for (const std::string_view ending : explain::word_endings()) endings.push_back(ending);
  return {{"errors", errors(input)},
          {"endings", endings},
          {"causes", causes(input, is_single)},
          {"operators", operators(input.operators)},
          {"columns", columns},
          {"machines", machines(input)}};
}

}  // namespace recapture::report
