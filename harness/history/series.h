// How a test went over time on each kind of machine: what it showed, since when and how often, and what else changed
// where that changed. Judged by today's rules.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "harness/history/index.h"
#include "harness/judge/rate.h"
#include "harness/judge/row.h"

namespace recapture {

// Which runs are of interest; what is empty allows all.
struct Wanted {
  std::string release, driver;
  std::string gpu;    // CaseLines of its name, whatever the case; "none" for runs without one.
  std::string since;  // A date, "2026-11-21": runs that began on it or later.
};

// What a run can show of a test. Equal for all runs that had the same on the same machine.
struct Showing {
  Row row;
  std::string signature;  // Of Reproduces what was seen: with another one the same result is another outcome.
  std::string code;       // Hash of the case's code.
  bool is_rate = false;   // Of a race: that one run shows it and the next does not is no change.
  std::optional<RateRun> rate;
};

struct Shown {
  const Run* run = nullptr;
  const Showing* what = nullptr;
};

struct Outcome {
  Shown newest;
  const Run* first = nullptr;
  size_t runs = 0;
};

struct Difference {
  std::string what, from, to;  // `from` and `to` are empty where they are no words: "the case's code".
};

// Where one outcome followed another.
struct Turn {
  Shown before, after;
  std::vector<Difference> with;
};

// One test on one kind of machine: release, GPU, driver, CUDA runtime, packed or not, variables.
struct Series {
  std::string test;
  Environment machine;            // The environment of its newest run.
  std::vector<Shown> runs;        // In the order of time, at least one.
  std::vector<Outcome> outcomes;  // Those of newer runs first.
  std::vector<Turn> turns;        // The newest first.
  size_t in_a_row = 0;            // How many runs the newest outcome has lasted.
  size_t not_run = 0;             // Runs that planned it and have no line of it.
  std::vector<RateRun> rates;     // Of the runs of today's code.
};

class Histories {
 public:
  Histories(Index& index, const Rules& rules, Wanted wanted)
      : index_(index), rules_(rules), wanted_(std::move(wanted)) {}

  // Of those tests of a case, or of all that the records have, by test and then by machine. Runs broken on purpose do
  // not count, and a run that is on file twice, as a shard and in a merged record, counts once. Points into this object
  // and into the index.
  std::vector<Series> of_case(const std::string& case_id, const std::vector<std::string>& tests);

 private:
  // What all runs with the same lines on the same machine have of one test, and what its rates amount to.
  struct Judged {
    std::unique_ptr<CaseRecord> record;  // None if they neither planned nor ran it.
    std::map<std::string, Showing> showings;
  };
  bool wants(const Run& run);
  const Showing* judged(const CaseLines& part, const std::string& test);

  Index& index_;
  const Rules& rules_;
  const Wanted wanted_;
  std::unordered_map<int64_t, bool> wanted_machines_;                   // By environment.
  std::map<std::tuple<std::string, int64_t, int64_t>, Judged> judged_;  // By test, environment and lines.
};

// What was available on such machines before, of one case, as available_in() finds it.
Available available_in(Index& index, const std::string& case_id);

}  // namespace recapture
