#include "harness/report/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string_view>

#include "harness/base/colour.h"
#include "harness/base/escape.h"
#include "harness/base/text.h"
#include "harness/case/events.h"
#include "harness/model/release.h"
#include "harness/report/latest.h"
#include "harness/verdict/duration.h"
#include "harness/words/observation.h"

namespace recapture::report {
namespace {

// "MIG, compute mode exclusive process, MPS, WSL2, a container (Docker), no NVML"; "" where nothing is unusual.
std::string render_unusual(const Record& record) {
  std::vector<std::string> parts;
  const auto add = [&](const char* key, const char* words) {
    const std::string value = record.env(key);
    if (!value.empty() && value != "off") parts.push_back(fmt::format(fmt::runtime(words), value));
  };
  add("mig", "MIG");
  add("compute_mode", "compute mode {}");
  add("mps", "MPS");
  add("wsl", "{}");
  add("container", "a container ({})");
  add("nvml", "no NVML");
  return join(parts);
}

}  // namespace

std::string render_verdict(Verdict verdict) {
  const Severity severity = severity_of(verdict);
  return in_colour(fmt::format("{:<14}", to_string(verdict)), severity == Severity::Pass    ? Colour::Green
                                                              : severity == Severity::Error ? Colour::Yellow
                                                              : severity == Severity::Fail  ? Colour::Red
                                                                                            : Colour::None);
}

std::string render_line(const TestVerdict& row) {
  const std::string seen = truncated(render_observed(row));
  return fmt::format("{:<62} {:<12} {} {}", row.test, row.ran ? to_string(row.result) : "-",
                     render_verdict(row.verdict), seen);
}

std::string heading(const Record& record) {
  const MachineId& machine = record.environment.kind.machine;
  const std::string release = record.env("release");
  std::string text = is_version(release) ? "LibTorch " + release : release + " without LibTorch";
  text += fmt::format("{}, CUDA runtime {}, {}", machine.packed ? " (packed)" : "", escape_control(machine.runtime),
                      label(machine, {.driver = true, .variables = true, .overrides = true}));
  if (record.broken() != Break::Nothing) text += fmt::format(", broken on purpose: {}", to_string(record.broken()));
  text += "\n";
  if (const std::string unusual = render_unusual(record); !unusual.empty()) text += "machine: " + unusual + "\n";
  for (const std::string& note : record.notes) text += "note: " + note + "\n";
  if (!record.end.empty() && record.end != "complete")
    text += "note: the run ended early: " + escape_control(record.end) + "\n";
  return text;
}

std::string slowest(const JudgedRun& run) {
  constexpr size_t kMost = 10;
  std::vector<const TestVerdict*> rows;
  double all = 0;
  for (const TestVerdict& row : run.rows) {
    if (!row.ran) continue;
    rows.push_back(&row);
    all += row.seconds;
  }
  std::ranges::stable_sort(rows, [](const TestVerdict* a, const TestVerdict* b) { return a->seconds > b->seconds; });
  const int width = width_of(run.record, "");
  std::string text = fmt::format("{} took {} in all{}; the slowest:\n", plural(rows.size(), "test"),
                                 render_seconds(all), at_once(width));
  rows.resize(std::min(rows.size(), kMost));
  for (const TestVerdict* row : rows) {
    const bool is_alone = width > 1 && width_of(run.record, row->case_id) == 1;
    text += fmt::format("  {:>8}  {}{}\n", render_seconds(row->seconds), row->test, is_alone ? " (alone)" : "");
  }
  return text;
}

std::string summary(const std::vector<TestVerdict>& rows) {
  std::map<Verdict, int> counts;
  std::map<std::string, std::vector<std::string>> reasons;
  std::vector<const TestVerdict*> operators;
  for (const TestVerdict& row : rows) {
    if (row.kind == Kind::Operator) {
      operators.push_back(&row);
      continue;
    }
    ++counts[row.verdict];
    if (row.verdict == Verdict::Unavailable || row.verdict == Verdict::Missing ||
        row.verdict == Verdict::NotApplicable || row.verdict == Verdict::Insufficient) {
      reasons[std::string(to_string(row.verdict)) + ": " + escape_control(render_observed(row))].push_back(row.test);
    }
  }
  std::string text;
  for (const auto& [verdict, count] : counts)
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, to_string(verdict));
  if (!operators.empty())
    text += fmt::format("{}operators: {}", text.empty() ? "" : "; ", render_operator_counts(operators));
  text += "\n";
  for (const auto& [reason, tests] : reasons) {
    text += fmt::format("  {} ({}: {}{})\n", reason, tests.size(), tests.front(), tests.size() > 1 ? ", …" : "");
  }
  return text;
}

std::string observed_tables(const Record& record, const std::vector<TestVerdict>& rows) {
  std::string text, current;
  for (const TestVerdict& row : rows) {
    const TestRecord* test = record.find(row.test);
    if (test == nullptr || row.verdict == Verdict::Stale) continue;
    const Json tables = test->tables();
    for (const auto& [name, value] : tables.items()) {
      if (row.case_id != current) {
        current = row.case_id;
        text += fmt::format("\n{}: {}\n  {:<48} {}\n", current, escape_control(record.cases.at(current).title),
                            "the document", escape_control(record.cases.at(current).documented));
      }
      text += fmt::format("  {:<48} {}\n", escape_control(name.substr(std::string_view(key::table).size())),
                          escape_control(value.is_string() ? value.get<std::string>() : value.dump()));
    }
  }
  return text;
}

}  // namespace recapture::report
