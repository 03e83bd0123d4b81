// The two sides of a comparison brought together test by test: what a test did, and what it does now.
#pragma once
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "harness/compare/compare.h"

namespace recapture::compare {

// A result of a test in one run.
struct Seen {
  Seen() = default;
  Seen(const JudgedRun* run, const TestVerdict* row);

  const JudgedRun* run = nullptr;
  const TestVerdict* row = nullptr;
  const CaseInfo* info = nullptr;  // What the run's record says of the case; nullptr where it says nothing.
  bool has_rate = false;

  const TestRecord& test() const { return *test_; }  // Of a row that ran.
  State state() const { return state_of(*row, run->record); }

 private:
  const TestRecord* test_ = nullptr;
};

// Whether a run counts for one of its tests.
using Counts = std::function<bool(const JudgedRun& run, const TestVerdict& row)>;

// Of one side the runs that have a result of each test, the newest first; and of those that could not run, why not.
class Results {
 public:
  // `counts` leaves out results; without it all of them count. The side must outlive this.
  explicit Results(const Side& side, const Counts& counts = nullptr);

  const std::vector<Seen>& of(std::string_view test) const;
  std::string why_not(std::string_view test) const;
  bool tried(std::string_view test) const { return ran_.count(test) + silent_.count(test) > 0; }
  // The release has no such test, or no run of this side planned it.
  bool is_without(std::string_view test) const;
  // All of them, sorted.
  const std::vector<std::string_view>& tests() const { return tests_; }
  // What a reader must know of its runs, a line each, as a comparison's head has it.
  const std::vector<std::string>& notes() const { return notes_; }
  const Side& side() const { return side_; }
  const std::string& name() const { return side_.name; }

 private:
  const Side& side_;
  // By test, as the side's rows have its name.
  std::unordered_map<std::string_view, std::vector<Seen>> ran_;
  std::unordered_map<std::string_view, const TestVerdict*> silent_;  // Of those that could not run the newest.
  std::vector<std::string_view> tests_;
  std::vector<std::string> notes_;
};

// Why a test says nothing where is_ours().
inline constexpr const char* kOurs = "there the case itself is at fault, as cases/expectations.toml says";

// What stands behind one compared test.
struct Pair {
  ComparedTest compared;
  Seen from, to;            // Without a row where it is unknown for want of one.
  bool same_error = false;  // But of another C++ type, or from another call.
};

// The entry of cases/expectations.toml that holds on one side alone; else the threads that the case itself cites.
std::vector<UpstreamChange> upstream_of(const Pair& pair, const CompareContext& background);

// Of every test of either side, by case.
std::vector<Pair> pairs_of(const Side& from, const Side& to, const CompareContext& background);
std::vector<Pair> pairs_of(const Results& from, const Results& to, const CompareContext& background);

// As compare() of the sides, for a side that is compared with several others.
Comparison compare_sides(const Results& from, const Results& to, const CompareContext& background);

}  // namespace recapture::compare
