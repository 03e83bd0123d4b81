// Summaries of all records as Markdown tables: the machines, the range of each failure, the calls, and the claims of
// the documents that do not hold. `recapture dev tables` prints them; reports/ keeps two of them, README.md and
// calls.md.
#pragma once
#include <string>
#include <vector>

#include "harness/compare/compare.h"
#include "harness/lint/documents.h"
#include "harness/report/latest.h"

namespace recapture::report {

struct TableInput {
  std::vector<Record> records;  // No runs broken on purpose.
  compare::CompareContext background;
  std::vector<std::string> matrix;  // All releases.
  std::vector<lint::DocumentLine> documents;
  std::string folder;  // The records' folder. Their names are relative to it.
};

// Failures by release: the ranges of each result, with the upstream change.
std::string render_failures(TableInput input);

// Calls and codes by mode of the capture, thread and CUDA runtime.
std::string render_calls(TableInput input);

// Claims of the documents that no record shows, or no longer any.
std::string render_documents(TableInput input);

// A row for each release and kind of machine, with the verdicts of its newest results, and a legend. Its size does not
// depend on the number of records.
std::string render_machines(const ResultMatrix& board);

}  // namespace recapture::report
