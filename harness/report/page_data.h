// The page's data, as the JSON embedded in it: records, judged and compared here, so that the page decides nothing.
// Every text, list, observation and change is stored once and referred to by number.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "harness/compare/compare.h"
#include "harness/store/result_matrix.h"
#include "harness/timeline/operators.h"

namespace recapture::report {

struct PageInput {
  size_t broken = 0;                   // The number of those,
  size_t unreadable = 0;               // and of unreadable files.
  Rules rules;                         // Judges results, as in `show`;
  compare::CompareContext background;  // compares sides, as in `compare`.
  timeline::OperatorTable operators;   // Each operator's results under capture, from these records.
  std::string folder;                  // The records' folder. Their names are relative to it.
  std::function<void(size_t, size_t)> progress = [](size_t, size_t) {};  // So many pairs of so many are compared.
};

// {"texts": […], "lists": [[number]…], "observations": […], "changes": […], "upstream": […], "reasons": […],
//  "verdicts", "results", "outcomes": the words, "meanings": of the verdicts, "consequences": [word, meaning, whether
//  it hurts, tone] each, the worst first, and what a headline calls one and several of them, "same", "unknown": two of
//  these, "tags": [name, meaning, words] each, "any_program": the tag of every scope, "releases": of all machines, the
//  oldest first, "sources": what is cited, "cases", "tests": the catalogue and what else was run, "columns": of each
//  kind of machine the newest result of each test, "runs": all, "compared": all pairs of releases, "first": the pair to
//  begin with, "gates": [exit code, judged, unknown, not measured, parts of why] each, to which the "gate" of a pair
//  refers: without a scope, then with each tag as scope; "rates", "made": of what, "operators": {"releases", "words":
//  verdicts with their colors, "rows": [call, name, words, phrases, whether every release captures it, why not, what
//  instead, the lines of `recapture operators`] each}}
struct PageData {
  Json json;
  ResultMatrix matrix;  // Of all records.
};
PageData page_data(std::vector<Record> records, const PageInput& input);  // No runs broken on purpose.

}  // namespace recapture::report
