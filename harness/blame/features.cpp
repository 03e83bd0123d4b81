#include "harness/blame/features.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "harness/base/json.h"
#include "harness/base/text.h"
#include "harness/blame/report.h"

namespace recapture::blame {
namespace {

using compare::Use;

// The last line of each process; each line repeats all features seen so far.
std::map<int, Json> last_lines(std::string_view report) {
  std::map<int, Json> lines;
  for (size_t at = 0; at < report.size();) {
    const size_t end = std::min(report.find('\n', at), report.size());
    const Json line = try_parse_json(report.substr(at, end - at)).value_or(Json());
    at = end + 1;
    if (line.is_object() && text_at(line, "event") == "features") lines[int_at(line, "pid").value_or(0)] = line;
  }
  return lines;
}

std::string reason_at(const Json& line, const char* member, std::string_view tag) {
  const auto all = line.find(member);
  return all == line.end() || !all->is_object() ? "" : text_at(*all, tag);
}

void add_texts(const Json& line, const char* member, std::set<std::string>& texts) {
  for (const Json& text : line.value(member, Json::array())) {
    if (text.is_string()) texts.insert(text.get<std::string>());
  }
}

// Why a feature that the process did not show may still be used; "" if there is no reason.
std::string doubt_about(const Json& line) {
  if (line.is_null()) return "a process used CUDA and cannot be observed: it has no PyTorch of Python's";
  if (const std::string error = text_at(line, "error"); !error.empty()) return "the observation failed: " + error;
  if (const auto end = line.find("final"); end == line.end() || *end != true)
    return "a process did not come to its end";
  if (int_at(line, "captures").value_or(0) == 0 && !reason_at(line, "used", "raw CUDA calls").empty()) {
    return "captures that are not PyTorch's cannot be observed";
  }
  return "";
}

// Why a feature cannot be observed at all.
std::string unobservable(std::string_view tag) {
  constexpr std::string_view kTags[] = {"torch.load", "runtime compilation"};
  return contains(kTags, tag) ? "it cannot be observed" : "";
}

// The call that allocated, registered or freed pinned memory and broke a capture; "" if none did.
std::string pinning_culprit(const Process& process) {
  for (const Failure& failure : process.failures) {
    if (!failure.culprit) continue;
    const std::string& api = failure.culprit->api;
    for (const char* part : {"MemHost", "MemAllocHost", "MemFreeHost"}) {
      if (api.find(part) != std::string::npos) return api;
    }
  }
  return "";
}

}  // namespace

compare::Features features_in(std::string_view report, bool failed) {
  const std::map<int, Json> lines = last_lines(report);
  const std::vector<Process> processes = read_report(report);
  compare::Features features;
  std::set<std::string> modes, operators;
  std::string doubt = failed ? "the program failed" : "";
  std::string pinning;
  bool some_failed = false;
  std::vector<const Json*> seen;
  static const Json kNothing;
  for (const Process& process : processes) {
    const auto found = lines.find(process.pid);
    const Json& line = found == lines.end() ? kNothing : found->second;
    if (doubt.empty()) doubt = doubt_about(line);
    some_failed = some_failed || !process.failures.empty();
    if (pinning.empty()) pinning = pinning_culprit(process);
    if (features.torch.empty()) features.torch = process.torch;
    if (found == lines.end()) continue;
    seen.push_back(&line);
    features.captures += static_cast<size_t>(std::max(0, int_at(line, "captures").value_or(0)));
    add_texts(line, "modes", modes);
    add_texts(line, "operators", operators);
  }
  if (doubt.empty() && features.captures == 0) doubt = "no capture was seen";
  features.modes.assign(modes.begin(), modes.end());
  features.operators.assign(operators.begin(), operators.end());
  for (const Tag& tag : kTags) {
    if (tag.name == kAnyProgram) continue;
    compare::Feature feature{&tag, Use::NotUsed, ""};
    const auto decide = [&](Use use, const std::string& how) {
      if (how.empty() || feature.use == Use::Used) return;
      if (feature.use == Use::Assumed && use == Use::Assumed) return;
      feature.use = use;
      feature.how = how;
    };
    for (const Json* line : seen) decide(Use::Used, reason_at(*line, "used", tag.name));
    if (tag.name == "failed captures" && some_failed) decide(Use::Used, "a capture failed");
    if (tag.name == "pinned memory" && !pinning.empty()) decide(Use::Used, pinning + "() broke a capture");
    for (const Json* line : seen) decide(Use::Assumed, reason_at(*line, "unknown", tag.name));
    decide(Use::Assumed, unobservable(tag.name));
    decide(Use::Assumed, doubt);
    features.all.push_back(std::move(feature));
  }
  return features;
}

}  // namespace recapture::blame
