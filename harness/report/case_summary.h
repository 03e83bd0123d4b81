// A case, or a cause without a case, in at most 25 lines: what goes wrong, why, the error, in which releases, what to
// write instead, where it is documented, and how to see more.
#pragma once
#include <string>
#include <vector>

#include "harness/explain/causes.h"
#include "harness/report/case_view.h"
#include "harness/timeline/failures.h"

namespace recapture::report {

inline constexpr size_t kSummaryLines = 25;

struct CaseSummary {
  const CaseView& view;
  const timeline::FailureRow* row = nullptr;      // nullptr of the operators and of a model of ours.
  std::string release = {};                       // The only one whose results are shown; "" is all.
  std::string root = {};                          // The tree, for the code of the fixes.
  std::vector<const CatalogueCase*> python = {};  // Cases of the same failure in Python.
};

std::string render_summary(const CaseSummary& summary);

// Of a cause that no case runs alone.
std::string render_summary(const explain::Cause& cause);

// "raises in 2.1.2 to 2.10.0; works in 2.11.0 and 2.12.1" of the outcomes by release, oldest first. Releases without a
// run are left out; "" if all are.
std::string render_course(const std::vector<std::pair<std::string, timeline::FailureOutcome>>& by_release);

// "2.1.2 to 2.15.0", "2.11.0 and 2.12.1", "2.1.2 to 2.6.0 and 2.9.1": of the releases in `all`, oldest first.
std::string span_of(const std::vector<std::string>& releases, const std::vector<std::string>& all);

}  // namespace recapture::report
