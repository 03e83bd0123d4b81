// Pairs the two sides of a comparison by test: the result before and the result now.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <string_view>
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
  explicit Seen(const TestRun& result);

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
  const Facts& facts() const;                            // Not of an operator.
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

// What one side has of a test.
struct OfTest {
  std::string_view test = {};           // The side's rows own the name.
  std::vector<Seen> ran = {};           // The runs that have a result, newest first.
  const TestVerdict* silent = nullptr;  // The newest of the runs where it could not run.
  bool is_of_other_shard = false;       // Planned by a run of which only shards are here.

  // Why the side has no result of it; without the side.
  Unknown why_not() const;
  // Part of a run, whether or not it ran.
  bool tried() const { return !ran.empty() || silent != nullptr || is_of_other_shard; }
  // The release has no such test, or no run of this side planned it.
  bool is_without() const;
  // It was started, or would have been, and lacked what it needs.
  bool could_not_run() const { return silent != nullptr && silent->ran; }
  // Each run of the side that planned it ended before it.
  bool was_not_reached() const { return ran.empty() && tried() && !could_not_run(); }
};

// Of each test of one side.
class Results {
 public:
  // `counts` filters results; without it all count. The side must outlive this object.
  explicit Results(const Side& side, const Counts& counts = nullptr);

  const OfTest& of(std::string_view test) const;
  // Those that a run planned or tried, sorted.
  const std::vector<OfTest>& tests() const { return tests_; }
  // An entry without runs, for a test that is not in tests().
  const OfTest& none(std::string_view test) const;
  // What a reader must know of its runs.
  const std::vector<Note>& notes() const { return notes_; }
  const Side& side() const { return side_; }
  const std::string& name() const { return side_.name; }

 private:
  const Side& side_;
  std::vector<OfTest> tests_;
  std::unordered_set<std::string_view> of_other_shards_;
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
