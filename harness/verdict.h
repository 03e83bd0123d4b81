// Two pure functions and their tables: what a test's observation amounts to, and what that means here. No input, no
// output, no clock. README shows the same tables, and a test keeps them equal.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/expectations.h"
#include "harness/record.h"

namespace recapture {

enum class Kind { Control, Reproduces, Fix };  // By the first word of the test's name.
std::optional<Kind> kind_of(std::string_view test_name);

enum class Result {
  Reproduced,    // The documented failure, exactly.
  Healthy,       // No failure.
  Different,     // A failure, and not the documented one.
  Unseen,        // A race that no try showed: no evidence either way.
  Holds,         // A control or a fix does what it should.
  Broken,        // It does not.
  Crashed,       // Ended by a signal before it could say what it saw.
  Hung,          // Still running at its deadline.
  Unavailable,   // Something it needs is not here.
  Inapplicable,  // This LibTorch release has no such API.
  Invalid,       // The test itself is at fault, or ended without a word.
};

enum class Verdict {
  AsDocumented,
  AsExpected,  // Differs from the document, as an expectation says.
  NewlyFixed,  // Healthy, and nobody expected that.
  Regressed,   // Reproduced, where it was expected not to.
  Changed,
  ControlFails,
  FixFails,
  Inconclusive,
  Stale,   // The case has changed since.
  NotRun,  // Planned, and no line in the record.
  Unavailable,
  Missing,  // Unavailable, where it was demanded or was there before.
  NotApplicable,
};

std::string_view word(Result result);
std::string_view word(Verdict verdict);
std::optional<Result> result_from(std::string_view word);

// What a test's process said of itself, in one word: reproduced, healthy, different, ambiguous, unseen, inapplicable,
// skipped, passed, failed, mixed, nothing. Recomputed from what was seen, so that a better rule re-judges old records.
std::string said(Kind kind, const TestRecord& test);

// First table: (how the process ended, what it said) to a result.
Result classify(Kind kind, const TestRecord& test);

// Second table: (result, what an expectation says) to a verdict. `expected` is the expectation for this test here, if
// any.
Verdict judge(Kind kind, Result result, const Expectation* expected, const std::string& seen);

// Both tables as Markdown, from the data that the functions look in.
std::string tables_as_markdown();

// The exit code for a set of verdicts; the worst counts: infrastructure, changed, inconclusive, newly fixed, as
// expected.
Exit exit_for(const std::vector<Verdict>& verdicts);

// The 95 % Wilson interval of a rate, from 0 to 1.
std::pair<double, double> wilson(int hits, int tries);

}  // namespace recapture
