// Why a capture failed, from what a user pasted: ranked causes with what in the text speaks for each, who is a victim,
// and the remedies that hold in the user's release.
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
#include "harness/verdict/price.h"
#include "harness/verdict/test_verdict.h"

namespace recapture::explain {

enum class Answer {
  CaptureFailure,
  GraphFailure,  // What was captured does not do what it should.
  NotOne,
  CannotTell,
};
std::string_view to_string(Answer answer);

enum class Role {
  Culprit,
  Possible,  // The text does not suffice to tell, or has it in words alone.
  Victim,    // It follows from another one.
};
std::string_view to_string(Role role);

struct Found {
  std::string id, title;
  Role role = Role::Possible;
  std::string evidence;
  int weight = 0;
  bool has_case = false;
  std::string why = {}, link = {};     // In a sentence, and where more stands.
  std::vector<std::string> also = {};  // Cases whose texts read the same.
  bool likely = false;                 // The text names it, if only in words.
  bool is_simulated = false;           // By its case, which is a model of ours.
};

struct FixAdvice {
  std::string cause, text;
  std::optional<bool> holds;  // In the release, by its records; nothing where none shows it.
  bool useless = false;       // Often advised, and cannot help.
  std::vector<std::pair<std::string, PriceLine>> prices = {};  // What it costs in the release, by machine.
};

struct Explanation {
  Answer answer = Answer::CannotTell;
  std::string summary;              // One sentence.
  std::vector<Found> causes;        // Best first, victims last.
  std::vector<FixAdvice> remedies;  // Of the culprits, in their order.
  bool is_hip = false;              // The text is of a GPU that no record is of.
  bool is_python = false;
  std::string release = {};                    // PyTorch's, where the text names it.
  std::string script = {};                     // The program, where the text names it.
  std::string statement = {};                  // Of the program, that failed, where a traceback shows it.
  std::vector<OperatorAnswer> operators = {};  // What the records say of the operators that it names.
};

// What the text shows, without remedies.
Explanation find_causes(const ErrorText& text, const std::vector<Cause>& causes);

// The operators that a text of a capture failure names: by the statement that failed, or else by the stack, or else by
// the message.
std::vector<const Operator*> named_operators(const ErrorText& text, const Explanation& explanation,
                                             const std::vector<Operator>& operators);

// Cases whose fixes are the remedies of what was found.
std::set<std::string> cases_with_remedies(const Explanation& explanation);

// `rows` are the newest results of one release, by test, and `prices` its prices; empty where none is asked for or none
// is on file. `changes` say in which releases a failure no longer occurs.
void add_remedies(Explanation& explanation, const std::vector<Cause>& causes, const Catalogue& catalogue,
                  const std::vector<Change>& changes, const std::vector<TestVerdict>& rows,
                  const std::vector<Prices>& prices);

// All of it.
Explanation diagnose(const ErrorText& text, const std::vector<Cause>& causes, const Catalogue& catalogue,
                     const std::vector<TestVerdict>& rows, const std::vector<Prices>& prices = {});

}  // namespace recapture::explain
