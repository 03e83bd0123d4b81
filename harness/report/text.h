// Verdicts for people, as lines of text.
#pragma once
#include <string>
#include <vector>

#include "harness/verdict/result_matrix.h"

namespace recapture::report {

// A verdict's word, filled up with blanks; on a terminal in the colour of its severity.
std::string render_verdict(Verdict verdict);
// One line a test: name, result, verdict, what was seen.
std::string render_line(const TestVerdict& row);
// What the run was on, and the record's notes, one line each.
std::string heading(const Record& record);
// The ten tests that took longest, each with its time, and how many ran at once.
std::string slowest(const JudgedRun& run);
// Counts by verdict, and for all that could not run or showed too little, why.
std::string summary(const std::vector<TestVerdict>& rows);
// The tables that tests wrote down as facts "table.<row>", each below its case and what the document says.
std::string observed_tables(const Record& record, const std::vector<TestVerdict>& rows);

}  // namespace recapture::report
