// What changes for a user between two sides, each a release or a run, by test and by consequence. From records alone.
#pragma once
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "harness/base/shared.h"
#include "harness/base/text.h"
#include "harness/compare/change.h"
#include "harness/compare/note.h"
#include "harness/model/catalogue.h"
#include "harness/model/expectations.h"
#include "harness/store/result_matrix.h"
#include "harness/verdict/price.h"
#include "harness/verdict/rules.h"

namespace recapture::compare {

struct Side {
  std::string name;             // As in sentences: "2.6.0".
  std::vector<JudgedRun> runs;  // Of one machine, newest first, each judged by its own code: nothing is stale.
};

// The side that has not judged a test whose consequence is unknown: none of its runs has a result that is evidence.
// Nothing if the API is not there on a side, or if a race was seen too seldom.
enum class Lacking { Nothing, Older, Newer, Both };

struct ComparedTest {
  std::string test;
  Consequence consequence = Consequence::Unknown;
  Shared<Change> change = {};                           // If has_change().
  Shared<Unknown> unknown = {};                         // If the consequence is unknown.
  bool ran = true;                                      // False: one side could not run it.
  const JudgedRun *before = nullptr, *after = nullptr;  // The runs of the two sides that show it.
  Lacking lacking = Lacking::Nothing;
  State now = State::Absent;  // What the newer side shows, in its worst try, where the older side is lacking.
  // False if unknown, and a side has no run of the test, or none with the other's code, or the older release's runs
  // were cut short before it.
  bool is_measured = true;
  // Without an answer here that another machine's would hide: a side never tried it, or neither could run it, or the
  // older release's runs were cut short before it; and no run of the newer one was.
  bool is_replaceable = false;

  bool has_change() const { return consequence != Consequence::Same && consequence != Consequence::Unknown; }
  // The newer side shows damage that the older one does not: a program that ran, or handled an error, goes wrong.
  bool is_damaged() const;
};

struct UpstreamChange {
  std::string what;  // The change of the first number; "" for a thread that the case cites and that may be it.
  std::string number, since, url, title;  // "" each if unknown.
  bool contradicted = false;              // The records place it earlier or later.
};

// Advice on a remedy: apply it; or, if its failure is gone, what a run without it shows.
enum class Advice { Apply, Delete, Keep, Try };
std::string_view to_string(Advice advice);

struct Advised {
  Advice advice = Advice::Apply;
  std::string fix;

  bool operator==(const Advised& other) const { return advice == other.advice && fix == other.fix; }
};

// Tests of one case that changed in the same way.
struct CaseChange {
  Consequence consequence = Consequence::Same;
  std::string case_id, title;
  std::vector<std::string> tests;
  Change change = {};
  std::vector<Advised> fixes = {};  // Fixes that hold on the new side; all, if the failure is healed.
  std::vector<UpstreamChange> upstream = {};
};

// A remedy's cost that changed by more than its spread.
struct PriceChange {
  PriceLine before, now;
};

struct Comparison {
  std::string from, to;
  std::string machine;      // "NVIDIA H200, driver 580.159.04", with the variables of the runs.
  Json facts;               // {"gpu", "driver", "variables", "libraries": {"CUDA runtime": {"from", "to"}, …}}
  std::vector<Note> notes;  // On the runs.
  std::vector<ComparedTest> tests;
  std::vector<CaseChange> changes;  // Worst first.
  std::vector<PriceChange> prices = {};
  std::string release = {};  // The new side's; `to` may be the user's word for a run.

  // Every test is in exactly one group. Not measured means new, or stale on one side: the records are older than the
  // cases and show nothing about the upgrade.
  size_t judged() const;
  size_t unknown() const;
  size_t not_measured() const;
};

// The result of a fix whose remedy was left out on purpose.
struct WithoutRemedy {
  std::string release;
  bool failed = false;
};

// The data that comparing needs besides the sides.
struct CompareContext {
  Rules rules;
  std::vector<Deviation> changes;  // Upstream: cases/expectations.toml.
  std::vector<CitedSource> sources;
  Catalogue catalogue;
  std::map<std::string, std::vector<WithoutRemedy>> without_remedy = {};  // By the fix's test.

  const CatalogueCase* find(const std::string& case_id) const;
  // Adds a run that left the remedies out; ignores any other run, and one that somebody sent.
  void learn_from(const Record& record);
};
// Reads it from Recapture's own tree.
CompareContext read_compare_context(const std::string& root);

// Judges each run as if the tree had the run's code: later changes are reported in the head and hide nothing.
JudgedRun judge_without_staleness(Record record, const CompareContext& context);
// The same for many runs, with the rules made once.
Rules without_staleness(Rules rules);
JudgedRun judge_run(Record record, const Rules& rules);

Comparison compare_sides(const Side& from, const Side& to, const CompareContext& context);

// Changes that differ only in the case; of ErrorChanged, also in the state after a capture.
using Alike = std::vector<const CaseChange*>;

// In the order of each group's first change. Points into the comparison.
std::vector<Alike> groups_of(const Comparison& comparison);

// Takes the tests that are replaceable, or in no run, from the comparison on another machine, if it has an answer. The
// note of each change names that machine, and one of the comparison's the number of tests.
void fill_in(Comparison& comparison, const Comparison& elsewhere);

// The part of the comparison about these cases.
Comparison filter_cases(const Comparison& comparison, const std::set<std::string>& cases);

// How many percent of the measured tests may be unknown, and how many percent of all may be not measured.
struct Limits {
  int unknown = 10, not_measured = 50;
};
bool too_much_unknown(const Comparison& comparison, const Limits& limits = {});
// Whether too many tests are not measured.
bool too_little_measured(const Comparison& comparison, const Limits& limits = {});

// A regression (1), too much unknown (6), a price change (3), only harmless changes (5), or nothing (0).
Exit exit_for(const Comparison& comparison);

}  // namespace recapture::compare
