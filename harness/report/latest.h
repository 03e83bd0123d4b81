// Of every test on every kind of machine the newest result with the record that holds it: what is shown of a folder.
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
  const JudgedRun* newest = nullptr;   // The last record that has any of them.
  std::vector<Latest> rows;            // In the order of the plans.
  MachineName name = {};               // Whose text is `machine`.
  std::vector<Latest> operators = {};  // Those of the operators, which are a table of their own and no tests here.
  std::vector<Latest> simulated = {};  // By a model of ours: they count in no total.
};

// "LibTorch 2.11.0, NVIDIA H200"
std::string title_of(const OnMachine& machine);

// The same with the driver, the CUDA runtime, packed or not, and the date of one of its records.
std::string title_of(const OnMachine& machine, const Record& record);

// "583 captured, 102 refused": of operators' rows, in one line; empty if there are none.
std::string render_operator_counts(const std::vector<const TestVerdict*>& rows);
std::string render_operator_counts(const std::vector<Latest>& operators);

// In the board's order, behind each machine what was broken on purpose there. The choice is ResultMatrix::newest()'s,
// and where that has nothing of a test, as of what is unavailable or did not run, the last such row. Points
// into the board.
std::vector<OnMachine> latest(const ResultMatrix& board);

}  // namespace recapture::report
