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

// `rows` are the record's, and `name` is its place below reports/. Widens the range of an entry whose observation for
// another release matches; ends the range of an entry that is wrong for the record; adds the record to a confirmed
// guess; otherwise adds a change for each pair of documented and seen.
Proposal propose(const Record& record, const std::vector<TestVerdict>& rows, const std::vector<Deviation>& changes,
                 const std::string& name);

// Cuts a range on one side of a version: ">=2.13, <2.15" before ('<') 2.14.1 is ">=2.13, <2.14.1".
std::string narrowed(const std::string& range, char side, const std::string& version);

// Widens a range to contain the version: ">=2.13" and 2.12.1 give ">=2.12.1".
std::string widened(const std::string& range, const std::string& version);

}  // namespace recapture::lint
