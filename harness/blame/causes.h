// Why a capture failed, from all that blame has: the call, its error code, the thread's role, its stack, the program's
// lines; and the remedies.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "harness/blame/report.h"
#include "harness/blame/source.h"
#include "harness/explain/explain.h"

namespace recapture::blame {

// An operator that waits for the GPU internally (cases/operators.toml).
struct Operator {
  std::string name;               // As a program calls it.
  std::vector<std::string> aten;  // Its names in at::_ops.
  std::string through;            // Must be below it on the stack; "" for none.
  std::string file;               // Or the end of a Python file's path; "" for none.
  std::string case_id, instead;   // One of the two is "".
};

// Throws ExitError(Usage) with its place if an entry is invalid or names an unknown case.
std::vector<Operator> read_operators(const std::string& root, const Catalogue& catalogue);

// The tree's tables, and the recorded results of one release.
struct Knowledge {
  std::string release;  // "" without records of a known release.
  Catalogue catalogue;
  std::vector<explain::Cause> causes;
  std::vector<Operator> operators;
  std::vector<TestVerdict> rows;  // Empty without a record of the release.
  std::vector<Prices> prices;
  OperatorAnswers answers;  // For operators that cannot be captured.
};

struct Causes {
  explain::Explanation explanation;  // Best first, with their remedies; empty if no known cause fits.
  std::string case_to_read;          // Of the first cause that has one; "" for none.
};

Causes causes_of(const Process& process, const Failure& failure, const Knowledge& knowledge);

// The result of blame.
struct Answer {
  struct OfProcess {
    Process process;
    std::string release;         // Its records decide which remedies hold; "" for none.
    std::vector<Causes> causes;  // One for each failure, in order.
  };
  std::vector<OfProcess> processes;
  std::string not_whole;         // Why the recorder's output is incomplete; "" if it is complete.
  std::string why_nothing = {};  // Why it is empty; "" if it is not.
};

Answer answer_of(std::vector<Process> processes, std::string not_whole,
                 const std::function<const Knowledge&(const Process&)>& knowledge_of);

// ATen's operators on the stack, as at::_ops spells them, innermost first, up to the interpreter: the last is the one
// that the program called.
std::vector<std::string> operators_on(const std::vector<Frame>& stack);

// Whether it is one of autograd's threads: only those run the engine's loop.
bool is_autograd_thread(const Call& call);

// Whether another thread's capture made the call fail. False if it is the thread's own capture, or if the thread works
// on the capturing stream, as autograd's does; nothing if unknown.
std::optional<bool> beside_another(const Call& call);

// The thread's Python frames at the time of the call.
std::vector<SourceFrame> python_frames_of(const Call& call, const Thread& thread);

}  // namespace recapture::blame
