// The report in a triage archive: the vendor's own form, filled in from the records.
#pragma once
#include <string>
#include <vector>

#include "harness/compare/compare.h"
#include "harness/report/latest.h"
#include "harness/triage/bundle.h"

namespace recapture::report {

struct TriageInput {
  const CatalogueCase& one;
  std::string test;  // Its name without the case.
  const std::vector<OnMachine>& machines;
  const Record& record;  // The one that shows it.
  const compare::CompareContext& background;
  const triage::Bundle& bundle;
  struct {
    std::string test, program;
  } python = {};  // In a C++ bundle, the same failure in Python; empty if there is none.
};

// The newest record of a release, or of all, that shows the documented failure of a test. Throws ExitError: Usage if
// records of it show no failure, NothingRan if there are no records.
const Record& record_that_shows(const std::vector<OnMachine>& machines, const std::string& test,
                                const std::string& release);

// REPORT.md.
std::string render_report(const TriageInput& story, const triage::Verification& verification);

}  // namespace recapture::report
