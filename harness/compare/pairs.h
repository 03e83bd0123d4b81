// Pairs the two sides of a comparison by test: the result before and the result now.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "harness/compare/compare.h"
#include "harness/store/result_store.h"
#include "harness/verdict/operators.h"

namespace recapture::compare {

// A result of a test in one run.
struct Seen {
  Seen() = default;
  Seen(const JudgedRun* run, const TestVerdict* row);

  const JudgedRun* run = nullptr;
  const TestVerdict* row = nullptr;
  const CaseInfo* info = nullptr;  // From the run's record; nullptr if it has none.
  bool has_rate = false;           // Not of a Control or a Fix: those hold in all tries, or do not hold.
  bool is_replaced = false;        // By a newer form of the test: a newer run of this side has evidence of other code.

  const TestRecord& test() const { return *test_; }  // Only for a row that ran.
  State state() const { return state_of(*row, run->record); }

  // What tells two results of the same code apart.
  struct Facts {
    Result result = Result::Invalid;  // By the line alone.
    std::string observed = {};        // As without_places() has it,
    std::string shown = {};           // and so has the text that expectations match.
    int code = 0, error = 0;
    bool has_exception = false;
    std::string ended = {};

    bool operator==(const Facts&) const = default;
  };
  // Only for one of Results. Read once, also for all copies of this.
  const Facts& facts() const;                           // Not of an operator.
  const std::vector<OperatorResult>& operators() const;  // Of an operator; without failures.

 private:
  friend class Results;
  struct Line;
  const Line& line() const;

  const TestRecord* test_ = nullptr;
  std::shared_ptr<Line> line_;
};

// The worst effect that the tries of a test show: its line, and the repetitions of it. Damage in one of them is damage,
// even if the others disagree. Nothing if the result is no evidence.
std::optional<State> worst_try(const Seen& seen, const Rules& rules);

// Whether a run counts for one of its tests.
using Counts = ResultStore::RowFilter;

// For each test of one side, the runs that have a result, newest first; for tests that could not run, the reason.
class Results {
 public:
  // `counts` filters results; without it all count. The side must outlive this object.
  explicit Results(const Side& side, const Counts& counts = nullptr);

  const std::vector<Seen>& of(std::string_view test) const;
  // Why the side has no result of it; without the side.
  Unknown why_not(std::string_view test) const;
  // Part of a run, whether or not it ran.
  bool tried(std::string_view test) const {
    return ran_.count(test) + silent_.count(test) + of_other_shards_.count(test) > 0;
  }
  // The release has no such test, or no run of this side planned it.
  bool is_without(std::string_view test) const;
  // It was started, or would have been, and lacked what it needs.
  bool could_not_run(std::string_view test) const;
  // All of them, sorted.
  const std::vector<std::string_view>& tests() const { return tests_; }
  // What a reader must know of its runs.
  const std::vector<Note>& notes() const { return notes_; }
  const Side& side() const { return side_; }
  const std::string& name() const { return side_.name; }

 private:
  const Side& side_;
  // By test; the side's rows own the names.
  std::unordered_map<std::string_view, std::vector<Seen>> ran_;
  std::unordered_map<std::string_view, const TestVerdict*> silent_;  // The newest of the tests that could not run.
  std::unordered_set<std::string_view> of_other_shards_;             // Planned by a run of which only shards are here.
  std::vector<std::string_view> tests_;
  std::vector<Note> notes_;
};

// A test's observation without what another build or compiler changes: versions of calls, source lines, and the folder
// that PyTorch was built in ("../c10/", "/pytorch/c10/").
std::string without_places(const std::string& text);

// The two results behind one compared test.
struct Pair {
  ComparedTest compared;
  Seen from, to;  // Without a row if there is none.
};

// The entry of cases/expectations.toml that holds on one side only; else the threads that the case cites.
std::vector<UpstreamChange> upstream_of(const Pair& pair, const CompareContext& context);

// For every test of either side, by case.
std::vector<Pair> pairs_of(const Side& from, const Side& to, const CompareContext& context);
std::vector<Pair> pairs_of(const Results& from, const Results& to, const CompareContext& context);

// As compare() of the sides, for a side that is compared with several others.
Comparison compare_sides(const Results& from, const Results& to, const CompareContext& context);

}  // namespace recapture::compare
