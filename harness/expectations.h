// Where reality on a release differs from the document: cases/<family>/expectations.toml. Each entry names one test,
// the releases, the result with its exact signature, the reason, where the reason comes from and the record that shows
// it.
#pragma once
#include <string>
#include <vector>

namespace recapture {

struct Release {
  std::string version;  // "2.11.0"
};

struct Expectation {
  std::string test;                  // "item_in_capture.Reproduces"
  std::string release;               // ">=2.8, <2.13": every comparison must hold.
  std::string gpu;                   // Part of the GPU's name; empty for any.
  std::string result;                // A result's word.
  std::string seen;                  // Pattern of what is seen; required for "different".
  std::string why, source;           // source: "pytorch#167507", or words that begin with "open question".
  std::vector<std::string> records;  // File names below reports/ that show it.
  std::string place;                 // File and line, for messages.

  bool applies(const std::string& release_version, const std::string& gpu_name) const;
};

// "2.9.1" < "2.10.0". Missing parts count as zero.
bool older(const std::string& a, const std::string& b);
// Whether a version satisfies ">=2.8, <2.13". Throws Stop(Usage) on anything else than < <= > >= == and a version.
bool satisfies(const std::string& version, const std::string& range);

// The releases of ci/matrix.toml, oldest first.
std::vector<Release> read_matrix(const std::string& root);

// All expectations below cases/, checked one by one: known keys, known result, a reason, a range that can be read.
std::vector<Expectation> read_expectations(const std::string& root);

// The one that applies, or nullptr.
const Expectation* find_expectation(const std::vector<Expectation>& all, const std::string& test,
                                    const std::string& release, const std::string& gpu);

}  // namespace recapture
