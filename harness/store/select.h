// Selects the records of a folder that count. A folder of nightly runs has hundreds of records of the same tests on the
// same machines, of which only the newest matter; of the others only the first two lines are read.
#pragma once
#include <set>
#include <string>
#include <vector>

#include "harness/model/record.h"
#include "harness/model/release.h"
#include "harness/verdict/rules.h"

namespace recapture {

// The first line of a record. Throws ExitError(Usage) as read_record() does.
Environment environment_of(const std::string& path);

// For resolve_release(): a release yields if its folder below this one has records, and somebody sent all of them. A
// record that cannot be read counts as the project's own: reading it in full reports the error.
Yields if_only_sent(std::string folder);

// Sorts records by path, and those of one kind of machine by time: the later of two results is the newer.
void sort_by_time(std::vector<Record>& records);

struct Newest {
  std::vector<Record> records;  // In the order of sort_by_time().
  size_t left_out = 0;          // How many were not read completely.
};

// The records below a folder that have the newest result of at least one test on its kind of machine, as defined by
// kind_of_machine() and broken on purpose or not. That is the newest record of each kind, and an older one only if it
// planned a test without a line in any newer one, for example because the newest was cut short or ran only a few cases,
// or has a result of a test that later could not run, or of a race that later runs did not see.
// Without a date a record is older than all that have one. Throws ExitError(Usage) as read_record() does.
Newest newest_records(const std::string& folder);

// The same for one release or some cases; the records then contain only those. Empty members leave nothing out. Reading
// takes most of the time of such a query.
struct RecordFilter {
  std::string release;
  std::set<std::string> cases;
  bool only_planned = false;  // Leaves out records that planned none of the cases.
};
Newest newest_records(const std::string& folder, const RecordFilter& filter);

// All of them.
Newest all_records(const std::string& folder);

// The rules for judging records as the runs that wrote them did: a test is missing if a record below reports/ has it.
Rules rules_as_in_a_run(const std::string& root);

}  // namespace recapture
