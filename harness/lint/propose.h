// Suggests changes to cases/expectations.toml that make a record's unexpected results expected. It groups and widens
// entries; a person must add the reasons.
#pragma once
#include <string>
#include <vector>

#include "harness/model/expectations.h"
#include "harness/verdict/judge.h"

namespace recapture::lint {

// Placeholder for a reason or a number; the checks refuse it.
inline constexpr const char* kTodo = "TODO";

struct Proposal {
  std::string entries;               // New and changed ones, to paste into cases/expectations.toml.
  size_t widened = 0;                // Tests whose entry now also holds on that machine, and confirmed guesses,
  size_t narrowed = 0;               // tests whose entry no longer holds there,
  size_t added = 0;                  // and tests with a new entry.
  std::vector<std::string> by_hand;  // Left to the user: entries whose tests no longer agree.
};

// `name` is the record's place below reports/. Widens the range of an entry whose observation for
// another release matches; ends the range of an entry that is wrong for the record; adds the record to a confirmed
// guess; otherwise adds a change for each pair of documented and seen.
Proposal propose(const JudgedRun& run, const std::vector<Deviation>& changes, const std::string& name);

// A result that no entry expects, on one or several machines: a person must judge it.
struct News {
  std::string test, gpus;       // "NVIDIA H100 80GB HBM3, NVIDIA H200"; "no GPU".
  std::string expected, shown;  // In words.
  std::string source;           // The number of the upstream change of the entry that is wrong now; "" without one.
  Verdict verdict = Verdict::Changed;
};

struct AppliedProposal {
  std::string text;  // Of cases/expectations.toml, with its comments and its order.
  size_t confirmed = 0, widened = 0, narrowed = 0, added = 0;  // Entries.
  std::vector<News> news;                                      // By test.
  std::vector<std::string> by_hand;                            // Left to the user.
};

// One record of those that are applied together: all of one release, each of another machine.
struct ProposedRecord {
  Record record;
  std::string name;  // Its place below reports/.
};

// Edits cases/expectations.toml, whose text is `text` and whose changes are `changes`, so that every result is
// expected: adds a record to each entry that was a guess and is confirmed, ends the range of each that is contradicted,
// widens each that fits but for its release, and adds a change for each other pair of documented and seen, with TODO
// for the reason. An entry has a GPU only if the records' GPUs differ. Text, changes and rules are of one tree.
AppliedProposal apply_proposal(const std::string& text, const std::vector<Deviation>& changes,
                               const std::vector<ProposedRecord>& records, const Rules& rules);

// Cuts a range on one side of a version: ">=2.13, <2.15" before ('<') 2.14.1 is ">=2.13, <2.14.1".
std::string narrowed(const std::string& range, char side, const std::string& version);

// Widens a range to contain the version: ">=2.13" and 2.12.1 give ">=2.12.1".
std::string widened(const std::string& range, const std::string& version);

}  // namespace recapture::lint
