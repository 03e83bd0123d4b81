// From records to what people and machines read: rows of verdicts as text, JSON, JUnit and Markdown.
#pragma once
#include <map>
#include <set>
#include <string>
#include <vector>

#include "harness/expectations.h"
#include "harness/record.h"
#include "harness/verdict.h"

namespace recapture {

// What a record is judged by.
struct Rules {
  std::vector<Expectation> expectations;
  std::map<std::string, std::string> hashes;  // Of the cases in the tree; empty: nothing is stale.
  std::set<std::string> available;            // key_of for what earlier records had: missing, if it is not there now.
  bool require_gpu = false;                   // Without a GPU everything that needs one is missing.
  bool require_recorder = false;              // A demanded call that no recorder saw is missing.
};

// What says that a test could once run on a kind of machine: release, GPU, packed or not, test.
std::string key_of(const Record& record, const std::string& test);
std::set<std::string> available_in(const std::vector<Record>& records);

struct Row {
  std::string test, case_id, name, family, release, gpu, driver;
  Kind kind = Kind::Control;
  Result result = Result::Invalid;
  bool ran = false;  // False: there is no line of it in the record.
  Verdict verdict = Verdict::NotRun;
  std::string seen;  // What was seen, or why not.
  int code = 0;      // CUDA's error number, 0 if none.
  double seconds = 0;
};

// The verdicts of one record, in its plan's order. Of a run with --break only whether what was broken on purpose failed
// as it must.
std::vector<Row> judge_record(const Record& record, const Rules& rules);

std::vector<Verdict> verdicts_of(const std::vector<Row>& rows);

// One line a test: name, result, verdict, what was seen.
std::string as_line(const Row& row);
// What the run was on, and the record's notes, one line each.
std::string heading(const Record& record);
// Counts by verdict, and for all that could not run, why.
std::string summary(const std::vector<Row>& rows);
// The tables that tests wrote down as facts "table.<row>", each below its case and what the document says.
std::string observed_tables(const Record& record, const std::vector<Row>& rows);
Json as_json(const std::vector<Row>& rows);
void write_junit(const std::vector<Row>& rows, const Record& record, const std::string& path);
// One table over records: a line a case, a column a release and GPU.
std::string as_markdown(const std::vector<Record>& records, const Rules& rules);

// What is wrong with the expectations, one message each: unknown tests, two that can apply at once, ones that no record
// needs, a record they name that does not show it, an open question without two confirmations. Empty is good.
std::vector<std::string> expectation_errors(const std::vector<Expectation>& all, const std::vector<Release>& matrix,
                                            const std::vector<Record>& records);

// Signatures that also match what another case saw although that is another failure. Empty is good. Cases that have
// changed since (`hashes`: the tree's; empty: none) are left out, since their signatures may have too.
std::vector<std::string> loose_signatures(const std::vector<Record>& records,
                                          const std::map<std::string, std::string>& hashes);

}  // namespace recapture
