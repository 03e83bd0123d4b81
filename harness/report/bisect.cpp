#include "harness/report/bisect.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

#include "harness/base/text.h"
#include "harness/model/release.h"
#include "harness/report/change.h"

namespace recapture::report {
namespace {

// "no change from 2.6.0 to 2.15.0", and the known results at the ends.
std::string answer_of(const timeline::MachineTimeline& one) {
  const auto known = one.course.known();
  if (known.empty()) return "nothing is known of any release";
  const auto name = [&](size_t side) { return one.sides[side].name; };
  if (known.size() == 1) return fmt::format("nothing to compare {} with", name(known.front()));
  if (one.course.borders.empty())
    return fmt::format("no change from {} to {}", name(known.front()), name(known.back()));
  std::vector<std::string> answers;
  for (const timeline::Transition& border : one.course.borders) {
    answers.push_back(border.is_tight()
                          ? fmt::format("{} changed it", name(border.to))
                          : fmt::format("it changed after {} and not after {}", name(border.from), name(border.to)));
  }
  return join(answers, "; ");
}

std::string why_not(const timeline::ReleaseResult& stand) {
  return render_unknown(stand.unknown, stand.from, stand.to);
}

// The commit of the build that showed a side's result.
std::string commit_of(const timeline::MachineTimeline& one, size_t side) {
  for (const JudgedRun& run : one.sides[side].runs) {
    if (run.record.path == one.course.stands[side].record) return run.record.env("libtorch_git");
  }
  return "";
}

// A release's commit is that of its tag; of a nightly or a fork it is the only name that stays.
std::string commits_of(const timeline::MachineTimeline& one, const timeline::Transition& border) {
  const std::string from = commit_of(one, border.from), to = commit_of(one, border.to);
  const Release before(one.sides[border.from].name), now(one.sides[border.to].name);
  if ((before.is_final() && now.is_final()) || from.empty() || to.empty()) return "";
  return fmt::format("    commits: {} ({}) to {} ({})\n", from, before.name(), to, now.name());
}

}  // namespace

std::string sentence_of(const timeline::Transition& border, const std::vector<compare::Side>& sides) {
  const std::string &from = sides[border.from].name, &to = sides[border.to].name;
  const compare::Change& change = *border.compared.change;
  return change.kind == compare::ChangeKind::Result ? render_change(change, from, to)
                                                    : render_compared(border.compared, from, to);
}

std::string between(const timeline::Transition& border, const std::vector<compare::Side>& sides) {
  std::vector<std::string> names;
  for (size_t i = border.from + 1; i < border.to; ++i) names.push_back(sides[i].name);
  constexpr size_t kFew = 3;
  return names.size() <= kFew ? join(names) : names.front() + " to " + names.back();
}

std::string bounds_of(const std::string& since, const timeline::Transition& border,
                      const std::vector<compare::Side>& sides) {
  const std::string &from = sides[border.from].name, &to = sides[border.to].name;
  const Release before(from), after(to), start(since);
  const bool can_tell = before.is_version() && after.is_version() && start.is_version();
  if (can_tell && !before.is_older_than(start)) {
    return fmt::format("the records contradict {}: {} does not have it yet", since, from);
  }
  if (can_tell && after.is_older_than(start)) {
    return fmt::format("the records contradict {}: {} has it already", since, to);
  }
  if (border.is_tight()) return "bounded by records on both sides";
  return fmt::format("{} is a guess: the records say after {} and not after {}", since.empty() ? "the release" : since,
                     from, to);
}

std::string render_text(const timeline::MachineTimeline& one) {
  const std::vector<compare::Side>& sides = one.sides;
  const timeline::Timeline& course = one.course;
  std::string text = one.machine + "\n";
  // Equal neighbours are one line.
  auto border = course.borders.begin();
  std::vector<std::string> alike;
  std::optional<size_t> last;
  const auto end_line = [&]() {
    if (!last) return;
    const timeline::ReleaseResult& stand = course.stands[*last];
    text +=
        fmt::format("  {}: {}{}{}\n", fmt::join(alike, ", "), stand.result, stand.seen.empty() ? "" : "  ", stand.seen);
    alike.clear();
  };
  for (const size_t side : course.known()) {
    if (border != course.borders.end() && side == border->to) {
      end_line();
      text += fmt::format("    {}\n", sentence_of(*border, sides));
      std::string since;
      // A change of cases/expectations.toml, with its numbers; or threads that the case cites.
      const bool is_change = !border->upstream.empty() && !border->upstream.front().what.empty();
      for (const compare::UpstreamChange& its : border->upstream) {
        const std::string what = !is_change ? "see " + its.title : its.what.empty() ? "and" : its.what;
        text += fmt::format("    {}: {}{}{}{}\n", what, its.number, its.since.empty() ? "" : ", since " + its.since,
                            its.url.empty() ? "" : ", ", its.url);
        if (is_change) since = its.since;
      }
      text += fmt::format("    {}\n", bounds_of(since, *border, sides));
      if (!border->is_tight()) text += fmt::format("    between lie {}\n", between(*border, sides));
      text += commits_of(one, *border);
      ++border;
    }
    alike.push_back(sides[side].name);
    last = side;
  }
  end_line();
  std::vector<std::pair<std::string, std::vector<std::string>>> unknown;  // By reason.
  const bool is_alone = course.known().size() == 1;  // Then the answer states that there is no other.
  for (size_t i = 0; i < sides.size(); ++i) {
    const timeline::ReleaseResult& stand = course.stands[i];
    if (!stand.result.empty() || (is_alone && stand.unknown.kind == compare::UnknownKind::NotOnRecord)) continue;
    const std::string why = why_not(stand);
    const auto known = std::ranges::find_if(unknown, [&](const auto& u) { return u.first == why; });
    (known == unknown.end() ? unknown.emplace_back(why, std::vector<std::string>()) : *known)
        .second.push_back(sides[i].name);
  }
  for (const auto& [why, names] : unknown) text += fmt::format("  {}: {}\n", fmt::join(names, ", "), why);
  for (const auto& [machine, releases] : one.same_on) {
    text += fmt::format("  the same on {}: {}\n", machine, join(releases));
  }
  return text + fmt::format("  {}\n", answer_of(one));
}

Json render_json(const timeline::MachineTimeline& one) {
  const auto& [machine, sides, course, same_on] = one;
  Json json = {
      {"machine", machine}, {"releases", Json::array()}, {"changes", Json::array()}, {"answer", answer_of(one)}};
  for (size_t i = 0; i < sides.size(); ++i) {
    const timeline::ReleaseResult& stand = course.stands[i];
    Json side = {{"release", sides[i].name}};
    if (stand.result.empty()) {
      side["why_not"] = why_not(stand);
    } else {
      side.update({{"result", stand.result}, {"seen", stand.seen}, {"record", stand.record}});
    }
    json["releases"].push_back(side);
  }
  for (const timeline::Transition& border : course.borders) {
    Json change = {{"from", sides[border.from].name},
                   {"to", sides[border.to].name},
                   {"between", Json::array()},
                   {"commits", {{"from", commit_of(one, border.from)}, {"to", commit_of(one, border.to)}}},
                   {"sentence", sentence_of(border, sides)},
                   {"upstream", Json::array()}};
    for (size_t i = border.from + 1; i < border.to; ++i) change["between"].push_back(sides[i].name);
    for (const compare::UpstreamChange& its : border.upstream) {
      change["upstream"].push_back(
          {{"number", its.number}, {"what", its.what}, {"since", its.since}, {"url", its.url}});
    }
    json["changes"].push_back(change);
  }
  return json;
}

}  // namespace recapture::report
