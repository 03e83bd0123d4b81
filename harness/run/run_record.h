// The record that a run writes: a new one, or that of a run which was cut and is gone on with.
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

// What a run writes first: the environment, and the plan of this shard and, if there are several, of all.
struct Opening {
  Environment environment;
  std::vector<std::string> plan, whole;
};

class RunRecord {
 public:
  // Takes the record that is to be gone on with at once, so that a second runner of it hears of the first before it
  // does anything. Throws ExitError(Usage) where there is nothing to go on with.
  explicit RunRecord(const RunOptions& options);

  // What an earlier run has left in it; nothing for a new record.
  const std::optional<Record>& before() const { return before_; }
  bool was_complete() const { return before_ && before_->end == "complete" && before_->has_all(); }
  const std::string& path() const { return path_; }
  // The options that run the rest of it: "--resume r.jsonl", and what must be said again, as it does not say it itself.
  std::string how_to_resume() const { return "--resume " + path_ + said_again_; }

  // To be called where records were read, of which it may be one, and before anything is asked that takes time. Throws
  // ExitError(Usage) if another run has it meanwhile.
  void hold() const {
    if (writer_) writer_->lock();
  }

  // That what was begun is of this plan, and of cases as they are built now; with a GPU, but for those that are
  // simulated. Throws ExitError(Usage) if not.
  void require_same_run(const RunOptions& options, const std::vector<PlannedCase>& plan,
                        const std::set<std::string>& simulated) const;

  // That a complete one, for which the environment is not read, was told the same. Throws ExitError(Usage) if not.
  void require_told_the_same(const RunOptions& options) const;

  // Both lines at once: a record that lacks its plan could not be resumed. One that is gone on with must be of the same
  // environment, or ExitError(Usage) is thrown.
  void begin(const Opening& opening, const Layout& places);

  // Adds a line. Throws ExitError where it cannot be written, with how to go on once it can.
  void keep(const Json& line, Durability wait = Durability::Fsynced);

 private:
  ExitError of_another_run(const std::string& what, const Json& then, const Json& now) const;
  void require_same_environment(const Environment& environment) const;
  void make(const Environment& environment, const Layout& places);

  std::string path_;  // "": of its own name, below the build folder, once it begins.
  std::string said_again_;
  bool go_on_, replace_;
  std::optional<RecordWriter> writer_;
  std::optional<Record> before_;
};

}  // namespace recapture::run
