// The record of a run: what was observed, and where. One file a run, one JSON object a line, written line by line:
//
//   {"recapture":2, …}        the environment
//   {"plan":["item_in_capture.Control", …]}    of a shard also "whole": the plan of all shards
//   {"case":"item_in_capture","hash":…, …}     before its first test
//   {"test":"item_in_capture.Control", …}      one a test, as they end
//   {"end":"complete", …}
//
// A record holds no verdict. Members that differ between runs without meaning (times) are in "volatile", last in the
// line.
#pragma once
#include <array>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "harness/base/json.h"
#include "harness/case/types.h"
#include "harness/model/environment.h"

namespace recapture {

inline constexpr int kRecordFormat = 2;  // The format written. Format 1 can be read.

// A case's description.
struct CaseInfo {
  std::string id, family, hash, title, documented;
  Nature nature = Nature::Defect;
  Fidelity fidelity = Fidelity::Modelled;
  Needs needs;
  Json sources = Json::array();
  int deadline_s = 60;
  std::optional<Effect> effect;  // Records of format 1 have none.
  StoppingRule stopping = StoppingRule::None;
  std::vector<std::pair<std::string, Effect>> effects;     // Of tests with another effect,
  std::vector<std::pair<std::string, std::string>> fixes;  // and a sentence for each fix: by test, in the case's order.
  std::vector<std::string> tests;                          // Names without the case, in the file's order.

  // What the documented outcome of a test does to a program.
  std::optional<Effect> effect_of(std::string_view test) const;

  static CaseInfo from(Json json);
  Json to_json() const;
};

// A test's id is its case and its name: "item_in_capture.Reproduces".
inline std::string case_of(const std::string& test_id) { return test_id.substr(0, test_id.find('.')); }
inline std::string name_of(const std::string& test_id) { return test_id.substr(test_id.find('.') + 1); }
Kind kind_of_id(std::string_view test_id);

// The reason why a planned test that no binary contains did not start.
inline constexpr const char* kNotBuilt = "not built";

// How the process of a test ended.
enum class Ending { Exited, Signal, Deadline, NotStarted, Unknown };
inline constexpr std::array<std::string_view, 5> kEndings = {"exited", "signal", "deadline", "not started", "unknown"};
inline std::string_view to_string(Ending ending) { return kEndings[static_cast<size_t>(ending)]; }

enum class SkipReason {
  None,   // It was not skipped.
  NoGpu,  // The driver reported none, whether the machine has one or not.
  NotBuilt,
  Other,
};

// What a probe found in the process after a failure.
enum class ProbeOutcome { Fine, KeepsMemory, Unusable, Lost };  // Lost: the process hung or crashed.
ProbeOutcome read_probe(std::string_view probe, std::string_view text);

// The prefix of the last line of a stub of tools/pack, "left out of this pack: libcufft.so.11 (cufftPlan1d)". A test's
// line stores the line as "stub".
inline constexpr std::string_view kLeftOut = "left out of this pack: ";

// The loader's message about a function missing from a library that a run chose; "" if the output has no such line. A
// test's line stores it as "lacks". For example "libtorch_cuda.so: undefined symbol: cudaGraphAddNode_v2, version
// libcudart.so.12"; for NCCL, without a version.
std::string missing_symbol(std::string_view output);

// The maximal length of a text in bytes: endless output of a test must not fill the record. A writer truncates at a
// third of that, since a byte that is not UTF-8 is written as three.
inline constexpr size_t kLongestText = 16384;

// The line with its texts truncated.
Json truncate_texts(Json line);

// One test's line. Absent members read as "", 0 or false.
class TestRecord {
 public:
  TestRecord() = default;
  TestRecord(const Json& line);  // Not explicit: a line of a record is a test's.
  // `owner` keeps the line's text.
  static TestRecord of(std::shared_ptr<const void> owner, JsonObject line);

  Json json() const { return parse_json(line_.text()); }
  const std::string& id() const { return id_; }
  std::string case_id() const { return case_of(id_); }
  std::string name() const { return name_of(id_); }
  Ending ending() const;
  int code() const { return number("code").value_or(0); }    // The exit status, or the signal's number.
  int error() const { return number("error").value_or(0); }  // CUDA's number of the first failure.
  double seconds() const { return seconds_; }
  // "api", "thread", "mode".
  std::string culprit(std::string_view member) const { return line_.object("culprit").text(member); }
  std::string text(std::string_view key) const { return line_.text(key); }
  std::optional<int> number(std::string_view key) const { return line_.number(key); }
  bool has(std::string_view key) const { return line_.has(key); }
  Json part(std::string_view key) const { return line_.part(key); }  // Null if it is absent.
  JsonObject object(std::string_view key) const { return line_.object(key); }
  bool mentions(std::string_view words) const { return line_.text().find(words) != std::string_view::npos; }
  Json tables() const;  // An object of the facts that are rows of a table.
  // What a Reproduces test observed; "" if it has no observation.
  std::string seen() const;
  bool has_seen() const;
  // Of a race: hits in a number of tries. 0 if a member is absent or is no number.
  bool has_rate() const;
  int hits() const;
  int tries() const;
  SkipReason skip_reason() const;
  // The Python module that the test failed to import, such as "numpy", if it is not part of LibTorch; else "". A
  // missing module of torch itself is a property of the release.
  std::string missing_module() const;

 private:
  std::shared_ptr<const void> owner_;
  JsonObject line_;
  std::string id_;
  double seconds_ = 0;
};

struct Record {
  std::string path;
  Environment environment;
  std::vector<std::string> plan;
  std::vector<std::string> whole_plan;  // Of all shards of the run; empty if it equals the plan.
  std::map<std::string, CaseInfo> cases;
  std::vector<TestRecord> tests;                                 // In the order written.
  std::map<std::string, std::vector<TestRecord>> confirmations;  // Repetitions of a test, by plain exec.
  std::string end;                 // "complete", or why not; "" if the run did not end normally.
  std::vector<std::string> notes;  // For the reader: cut short, last line incomplete.

  // True if the run ended normally and is not one shard of several.
  bool is_complete() const;

  // Whether each planned test has a line.
  bool has_all() const;

  // One shard of several, each with its own record: "2/4".
  bool is_shard() const;

  void add(TestRecord test);
  const TestRecord* find(const std::string& test) const;

  // A member of the environment, escaped; "" if absent or not a string.
  std::string env(const std::string& key) const;
  // The environment in short: "2.11.0, NVIDIA H200", with the axis, if there is one.
  std::string machine() const;
  // 1 or 2. A record of format 1 lacks what the environment and the cases say only since, and its hashes are of the
  // case's source alone.
  int format() const { return environment.format; }
  Break broken() const { return environment.broken; }

 private:
  std::unordered_map<std::string, size_t> index_;
};

// The hash of the code that a test ran: that of its program in Python, which is in the test's own line, or that of its
// case. "" if it is not on record.
std::string code_of(const Record& record, const std::string& test_id);

// Reads a record. Throws ExitError(Usage) with file and line if it is not one; an incomplete last line is a note, not
// an error.
Record read_record(const std::string& path);

// The same for some cases only: without the lines of other cases and of their tests.
Record read_cases(const std::string& path, const std::set<std::string>& cases);

// All records below a folder, sorted by path.
std::vector<std::string> records_below(const std::string& folder);
std::vector<Record> read_records_below(const std::string& folder);

// The same without other tests' lines, and without notes on missing tests.
Record read_tests(const std::string& path, const std::set<std::string>& tests);

// For all records below a folder: environments, plans, cases, and the tests that have a rate.
std::vector<Record> read_rates_below(const std::string& folder);

// Whether the name is a record's: "a.jsonl", or packed by gzip "a.jsonl.gz".
bool is_record_name(const std::string& path);

}  // namespace recapture
