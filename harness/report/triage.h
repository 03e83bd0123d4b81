// The text that goes with a bundle: the vendor's own form, filled in from the records, and what he may ask next.
#pragma once
#include <string>
#include <vector>

#include "harness/compare/compare.h"
#include "harness/report/latest.h"
#include "harness/triage/bundle.h"

namespace recapture::report {

struct TriageInput {
  const CatalogueCase& one;
  std::string test;  // Its name in the case.
  const std::vector<OnMachine>& machines;
  const Record& record;  // That shows it.
  const compare::CompareContext& background;
  const triage::Bundle& bundle;
  struct {
    std::string test, program;
  } python = {};  // Of a bundle in C++ the same failure in Python; empty where there is none.
};

// The newest record of a release, or of all, that shows the documented failure of a test. Throws ExitError: Usage where
// it is on record and shows no failure, NothingRan where it is not.
const Record& record_that_shows(const std::vector<OnMachine>& machines, const std::string& test,
                                const std::string& release);

// REPORT.md.
std::string render_report(const TriageInput& story, const triage::Verification& verification);

}  // namespace recapture::report
