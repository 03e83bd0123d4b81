#include "harness/report/latest.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "harness/model/operator_cases.h"
#include "harness/model/release.h"

namespace recapture::report {

std::string title_of(const OnMachine& machine) {
  return (machine.name.release.is_version() ? "LibTorch " : "") + machine.machine;
}

std::string title_of(const OnMachine& machine, const Record& record) {
  std::string title = title_of(machine);
  const std::string driver = record.env("driver"), date = record.environment.started.substr(0, 10);
  if (!driver.empty() && !machine.name.has_driver) title += ", driver " + driver;
  if (!machine.name.has_runtime) title += ", CUDA runtime " + record.env("cuda_runtime");
  if (record.environment.machine.packed) title += " (packed)";
  return title + (date.empty() ? "" : ", " + date);
}

std::string render_operator_counts(const std::vector<const TestVerdict*>& rows) {
  std::vector<std::pair<std::string, size_t>> counts = {{"captured", 0}, {"refused", 0}, {"captured and wrong", 0}};
  for (const TestVerdict* row : rows) {
    std::string word(to_string(row->verdict));
    if (severity_of(row->verdict) == Severity::Pass && row->result == Result::Holds) {
      const Effect effect = row->effect.value_or(Effect::Warns);
      const bool is_later = row->case_id == kLaterCase;
      word = !row->effect                      ? "without a result"
             : is_later                        ? (effect == Effect::Works ? "stay right" : "not right later")
             : effect == Effect::Works         ? "captured"
             : effect == Effect::Raises        ? "refused"
             : effect == Effect::SilentlyWrong ? "captured and wrong"
                                               : std::string(to_string(effect));
    } else if (row->verdict == Verdict::NotApplicable) {
      word = "not in this release";
    }
    const auto found = std::ranges::find_if(counts, [&](const auto& one) { return one.first == word; });
    if (found == counts.end()) {
      counts.emplace_back(word, 1);
    } else {
      ++found->second;
    }
  }
  std::string text;
  for (const auto& [word, count] : counts) {
    if (count > 0) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, word);
  }
  return text;
}

std::string render_operator_counts(const std::vector<Latest>& operators) {
  std::vector<const TestVerdict*> rows;
  rows.reserve(operators.size());
  for (const Latest& latest : operators) rows.push_back(latest.row);
  return render_operator_counts(rows);
}

}  // namespace recapture::report
