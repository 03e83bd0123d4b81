// What the words `FROM` and `TO` stand for: releases, records, folders, and runs counted from the newest.
#pragma once
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "harness/compare/compare.h"

namespace recapture::compare {

// Which machine, where the records leave a choice.
struct MachineChoice {
  std::string gpu;                               // Part of its name, whatever the case; "none" for runs without one.
  std::string driver;                            // Exactly.
  std::map<std::string, std::string> libraries;  // By kReplaceable's key, of a side that has runs with several.
};

// Whether that GPU and driver were chosen. Libraries are a matter of their own: without a choice a release's own count.
bool chosen(const MachineChoice& choice, const Environment& environment);

// Of several machines that ran both sides the one with the least is taken: with a GPU, with the libraries that were
// asked for or else come with the releases, with most tests that both sides ran as they are today, with most runs.
using MachineRank = std::tuple<bool, size_t, size_t, size_t>;

// `from` and `to` are of a run of each side that counts, `tests` is how many tests both ran (comparable_tests()),
// `runs` how many the side with fewer has, and `libraries` what was asked for.
MachineRank rank_machine(const Environment& from, const Environment& to, size_t tests, size_t runs,
                         const std::map<std::string, std::string>& libraries = {});

struct BothSides {
  Side from, to;
  std::vector<std::string> notes;  // What else there would have been to choose.
};

// A release ("2.6.0", "2.6"), a record, a folder; "latest", "latest~1": the newest run and the one before it;
// "baseline": the newest run that is marked as one, or else whole and without anything missing, and older than the
// other side. Releases and runs are looked for below `records`. Both sides are of one machine: the same GPU, driver and
// variables. Of several it is the one of which rank_machine() is the least.
//
// Runs are counted on one machine and in one release line, with the same libraries or each with its release's own:
// those of the other side or, where both are counted, those of the newest run that `choice` allows.
//
// Throws ExitError: Usage for what names nothing or cannot be compared, NothingRan where there is no run.
BothSides sides_of(const std::string& from, const std::string& to, const MachineChoice& choice,
                   const std::string& records, const CompareContext& background);

// One machine (GPU, driver, variables, chosen libraries) with all that ran on it, each judged by its own code.
struct MachineSides {
  std::string name;                  // "NVIDIA H200, driver 580.159.04"
  Environment environment;           // Of its newest run.
  std::vector<Side> releases;        // What `compare` compares: a side a release, the oldest first.
  std::vector<Side> other_runtimes;  // Of a release that ran with several CUDA runtimes or NCCLs, all but one.
};

// Machines with a GPU come first. Runs broken on purpose must not be among the records.
std::vector<MachineSides> sides_by_machine(std::vector<Record> records, const CompareContext& background);

// Takes in all runs below `records` that left the remedies out. What cannot be read says nothing of them.
void learn_remedies(const std::string& records, CompareContext& background);

// The baselines that mark_baseline() has marked, by their paths below `records`.
std::set<std::string> baselines_below(const std::string& records);

// Marks a record below `records` as a baseline, in good.txt there, and gives its name. Throws ExitError(Usage) if it is
// not whole.
std::string mark_baseline(const std::string& path, const std::string& records);

}  // namespace recapture::compare
