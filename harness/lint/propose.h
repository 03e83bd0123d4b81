// What cases/expectations.toml would have to say so that a record holds no surprise. It groups and widens; the reasons
// are for a person to find.
#pragma once
#include <string>
#include <vector>

#include "harness/model/expectations.h"
#include "harness/verdict/test_verdict.h"

namespace recapture::lint {

// Stands where a reason or a number must; the checks refuse it.
inline constexpr const char* kTodo = "TODO";

struct Proposal {
  std::string entries;               // New and changed ones, to be pasted into cases/expectations.toml.
  size_t widened = 0;                // Tests whose entry now holds on that machine too, and guesses that it confirms,
  size_t narrowed = 0;               // whose entry no longer does,
  size_t added = 0;                  // and that got a new one.
  std::vector<std::string> by_hand;  // What else: an entry whose tests no longer agree.
};

// `rows` are the record's, and `name` is its place below reports/. Where an entry says of another release what is seen
// here, its range is widened; where one covers the record and is wrong there, its range ends; a guess that came true is
// put on record; for the rest there is a new change for each pair of what the document says and what was seen.
Proposal propose(const Record& record, const std::vector<TestVerdict>& rows, const std::vector<Change>& changes,
                 const std::string& name);

// The range on one side of a version that it holds: ">=2.13, <2.15" before ('<') 2.14.1 is ">=2.13, <2.14.1".
std::string narrowed(const std::string& range, char side, const std::string& version);

// A range that holds the version as well: ">=2.13" and 2.12.1 are ">=2.12.1".
std::string widened(const std::string& range, const std::string& version);

}  // namespace recapture::lint
