// Results of each PyTorch operator under capture, by release, from the newest record of each.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "harness/model/operators.h"
#include "harness/verdict/later.h"
#include "harness/verdict/operators.h"

namespace recapture::timeline {

struct OperatorOnRelease {
  std::string release, record;  // The record's path below the folder of records.
  bool absent = false;          // The release has no such operator.
  std::vector<OperatorResult> results;
  bool inconclusive = false;  // The test broke, or a sample crashed or hung and no repetition shows that again.
  std::optional<LaterResult> later = {};  // Nothing if it was not asked.

  const OperatorResult* find(OperatorForm form) const;
  std::optional<OperatorVerdict> worst() const { return inconclusive ? std::nullopt : worst_of(results); }
};

struct OperatorRow {
  Operator what;
  Instead instead;                          // Without a name if there is none.
  std::vector<OperatorOnRelease> releases;  // On record, the oldest first.
  KnownOfOperator untried = {};             // A call that no sample has; without a case if there is none.
  KnownOfOperator known_later = {};         // After what its graph is not right; without a case if there is none.
};

struct OperatorTable {
  std::vector<OperatorRow> rows;      // In the list's order.
  std::vector<std::string> releases;  // Those with records of any of them, oldest first.

  bool has_later() const;  // Whether any record says whether an operator stays right.
};

// For each release the newest result of each operator in the records below a folder, on any GPU. Runs that were broken
// on purpose or chose another library do not count. Throws ExitError(Usage) as read_record() does.
OperatorTable operator_table(const std::string& root, const std::string& folder);

// The same from records of that folder that have already been read.
OperatorTable operator_table(const std::string& root, const std::string& folder, const std::vector<Record>& records);

}  // namespace recapture::timeline
