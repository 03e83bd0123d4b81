// Records and what they mean, row by row, and of every test on every kind of machine its newest result: what all
// outputs show.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "harness/model/record.h"
#include "harness/verdict/rules.h"
#include "harness/verdict/test_verdict.h"

namespace recapture {

struct JudgedRun {
  Record record;
  std::vector<TestVerdict> rows;
};

// Whether of two rows of one test on one kind of machine the newer one is what there is now. Not where the older one
// says more: a test that did not run says less than one that was unavailable, that less than a stale result, and that
// less than any other. Nor where no try of the newer one showed a race: that is no evidence against a run that saw it.
bool replaces(const TestVerdict& newer, const TestVerdict& older);

// What a kind of machine is called on a board.
struct MachineName {
  std::string text;  // Begins with the release.
  std::string release;
  bool has_driver = false, has_runtime = false;  // Whether the text has them.
};

class ResultMatrix {
 public:
  // Of two records of one kind of machine the later in the list is the newer one.
  ResultMatrix(std::vector<Record> records, const Rules& rules);

  const std::vector<JudgedRun>& records() const { return records_; }
  // Of all rows; a record that is not whole counts as one more test that has not run.
  std::vector<Verdict> verdicts() const;

  // Kinds of machine, "2.11.0, NVIDIA H200", in the order of their releases. Where two kinds are called the same, their
  // names say how they differ: "2.11.0, NVIDIA H200, driver 575.57.08". Runs broken on purpose belong to none.
  const std::vector<std::string>& machines() const { return machines_; }
  // Of one of the board's records.
  const MachineName& machine_name(const Record& record) const { return names_.at(record.environment.kind); }
  const std::string& machine_of(const Record& record) const { return machine_name(record).text; }
  // What the cases of those runs say about themselves, by id; where the tree has them, with its family.
  const std::map<std::string, CaseInfo>& cases() const { return cases_; }
  // The newest result of each test of a case there, as replaces() has it, in the tests' order. None of a test that did
  // not run there or was unavailable, nor of what is simulated.
  const std::vector<TestVerdict>& newest(const std::string& case_id, const std::string& machine) const;

 private:
  std::vector<JudgedRun> records_;
  std::vector<std::string> machines_;
  std::map<MachineKind, MachineName> names_;
  std::map<std::string, CaseInfo> cases_;
  std::map<std::string, std::map<std::string, std::vector<TestVerdict>>> newest_;  // By case, by machine.
};

}  // namespace recapture
