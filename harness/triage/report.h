// The text that goes with a bundle: the vendor's own form, filled in from the records, and what he may ask next.
#pragma once
#include <string>
#include <vector>

#include "harness/compare/compare.h"
#include "harness/report/latest.h"
#include "harness/triage/bundle.h"
#include "harness/verdict/price.h"

namespace recapture::triage {

// How the bundle did where it was made.
struct Verification {
  bool done = false;
  std::string line;     // The report's first line.
  std::string printed;  // By run.sh, of the failure; "" where it did not run.
  std::string blamed;   // What `blame` says of the call, its stack and the driver's log.
};

struct ReportInput {
  const CatalogueCase& one;
  std::string test;  // Its name in the case.
  const std::vector<report::OnMachine>& machines;
  const Record& record;  // That shows it.
  const compare::CompareContext& background;
  const Bundle& bundle;
  const std::vector<Prices>& prices;  // Of remedies, the newest of each machine.
};

// The newest record of a release, or of all, that shows the documented failure of a test. Throws ExitError: Usage where
// it is on record and shows no failure, NothingRan where it is not.
const Record& record_that_shows(const std::vector<report::OnMachine>& machines, const std::string& test,
                                const std::string& release);

std::string report_of(const ReportInput& story, const Verification& verification);

// The record's lines of the case, without what tells where and when it ran.
std::string record_lines(const ReportInput& story);

// Words of the record that look like an address and are versions.
std::vector<std::string> versions_in(const Record& record);

}  // namespace recapture::triage
