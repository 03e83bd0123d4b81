// The newest result of every test on every kind of machine, with its record: what is shown for a folder.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "harness/model/origin.h"
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
  bool was_sent() const { return recapture::was_sent(newest->record.environment); }
};

// In the matrix's order; each machine is followed by its runs broken on purpose. Each test has its newest row by
// replaces(), also if it was unavailable or did not run. Points into the matrix.
std::vector<OnMachine> latest(const ResultMatrix& matrix);

}  // namespace recapture
