// What the records below a folder say, case by case and quick to ask for: an index that is derived from them and
// brought up to date before each question. It holds observations and no verdict, and a line that many runs have once.
// To delete it loses nothing.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "harness/history/sqlite.h"
#include "harness/record/record.h"

namespace recapture {

// One record.
struct Run {
  int64_t environment = 0;  // The number of its text, without what differs from night to night, which stands here.
  std::string path;         // From the folder.
  std::string started, revision;
  std::string ids;   // The run's own; of a merged record those of all shards, a line each.
  int64_t file = 0;  // The record's number.
};

// What a run has of one case: of its plan, of what the case says about itself, and the tests' lines.
struct CaseLines {
  const Run* run = nullptr;
  int64_t lines = 0;  // Equal for two parts of a case if and only if all of that is,
  std::string rates;  // but for the hits and tries of races, which each run has its own of: "6:4115 5:22225".
};

// What some runs have of a case as a record, but for the rates, which can be put in for one run after the other.
class CaseRecord {
 public:
  explicit CaseRecord(Record record) : record_(std::move(record)) {}
  CaseRecord(const CaseRecord&) = delete;
  CaseRecord& operator=(const CaseRecord&) = delete;
  CaseRecord(CaseRecord&&) = default;
  CaseRecord& operator=(CaseRecord&&) = default;

  const Record& with(const std::string& rates);
  // Of a part's rates those that this record has.
  std::string own(const std::string& rates) const;

 private:
  friend class Index;
  Record record_;
  std::vector<Json*> rated_;  // Lines of the record, in the order of the rates; nothing for those that are left out.
};

struct BadRecord {
  std::string path, reason;
};

// Hears how many records are to be read to bring an index up to date: the first time that may take minutes.
using Announce = std::function<void(size_t)>;

class Index {
 public:
  // Brings the index at `place` up to date, the path of a file or ":memory:". Throws Stop where the folder cannot be
  // read, and SqlError where the index cannot be read or written.
  Index(std::string folder, const std::string& place, const Announce& announce = {});
  ~Index();
  Index(const Index&) = delete;
  Index& operator=(const Index&) = delete;

  const std::vector<Run>& runs() const { return runs_; }
  // What is called a record and is none, or cannot be read.
  const std::vector<BadRecord>& bad() const { return bad_; }
  // Of all runs, sorted.
  std::vector<std::string> cases();
  // That any run has planned or run of a case, by name.
  std::vector<std::string> tests_of(const std::string& case_id);
  // Of those runs that planned or ran it.
  std::vector<CaseLines> parts_of(const std::string& case_id);
  // How many lines it has of the case.
  size_t size_of(const CaseLines& part);
  // Without the revision.
  const Json& environment_of(const Run& run) { return json(run.environment); }
  // The case alone, or of it one test and all Controls. judge_record() gives the same rows of it as of the whole
  // record, but for their seconds.
  CaseRecord record_of(const CaseLines& part, const std::string& test = "");

  // How many records were read to bring it up to date, and how many had gone.
  size_t read() const { return read_; }
  size_t gone() const { return gone_; }

 private:
  // As which a file is known.
  struct Stamp {
    int64_t size = 0, modified_ns = 0, changed_ns = 0, inode = 0;
    bool operator==(const Stamp& other) const;
  };
  struct Statements;

  static Stamp stamp_of(const std::string& path);
  void scan(const std::string& below);
  void make_tables();
  void require_same_index();
  int64_t pragma(const std::string& name);
  void take_file(Statement& row);
  // Loads all that is on file, and says of which files it is not what the folder has.
  std::vector<std::string> load();
  void update(const std::vector<std::string>& paths);
  void load_again(const std::vector<std::string>& paths);
  void drop(const std::string& path);
  void take(const std::string& path, const Stamp& stamp);
  void put(const std::string& path, const Stamp& stamp, const Record& record);
  int64_t number_of(const std::string& text);
  std::string text_of(int64_t number);
  const Json& json(int64_t text);

  std::string folder_;
  std::vector<std::pair<std::string, Stamp>> files_;  // Below it, sorted by path.
  std::vector<BadRecord> bad_, unreadable_;
  Database database_;
  std::unique_ptr<Statements> statements_;
  std::unique_ptr<Transaction> reading_;
  int64_t version_ = 0;                               // Changes where another process writes.
  int64_t birth_ = 0;                                 // Tells this index from another that took its place.
  std::unordered_map<std::string, int64_t> numbers_;  // Of texts.
  std::unordered_map<int64_t, Json> texts_;
  std::vector<Run> runs_;
  std::unordered_map<int64_t, size_t> run_at_;  // By the number of the file.
  size_t read_ = 0, gone_ = 0;
};

// Asks an index of the records below a folder that is kept in the first of those places where that can be done, whose
// folders are made. A damaged one, or one of another program's, is made anew. Where none can be kept, all is read once
// for this question, and what comes back says why. The question may be asked more than once, until one answer is whole.
std::string ask(const std::string& folder, const std::vector<std::string>& places,
                const std::function<void(Index&)>& question, const Announce& announce = {});

// What an index keeps of a test's line: all but times, output and stacks, which no verdict is made of.
Json kept_of(Json line);

}  // namespace recapture
