// The record of a run: what was observed, and where. One file a run, one JSON object a line, written line by line:
//
//   {"recapture":1, …}        the environment
//   {"plan":["item_in_capture.Control", …]}
//   {"case":"item_in_capture","hash":…, …}     before its first test
//   {"test":"item_in_capture.Control", …}      one a test, in the plan's order
//   {"end":"complete", …}
//
// A record holds no verdict. What differs from run to run for no reason (times) stands in "volatile", last in its line.
#pragma once
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

namespace recapture {

using Json = nlohmann::ordered_json;

// Every way in which the program ends; README lists them too. Numbers are what scripts and schedulers see.
enum class Exit {
  AsExpected = 0,
  Changed = 1,     // A failure appeared, vanished where it was expected, or differs; a control or a fix does not hold.
  Usage = 2,       // Wrong usage, unknown name, malformed input.
  TimingOnly = 3,  // Only a time changed.
  NothingRan = 4,
  NewlyFixed = 5,    // A documented failure did not occur, and nobody expected that.
  Inconclusive = 6,  // A test could not judge; a record is stale or cut short.
  Infrastructure =
      7,         // No GPU where one was demanded, a GPU that answers no more, no LibTorch, disk full, no permission.
  Skipped = 77,  // A case by hand, where nothing that it needs is there.
  Interrupted = 130,
};

// An end of the program that is no finding: one line for the user, and the exit code.
class Stop : public std::runtime_error {
 public:
  Stop(Exit code, const std::string& message) : std::runtime_error(message), code(code) {}
  Exit code;
};

struct CaseInfo {
  std::string id, family, hash, title, documented, nature, fidelity, needs;
  Json sources = Json::array();
  int deadline_s = 60;
  std::vector<std::string> tests;  // Names without the case, in the file's order.

  static CaseInfo from(const Json& json);
  Json to_json() const;
};

// One test's line. The accessors give "" or an empty object for what is absent.
struct TestRecord {
  Json line;
  std::string id() const { return line.at("test"); }
  std::string case_id() const { return id().substr(0, id().find('.')); }
  std::string name() const { return id().substr(id().find('.') + 1); }
  std::string text(const std::string& key) const { return line.contains(key) ? line.at(key).get<std::string>() : ""; }
  bool has(const std::string& key) const { return line.contains(key); }
};

struct Record {
  std::string path;
  Json environment;
  std::vector<std::string> plan;
  std::map<std::string, CaseInfo> cases;
  std::vector<TestRecord> tests;
  std::map<std::string, std::vector<TestRecord>> confirmations;  // The same test again, by plain exec.
  std::string end;                                               // "", if the run did not come to its end.
  std::vector<std::string> notes;  // What the reader should know: cut short, last line incomplete.

  std::string where(const std::string& key) const {
    return environment.contains(key) && environment.at(key).is_string() ? environment.at(key).get<std::string>() : "";
  }
  const TestRecord* find(const std::string& test) const;
};

// Reads a record. Throws Stop(Usage) naming file and line where it is not one; a cut last line is a note, not an error.
Record read_record(const std::string& path);

// All records below a folder, sorted by path.
std::vector<std::string> records_below(const std::string& folder);

// Records of shards of one run as one. Throws Stop(Usage) if they do not belong together.
void merge_records(const std::vector<std::string>& parts, const std::string& out);

// Appends lines, each whole and on the disk before the call returns. Throws Stop(Infrastructure) if it can't, with what
// was written before left whole.
class RecordWriter {
 public:
  static RecordWriter create(const std::string& path);  // Refuses to overwrite.
  static RecordWriter append(const std::string& path);  // Drops a last line that was cut.
  RecordWriter(RecordWriter&& other) noexcept;
  ~RecordWriter();
  RecordWriter(const RecordWriter&) = delete;
  RecordWriter& operator=(const RecordWriter&) = delete;
  void write(const Json& line);

 private:
  RecordWriter(int fd, std::string path);
  int fd_;
  std::string path_;
};

}  // namespace recapture
