#include "harness/record.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace recapture {
namespace {

std::string contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text(std::istreambuf_iterator<char>(file), {});
  if (!file.good() && !file.eof()) {
    throw Stop(Exit::Usage, fmt::format("{}: cannot read it: {}", path, std::strerror(errno)));
  }
  return text;
}

void take_line(Record& record, const Json& line) {
  if (line.contains("recapture")) {
    record.environment = line;
  } else if (line.contains("plan")) {
    for (const auto& test : line.at("plan")) record.plan.push_back(test);
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
      record.tests.push_back(test);
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
  info.needs = json.at("needs");
  info.sources = json.at("sources");
  info.deadline_s = json.at("deadline_s");
  for (const auto& test : json.at("tests")) info.tests.push_back(test);
  return info;
}

Json CaseInfo::to_json() const {
  return Json{{"case", id},         {"family", family},         {"hash", hash},     {"title", title},
              {"sources", sources}, {"documented", documented}, {"nature", nature}, {"fidelity", fidelity},
              {"needs", needs},     {"deadline_s", deadline_s}, {"tests", tests}};
}

const TestRecord* Record::find(const std::string& test) const {
  const auto found = std::find_if(tests.begin(), tests.end(), [&](const TestRecord& t) { return t.id() == test; });
  return found == tests.end() ? nullptr : &*found;
}

Record read_record(const std::string& path) {
  Record record;
  record.path = path;
  const std::string text = contents(path);
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

void merge_records(const std::vector<std::string>& parts, const std::string& out) {
  std::vector<Record> records;
  records.reserve(parts.size());
  for (const std::string& path : parts) records.push_back(read_record(path));
  const auto identity = [](Json environment) {
    environment.erase("volatile");
    environment.erase("shard");
    return environment;
  };
  Record whole;
  for (const Record& part : records) {
    if (identity(part.environment) != identity(records.front().environment)) {
      throw Stop(Exit::Usage, part.path + ": its environment is not that of " + records.front().path +
                                  "; only shards of one run can be merged");
    }
    whole.plan.insert(whole.plan.end(), part.plan.begin(), part.plan.end());
    for (const TestRecord& test : part.tests) {
      if (whole.find(test.id()) != nullptr) {
        throw Stop(Exit::Usage, part.path + ": " + test.id() + " is in another of the records too");
      }
      whole.tests.push_back(test);
    }
    whole.cases.insert(part.cases.begin(), part.cases.end());
    whole.confirmations.insert(part.confirmations.begin(), part.confirmations.end());
    if (part.end != "complete" && whole.end.empty()) whole.end = part.end.empty() ? "cut short" : part.end;
  }
  const auto by_case = [](const std::string& a, const std::string& b) {
    return a.substr(0, a.find('.')) < b.substr(0, b.find('.'));
  };
  std::stable_sort(whole.plan.begin(), whole.plan.end(), by_case);
  std::stable_sort(whole.tests.begin(), whole.tests.end(),
                   [&](const TestRecord& a, const TestRecord& b) { return by_case(a.id(), b.id()); });
  RecordWriter writer = RecordWriter::create(out);
  Json environment = records.front().environment;
  environment.erase("shard");
  writer.write(environment);
  writer.write({{"plan", whole.plan}});
  std::string previous;
  for (const TestRecord& test : whole.tests) {
    if (test.case_id() != previous) writer.write(whole.cases.at(previous = test.case_id()).to_json());
    writer.write(test.line);
    for (const TestRecord& again : whole.confirmations[test.id()]) writer.write(again.line);
  }
  writer.write({{"end", whole.end.empty() ? "complete" : whole.end}});
}

RecordWriter::RecordWriter(int fd, std::string path) : fd_(fd), path_(std::move(path)) {}
RecordWriter::RecordWriter(RecordWriter&& other) noexcept : fd_(other.fd_), path_(std::move(other.path_)) {
  other.fd_ = -1;
}
RecordWriter::~RecordWriter() {
  if (fd_ >= 0) close(fd_);
}

RecordWriter RecordWriter::create(const std::string& path) {
  const auto folder = std::filesystem::path(path).parent_path();
  std::error_code error;
  if (!folder.empty()) std::filesystem::create_directories(folder, error);
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0644);
  if (fd < 0) {
    throw Stop(errno == EEXIST ? Exit::Usage : Exit::Infrastructure,
               fmt::format("{}: cannot make this record: {}{}", path, std::strerror(errno),
                           errno == EEXIST ? "; --resume goes on with it, --record names another" : ""));
  }
  return {fd, path};
}

RecordWriter RecordWriter::append(const std::string& path) {
  const std::string text = contents(path);
  const int fd = open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  const size_t whole = text.rfind('\n') == std::string::npos ? 0 : text.rfind('\n') + 1;
  if (fd < 0 || (whole != text.size() && ftruncate(fd, static_cast<off_t>(whole)) != 0)) {
    throw Stop(Exit::Infrastructure, fmt::format("{}: cannot go on with it: {}", path, std::strerror(errno)));
  }
  return {fd, path};
}

void RecordWriter::write(const Json& line) {
  const std::string text = line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  const off_t before = lseek(fd_, 0, SEEK_END);
  size_t done = 0;
  int error = 0;
  while (done < text.size() && error == 0) {
    const ssize_t put = ::write(fd_, text.data() + done, text.size() - done);
    if (put >= 0) {
      done += static_cast<size_t>(put);
    } else if (errno != EINTR) {
      error = errno;
    }
  }
  if (error == 0 && fdatasync(fd_) != 0 && errno != EINVAL && errno != EROFS) error = errno;
  if (error == 0) return;
  [[maybe_unused]] const int cut = ftruncate(fd_, before);  // Rather no line than half a line.
  throw Stop(
      Exit::Infrastructure,
      fmt::format("{}: cannot write: {}; what ran before is recorded, `--resume` runs the rest once there is room",
                  path_, std::strerror(error)));
}

}  // namespace recapture
