// Which records of a folder count. A folder of nightly runs holds hundreds of the same tests on the same machines, and
// only the newest of each is of interest; the others are not read beyond their first two lines.
#pragma once
#include <set>
#include <string>
#include <vector>

#include "harness/record/record.h"

namespace recapture {

// When the run began; "" where the record does not say. As text it sorts by time.
std::string started(const Json& environment);

// The run's own id; of a merged record those of all its shards. None where the record does not say.
std::vector<std::string> run_ids(const Json& environment);

// Whether none of its runs has been counted yet, as one of a copy has, or of a shard that a merged record has too. From
// now on they have.
bool counts_first(const Json& environment, std::set<std::string>& counted);

// The first line of a record. Throws Stop(Usage) as read_record() does.
Json environment_of(const std::string& path);

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
// Without a date a record is older than all that have one. Throws Stop(Usage) as read_record() does.
Newest newest_records(const std::string& folder);

// The same for a question about one release, or about some cases, of which alone the records then know. What is empty
// leaves nothing out. Reading takes most of the time of such a question.
struct RecordFilter {
  std::string release;
  std::set<std::string> cases;
};
Newest newest_records(const std::string& folder, const RecordFilter& filter);

// All of them.
Newest all_records(const std::string& folder);

}  // namespace recapture
