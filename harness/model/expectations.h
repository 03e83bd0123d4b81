// Where a release, GPU, driver, CUDA runtime or NCCL differs from the documents: cases/expectations.toml. One entry a
// change upstream, with its number, and below it what which tests show because of it.
#pragma once
#include <string>
#include <vector>

#include "harness/model/record.h"
#include "harness/model/result.h"

namespace recapture {

// On what a difference shows. An empty member stands for any.
struct Where {
  std::string release;       // ">=2.8, <2.13": every comparison must hold.
  std::string gpu;           // Part of the GPU's name.
  std::string driver;        // A range, as of releases.
  std::string cuda_runtime;  // A range.
  std::string nccl = {};     // A range.

  bool covers(const Record& record) const;
};

// What one test shows there.
struct Expectation {
  std::string test;  // "item_in_capture.Reproduces"
  Where where;
  Result result = Result::Invalid;
  std::string seen;                  // Pattern of shown(); needed for "different", "broken", "crashed".
  std::string why, source;           // A reason of its own or what the change is; the change's number.
  std::vector<std::string> records;  // Below reports/, those that show it.
  std::string place;                 // File and line, for messages.
  bool ours = false;                 // As of its change,
  bool is_open_question = false;     // likewise.

  // Whether its records are all of older or all of newer releases than this one: its range is open on that side, and
  // how far it holds was not measured.
  bool guessed_for(const std::string& release) const;
};

struct Change {
  std::string what;    // In one sentence.
  std::string number;  // An id of cases/sources.toml, or "open question: …" and what is unclear.
  std::string since;   // The first release that has it; "" where that is not known.
  bool ours = false;   // The case is at fault there, and not the release: what was seen says nothing of that.
  std::vector<Expectation> expectations;
  std::string place;
  bool is_open_question = false;  // The cause is not known yet.
};

// All changes, each checked by itself: known keys, known result, a reason, a range that can be read.
std::vector<Change> read_changes(const std::string& root);

// Whether the case is known to be at fault in that test on the record's machine.
bool is_ours(const std::vector<Change>& changes, const std::string& test, const Record& record);

std::vector<Expectation> expectations_of(const std::vector<Change>& changes);

// The one that applies, or nullptr. Throws ExitError(Usage) if two do: it is open which of them counts.
const Expectation* find_expectation(const std::vector<Expectation>& all, const std::string& test, const Record& record);

}  // namespace recapture
