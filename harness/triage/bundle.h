// The programs of a triage archive, and the script that runs them; the report is made elsewhere.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "harness/model/catalogue.h"
#include "harness/model/record.h"
#include "harness/triage/archive.h"

namespace recapture::triage {

enum class Shape {
  Python,   // Each test as a program in Python, for torch.
  Program,  // The case's own program, <case>.py, with a function for each test.
  Cuda,     // One short file, <case>.cu beside the case, with only the CUDA runtime.
  Runtime,  // The case with its fixtures and a shim for GoogleTest, with only the CUDA runtime,
  Case,     // or with torch.
};

struct Bundle {
  Shape shape = Shape::Case;
  std::string main;        // The file to read first.
  std::string reproduces;  // The names of its tests; of a Program, of what judge.py runs.
  std::vector<std::string> controls, fixes;
  std::vector<BundleFile> files;  // run.sh first.

  const BundleFile& file(const std::string& name) const;
};

// A test written as a Python program, or why it cannot be.
struct Written {
  std::string program, why_not;
};

// The files of a program that writes the tests of a case as Python programs, one of those below harness/triage/trace/.
// The case comes first; those that end in .cpp are compiled and linked. Empty for a case that runs no Python.
std::vector<BundleFile> writer_of(const std::string& root, const CatalogueCase& one);

// `written` has the tests of a case that runs Python, by name; it is not used for a test of the case's own program.
// Throws ExitError(Usage) with one line if the case cannot be bundled.
Bundle bundle_of(const std::string& root, const CatalogueCase& one, const std::string& reproduces,
                 const std::map<std::string, Written>& written);

// The Python case with the same failure: of those with the same sources, or where one names the other, the one with the
// most similar name. nullptr if there is none.
const CatalogueCase* python_sibling(const Catalogue& catalogue, const CatalogueCase& one);

// The result of running the bundle on the machine where it was made.
struct Verification {
  bool done = false;
  std::string line;     // The report's first line.
  std::string printed;  // By run.sh, for the failure; "" if it did not run.
  std::string blamed;   // `blame`'s report on the call, its stack and the driver's log.
};

// A record's lines about a case, without time and place.
std::string record_lines(const Record& record, const std::string& case_id);

}  // namespace recapture::triage
