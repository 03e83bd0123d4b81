// What the verbs compare and gate share.
#pragma once
#include <CLI/CLI.hpp>
#include <string>

#include "harness/compare/compare.h"
#include "harness/compare/format.h"
#include "harness/compare/sides.h"
#include "harness/run/places.h"

namespace recapture {

struct CompareOptions {
  std::string from, to, records, junit, policy;
  MachineChoice machine;
  bool json = false, markdown = false, run = false;
};

CLI::App* add_comparison(CLI::App& app, const char* name, const char* what, CompareOptions& options);

// Throws Stop if the options contradict each other, or JUnit XML cannot be written where it is to go.
void check(const CompareOptions& options);

Background background_with_remedies(const Places& places);
Comparison comparison_of(const Places& places, const CompareOptions& options, const Background& background);
void print_report(const ComparisonReport& report, const CompareOptions& options);

}  // namespace recapture
