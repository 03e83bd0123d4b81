// What all records say together, as tables in Markdown: the machines, since and until when each failure, by which
// calls, and which claims of the documents do not hold. `recapture dev tables` prints them; reports/ keeps two of them,
// README.md and calls.md.
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
  std::vector<std::string> matrix;  // Releases that there are.
  std::vector<lint::DocumentLine> documents;
  std::string folder;  // Where the records lie. They are named from there.
};

// Failure × release: since when, until when, changed how, with the change upstream.
std::string render_failures(TableInput input);

// Calls and codes by mode of the capture, thread and CUDA runtime.
std::string render_calls(TableInput input);

// What each document says that no record, or no longer any, shows.
std::string render_documents(TableInput input);

// A line a release and kind of machine, with the verdicts of its newest results, and what the words mean. It does not
// grow with the number of records.
std::string render_machines(const ResultMatrix& board);

}  // namespace recapture::report
