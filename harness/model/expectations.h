// Differences of a release, GPU, driver, CUDA runtime or NCCL from the documents: cases/expectations.toml. One entry
// for each change upstream, with its number, and below it the tests that show it and their results.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "harness/case/types.h"
#include "harness/model/neighbour.h"
#include "harness/model/record.h"
#include "harness/model/result.h"

namespace recapture {

// Where a difference shows. An empty member means any.
struct Where {
  std::string release = {};       // ">=2.8, <2.13": all comparisons must hold.
  std::string gpu = {};           // Words of the GPU's name.
  std::string driver = {};        // A range, as for releases.
  std::string cuda_runtime = {};  // A range.
  std::string nccl = {};          // A range.

  bool covers(const Record& record) const;
  // Whether it covers what a record was made on, or its neighbour's GPU, driver or release in the place of one that no
  // record has.
  bool covers(const Record& record, const Neighbour& neighbour) const;
};

// The result of one test there.
struct Expectation {
  std::string test;  // "item_in_capture.Reproduces"
  Where where;
  Result result = Result::Invalid;
  std::string seen;                   // Pattern of shown(); required for "different", "broken", "crashed".
  std::string why, source;            // Its own reason or that of the change; the change's number.
  std::vector<std::string> records;   // The records below reports/ that show it.
  std::string place;                  // File and line, for messages.
  bool inapplicable = false;          // As in its change,
  bool is_open_question = false;      // likewise.
  std::optional<Effect> effect = {};  // Of "different", if it is not the one that the case documents.

  // Whether its records are all of older or all of newer releases than this one: its range is open on that side, and
  // its bound there was not measured.
  bool guessed_for(const std::string& release) const;
};

struct Deviation {
  std::string what;    // In one sentence.
  std::string number;  // An id of cases/sources.toml, or "open question: …" and what is unclear.
  std::string since;   // The first release that has it; "" if unknown.
  // The case uses what the release does not have, or the tests cannot tell there, so their result is none.
  bool inapplicable = false;
  std::vector<Expectation> expectations;
  std::string place;
  bool is_open_question = false;  // The cause is not yet known.
};

// All changes, each checked by itself: known keys, known result, a reason, valid ranges.
std::vector<Deviation> read_deviations(const std::string& root);

std::vector<Expectation> expectations_of(const std::vector<Deviation>& changes);

// The one that applies, or nullptr; without one, that of the record's neighbour. Throws ExitError(Usage) if two apply
// to the record itself.
const Expectation* find_expectation(const std::vector<Expectation>& all, const std::string& test, const Record& record,
                                    const Neighbour& neighbour = {});

// Whether every failure of a fix's case is expected to be gone on the record's machine. A fix then holds without its
// remedy. The case's program in Python stands apart.
bool expects_health(const std::vector<Expectation>& all, const std::string& fix, const Record& record,
                    const Neighbour& neighbour = {});

// The releases that the entries' records are of, oldest first.
std::vector<Release> releases_on_record(const std::vector<Expectation>& all);

}  // namespace recapture
