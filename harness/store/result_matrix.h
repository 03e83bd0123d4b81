// Records and their verdicts, row by row, and the newest result of every test on every kind of machine: the basis of
// all outputs.
#pragma once
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "harness/model/record.h"
#include "harness/verdict/judge.h"
#include "harness/verdict/rules.h"

namespace recapture {

// Whether the newer of two rows of one test on one kind of machine replaces the older. Not if the older one is better
// evidence: from least to best, a test that did not run, an unavailable one, a stale result, any other. Nor if the
// newer run did not see a race: that is no evidence against a run that did.
bool replaces(const TestVerdict& newer, const TestVerdict& older);

// The name of a kind of machine on a board.
struct MachineName {
  std::string text;  // Begins with the release.
  Release release;
  bool has_driver = false, has_runtime = false;  // Whether the text has them.
};

class ResultMatrix {
 public:
  // Of two records of one kind of machine, the later in the list is the newer one.
  ResultMatrix(std::vector<Record> records, const Rules& rules);

  const std::vector<JudgedRun>& records() const { return records_; }
  // Of all rows, or of those that count; an incomplete record counts as one more test that has not run.
  using Counts = std::function<bool(const JudgedRun& run, const TestVerdict& row)>;
  std::vector<Verdict> verdicts(const Counts& counts = nullptr) const;

  // Kinds of machine, "2.11.0, NVIDIA H200", in the order of their releases. If two kinds have the same name, the names
  // include the difference: "2.11.0, NVIDIA H200, driver 575.57.08". Without runs broken on purpose.
  const std::vector<std::string>& machines() const { return machines_; }
  // The name for one of the board's records.
  const MachineName& machine_name(const Record& record) const { return names_.at(record.environment.kind); }
  const std::string& machine_of(const Record& record) const { return machine_name(record).text; }
  // The descriptions of the runs' cases, by id; with the family if the tree has the case.
  const std::map<std::string, CaseInfo>& cases() const { return cases_; }

 private:
  std::vector<JudgedRun> records_;
  std::vector<std::string> machines_;
  std::map<MachineKind, MachineName> names_;
  std::map<std::string, CaseInfo> cases_;
};

// The newest result of each test on each kind of machine, by replaces(). Without tests that did not run there or were
// unavailable, without simulated cases and without runs broken on purpose.
class NewestRows {
 public:
  explicit NewestRows(const ResultMatrix& matrix);

  // In the tests' order; empty if the case has no result there.
  const std::vector<TestVerdict>& of(const std::string& case_id, const std::string& machine) const;

 private:
  std::map<std::string, std::map<std::string, std::vector<TestVerdict>>> rows_;  // By case, by machine.
};

}  // namespace recapture
