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

namespace recapture {

// What one side has of a test.
struct Stand {
  std::string result;   // Its word; "" where the side says nothing that could be compared,
  std::string seen;     // and then `why_not`.
  std::string why_not;  // "not on record", "cannot run: no Python".
  std::string record;   // Its path.
};

// Two sides that follow each other, but for those that say nothing, and differ.
struct Border {
  size_t from = 0, to = 0;
  Consequence consequence = Consequence::Same;
  std::string sentence;
  std::vector<UpstreamChange> upstream;  // What cases/changes.toml has of it; else the threads that the case cites.

  // Whether nothing lies between them that could have changed it.
  bool is_tight() const { return from + 1 == to; }
};

struct Course {
  std::string test;
  std::vector<Stand> stands;  // One a side.
  std::vector<Border> borders;

  std::vector<size_t> known() const;  // The sides that say something.
};

// A side a release that is on record or that has to be there, oldest first; what is no release is left out. A release
// that is not on record has no run.
std::vector<Side> with_gaps(std::vector<Side> releases, const std::vector<std::string>& matrix);

// For all tests of one machine's sides. Points to them.
class Courses {
 public:
  // Of the background the expectations are not wanted: whether a release was expected to differ changes nothing of what
  // it showed. `sides` are judged with observed().
  Courses(const std::vector<Side>& sides, const Background& background);

  Course of(const std::string& test);

 private:
  const Pair* pair(size_t from, size_t to, const std::string& test);
  Stand stand(size_t side, const std::string& test) const;
  Course from(size_t first, Course course);

  const std::vector<Side>& sides_;
  const Background& background_;
  std::vector<Results> results_;
  std::map<std::pair<size_t, size_t>, std::map<std::string, Pair>> pairs_;
};

// The background with which records say what was seen and not whether that was expected.
Background observed(Background background);

// "2.7.1, 2.8.0" or "2.7.1 to 2.10.0": the sides between, none of which says anything.
std::string between(const Border& border, const std::vector<Side>& sides);

// How sure a change's first release is, by the two sides of a border: bounded by both, a guess among what lies between,
// or contradicted.
std::string bounds_of(const std::string& since, const Border& border, const std::vector<Side>& sides);

// Which of the sides should be run next to find each border: the ends first, then the middle of what lies between.
// Nothing once there is no more to be found.
std::optional<size_t> next_to_run(const Course& course, const std::vector<bool>& can_run);

// A course and the sides that it goes along.
struct CourseOf {
  const Course* course = nullptr;
  const std::vector<Side>* sides = nullptr;
};

// Whether the one shows of each release that the other knows what that shows of it.
bool says_all_of(const CourseOf& one, const CourseOf& other);

// By their indices: those that know most releases first, each followed by those that say nothing else.
std::vector<std::vector<size_t>> grouped(const std::vector<CourseOf>& all);

// A machine's.
struct MachineCourse {
  std::string machine;
  std::vector<Side> sides;
  Course course;
  std::vector<std::string> same_on = {};  // Those that show nothing else: "NVIDIA H100, driver 1: 2.4.1, 2.9.1".
};
std::string as_text(const MachineCourse& one);
Json as_json(const MachineCourse& one);

// One for each group, with the others in its same_on.
std::vector<MachineCourse> folded(const std::vector<MachineCourse>& all);

// Of what is folded: one answer or no change on some machine, and nowhere a border with something between; else
// Inconclusive.
Exit exit_for(const std::vector<MachineCourse>& all);

}  // namespace recapture
