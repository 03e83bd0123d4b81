// Which release changed what a test shows: sides in their order, and each border between two that differ. From records
// alone.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "harness/compare/compare.h"
#include "harness/compare/pairs.h"

namespace recapture::timeline {

inline constexpr const char* kNotOnRecord = "not on record";

// What one side has of a test.
struct ReleaseResult {
  std::string result;   // Its word; "" where the side says nothing that could be compared,
  std::string seen;     // and then `why_not`.
  std::string why_not;  // "not on record", "cannot run: no Python".
  std::string record;   // Its path.
};

// Two sides that follow each other, but for those that say nothing, and differ.
struct Transition {
  size_t from = 0, to = 0;
  compare::Consequence consequence = compare::Consequence::Same;
  std::string sentence;
  std::vector<compare::UpstreamChange>
      upstream;  // What cases/expectations.toml has of it; else the threads that the case cites.

  // Whether nothing lies between them that could have changed it.
  bool is_tight() const { return from + 1 == to; }
};

struct Timeline {
  std::string test;
  std::vector<ReleaseResult> stands;  // One a side.
  std::vector<Transition> borders;

  std::vector<size_t> known() const;  // The sides that say something.
};

// A side a release that is on record or that has to be there, oldest first; what is no release is left out. A release
// that is not on record has no run.
std::vector<compare::Side> with_gaps(std::vector<compare::Side> releases, const std::vector<std::string>& matrix);

// For all tests of one machine's sides. Points to them.
class TimelineBuilder {
 public:
  // Of the background the expectations are not wanted: whether a release was expected to differ changes nothing of what
  // it showed. `sides` are judged with observed().
  TimelineBuilder(const std::vector<compare::Side>& sides, const compare::CompareContext& background);

  Timeline of(const std::string& test);

 private:
  const compare::Pair* pair(size_t from, size_t to, const std::string& test);
  ReleaseResult stand(size_t side, const std::string& test) const;
  Timeline from(size_t first, Timeline course);

  const std::vector<compare::Side>& sides_;
  const compare::CompareContext& background_;
  std::vector<compare::Results> results_;
  std::map<std::pair<size_t, size_t>, std::map<std::string, compare::Pair>> pairs_;
};

// The background with which records say what was seen and not whether that was expected.
compare::CompareContext observed(compare::CompareContext background);

// Which of the sides should be run next to find each border: the ends first, then the middle of what lies between.
// Nothing once there is no more to be found.
std::optional<size_t> next_to_run(const Timeline& course, const std::vector<bool>& can_run);

// A course and the sides that it goes along.
struct TimelineView {
  const Timeline* course = nullptr;
  const std::vector<compare::Side>* sides = nullptr;
};

// Whether the one shows of each release that the other knows what that shows of it.
bool subsumes(const TimelineView& one, const TimelineView& other);

// By their indices: those that know most releases first, each followed by those that say nothing else.
std::vector<std::vector<size_t>> grouped(const std::vector<TimelineView>& all);

// A machine whose timeline another one subsumes, with the releases that it has.
struct SubsumedMachine {
  std::string machine;
  std::vector<std::string> releases;
};

// A machine's.
struct MachineTimeline {
  std::string machine;
  std::vector<compare::Side> sides;
  Timeline course;
  std::vector<SubsumedMachine> same_on = {};
};

// One for each group, with the others in its same_on.
std::vector<MachineTimeline> folded(const std::vector<MachineTimeline>& all);

// Of what is folded: one answer or no change on some machine, and nowhere a border with something between; else
// Inconclusive.
Exit exit_for(const std::vector<MachineTimeline>& all);

}  // namespace recapture::timeline
