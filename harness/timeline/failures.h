// The effect of each failure on a program, by release.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "harness/compare/consequence.h"
#include "harness/model/catalogue.h"
#include "harness/store/result_matrix.h"

namespace recapture::timeline {

// Known outcomes from the mildest to the worst; those from NotSeen on are not known.
enum class FailureOutcome {
  Works,
  Warns,
  Raises,
  Leaks,
  Crashes,
  Hangs,
  SilentlyWrong,
  NotSeen,      // A race that did not occur.
  Absent,       // The release has no such API.
  Unavailable,  // A requirement of the test was not met.
  NotRun,
};
std::string_view to_string(FailureOutcome outcome);
std::string_view meaning(FailureOutcome outcome);
inline bool is_known(FailureOutcome outcome) { return outcome < FailureOutcome::NotSeen; }
FailureOutcome outcome_of(const TestVerdict& row, const Record& record);

// A Reproduces test with its newest result on one machine.
struct FailureForm {
  const TestVerdict* row = nullptr;
  const JudgedRun* judged = nullptr;
  FailureOutcome outcome = FailureOutcome::NotRun;

  const TestRecord* test() const { return judged->record.find(row->test); }
};

// A release, or a release with a GPU or a library.
struct FailureColumn {
  std::string release, detail;  // "2.15.0", "CUDA 13.2"

  bool operator==(const FailureColumn&) const = default;
};

struct FailureOnRelease {
  FailureColumn column;
  std::vector<FailureForm> forms;  // In the tests' order, for each machine.
  FailureOutcome worst = FailureOutcome::NotRun;
  size_t failing = 0, known = 0;  // Tests with a known outcome, and those of them that fail on some machine.
};

// The columns in which a fix held on every machine that tried it, and those in which it failed on one. Where it held
// and no failure of its case occurs, it is not needed, and neither.
struct FixCourse {
  const CatalogueTest* what = nullptr;
  std::vector<std::string> holds, broken, not_needed = {};
};

struct FailureRow {
  const CatalogueCase* what = nullptr;
  std::vector<FailureOnRelease> releases;  // By the table's columns.
  std::vector<FixCourse> fixes = {};       // In the case's order.

  bool has_known() const;
  // What to do instead: the first fix that holds in the newest release that tried one; nullptr if none holds.
  const CatalogueTest* instead() const;
};

// Points into the catalogue and the matrix.
struct FailureTable {
  std::vector<FailureColumn> columns;  // With records, newest release first.
  std::vector<FailureRow> rows;        // In the catalogue's order, without operators and simulated cases.
};

enum class FailureColumns {
  Releases,   // A release with its own libraries, on any GPU or none.
  Gpus,       // The same, for each GPU.
  Libraries,  // With a CUDA runtime, NCCL or the like other than its own, or without LibTorch.
};

// Of several machines in a column, the worst outcome counts. A run that somebody sent counts only where it changes
// nothing of the project's own: in a column without any of these; among releases, in a matrix without any.
FailureTable failure_table(const ResultMatrix& matrix, const Catalogue& catalogue,
                           FailureColumns kind = FailureColumns::Releases);

}  // namespace recapture::timeline
