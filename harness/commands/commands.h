// The verbs of the command line. Each adds itself and its options to the application and returns the action to run
// after parsing. The program ends with the exit code that the action returns, or the ExitError that it throws.
#pragma once
#include <CLI/CLI.hpp>
#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "harness/base/exit.h"
#include "harness/base/output.h"
#include "harness/model/catalogue.h"
#include "harness/model/operators.h"
#include "harness/run/layout.h"
#include "harness/verdict/judge.h"
#include "harness/verdict/price.h"

namespace recapture::compare {
struct MachineChoice;
}

namespace recapture::commands {

// Which signals a verb handles.
enum class Signals {
  Output,     // SIGPIPE only: a closed pipe is no error.
  Children,   // Also the terminating ones: it starts processes, and ends them first.
  Untouched,  // None: the program that it starts inherits them unchanged.
};

struct Verb {
  CLI::App* command;
  std::function<Exit()> act;
  Signals signals = Signals::Output;
  // Each with what it does: "recapture show 901", "the case of CUDA error 901".
  std::vector<std::pair<std::string, std::string>> examples = {};
  // The arguments before a program and its own options; nothing if the verb takes no program.
  std::optional<size_t> program_after = {};
};

// `root` is set when the command line is parsed. For users:
Verb list_verb(CLI::App& app, const std::string& root);
Verb show_verb(CLI::App& app, const std::string& root);
Verb run_verb(CLI::App& app, const std::string& root);
Verb explain_verb(CLI::App& app, const std::string& root);
Verb blame_verb(CLI::App& app, const std::string& root);
Verb check_verb(CLI::App& app, const std::string& root);
Verb compare_verb(CLI::App& app, const std::string& root);
Verb gate_verb(CLI::App& app, const std::string& root);
Verb bisect_verb(CLI::App& app, const std::string& root);
Verb history_verb(CLI::App& app, const std::string& root);
Verb operators_verb(CLI::App& app, const std::string& root);
Verb page_verb(CLI::App& app, const std::string& root);
Verb triage_verb(CLI::App& app, const std::string& root);
Verb doctor_verb(CLI::App& app, const std::string& root);
Verb help_verb(CLI::App& app);
// For maintainers:
Verb baseline_verb(CLI::App& app, const std::string& root);
Verb nightly_plan_verb(CLI::App& nightly, const std::string& root);
Verb nightly_collect_verb(CLI::App& nightly, const std::string& root);
Verb nightly_diff_verb(CLI::App& nightly, const std::string& root);
Verb dev_merge_verb(CLI::App& dev);
Verb dev_pack_verb(CLI::App& dev, const std::string& root);
Verb dev_place_verb(CLI::App& dev, const std::string& root);
Verb dev_tables_verb(CLI::App& dev, const std::string& root);
Verb dev_catalogue_verb(CLI::App& dev, const std::string& root);
Verb dev_complete_verb(CLI::App& dev, const std::string& root);
Verb dev_gates_verb(CLI::App& dev, const std::string& root);
Verb dev_test_verb(CLI::App& dev, const std::string& root);
Verb dev_propose_verb(CLI::App& dev, const std::string& root);

// Collects errors in some of the input so that the rest is still shown. They are reported at the end.
class DeferredErrors {
 public:
  void add(const std::string& what) {
    if (std::find(all_.begin(), all_.end(), what) == all_.end()) all_.push_back(what);
  }
  // For a reader that goes on after an error.
  std::function<void(const char* what)> adder() {
    return [this](const char* what) { add(what); };
  }
  // Prints one line each. Throws ExitError(Usage) with the last, if there is any.
  void tell() const {
    for (const std::string& what : all_) {
      if (&what == &all_.back()) throw ExitError(Exit::Usage, what);
      print_error(what);
    }
  }

 private:
  std::vector<std::string> all_;
};

// The catalogue from the built cases of a release; "" means the newest that is built, whose name is stored in
// `release`. Throws ExitError if nothing is built.
Catalogue built_catalogue(const run::Layout& places, std::string& release);

// All verbs of the application with their options: docs/reference/cli.md, and the man page recapture(1).
std::string render_cli(const CLI::App& app);
std::string render_man(const CLI::App& app);

// The newest usable results of a release, without stale ones. Empty without a release. `cases` selects cases; empty
// means all.
std::vector<TestVerdict> current_verdicts(const run::Layout& places, const std::string& release,
                                          const std::set<std::string>& cases = {});
// The newest prices of a release.
std::vector<Prices> current_prices(const run::Layout& places, const std::string& release);
// The recorded answers for operators that cannot be captured.
OperatorAnswers current_answers(const run::Layout& places, const std::string& release);

// The revision that an installed tree was made of, or that of a clone, by git; "unknown" without both.
std::string revision_of_tree(const run::Layout& places);

// The interpreter beside the program, if the program is installed in a virtual environment; else "python3".
std::string default_python();

// "the records in DIR (REVISION)" if they are not the program's own; else "".
std::string set_in_use(const run::Layout& places);

// The records below reports/.
struct RecordsAge {
  size_t count = 0;
  std::string newest = "none";  // The day on which the newest run began: "2026-11-27".
};
RecordsAge age_of_records(const run::Layout& places);

// Throws ExitError(Infrastructure) if the file cannot be written; leaves no new file.
void require_writable(const std::string& path);

// Shows on a terminal what long work does; elsewhere nothing.
void show_progress(const std::string& what);

// Throws ExitError if JUnit XML cannot be written there, or would overwrite something else: `record`, which need not
// exist yet, or a file that is not XML.
void require_place_for_junit(const std::string& path, const std::string& record);

// Chooses this machine for verbs that run cases, unless the user chose none. Throws ExitError if a GPU is needed and
// there is none.
void choose_this_machine(const run::Layout& places, compare::MachineChoice& choice);

// A new record below that folder; unique also for runs that begin in the same second.
std::string new_record(const std::string& folder);

}  // namespace recapture::commands
