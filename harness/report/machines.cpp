#include <fmt/format.h>

#include <map>
#include <string_view>

#include "harness/base/text.h"
#include "harness/report/extent.h"
#include "harness/report/markdown_kit.h"
#include "harness/report/tables.h"
#include "harness/report/verdicts.h"
#include "harness/store/select.h"

namespace recapture::report {
namespace {

constexpr std::string_view kMachinesHead =
    "A line for each release on each kind of machine. It counts the newest result of each test there by its verdict:\n"
    "what the result means by today's expectations. Tests without a result that counts are in the last column. This\n"
    "file is generated from the records in this folder, with `recapture dev tables machines > reports/README.md`.\n\n"
    "* `recapture show` prints the same counts, with notes; `show 2.11.0` those of a release; `show RECORD` the tests\n"
    "  of a record one by one; `show CASE` all that is on record about a case.\n"
    "* `recapture page` writes one HTML file: the result matrix of all cases, every run, and what changes between\n"
    "  releases. `recapture show --markdown` prints the result matrix as Markdown.\n"
    "* `recapture dev tables failures` has since when and until when each failure shows, `documents` which claims of\n"
    "  the documents do not hold.\n"
    "* [calls.md](calls.md) has which call is refused with which code.\n\n"
    "A record is `<release>/<machine>.jsonl.gz`, a file or in the archive `<release>/records.tar.xz`, whose\n"
    "[format](../docs/reference/record-format.md#archive) has how to see it. `host` is a machine without a GPU,\n"
    "`run-2` a second run, `cuda-12.9` and `nccl-2.27.7` a library that the run chose in place of the release's\n"
    "own; `cuda12` and `cuda13` are runs without LibTorch. What was broken on purpose (`trigger`, `value`,\n"
    "`remedy`) has no line here. What fixes cost is in `<release>/<machine>.prices.gz`.\n\n";

std::string line_of(const OnMachine& machine) {
  std::map<Verdict, size_t> counts;
  for (const Latest& latest : machine.rows) ++counts[latest.row->verdict];
  std::vector<std::string> complete, incomplete;
  for (const auto& [verdict, count] : counts) {
    (is_incomplete(verdict) ? incomplete : complete).push_back(fmt::format("{} {}", count, to_string(verdict)));
  }
  if (!machine.operators.empty()) complete.push_back("operators: " + render_operator_counts(machine.operators));
  const Record& newest = machine.newest->record;
  if (!newest.is_complete()) incomplete.emplace_back("the newest run was cut short");
  return row_of({escape_markdown(machine.machine), escape_markdown(newest.env("cuda_runtime")),
                 escape_markdown(newest.env("driver")), escape_markdown(newest.environment.started.substr(0, 10)),
                 std::to_string(machine.rows.size()), join(complete), join(incomplete)});
}

}  // namespace

std::string render_machines(const ResultMatrix& board) {
  std::string text = "# What the records show\n\n";
  if (const std::string extent = render_extent(board); !extent.empty()) {
    text += escape_markdown(extent) + " [Add a record](../docs/contributing.md#add-a-record) from such a machine.\n\n";
  }
  text += kMachinesHead;
  text += head_of({"release, machine", "CUDA runtime", "driver", "newest run", "tests", "verdicts", "incomplete"});
  for (const OnMachine& machine : latest(board)) {
    if (machine.broken == Break::Nothing) text += line_of(machine);
  }
  text += "\n## Verdicts\n\n" + head_of({"verdict", "meaning"});
  for (const bool incomplete : {false, true}) {
    for (size_t i = 0; i < kVerdictCount; ++i) {
      const auto verdict = static_cast<Verdict>(i);
      if (is_incomplete(verdict) != incomplete) continue;
      text += row_of({std::string(to_string(verdict)),
                      fmt::format("{}{}", incomplete ? "incomplete: " : "", meaning_of(verdict))});
    }
  }
  return text;
}

}  // namespace recapture::report
