// Which release changed a test's result: the sides in order, and each border between two that differ. From records
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

// The result of a test on one side.
struct ReleaseResult {
  std::string result;  // Its word; "" without a comparable result,
  std::string seen;    // and then `unknown`.
  compare::Unknown unknown = {.kind = compare::UnknownKind::NotOnRecord};
  std::string from, to;  // The names of the sides that `unknown` speaks of.
  std::string record;    // Its path.
};

// Two sides with different results, adjacent except for sides without a result.
struct Transition {
  size_t from = 0, to = 0;
  compare::ComparedTest compared = {};  // With the change, or why it is unknown.
  std::vector<compare::UpstreamChange> upstream =
      {};  // From cases/expectations.toml; else the threads that the case cites.

  // Whether no side between them could have changed it.
  bool is_tight() const { return from + 1 == to; }
};

struct Timeline {
  std::string test;
  std::vector<ReleaseResult> stands;  // One for each side.
  std::vector<Transition> borders;

  std::vector<size_t> known() const;  // The sides with a result.
};

// A side for each release on record or in the matrix, oldest first; builds that are not releases are left out. A
// release without records has no run.
std::vector<compare::Side> with_gaps(std::vector<compare::Side> releases, const std::vector<std::string>& matrix);

// For all tests of one machine's sides. Points to them.
class TimelineBuilder {
 public:
  // The context must be without expectations: an expected difference is still a difference. `sides` are judged with
  // observed().
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

// The context without expectations.
compare::CompareContext observed(compare::CompareContext background);

// The side to run next to find each border: the ends first, then the middle in between. Nothing once all borders are
// found.
std::optional<size_t> next_to_run(const Timeline& course, const std::vector<bool>& can_run);

// A course and its sides.
struct TimelineView {
  const Timeline* course = nullptr;
  const std::vector<compare::Side>* sides = nullptr;
};

// Whether the one has, for each release of the other, the same result.
bool subsumes(const TimelineView& one, const TimelineView& other);

// Indices: those with the most releases first, each followed by those that it subsumes.
std::vector<std::vector<size_t>> grouped(const std::vector<TimelineView>& all);

// A machine whose timeline another one subsumes, with its releases.
struct SubsumedMachine {
  std::string machine;
  std::vector<std::string> releases;
};

// The timeline of one machine.
struct MachineTimeline {
  std::string machine;
  std::vector<compare::Side> sides;
  Timeline course;
  std::vector<SubsumedMachine> same_on = {};
};

// One for each group, with the others in its same_on.
std::vector<MachineTimeline> folded(const std::vector<MachineTimeline>& all);

// For folded timelines: success if some machine has one answer or no change, and no border has a gap; else
// Inconclusive.
Exit exit_for(const std::vector<MachineTimeline>& all);

}  // namespace recapture::timeline
