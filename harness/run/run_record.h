// The record that a run writes: a new one, or that of a cut run, which is resumed.
#pragma once
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "harness/model/record.h"
#include "harness/record/writer.h"
#include "harness/run/layout.h"
#include "harness/run/plan.h"
#include "harness/run/run.h"

namespace recapture::run {

// A record's first lines: the environment, and the plan of this shard and, if there are several, of all.
struct Opening {
  Environment environment;
  std::vector<std::string> plan, whole;
};

class RunRecord {
 public:
  // Opens and locks a record to resume at once, so that a second runner fails before it does anything. Throws
  // ExitError(Usage) if there is nothing to resume.
  explicit RunRecord(const RunOptions& options);

  // The lines of an earlier run; nothing for a new record.
  const std::optional<Record>& before() const { return before_; }
  bool was_complete() const { return before_ && before_->end == "complete" && before_->has_all(); }
  const std::string& path() const { return path_; }
  // The options that run the rest: "--resume r.jsonl", and options that the record does not contain.
  std::string how_to_resume() const { return "--resume " + path_ + said_again_; }

  // Takes the lock again. Call it after reading records, of which this may be one, and before slow queries. Throws
  // ExitError(Usage) if another run has it.
  void hold() const {
    if (writer_) writer_->lock();
  }

  // Checks that the earlier lines are of this plan and of the cases as now built; with a GPU, except for simulated
  // ones. Throws ExitError(Usage) if not.
  void require_same_run(const RunOptions& options, const std::vector<PlannedCase>& plan,
                        const std::set<std::string>& simulated) const;

  // Checks the options of a complete record, for which the environment is not read. Throws ExitError(Usage) if they
  // differ.
  void require_told_the_same(const RunOptions& options) const;

  // Writes both lines at once: a record without its plan could not be resumed. Throws ExitError(Usage) if a resumed
  // record has another environment.
  void begin(const Opening& opening, const Layout& places);

  // Adds a line. If it cannot be written, throws ExitError with how to resume.
  void keep(const Json& line, Durability wait = Durability::Fsynced);

 private:
  ExitError of_another_run(const std::string& what, const Json& then, const Json& now) const;
  void require_same_program(const CaseBinary& binary) const;
  void require_same_environment(const Environment& environment) const;
  void make(const Environment& environment, const Layout& places);

  std::string path_;  // "": a new name below the build folder, once it begins.
  std::string said_again_;
  bool go_on_, replace_;
  std::optional<RecordWriter> writer_;
  std::optional<Record> before_;
};

}  // namespace recapture::run
