// Resolves the words `FROM` and `TO`: releases, records, folders, and runs counted from the newest.
#pragma once
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "harness/compare/compare.h"
#include "harness/compare/judged_records.h"
#include "harness/model/gpu.h"
#include "harness/model/origin.h"
#include "harness/store/run_heads.h"

namespace recapture::compare {

// Of one side, if the sides are to differ in it.
struct SideMachine {
  std::string gpu = {}, driver = {};

  bool empty() const { return gpu.empty() && driver.empty(); }
};

// Selects the machine if the records have several.
struct MachineChoice {
  std::string gpu;                         // As GpuFilter has it.
  std::string driver;                      // Its version, or the first numbers of it.
  ChosenLibraries libraries;               // If a side has runs with several.
  std::vector<std::string> machines = {};  // Of a policy: words of names such as "NVIDIA H200, driver 580.159.04".
  bool is_gpu_name = false;                // `gpu` is the complete name.
  SideMachine from = {}, to = {};          // The two sides ran on different machines, if one is not empty.

  GpuFilter gpu_filter() const { return is_gpu_name ? GpuFilter(gpu, {gpu}) : GpuFilter(gpu); }
  bool is_of_two_machines() const { return !from.empty() || !to.empty(); }
};

// Throws ExitError(Usage) if the word for a GPU fits several of these; it is the complete name from then on.
void choose_gpu(MachineChoice& choice, const GpusOnRecord& gpus);

// Whether the GPU and driver match. Libraries are separate: without a choice the release's own count. Of a policy's
// machines, any one must match.
bool chosen(const MachineChoice& choice, const Environment& environment);

struct BothSides {
  Side from, to;
  std::vector<Note> notes;  // The alternatives that were not used.
  // Both sides on each other GPU that ran both with the same driver, the best first; empty for two runs of one release,
  // for counted runs, and if a GPU, driver or library was chosen.
  std::vector<std::pair<Side, Side>> elsewhere = {};
  // The records of each side on other machines, chosen or not, with the same variables and the release's own libraries.
  // None of a side that is one run.
  std::vector<std::string> other_records_of_from = {}, other_records_of_to = {};
};

// A release ("2.6.0", "2.6"), a record, a folder; a build by its name in ci/matrix.toml ("nightly"), by "nightly" or
// "rc" for what its version shows, by its label ("acme") or by its commit ("git0123abc"): the newest of them, with ~1
// the one before it; "latest", "latest~1": the newest run and the one before it; "baseline": the newest run that is
// marked, or else complete and without missing tests, and older than the other side. Releases and runs are looked up
// below `records`. Both sides have the same machine: GPU, driver and variables. Of several machines, the one with the
// smallest rank_machine() is used.
//
// A side that is not below `records` is looked up below `own`, the tree's own records, unless that is "".
//
// If the choice is of two machines, each side is on its own; apart from what is chosen they are alike.
//
// Runs are counted on one machine and in one release line, with the same libraries or each with its release's own. The
// other side determines them; if both are counted, the newest run that `choice` allows.
//
// A record in a folder that is called by a release must be of that release.
//
// Throws ExitError: Usage for an unknown word or sides that cannot be compared, NothingRan if there is no run.
BothSides sides_of(const std::string& from, const std::string& to, const MachineChoice& choice,
                   const std::string& records, const CompareContext& context);
// Reads no record again that `read` has.
BothSides sides_of(const std::string& from, const std::string& to, const MachineChoice& choice,
                   const std::string& records, const CompareContext& context, JudgedRecords& read,
                   const std::string& own = "");

// One machine (GPU, driver, variables, chosen libraries) with all its runs, each judged by its own code.
struct MachineSides {
  std::string name;                  // "NVIDIA H200, driver 580.159.04"
  Environment environment;           // Of its newest run.
  std::vector<Side> releases;        // As `compare` compares them: a side for each release, oldest first.
  std::vector<Side> other_runtimes;  // Of a release with runs on several CUDA runtimes or NCCLs: all but one.
};

// Machines with a GPU come first. The records must not contain runs broken on purpose.
std::vector<MachineSides> sides_by_machine(std::vector<Record> records, const CompareContext& context);

// Adds all runs below `records` that left the remedies out. Unreadable files are skipped.
void learn_remedies(const std::string& records, CompareContext& context);

}  // namespace recapture::compare
