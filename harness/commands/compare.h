// Shared by the verbs compare and gate.
#pragma once
#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "harness/compare/compare.h"
#include "harness/compare/sides.h"
#include "harness/report/comparison.h"
#include "harness/run/layout.h"

namespace recapture::commands {

struct CompareOptions {
  std::string from, to, records, junit, policy, features;
  std::vector<std::string> program, scope;  // A scope is refused: it goes into a policy.
  compare::MachineChoice machine;
  bool json = false, markdown = false, run = false, verbose = false;
};

CLI::App* add_comparison(CLI::App& app, const char* name, const char* what, CompareOptions& options);

// Throws ExitError if the options contradict each other, both sides are one release, a side names a nightly that is not
// on record, or JUnit XML cannot be written.
void check(const run::Layout& places, const CompareOptions& options);

compare::CompareContext background_with_remedies(const run::Layout& places);
compare::Comparison comparison_of(const run::Layout& places, const CompareOptions& options,
                                  const compare::CompareContext& background);
void print_report(const report::ComparisonReport& report, const CompareOptions& options);

}  // namespace recapture::commands
