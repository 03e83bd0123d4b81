#include "harness/timeline/bisect.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "harness/base/escape.h"
#include "harness/base/text.h"
#include "harness/model/release.h"
#include "harness/verdict/rate.h"
#include "harness/words/observation.h"

namespace recapture::timeline {
namespace {

bool is_absent(const compare::Seen& seen) { return seen.state() == compare::State::Absent; }

}  // namespace

std::vector<size_t> Timeline::known() const {
  std::vector<size_t> all;
  for (size_t i = 0; i < stands.size(); ++i) {
    if (!stands[i].result.empty()) all.push_back(i);
  }
  return all;
}

std::vector<compare::Side> with_gaps(std::vector<compare::Side> releases, const std::vector<std::string>& matrix) {
  std::erase_if(releases, [](const compare::Side& side) { return !is_version(side.name); });
  for (const std::string& release : matrix) {
    const auto is_it = [&](const compare::Side& side) { return side.name == release; };
    if (std::ranges::none_of(releases, is_it)) releases.push_back({release, {}});
  }
  std::ranges::stable_sort(releases, {}, [](const compare::Side& side) { return Release(side.name); });
  return releases;
}

compare::CompareContext observed(compare::CompareContext background) {
  background.rules.expectations.clear();
  return background;
}

TimelineBuilder::TimelineBuilder(const std::vector<compare::Side>& sides, const compare::CompareContext& background)
    : sides_(sides), background_(background) {
  results_.reserve(sides.size());
  for (const compare::Side& side : sides) results_.emplace_back(side);
}

const compare::Pair* TimelineBuilder::pair(size_t from, size_t to, const std::string& test) {
  const auto [known, is_new] = pairs_.emplace(std::pair(from, to), std::map<std::string, compare::Pair>());
  if (is_new) {
    for (compare::Pair& pair : compare::pairs_of(sides_[from], sides_[to], background_)) {
      const std::string id = pair.compared.test;
      known->second.emplace(id, std::move(pair));
    }
  }
  const auto found = known->second.find(test);
  return found == known->second.end() ? nullptr : &found->second;
}

ReleaseResult TimelineBuilder::stand(size_t side, const std::string& test) const {
  ReleaseResult stand;
  stand.from = stand.to = sides_[side].name;
  if (sides_[side].runs.empty()) return stand;
  const auto& seen = results_[side].of(test).ran;
  if (seen.empty()) {
    stand.unknown = results_[side].of(test).why_not();
    stand.unknown.side = compare::WhichSide::To;
    return stand;
  }
  // A run without a race is no evidence against a run with it.
  const auto is = [](Result result) {
    return [result](const compare::Seen& one) { return one.row->result == result; };
  };
  const auto occurred = std::ranges::find_if(seen, is(Result::Reproduced));
  const bool stays_seen = is(Result::Unseen)(seen.front()) && occurred != seen.end();
  const compare::Seen& its = stays_seen ? *occurred : seen.front();
  const TestVerdict& row = *its.row;
  const auto unseen = static_cast<size_t>(std::ranges::count_if(seen, is(Result::Unseen)));
  stand.record = its.run->record.path;
  stand.seen = truncated(render_observed(row));
  if (row.result == Result::Invalid || row.verdict == Verdict::Inconclusive || row.verdict == Verdict::Missing) {
    stand.unknown = {.kind = compare::UnknownKind::Unclear, .verdict = row.verdict, .text = stand.seen};
  } else if (row.result == Result::Unseen && unseen < kFewestRuns) {
    stand.unknown = {.kind = compare::UnknownKind::TooFewRuns, .runs = unseen};
  } else {
    stand.result = to_string(row.result);
  }
  return stand;
}

// Extends the course from that side on, over all sides comparable with the one before.
Timeline TimelineBuilder::from(size_t first, Timeline course) {
  const std::string& test = course.test;
  // `from` and `to` are the sides of the comparison that leaves this one out.
  const auto leave_out = [&](size_t side, const compare::ComparedTest* compared, size_t from, size_t to) {
    ReleaseResult& stand = course.stands[side];
    const bool is_known = compared == nullptr || compared->consequence != compare::Consequence::Unknown;
    stand.result.clear();
    stand.unknown = is_known ? compare::Unknown{.kind = compare::UnknownKind::NotComparable} : *compared->unknown;
    stand.from = sides_[from].name;
    stand.to = sides_[to].name;
  };
  size_t before = first;
  for (size_t now = 0; now < sides_.size(); ++now) {
    if (now == first || course.stands[now].result.empty()) continue;
    const auto [from, to] = now < first ? std::pair(now, first) : std::pair(before, now);
    const compare::Pair* both = pair(from, to, test);
    if (both == nullptr || both->from.row == nullptr || both->to.row == nullptr || now < first) {
      leave_out(now, both == nullptr ? nullptr : &both->compared, from, to);
      continue;
    }
    const bool was_absent = is_absent(both->from), is_absent_now = is_absent(both->to);
    const bool is_unknown = both->compared.consequence == compare::Consequence::Unknown;
    if (is_unknown && was_absent == is_absent_now && !was_absent) {
      leave_out(now, &both->compared, from, to);
      continue;
    }
    Transition border{before, now, both->compared};
    const std::string &was = course.stands[before].result, &is = course.stands[now].result;
    const bool has_words = both->compared.has_change() || (is_unknown && was_absent != is_absent_now);
    if (!has_words) {  // A harmless difference, if any.
      border.compared.change = compare::Change{compare::ChangeKind::Result, {.text = was}, {.text = is}};
    }
    if (has_words || was != is) {
      border.upstream = compare::upstream_of(*both, background_);
      course.borders.push_back(std::move(border));
    }
    before = now;
  }
  return course;
}

Timeline TimelineBuilder::of(const std::string& test) {
  Timeline all{test, {}, {}};
  for (size_t i = 0; i < sides_.size(); ++i) all.stands.push_back(stand(i, test));
  // Not all are comparable: some ran other code. Uses the largest comparable set.
  Timeline most = all;
  const std::vector<size_t> clear = all.known();
  for (size_t i = 0; i < clear.size(); ++i) {
    if (i > 0 && most.known().size() >= clear.size() - i) break;
    Timeline course = from(clear[i], all);
    if (i == 0 || course.known().size() > most.known().size()) most = std::move(course);
  }
  return most;
}

std::optional<size_t> next_to_run(const Timeline& course, const std::vector<bool>& can_run) {
  const std::vector<size_t> known = course.known();
  std::vector<size_t> left;
  for (size_t i = 0; i < can_run.size(); ++i) {
    if (can_run[i] && course.stands[i].result.empty()) left.push_back(i);
  }
  if (left.empty()) return std::nullopt;
  if (known.empty() || left.front() < known.front()) return left.front();
  if (left.back() > known.back()) return left.back();
  for (const Transition& border : course.borders) {
    std::vector<size_t> inside;
    std::ranges::copy_if(left, std::back_inserter(inside), [&](size_t i) { return i > border.from && i < border.to; });
    if (!inside.empty()) return inside[inside.size() / 2];
  }
  return std::nullopt;
}

bool subsumes(const TimelineView& one, const TimelineView& other) {
  const auto known = other.course->known();
  return std::ranges::all_of(known, [&](size_t its) {
    const auto same = std::ranges::find_if(
        *one.sides, [&](const compare::Side& side) { return side.name == (*other.sides)[its].name; });
    if (same == one.sides->end()) return false;
    const ReleaseResult& a = one.course->stands[static_cast<size_t>(same - one.sides->begin())];
    const ReleaseResult& b = other.course->stands[its];
    return a.result == b.result && a.seen == b.seen;
  });
}

std::vector<std::vector<size_t>> grouped(const std::vector<TimelineView>& all) {
  std::vector<size_t> order(all.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(
      order, [&](size_t a, size_t b) { return all[a].course->known().size() > all[b].course->known().size(); });
  std::vector<std::vector<size_t>> groups;
  for (const size_t i : order) {
    const auto more =
        std::ranges::find_if(groups, [&](const auto& group) { return subsumes(all[group.front()], all[i]); });
    (more == groups.end() ? groups.emplace_back() : *more).push_back(i);
  }
  return groups;
}

std::vector<MachineTimeline> folded(const std::vector<MachineTimeline>& all) {
  std::vector<TimelineView> courses;
  courses.reserve(all.size());
  for (const MachineTimeline& one : all) courses.push_back({&one.course, &one.sides});
  std::vector<MachineTimeline> kept;
  for (const std::vector<size_t>& group : grouped(courses)) {
    kept.push_back(all[group.front()]);
    for (size_t i = 1; i < group.size(); ++i) {
      const MachineTimeline& one = all[group[i]];
      kept.back().same_on.push_back({one.machine, {}});
      for (const size_t side : one.course.known()) kept.back().same_on.back().releases.push_back(one.sides[side].name);
    }
  }
  return kept;
}

Exit exit_for(const std::vector<MachineTimeline>& all) {
  bool any = false, open = false;
  for (const MachineTimeline& one : all) {
    any = any || one.course.known().size() > 1;
    open = open || std::ranges::any_of(one.course.borders, [](const Transition& border) { return !border.is_tight(); });
  }
  return any && !open ? Exit::AsExpected : Exit::Inconclusive;
}

}  // namespace recapture::timeline
