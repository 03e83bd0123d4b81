// The newest result of every test on every kind of machine, with its record: what is shown for a folder.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "harness/store/result_matrix.h"

namespace recapture {

struct Latest {
  const JudgedRun* judged;
  const TestVerdict* row;

  // Its line; nullptr if the test has not run.
  const TestRecord* test() const { return judged->record.find(row->test); }
};

struct OnMachine {
  std::string machine;  // "2.11.0, NVIDIA H200"
  Break broken = Break::Nothing;
  const JudgedRun* newest = nullptr;   // The newest record with any of them.
  std::vector<Latest> rows;            // In the order of the plans.
  MachineName name = {};               // Its text is `machine`.
  std::vector<Latest> operators = {};  // The operators' rows, which have a table of their own.
  std::vector<Latest> simulated = {};  // By our own model: not counted in any total.
  // Tests without a judgement that need none there, and why. They are counted apart.
  std::map<std::string, std::string> accepted = {};

  bool is_accepted(const TestVerdict& row) const { return accepted.count(row.test) != 0; }
};

// In the matrix's order; each machine is followed by its runs broken on purpose. Uses ResultMatrix::newest(), and for a
// test without a result there, as unavailable or not run, the newest such row. Points into the matrix.
std::vector<OnMachine> latest(const ResultMatrix& matrix);

}  // namespace recapture
