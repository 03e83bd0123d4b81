// What each failure does to a program, release by release: does it fail in mine?
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "harness/compare/consequence.h"
#include "harness/model/catalogue.h"
#include "harness/verdict/result_matrix.h"

namespace recapture::timeline {

// The known ones from the mildest to the worst; those from NotSeen on say nothing of a program.
enum class FailureOutcome {
  Works,
  Warns,
  Raises,
  Leaks,
  Crashes,
  Hangs,
  SilentlyWrong,
  NotSeen,      // A race that no try showed.
  Absent,       // The release has no such API.
  Unavailable,  // Something that the test needs was not there.
  NotRun,
};
std::string_view to_string(FailureOutcome outcome);
std::string_view meaning(FailureOutcome outcome);
inline bool is_known(FailureOutcome outcome) { return outcome < FailureOutcome::NotSeen; }

// A Reproduces test with its newest result on one machine.
struct FailureForm {
  const TestVerdict* row = nullptr;
  const JudgedRun* judged = nullptr;
  FailureOutcome outcome = FailureOutcome::NotRun;

  const TestRecord* test() const { return judged->record.find(row->test); }
};

struct FailureOnRelease {
  std::string release;
  std::vector<FailureForm> forms;  // In the tests' order, of each machine.
  FailureOutcome worst = FailureOutcome::NotRun;
  size_t failing = 0, known = 0;  // Tests: of those with a known outcome, how many do not work on some machine.
};

struct FailureRow {
  const CatalogueCase* what = nullptr;
  std::vector<FailureOnRelease> releases;  // As of the table.

  bool has_known() const;
};

// Points into the catalogue and the matrix.
struct FailureTable {
  std::vector<std::string> releases;  // On record, the newest first.
  std::vector<FailureRow> rows;       // In the catalogue's order, without the operators.
};

// From runs with the release's own libraries, on any GPU or none. Of several machines the worst outcome counts.
FailureTable failure_table(const ResultMatrix& matrix, const Catalogue& catalogue);

}  // namespace recapture::timeline
