// Everything that is on file about one case: what it says about itself, its newest result on every kind of machine with
// the call that broke the capture, its fixes, and what is expected of it instead of the documents.
#pragma once
#include <string>
#include <vector>

#include "harness/model/catalogue.h"
#include "harness/model/expectations.h"
#include "harness/report/latest.h"
#include "harness/verdict/price.h"
#include "harness/verdict/rate.h"

namespace recapture::report {

// A case of the catalogue, with the tests that are of interest, beside all that was read.
struct CaseView {
  const CatalogueCase& one;
  const std::vector<CitedSource>& sources;
  const std::vector<Change>& changes;
  const std::vector<OnMachine>& latest;
  std::vector<RatePool> rates = {};  // Of all records, not the newest alone.
  std::vector<Prices> prices = {};   // The newest of each machine.
};

// What is known of one result beside what was seen. Each is empty where the record does not say.
struct Details {
  std::string call;  // "cuStreamSynchronize returned 900, capturing thread, capture mode global, at cases/a/b.cpp:57"
  std::vector<std::string> stack;  // The innermost frame first, Python's before those of C++.
  std::string log;                 // What the driver's log says of the call.
  std::string pytorch;             // Whether PyTorch's own message, where it names a call (since 2.14), names this one.
  std::string message, exception;  // Of what was raised, and its C++ type.
  std::string after;               // What the failure left behind: "stream none, sticky none"
};
Details details_of(const TestRecord& test);

// What came of a test, in a word: its result, and of what shows nothing why. Of a stale one that an older form of the
// test showed it.
std::string outcome_of(const TestVerdict& row);

// "NVIDIA H200: 2.6.0, 2.11.0; no GPU: 2.15.0", of "2.6.0, NVIDIA H200" and others.
std::string by_gpu(const std::vector<std::string>& machines);

std::string render_text(const CaseView& view);
Json render_json(const CaseView& view);

// What is shown of it, judged. Runs broken on purpose do not count.
std::vector<Verdict> verdicts_of(const CaseView& view);

}  // namespace recapture::report
