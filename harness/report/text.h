// Verdicts as text.
#pragma once
#include <string>
#include <vector>

#include "harness/store/result_matrix.h"

namespace recapture::report {

// A verdict's word, padded; on a terminal in the colour of its severity.
std::string render_verdict(Verdict verdict);
// One line for each test: name, result, verdict, observation.
std::string render_line(const TestVerdict& row);
// The record's environment and notes, one line each.
std::string heading(const Record& record);
// The ten slowest tests, each with its time, and how many ran in parallel.
std::string slowest(const JudgedRun& run);
// Counts by verdict, and the reasons of all tests that could not run or showed too little.
std::string summary(const std::vector<TestVerdict>& rows);
// The tables that tests recorded as facts "table.<row>", each below its case and the document's claim.
std::string observed_tables(const Record& record, const std::vector<TestVerdict>& rows);

}  // namespace recapture::report
