#include "harness/report/markdown.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <string_view>

#include "harness/base/escape.h"
#include "harness/base/text.h"
#include "harness/report/extent.h"
#include "harness/report/latest.h"
#include "harness/words/observation.h"

namespace recapture::report {
namespace {

constexpr std::string_view kMatrixHead =
    "A table for each kind of GPU, and one for machines without any: each row is a documented failure, each column a\n"
    "LibTorch release, and each cell sums up the newest results of that case there that are not stale. This file is\n"
    "generated from the records in this folder, with `recapture show --markdown > reports/README.md`. Runs that put\n"
    "another CUDA runtime or NCCL in the place of the release's own have no column here; calls.md and\n"
    "`recapture show CASE` have them.\n\n";

constexpr std::string_view kTitle = "# What the records show\n\n";

constexpr std::string_view kLegend =
    "## In a cell\n\n"
    "| in a cell | meaning |\n"
    "| --- | --- |\n"
    "| reproduced | the documented failure, exactly |\n"
    "| healthy | no failure |\n"
    "| different | a failure, but not the documented one |\n"
    "| reproduced, healthy (or other words) | the case reproduces more than one thing, with different results |\n"
    "| unseen | a race that did not occur in any of its tries: no evidence either way |\n"
    "| unseen; it occurs on … | not seen on this GPU, but seen by the same code of the same release on another GPU of "
    "its architecture: the race occurs |\n"
    "| 2 of 2 fixes hold | how many of the documented remedies that apply to this release work |\n"
    "| 2 of 2 controls hold | only controls ran: the case shows what is innocent, or the rest was unavailable |\n"
    "| inapplicable | this release lacks the API that the test is about |\n"
    "| crashed, hung | the test's process ended by a signal, or was still running at its deadline |\n"
    "| invalid | the test itself is at fault, or its process ended without reporting anything |\n"
    "| stale | the case has changed since, and has not been run again |\n"
    "| inconclusive | the case's results contradict themselves or each other |\n"
    "| control fails | the case's control does not hold, and so its other results mean nothing |\n"
    "| missing | something that was there before was not there for that run |\n"
    "| unavailable: no GPU | the machine has none |\n"
    "| unavailable: no Python | this LibTorch came without its Python package |\n"
    "| unavailable: no NeMo | NeMo was not installed for that run |\n"
    "| 2 unavailable | so many of its tests could not run, as where they need two GPUs |\n"
    "| not run, 2 not run | planned, but the run ended before its turn |\n"
    "| not part of the run | the run did not include this case, because it is newer or needs a LibTorch that was not "
    "there |\n\n"
    "Where a result differs from the document, `cases/expectations.toml` says why. `recapture show CASE` prints "
    "everything\n"
    "on record about a case.\n";

constexpr std::string_view kNotPart = "not part of the run", kNoGpu = "unavailable: no GPU";
constexpr std::string_view kNone = "no GPU";  // From Record::machine().

// "no NeMo" of "no NeMo: ~/.cache/… is missing": the reason without a path.
std::string short_reason(const std::string& seen) {
  std::string reason = seen.substr(0, seen.find_first_of(":/|"));
  reason.erase(reason.find_last_not_of(' ') + 1);
  return reason;
}

// Why a case has no result on a machine, by its rows there.
std::string why_none(const std::string& case_id, const OnMachine& machine) {
  std::vector<std::string> reasons;
  bool planned = false;
  for (const Latest& latest : machine.rows) {
    if (latest.row->case_id != case_id) continue;
    planned = true;
    if (latest.row->ran) add_once(reasons, short_reason(to_string(latest.row->observed)));
  }
  if (!planned) return std::string(kNotPart);
  if (reasons.empty()) return "not run";
  return escape_markdown(fmt::format("unavailable: {}", fmt::join(reasons, ", ")));
}

// Why existing results show nothing, which then replaces them in the cell; "" if they are usable.
std::string doubt_of(const std::vector<TestVerdict>& rows) {
  for (const Verdict doubt : {Verdict::Stale, Verdict::ControlFails, Verdict::Missing, Verdict::Inconclusive}) {
    const auto doubtful = [&](const TestVerdict& row) { return row.verdict == doubt; };
    if (std::any_of(rows.begin(), rows.end(), doubtful)) return std::string(to_string(doubt));
  }
  return "";
}

// "; 2 unavailable; 1 not run": the tests of a case without a result, if others have one.
std::string without_result(const std::string& case_id, const OnMachine& machine) {
  size_t unavailable = 0, not_run = 0;
  for (const Latest& latest : machine.rows) {
    if (latest.row->case_id != case_id) continue;
    if (!latest.row->ran) {
      ++not_run;
    } else if (latest.row->result == Result::Unavailable) {
      ++unavailable;
    }
  }
  return (unavailable == 0 ? "" : fmt::format("; {} unavailable", unavailable)) +
         (not_run == 0 ? "" : fmt::format("; {} not run", not_run));
}

// The summary of a case's newest results on one kind of machine; there is at least one.
std::string cell_of(const std::vector<TestVerdict>& rows) {
  if (std::string doubt = doubt_of(rows); !doubt.empty()) return doubt;
  struct Count {
    int all = 0, holding = 0;
  };
  std::vector<std::string> words;  // Each word once, in the tests' order.
  std::map<Kind, Count> counts;
  for (const TestVerdict& row : rows) {
    if (row.kind == Kind::Reproduces) {
      const auto elsewhere = std::find_if(row.reasons.begin(), row.reasons.end(), [](const Reason& reason) {
        return reason.kind == ReasonKind::OccursElsewhere;
      });
      const std::string where = elsewhere == row.reasons.end() ? "" : "; " + to_string(*elsewhere);
      add_once(words, std::string(to_string(row.result)) + escape_markdown(where));
    } else if (row.result != Result::Inapplicable) {
      ++counts[row.kind].all;
      counts[row.kind].holding += row.result == Result::Holds ? 1 : 0;
    }
  }
  std::vector<std::string> parts;
  if (!words.empty()) parts.push_back(join(words));
  const auto count = [&](Kind kind, std::string_view name) {
    if (counts[kind].all == 0) return;
    parts.push_back(fmt::format("{} of {} {} hold", counts[kind].holding, counts[kind].all, name));
  };
  count(Kind::Fix, "fixes");
  if (parts.empty()) count(Kind::Control, "controls");
  if (parts.empty()) parts.emplace_back(to_string(Result::Inapplicable));
  return join(parts, "; ");
}

std::string gpu_of(const OnMachine& machine) {
  const std::string gpu = machine.newest->record.env("gpu");
  return gpu.empty() ? std::string(kNone) : gpu;
}

// The column of a kind of machine below a heading with the GPU: "2.11.0" of "2.11.0, NVIDIA H200".
std::string column_of(const OnMachine& machine) {
  std::string name = machine.machine;
  const std::string gpu = ", " + escape_control(gpu_of(machine));
  if (const size_t at = name.find(gpu); at != std::string::npos) name.erase(at, gpu.size());
  return escape_markdown(name);
}

// `host` is the release on a machine without a GPU, if it ran there: for cases that need none.
std::string cell_of(const NewestRows& newest, const CaseInfo& info, const OnMachine& machine, const OnMachine* host) {
  const std::vector<TestVerdict>& rows = newest.of(info.id, machine.machine);
  if (rows.empty() && host != nullptr && info.needs.gpus == 0) {
    const std::vector<TestVerdict>& its = newest.of(info.id, host->machine);
    if (!its.empty()) return cell_of(its);
  }
  std::string cell = rows.empty() ? why_none(info.id, machine) : cell_of(rows);
  if (!rows.empty() && doubt_of(rows).empty()) cell += without_result(info.id, machine);
  return cell;
}

// A case that could not run on any of the machines, or that no run planned, is counted below the table.
std::string table_of(const NewestRows& newest, const std::vector<CaseInfo>& cases, const std::string& gpu,
                     const std::vector<OnMachine>& machines, const std::vector<OnMachine>& hosts) {
  const auto host_of = [&](const OnMachine& machine) {
    const auto found = std::find_if(hosts.begin(), hosts.end(), [&](const OnMachine& host) {
      return stands_in(host.newest->record.environment, machine.newest->record.environment);
    });
    return found == hosts.end() ? nullptr : &*found;
  };
  std::string text = fmt::format("## {}\n\n| case | what happens |",
                                 gpu == kNone ? "Without a GPU" : escape_markdown(gpu)),
              rule = "\n| --- | --- |";
  for (const OnMachine& machine : machines) {
    text += " " + column_of(machine) + " |";
    rule += " --- |";
  }
  text += rule + "\n";
  size_t left_out = 0;
  for (const CaseInfo& info : cases) {
    std::vector<std::string> cells;
    cells.reserve(machines.size());
    for (const OnMachine& machine : machines) cells.push_back(cell_of(newest, info, machine, host_of(machine)));
    const auto says_nothing = [](const std::string& cell) { return cell == kNotPart || cell == kNoGpu; };
    if (std::all_of(cells.begin(), cells.end(), says_nothing)) {
      ++left_out;
      continue;
    }
    text +=
        fmt::format("| [{}](../cases/{}/{}.cpp) | {} | {} |\n", escape_markdown(info.id), escape_markdown(info.family),
                    escape_markdown(info.id), escape_markdown(info.title), fmt::join(cells, " | "));
  }
  if (left_out > 0) {
    text += fmt::format("\nWithout a row, for want of a GPU or because no run included them: {} of {} cases.\n",
                        left_out, cases.size());
  }
  return text + "\n";
}

}  // namespace

std::string render_markdown(const ResultMatrix& board) {
  std::vector<CaseInfo> cases;
  size_t simulated = 0;
  for (const auto& [id, info] : board.cases()) {
    if (info.fidelity == Fidelity::Simulated) {
      ++simulated;
    } else {
      cases.push_back(info);
    }
  }
  std::stable_sort(cases.begin(), cases.end(),
                   [](const CaseInfo& a, const CaseInfo& b) { return a.family < b.family; });
  std::vector<OnMachine> machines = latest(board);
  const auto with_another_library = [](const OnMachine& machine) {
    return !machine.newest->record.environment.machine.overrides.empty();
  };
  const bool is_of_others = std::all_of(machines.begin(), machines.end(), with_another_library);
  machines.erase(std::remove_if(machines.begin(), machines.end(),
                                [&](const OnMachine& machine) {
                                  return machine.broken != Break::Nothing ||
                                         (!is_of_others && with_another_library(machine));
                                }),
                 machines.end());
  std::map<std::string, std::vector<OnMachine>> by_gpu;
  for (const OnMachine& machine : machines) by_gpu[gpu_of(machine)].push_back(machine);
  std::vector<std::string> gpus;  // Those with the most releases first.
  gpus.reserve(by_gpu.size());
  for (const auto& [gpu, its] : by_gpu) gpus.push_back(gpu);
  std::stable_sort(gpus.begin(), gpus.end(), [&](const std::string& a, const std::string& b) {
    return by_gpu.at(a).size() > by_gpu.at(b).size();
  });
  const std::string extent = render_extent(board);
  std::string text =
      std::string(kTitle) + (extent.empty() ? "" : escape_markdown(extent) + "\n\n") + std::string(kMatrixHead);
  const NewestRows newest(board);
  for (const std::string& gpu : gpus) text += table_of(newest, cases, gpu, by_gpu.at(gpu), by_gpu[std::string(kNone)]);
  if (simulated > 0) {
    text += fmt::format("Simulated, by models of ours that say nothing of a release, and so without a row: {}.\n\n",
                        plural(simulated, "case"));
  }
  return text.append(kLegend);
}

std::string render_rules() {
  std::string text =
      "| the process | the test said | Reproduces… is | Control…, Fix… is |\n| --- | --- | --- | --- |\n";
  for (const ClassifyRow& row : classify_rows()) {
    text += fmt::format("| {} | {} | {} | {} |\n", row.ending ? to_string(*row.ending) : "any",
                        row.self_report ? to_string(*row.self_report) : "any", to_string(row.reproduces),
                        to_string(row.other));
  }
  text += "\n| result | nothing expected | expected | something else expected |\n| --- | --- | --- | --- |\n";
  for (const JudgeRow& row : judge_rows()) {
    const std::string unexpected = row.unexpected == Verdict::FixFails ? "fix fails, control fails, inconclusive"
                                                                       : std::string(to_string(row.unexpected));
    text += fmt::format("| {} | {} | {} | {} |\n", to_string(row.result), unexpected, to_string(row.expected),
                        to_string(row.otherwise));
  }
  return text;
}

}  // namespace recapture::report
