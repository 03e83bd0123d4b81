#include "harness/record/record.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "harness/case/source_hash.h"
#include "harness/record/exit.h"
#include "harness/record/file.h"

namespace recapture {
namespace {

void take_line(Record& record, const Json& line) {
  if (line.contains("recapture")) {
    const Json& format = line.at("recapture");
    if (!format.is_number_integer() || format < 1 || format > kRecordFormat) {
      throw std::runtime_error(fmt::format("its format is {}, and this program reads 1 to {}; a newer one reads it",
                                           format.dump(), kRecordFormat));
    }
    record.environment = line;
  } else if (line.contains("plan")) {
    for (const auto& test : line.at("plan")) record.plan.push_back(test);
    for (const auto& test : line.value("whole", Json::array())) record.whole_plan.push_back(test);
  } else if (line.contains("case")) {
    const CaseInfo info = CaseInfo::from(line);
    record.cases[info.id] = info;
  } else if (line.contains("test")) {
    const TestRecord test{line};
    if (test.id().find('.') == std::string::npos) throw std::runtime_error("a test without a case");
    if (record.cases.count(test.case_id()) == 0) throw std::runtime_error("a test before its case");
    if (line.contains("confirms")) {
      record.confirmations[test.id()].push_back(test);
    } else if (record.find(test.id()) != nullptr) {
      throw std::runtime_error("the same test twice");
    } else {
      record.add(test);
    }
  } else if (line.contains("end")) {
    record.end = line.at("end");
  } else if (!line.contains("resumed")) {
    throw std::runtime_error("a line of no known kind");
  }
}

}  // namespace

CaseInfo CaseInfo::from(const Json& json) {
  CaseInfo info;
  info.id = json.value("case", "");
  info.family = json.value("family", "");
  info.hash = json.at("hash");
  info.title = json.at("title");
  info.documented = json.at("documented");
  info.nature = json.at("nature");
  info.fidelity = json.at("fidelity");
  info.needs_words = json.at("needs");
  const auto needs = Needs::read(info.needs_words);
  if (!needs) throw std::runtime_error(fmt::format("a case that needs '{}', which is not known", info.needs_words));
  info.needs = *needs;
  info.sources = json.at("sources");
  info.deadline_s = json.at("deadline_s");
  info.effect = json.value("effect", "");
  info.stopping = json.value("stopping", "");
  info.effects = json.value("effects", Json::object());
  info.fixes = json.value("fixes", Json::object());
  for (const auto& test : json.at("tests")) info.tests.push_back(test);
  return info;
}

Json CaseInfo::to_json() const {
  return Json{{"case", id},           {"family", family},         {"hash", hash},     {"title", title},
              {"sources", sources},   {"documented", documented}, {"nature", nature}, {"fidelity", fidelity},
              {"needs", needs_words}, {"deadline_s", deadline_s}, {"effect", effect}, {"effects", effects},
              {"fixes", fixes},       {"stopping", stopping},     {"tests", tests}};
}

void Record::add(TestRecord test) {
  index_.emplace(test.id(), tests.size());
  tests.push_back(std::move(test));
}

const TestRecord* Record::find(const std::string& test) const {
  const auto found = index_.find(test);
  return found == index_.end() ? nullptr : &tests[found->second];
}

std::string Record::where(const std::string& key) const {
  return environment.contains(key) && environment.at(key).is_string() ? environment.at(key).get<std::string>() : "";
}

std::string Record::machine() const {
  const std::string gpu = where("gpu");
  const std::string axis = axis_of(environment);
  return where("release") + (gpu.empty() ? ", no GPU" : ", " + gpu) + (axis.empty() ? "" : ", " + axis);
}

Record read_record(const std::string& path) {
  Record record;
  record.path = path;
  const std::string text = contents_of(path);
  int number = 0;
  for (size_t at = 0; at < text.size();) {
    size_t end = text.find('\n', at);
    ++number;
    if (end == std::string::npos) {
      record.notes.push_back(fmt::format("line {} is cut: the run was stopped while it wrote it", number));
      break;
    }
    try {
      take_line(record, Json::parse(text.substr(at, end - at)));
    } catch (const std::exception& e) {
      throw Stop(Exit::Usage, fmt::format("{}:{}: not a line of a record: {}", path, number, e.what()));
    }
    if (number == 1 && record.environment.is_null()) {
      throw Stop(Exit::Usage, path + ":1: not a record: the first line is not an environment");
    }
    at = end + 1;
  }
  if (record.environment.is_null()) throw Stop(Exit::Usage, path + ": not a record: it is empty");
  if (record.end.empty()) {
    const auto lost = std::find_if(record.plan.begin(), record.plan.end(),
                                   [&](const std::string& test) { return record.find(test) == nullptr; });
    record.notes.push_back(lost == record.plan.end()
                               ? "the run did not come to its end"
                               : "the run did not come to its end; lost in flight or not run from " + *lost +
                                     " on. `recapture run --resume` runs the rest");
  }
  return record;
}

std::vector<std::string> records_below(const std::string& folder) {
  std::vector<std::string> paths;
  if (std::filesystem::is_directory(folder)) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
      if (entry.path().extension() == ".jsonl") paths.push_back(entry.path().string());
    }
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

std::vector<Record> read_records_below(const std::string& folder) {
  std::vector<Record> records;
  for (const std::string& path : records_below(folder)) records.push_back(read_record(path));
  return records;
}

std::string axis_of(const Json& environment) {
  const auto env = environment.find("env");
  std::string axis;
  if (env == environment.end() || !env->is_object()) return axis;
  for (const auto& [name, value] : env->items()) {
    axis += (axis.empty() ? "" : ", ") + name + "=" + (value.is_string() ? value.get<std::string>() : value.dump());
  }
  return axis;
}

std::string report_path(const Json& environment) {
  std::string machine = environment.value("gpu", "");
  for (char& c : machine) c = c == ' ' ? '-' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  if (machine.empty()) machine = "host";
  if (const std::string axis = axis_of(environment); !axis.empty()) {
    machine += ".";
    for (char c : axis.substr(0, 60)) machine += std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '-';
    machine += "-" + hash_of(axis).substr(0, 4);
  }
  const std::string broken = environment.value("break", "nothing");
  return fmt::format("{}/{}{}.jsonl", environment.value("release", ""), machine,
                     broken == word(Break::Nothing) ? "" : "." + broken);
}

}  // namespace recapture
