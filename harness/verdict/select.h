// Which records of a folder count. A folder of nightly runs holds hundreds of the same tests on the same machines, and
// only the newest of each is of interest; the others are not read beyond their first two lines.
#pragma once
#include <set>
#include <string>
#include <vector>

#include "harness/model/record.h"

namespace recapture {

// The first line of a record. Throws ExitError(Usage) as read_record() does.
Environment environment_of(const std::string& path);

// The records by path, those of one kind of machine by time: of two results of a test there the later is the newer.
void sort_by_time(std::vector<Record>& records);

struct Newest {
  std::vector<Record> records;  // In the order of sort_by_time().
  size_t left_out = 0;          // How many were not read whole.
};

// The records below a folder that hold the newest result of at least one test on its kind of machine, as
// kind_of_machine() has it, and broken on purpose or not. That is the newest record of each kind, and an older one only
// if it planned a test that no newer one has a line of, as where the newest was cut short or ran a few cases only, or
// has a result of a test that could not run since, or of a race that was not seen since.
// Without a date a record is older than all that have one. Throws ExitError(Usage) as read_record() does.
Newest newest_records(const std::string& folder);

// The same for a question about one release, or about some cases, of which alone the records then know. What is empty
// leaves nothing out. Reading takes most of the time of such a question.
struct RecordFilter {
  std::string release;
  std::set<std::string> cases;
  bool only_planned = false;  // Leaves out records that planned none of the cases.
};
Newest newest_records(const std::string& folder, const RecordFilter& filter);

// All of them.
Newest all_records(const std::string& folder);

}  // namespace recapture
