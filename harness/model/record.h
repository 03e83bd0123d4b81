// The record of a run: what was observed, and where. One file a run, one JSON object a line, written line by line:
//
//   {"recapture":2, …}        the environment
//   {"plan":["item_in_capture.Control", …]}    of a shard also "whole": the plan of all shards
//   {"case":"item_in_capture","hash":…, …}     before its first test
//   {"test":"item_in_capture.Control", …}      one a test, as they end
//   {"end":"complete", …}
//
// A record holds no verdict. What differs from run to run for no reason (times) stands in "volatile", last in its line.
#pragma once
#include <array>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "harness/base/json.h"
#include "harness/case/types.h"
#include "harness/model/environment.h"

namespace recapture {

inline constexpr int kRecordFormat = 2;  // What is written. Format 1 is read too.

// Of a record's word; nothing if it is not known.
inline std::optional<Nature> nature_of(std::string_view word) { return detail::enum_of<Nature>(kNatures, word); }

// What a case says about itself.
struct CaseInfo {
  std::string id, family, hash, title, documented, nature, fidelity;
  Needs needs;
  std::string needs_words = "gpu";  // As the case spells them.
  Json sources = Json::array();
  int deadline_s = 60;
  std::string effect, stopping;                           // "" in records of format 1.
  Json effects = Json::object(), fixes = Json::object();  // By test: another effect, the sentence of a fix.
  std::vector<std::string> tests;                         // Names without the case, in the file's order.

  static CaseInfo from(Json json);
  Json to_json() const;
};

// A test's id is its case and its name: "item_in_capture.Reproduces".
inline std::string case_of(const std::string& test_id) { return test_id.substr(0, test_id.find('.')); }
inline std::string name_of(const std::string& test_id) { return test_id.substr(test_id.find('.') + 1); }
inline Kind kind_of_id(std::string_view test_id) {
  const size_t dot = test_id.find('.');
  return kind_of(test_id.substr(0, dot), test_id.substr(dot + 1)).value_or(Kind::Control);
}

// Why a planned test was not started that no binary has.
inline constexpr const char* kNotBuilt = "not built";

// How the process of a test ended.
enum class Ending { Exited, Signal, Deadline, NotStarted, Unknown };
inline constexpr std::array<std::string_view, 5> kEndings = {"exited", "signal", "deadline", "not started", "unknown"};
inline std::string_view to_string(Ending ending) { return kEndings[static_cast<size_t>(ending)]; }

enum class SkipReason {
  None,   // It was not skipped.
  NoGpu,  // The driver gave it none, whether the machine has one or not.
  NotBuilt,
  Other,
};

// What a probe found of a process after a failure.
enum class ProbeOutcome { Fine, KeepsMemory, Unusable, Lost };  // Lost: the process did not come back from it.
ProbeOutcome read_probe(std::string_view probe, std::string_view text);

// How a stub of tools/pack begins its last line, "left out of this pack: libcufft.so.11 (cufftPlan1d)". A test's line
// keeps it as "stub".
inline constexpr std::string_view kLeftOut = "left out of this pack: ";

// What the loader says of a function that a library which a run chose does not have, in words; "" if its output has no
// such line. A test's line keeps it as "lacks". Such as
// "libtorch_cuda.so: undefined symbol: cudaGraphAddNode_v2, version libcudart.so.12", or, of NCCL, without a version.
std::string missing_symbol(std::string_view output);

// No text of a line may be longer, in bytes: a test that prints without end must not fill the record. A writer cuts
// what is longer than a third of that, since a byte that is no UTF-8 is written as three.
inline constexpr size_t kLongestText = 16384;

// The line with its texts cut so.
Json truncate_texts(Json line);

// One test's line. What is absent reads as "", 0 or false.
struct TestRecord {
  Json line;
  const std::string& id() const { return text("test"); }
  std::string case_id() const { return case_of(id()); }
  std::string name() const { return name_of(id()); }
  Ending ending() const;
  int code() const { return number("code").value_or(0); }    // The exit status, or the signal's number.
  int error() const { return number("error").value_or(0); }  // CUDA's number of the first failure.
  double seconds() const;
  std::string culprit(std::string_view member) const {  // "api", "thread", "mode".
    return has("culprit") ? text_at(line.at("culprit"), member) : "";
  }
  const std::string& text(std::string_view key) const { return text_at(line, key); }
  std::optional<int> number(std::string_view key) const { return int_at(line, key); }
  bool has(std::string_view key) const { return member(line, key) != nullptr; }
  SkipReason skip_reason() const;
  // The Python module for want of which it failed, such as "numpy", which no LibTorch brings along; else "". One of
  // torch's own is another matter: that is the release's.
  std::string missing_module() const;
};

struct Record {
  std::string path;
  Environment environment;
  std::vector<std::string> plan;
  std::vector<std::string> whole_plan;  // Of all shards of the run; empty where it is the plan.
  std::map<std::string, CaseInfo> cases;
  std::vector<TestRecord> tests;                                 // In the order in which they were written.
  std::map<std::string, std::vector<TestRecord>> confirmations;  // The same test again, by plain exec.
  std::string end;                 // "complete", or why not; "" if the run did not come to its end.
  std::vector<std::string> notes;  // What the reader should know: cut short, last line incomplete.

  // Whether it holds all that its run was to find out: a run that was cut short, and one shard of several, do not.
  bool is_complete() const;

  // Whether each test of its plan has a line.
  bool has_all() const;

  // One of several that ran, each with its own record: "2/4".
  bool is_shard() const;

  void add(TestRecord test);
  const TestRecord* find(const std::string& test) const;

  // A member of the environment as it may be shown; "" where it is absent or no text.
  std::string env(const std::string& key) const;
  // What it was run on, in short: "2.11.0, NVIDIA H200", and the axis, if there is one.
  std::string machine() const;
  // 1 or 2. A record of format 1 lacks what the environment and the cases say only since, and its hashes are of the
  // case's source alone.
  int format() const { return environment.format; }
  Break broken() const { return environment.broken; }

 private:
  std::unordered_map<std::string, size_t> index_;
};

// Reads a record. Throws ExitError(Usage) naming file and line where it is not one; a cut last line is a note, not an
// error.
Record read_record(const std::string& path);

// The same of some cases alone: without the lines of other cases and of their tests.
Record read_cases(const std::string& path, const std::set<std::string>& cases);

// All records below a folder, sorted by path.
std::vector<std::string> records_below(const std::string& folder);
std::vector<Record> read_records_below(const std::string& folder);

// The same without all other tests' lines, and without a word of what is missing.
Record read_tests(const std::string& path, const std::set<std::string>& tests);

// Of all records below a folder the environments, plans, cases, and those tests that have a rate.
std::vector<Record> read_rates_below(const std::string& folder);

// Whether a file of this name is taken for a record: "a.jsonl", or packed by gzip "a.jsonl.gz".
bool is_record_name(const std::string& path);

}  // namespace recapture
