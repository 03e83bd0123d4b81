// The newest result of every test on every kind of machine, with its record: what is shown for a folder.
#pragma once
#include <string>
#include <vector>

#include "harness/verdict/result_matrix.h"

namespace recapture::report {

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
};

// "LibTorch 2.11.0, NVIDIA H200"
std::string title_of(const OnMachine& machine);

// The same with the driver, the CUDA runtime, packed or not, and the date of one of its records.
std::string title_of(const OnMachine& machine, const Record& record);

// "583 captured, 102 refused": counts of operators' rows, in one line; empty if there are none.
std::string render_operator_counts(const std::vector<const TestVerdict*>& rows);
std::string render_operator_counts(const std::vector<Latest>& operators);

// In the board's order; each machine is followed by its runs broken on purpose. Uses ResultMatrix::newest(), and for a
// test without a result there, as unavailable or not run, the newest such row. Points into the board.
std::vector<OnMachine> latest(const ResultMatrix& board);

}  // namespace recapture::report
