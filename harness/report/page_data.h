// What the page shows, as the JSON that lies in it: records, judged and compared here, so that the page itself decides
// nothing. Every text, list, observation and change is stored once; what refers to it has its number.
#pragma once
#include <string>
#include <vector>

#include "harness/compare/compare.h"
#include "harness/timeline/operators.h"
#include "harness/verdict/result_matrix.h"

namespace recapture::report {

struct PageInput {
  size_t broken = 0;                   // How many of those there are,
  size_t unreadable = 0;               // and of files that are no records.
  Rules rules;                         // Results are judged by these, as in `show`;
  compare::CompareContext background;  // sides are compared with this, as in `compare`.
  timeline::OperatorTable operators;   // What each operator does under capture, of these records.
  std::string folder;                  // Where the records lie. They are named from there.
};

// {"texts": […], "lists": [[number]…], "observations": […], "changes": […], "upstream": […], "reasons": […],
//  "verdicts", "results": the words, "consequences": [word, meaning, whether it hurts, tone] each, the worst first,
//  and what a headline calls one and several of them, "same", "unknown": two of these, "most_unknown": percent, "tags":
//  [name, meaning, words] each, "any_program": the tag of every scope, "releases": of all machines, the oldest first,
//  "sources": what is cited, "cases", "tests": the catalogue and what else was run, "columns": of each kind of machine
//  the newest result of each test, "runs": all, "compared": all pairs of releases, "first": the pair to begin with,
//  "rates", "made": of what, "operators": {"releases", "words": verdicts with their colors, "rows": [call, name, words,
//  phrases, whether every release captures it, why not, what instead, the lines of `recapture operators`] each}}
struct PageData {
  Json json;
  ResultMatrix matrix;  // Of all records.
};
PageData page_data(std::vector<Record> records, const PageInput& input);  // No runs broken on purpose.

}  // namespace recapture::report
