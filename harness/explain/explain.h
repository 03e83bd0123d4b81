// Why a capture failed, from a pasted text: ranked causes, each with its evidence in the text; victims; and the
// remedies that hold in the user's release.
#pragma once
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "harness/explain/causes.h"
#include "harness/explain/error_text.h"
#include "harness/model/expectations.h"
#include "harness/model/operators.h"
#include "harness/verdict/judge.h"
#include "harness/verdict/price.h"

namespace recapture::explain {

enum class Answer {
  CaptureFailure,
  GraphFailure,  // A captured graph misbehaves.
  NotOne,
  CannotTell,
};
std::string_view to_string(Answer answer);

enum class Role {
  Culprit,
  Possible,  // The text is not sufficient, or has only words.
  Victim,    // It follows from another error.
};
std::string_view to_string(Role role);

struct Found {
  std::string id, title;
  Role role = Role::Possible;
  std::string evidence;
  int weight = 0;
  bool has_case = false;
  std::string why = {}, link = {};     // One sentence, and where to read more.
  std::vector<std::string> also = {};  // Cases with the same texts.
  bool likely = false;                 // The text names it, if only in words.
  bool is_simulated = false;           // Its case is a model of ours.
};

struct FixAdvice {
  std::string cause, text;
  std::optional<bool> holds;  // In the release, by its records; nothing if there are none.
  bool useless = false;       // Common advice that cannot help.
  std::vector<std::pair<std::string, PriceLine>> prices = {};  // Its cost in the release, by machine.
};

// What a text in words alone complains about.
enum class Complaint { Capture, Replay, Hang };

struct Explanation {
  Answer answer = Answer::CannotTell;
  std::string summary;              // One sentence.
  std::vector<Found> causes;        // Best first, victims last.
  std::vector<FixAdvice> remedies;  // Of the culprits, in order.
  // Set if the text has no error, no stack and no message that only one failure prints: then the causes are a guess.
  std::optional<Complaint> guessed_from = {};
  bool is_hip = false;       // The text is about an AMD GPU.
  bool is_of_nvidia = true;  // There are no records of others.
  bool is_python = false;
  std::string release = {};                    // PyTorch's, if the text names it.
  std::string script = {};                     // The program, if the text names it.
  std::string statement = {};                  // The program's failed statement, if a traceback shows it.
  std::vector<OperatorAnswer> operators = {};  // Recorded answers for the operators that it names.
};

// The causes, without remedies.
Explanation find_causes(const ErrorText& text, const std::vector<Cause>& causes);

// The operators that a text of a capture failure names: by the failed statement, else by the stack, else by the
// message.
std::vector<const Operator*> named_operators(const ErrorText& text, const Explanation& explanation,
                                             const std::vector<Operator>& operators);

// The cases whose fixes are the remedies for these causes.
std::set<std::string> cases_with_remedies(const Explanation& explanation);

// `rows` are the newest results of one release, by test, and `prices` its prices; either may be empty. `changes` have
// the releases in which a failure no longer occurs.
void add_remedies(Explanation& explanation, const std::vector<Cause>& causes, const Catalogue& catalogue,
                  const std::vector<Deviation>& changes, const std::vector<TestVerdict>& rows,
                  const std::vector<Prices>& prices);

// Causes and remedies together.
Explanation diagnose(const ErrorText& text, const std::vector<Cause>& causes, const Catalogue& catalogue,
                     const std::vector<TestVerdict>& rows, const std::vector<Prices>& prices = {});

}  // namespace recapture::explain
