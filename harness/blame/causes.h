// Why a capture failed, by all that blame knows of it: the call, its code, the role of its thread, its stack, and the
// lines of the program; and what to do.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "harness/blame/report.h"
#include "harness/blame/source.h"
#include "harness/explain/explain.h"

namespace recapture::blame {

// An operator that waits for the GPU inside (cases/operators.toml).
struct Operator {
  std::string name;               // As a program calls it.
  std::vector<std::string> aten;  // Its names in at::_ops.
  std::string through;            // One that must be below it on the stack, "" for none.
  std::string file;               // Or the end of a Python file's path, "" for none.
  std::string case_id, instead;   // One of the two is "".
};

// Throws ExitError(Usage) with its place where an entry is wrong, or names a case that the catalogue lacks.
std::vector<Operator> read_operators(const std::string& root, const Catalogue& catalogue);

// What the tree knows, and what the records of a release say of it.
struct Knowledge {
  std::string release;  // "" where none has records, or none is known.
  Catalogue catalogue;
  std::vector<explain::Cause> causes;
  std::vector<Operator> operators;
  std::vector<TestVerdict> rows;  // Empty where there is no record of the release.
  std::vector<Prices> prices;
  OperatorAnswers answers;  // Of those that cannot be captured.
};

struct Causes {
  explain::Explanation explanation;  // Best first, with the remedies of these; none where nothing that is known fits.
  std::string case_to_read;          // Of the first that has one, "" for none.
};

Causes causes_of(const Process& process, const Failure& failure, const Knowledge& knowledge);

// What blame answers.
struct Answer {
  struct OfProcess {
    Process process;
    std::string release;         // Whose records say which remedies hold, "" for none.
    std::vector<Causes> causes;  // Of each of its failures, in their order.
  };
  std::vector<OfProcess> processes;
  std::string not_whole;  // Why not all that the recorder has said is there, or "".
};

Answer answer_of(std::vector<Process> processes, std::string not_whole,
                 const std::function<const Knowledge&(const Process&)>& knowledge_of);

// ATen's operators on the stack, as at::_ops spells them, innermost first and as far as the interpreter: the last is
// what the program called.
std::vector<std::string> operators_on(const std::vector<Frame>& stack);

// Whether the thread is one of autograd's own: there is no other that runs its engine's loop.
bool is_autograd_thread(const Call& call);

// Whether what stood in its way is the capture of another thread. False where it is its own, and where it works on the
// capturing stream, as autograd's thread does; nothing if it is not known.
std::optional<bool> beside_another(const Call& call);

// Python's frames of that thread at the time of the call.
std::vector<SourceFrame> python_frames_of(const Call& call, const Thread& thread);

}  // namespace recapture::blame
