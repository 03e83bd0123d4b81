// What each operator of PyTorch does under capture, release by release, from the newest record of each.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "harness/model/operators.h"
#include "harness/verdict/operators.h"

namespace recapture::timeline {

struct OperatorOnRelease {
  std::string release, record;  // The record's path below the folder of records.
  bool absent = false;          // The release has no such operator.
  std::vector<OperatorResult> results;

  const OperatorResult* find(OperatorForm form) const;
  std::optional<OperatorVerdict> worst() const { return worst_of(results); }
};

struct OperatorRow {
  Operator what;
  Instead instead;                          // Without a name where there is none.
  std::vector<OperatorOnRelease> releases;  // On record, the oldest first.
};

struct OperatorTable {
  std::vector<OperatorRow> rows;      // In the list's order.
  std::vector<std::string> releases;  // That have any of them on record, the oldest first.
};

// Of each release the newest result of each operator in the records below a folder, of any GPU. Runs that
// were broken on purpose or chose another library do not count. Throws ExitError(Usage) as read_record() does.
OperatorTable operator_table(const std::string& root, const std::string& folder);

// The same of records that are read already, from that folder.
OperatorTable operator_table(const std::string& root, const std::string& folder, const std::vector<Record>& records);

}  // namespace recapture::timeline
