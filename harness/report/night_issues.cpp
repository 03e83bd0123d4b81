#include "harness/report/night_issues.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "harness/base/escape.h"
#include "harness/base/text.h"
#include "harness/case/source_hash.h"
#include "harness/model/release.h"
#include "harness/report/change.h"
#include "harness/report/markdown_kit.h"
#include "harness/report/night.h"

namespace recapture::report {
namespace {

using nightly::MissingTask;
using nightly::NightReport;
using nightly::NightState;
using nightly::PlaceState;
using nightly::TestState;

// A test of a place with a state.
struct Finding {
  const PlaceState* place;
  const TestState* test;
};

// "H200", short enough for a title.
std::string short_gpu(const std::string& gpu) {
  constexpr std::string_view kVendor = "NVIDIA ";
  if (gpu.empty()) return "no GPU";
  return gpu.rfind(kVendor, 0) == 0 ? gpu.substr(kVendor.size()) : gpu;
}

// "[2.11.0, 2.15.0 H200; 2.11.0 H100]"
std::string places_in_title(const std::vector<std::pair<std::string, std::string>>& places) {
  std::map<std::string, std::vector<std::string>> releases;
  for (const auto& [release, gpu] : places) add_once(releases[short_gpu(gpu)], release);
  std::vector<std::string> parts;
  parts.reserve(releases.size());
  for (const auto& [gpu, names] : releases) parts.push_back(fmt::format("{} {}", join(names), gpu));
  return "[" + join(parts, "; ") + "]";
}

std::string title(const std::string& text) {
  constexpr size_t kMost = 200;  // GitHub takes 256 characters.
  return truncated(text, kMost);
}

std::string block(const std::vector<std::string>& lines) {
  constexpr size_t kLines = 8, kBytes = 4000;
  std::string text;
  for (size_t i = 0; i < lines.size() && i < kLines; ++i) {
    text += "    " + escape_control(lines[i]).substr(0, kBytes) + "\n";
  }
  return text;
}

std::string moved(const char* name, const std::string& before, const std::string& now) {
  const std::string earlier = before.empty() || before == now ? "" : before + " -> ";
  return fmt::format("{} {}{}", name, earlier, now);
}

std::string state_in_words(const TestState& test) {
  switch (test.state) {
    case NightState::New:
      return "new";
    case NightState::Flaky:
      return fmt::format("flaky, {}, {}", streak_in_words(test), test.is_red ? "red tonight" : "not red tonight");
    case NightState::Still:
      return fmt::format("red since {} ({})", test.since, streak_in_words(test));
    case NightState::Edited:
    case NightState::Unplanned:
      return unresolved_words(test);
    default:
      return fmt::format("{}; it was red since {} ({})", closing_words(test.state), test.since, streak_in_words(test));
  }
}

std::string where_line(const Finding& finding, const std::string& night) {
  const PlaceState& place = *finding.place;
  const TestState& test = *finding.test;
  const std::string gpu = place.gpu.empty() ? "" : ", " + moved("driver", test.driver, place.driver);
  return fmt::format("* {}\n", code_span(fmt::format("{}{}, {}, night {}: {}", place.name, gpu,
                                                     moved("CUDA runtime", test.runtime, place.runtime), night,
                                                     state_in_words(test))));
}

class IssueWriter {
 public:
  IssueWriter(const NightReport& report, const compare::CompareContext& background)
      : report_(report), background_(background) {}

  std::vector<NightIssue> issues() const {
    std::map<std::string, std::vector<Finding>> causes;
    for (const PlaceState& place : report_.places) {
      for (const TestState& test : place.tests) causes[test.fingerprint].push_back({&place, &test});
    }
    std::vector<NightIssue> all;
    for (const auto& [fingerprint, findings] : causes) add_issue(fingerprint, findings, all);
    for (const MissingTask& task : report_.missing) all.push_back(issue_of(task));
    return all;
  }

 private:
  // For one cause: the findings that are open tonight; else those that are edited or no longer planned, whose issue
  // stays open; else, if all could be judged, those that have healed.
  void add_issue(const std::string& fingerprint, const std::vector<Finding>& findings,
                 std::vector<NightIssue>& all) const {
    std::vector<Finding> open, closed, unresolved;
    bool is_unknown = false;
    for (const Finding& finding : findings) {
      const NightState state = finding.test->state;
      is_unknown = is_unknown || state == NightState::NotJudged;
      if (is_closed(state)) closed.push_back(finding);
      if (is_open(state)) open.push_back(finding);
      if (state == NightState::Edited || state == NightState::Unplanned) unresolved.push_back(finding);
    }
    if (open.empty()) open = std::move(unresolved);
    if (open.empty() && (is_unknown || closed.empty())) return;
    all.push_back(issue_of(fingerprint, open.empty() ? closed : open, !open.empty()));
  }

  NightIssue issue_of(const std::string& fingerprint, const std::vector<Finding>& findings, bool is_open) const {
    const TestState& first = *findings.front().test;
    const std::string id = case_of(first.change.test);
    const bool has_change = first.change.has_change();
    const bool is_unresolved = first.state == NightState::Edited || first.state == NightState::Unplanned;
    const bool is_flaky =
        std::ranges::any_of(findings, [](const Finding& each) { return each.test->state == NightState::Flaky; });
    NightIssue issue;
    issue.fingerprint = fingerprint;
    issue.is_open = is_open;
    issue.labels = {"recapture"};
    if (has_change) {
      std::string label = first.change.what();
      std::replace(label.begin(), label.end(), ' ', '-');
      issue.labels.push_back(label);
    }
    if (is_flaky) issue.labels.emplace_back("flaky");
    if (is_unresolved) issue.labels.emplace_back(first.state == NightState::Edited ? "edited" : "no-longer-planned");
    std::vector<std::pair<std::string, std::string>> places;
    places.reserve(findings.size());
    for (const Finding& each : findings) places.emplace_back(each.place->release, each.place->gpu);
    const std::string what = is_unresolved ? std::string(to_string(first.state))
                             : has_change  ? first.change.what()
                                           : "flaky";
    const CatalogueCase* one = background_.find(id);
    issue.title = title(fmt::format("{} {}: {}{}{}", places_in_title(places), id, what, one == nullptr ? "" : ": ",
                                    one == nullptr ? "" : one->title));
    issue.body = body_of(findings, fingerprint, what);
    return issue;
  }

  std::string body_of(const std::vector<Finding>& findings, const std::string& fingerprint,
                      const std::string& what) const {
    std::vector<std::string> names, changes, seen, where, fixes, upstream;
    const std::string id = case_of(findings.front().test->change.test);
    for (const Finding& finding : findings) {
      const TestState& test = *finding.test;
      add_once(names, name_of(test.change.test));
      if (!test.runs.empty()) add_once(changes, test.runs);
      if (test.change.has_change()) add_once(changes, sentence_of(test.change));
      if (!test.seen.empty()) add_once(seen, test.seen);
      add_once(where, where_line(finding, report_.night));
      const auto remedies = finding.place->remedies.find(id);
      if (remedies != finding.place->remedies.end()) {
        for (const std::string& fix : remedies->second) add_once(fixes, fix);
      }
      for (const compare::UpstreamChange& source : test.upstream) {
        add_once(upstream, fmt::format("* {} {}\n", source.number, source.url));
      }
    }
    if (changes.empty()) changes = {"a repetition or another run of a night gave another result"};
    std::string body = fmt::format("{} ({}): {}\n\n{}\n", id, join(names), what, block(changes));
    if (!seen.empty()) body += fmt::format("Seen:\n\n{}\n", block(seen));
    body += fmt::format("On:\n\n{}\nWhat to do:\n\n", join(where, ""));
    for (const std::string& fix : fixes) body += fmt::format("* {}\n", escape_markdown(fix));
    body += fmt::format("* `ci/suite {} -- {}` runs it; `recapture show {}` has what is known of it.\n",
                        findings.back().place->release, id, id);
    if (!upstream.empty()) body += fmt::format("\nUpstream:\n\n{}", join(upstream, ""));
    return body + fmt::format("\nrecapture-fingerprint: {}\n", fingerprint);
  }

  NightIssue issue_of(const MissingTask& missing) const {
    const nightly::NightTask& task = missing.lacking.task;
    const std::string what = missing.lacking.is_incomplete ? "incomplete" : "missing";
    NightIssue issue;
    issue.fingerprint = hash_of(
        fmt::format("missing|{}|{}|{}", Release(task.release).without_nightly_date(), task.gpu, task.shard_words()));
    issue.is_open = !missing.is_closed;
    issue.labels = {"recapture", "missing"};
    issue.title = title(fmt::format("{} {}: {}", places_in_title({{task.release, task.gpu}}), what, task.name()));
    std::string state = missing.is_new ? "new" : fmt::format("since {}", missing.since);
    if (missing.is_closed) {
      state = fmt::format("{}; it was {} since {}",
                          missing.is_planned ? "it has its record again" : "it is not planned any more", what,
                          missing.since);
    }
    issue.body = fmt::format("{}\nNight {}: {}.\n\nWhat to do: look at the log of the task and at its machine.\n",
                             block({missing.lacking.reason}), report_.night, state);
    for (const PlaceState& place : report_.places) {
      if (place.is_here || !nightly::is_of_place(task, place.environment)) continue;
      issue.body +=
          fmt::format("\n{} tests of {} are not judged.\n", place.not_judged.size(), escape_markdown(place.name));
    }
    issue.body += fmt::format("\nrecapture-fingerprint: {}\n", issue.fingerprint);
    return issue;
  }

  const NightReport& report_;
  const compare::CompareContext& background_;
};

}  // namespace

std::vector<NightIssue> issues_of(const NightReport& report, const compare::CompareContext& background) {
  return IssueWriter(report, background).issues();
}

Json render_json(const std::vector<NightIssue>& issues) {
  Json all = Json::array();
  for (const NightIssue& issue : issues) {
    all.push_back({{"fingerprint", issue.fingerprint},
                   {"state", issue.is_open ? "open" : "healed"},
                   {"title", issue.title},
                   {"body", issue.body},
                   {"labels", issue.labels}});
  }
  return all;
}

}  // namespace recapture::report
