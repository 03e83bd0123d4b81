// Everything recorded about one case: its description, its newest result on every kind of machine with the call that
// broke the capture, its fixes, and what is expected instead of the documented failure.
#pragma once
#include <string>
#include <vector>

#include "harness/model/catalogue.h"
#include "harness/model/expectations.h"
#include "harness/report/latest.h"
#include "harness/store/rate_pools.h"
#include "harness/verdict/price.h"

namespace recapture::report {

// A case of the catalogue, the tests to show, and all records read.
struct CaseView {
  const CatalogueCase& one;
  const std::vector<CitedSource>& sources;
  const std::vector<Deviation>& changes;
  const std::vector<OnMachine>& latest;
  std::vector<RatePool> rates = {};  // From all records, not only the newest.
  std::vector<Prices> prices = {};   // The newest of each machine.
};

// Details of one result beyond the observation. Each is empty if it was not recorded.
struct Details {
  std::string call;  // "cuStreamSynchronize returned 900, capturing thread, capture mode global, at cases/a/b.cpp:57"
  std::vector<std::string> stack;  // Innermost frame first, Python's before C++'s.
  std::string log;                 // The driver's log entry for the call.
  std::string pytorch;             // Whether PyTorch's message, which names a call since 2.14, names this one.
  std::string message, exception;  // Of the exception, and its C++ type.
  std::string after;               // The probes' results: "stream none, sticky none"
};
Details details_of(const TestRecord& test);

// A test's outcome in a word: its result; without one, the reason; for a stale test, that an older form of it showed
// it.
std::string outcome_of(const TestVerdict& row);

// "NVIDIA H200: 2.6.0, 2.11.0; no GPU: 2.15.0", of "2.6.0, NVIDIA H200" and others.
std::string by_gpu(const std::vector<std::string>& machines);

std::string render_text(const CaseView& view);
Json render_json(const CaseView& view);

// The notes about releases and machines that no record has, as in report/neighbour.h.
std::vector<std::string> neighbour_notes(const CaseView& view);

// What is shown of it, judged. Runs broken on purpose do not count.
std::vector<Verdict> verdicts_of(const CaseView& view);

}  // namespace recapture::report
