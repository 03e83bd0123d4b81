// Which record counts for each operator on each release.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "harness/model/record.h"

namespace recapture {

// By release, and by test.
using OperatorRecords = std::map<std::string, std::map<std::string, const Record*>>;

// The runs that count for operators, oldest first: without runs broken on purpose, chosen libraries, variables, and
// builds that are no version; those that somebody sent only of a release without another. Points into `records`.
std::vector<const Record*> operator_runs(const std::vector<Record>& records);

// Of the records with a result of an operator's test, the newest; one in which the test itself broke counts only where
// no other has a result. Points into `records`.
OperatorRecords operator_records(const std::vector<Record>& records);

}  // namespace recapture
