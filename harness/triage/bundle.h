// What a stranger gets of a case, without its report: programs, and the script that runs them.
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
  Cuda,     // One short file, <case>.cu beside the case, for the CUDA runtime alone.
  Runtime,  // The case with its fixtures and a shim in place of GoogleTest, for the CUDA runtime alone,
  Case,     // or for torch.
};

struct Bundle {
  Shape shape = Shape::Case;
  std::string main;        // The file to read first.
  std::string reproduces;  // The names of its tests.
  std::vector<std::string> controls, fixes;
  std::vector<BundleFile> files;  // run.sh first.

  const BundleFile& file(const std::string& name) const;
};

// A test that was written down as a program in Python, or why it cannot be.
struct Written {
  std::string program, why_not;
};

// The files of a program that writes the tests of a case down, one below harness/triage/trace/. The case comes first;
// those that end in .cpp are compiled and linked. None for a case that runs no Python.
std::vector<BundleFile> writer_of(const std::string& root, const CatalogueCase& one);

// `written` has the tests of a case that runs Python, by name. Throws ExitError(Usage) with one line where the case can
// be no bundle.
Bundle bundle_of(const std::string& root, const CatalogueCase& one, const std::string& reproduces,
                 const std::map<std::string, Written>& written);

// The case in Python that shows the same failure: of those with the same sources, or of which one names the other, the
// one that is called most like it. nullptr where there is none.
const CatalogueCase* python_sibling(const Catalogue& catalogue, const CatalogueCase& one);

// How the bundle did where it was made.
struct Verification {
  bool done = false;
  std::string line;     // The report's first line.
  std::string printed;  // By run.sh, of the failure; "" where it did not run.
  std::string blamed;   // What `blame` says of the call, its stack and the driver's log.
};

// A record's lines of a case, without where and when it ran.
std::string record_lines(const Record& record, const std::string& case_id);

}  // namespace recapture::triage
