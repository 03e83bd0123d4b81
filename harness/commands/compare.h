// Shared by the verbs compare and gate.
#pragma once
#include <CLI/CLI.hpp>
#include <string>

#include "harness/compare/compare.h"
#include "harness/compare/sides.h"
#include "harness/report/comparison.h"
#include "harness/run/layout.h"

namespace recapture::commands {

// The two sides, as the user names them.
struct SideOptions {
  std::string from, to, records;
  compare::MachineChoice machine;
};

struct OutputOptions {
  std::string junit;
  bool json = false, markdown = false, verbose = false;
};

CLI::App* add_comparison(CLI::App& app, const char* name, const char* what, SideOptions& sides, OutputOptions& output);

// Throws ExitError if the outputs contradict each other, or JUnit XML cannot be written.
void check(const OutputOptions& output);
// Throws ExitError if both sides are one release, or a side names a nightly that is not on record.
void check(const run::Layout& places, const SideOptions& sides);

compare::CompareContext background_with_remedies(const run::Layout& places);
// The folder of the sides' records. Throws ExitError if it is none.
std::string records_of(const run::Layout& places, const std::string& given);
compare::Comparison comparison_of(const compare::BothSides& sides, const compare::CompareContext& background);
void print_report(const report::ComparisonReport& report, const OutputOptions& output);

}  // namespace recapture::commands
