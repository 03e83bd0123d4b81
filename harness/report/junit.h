// JUnit XML, for continuous integration.
#pragma once
#include <array>
#include <map>
#include <optional>
#include <pugixml.hpp>
#include <string>

#include "harness/store/result_matrix.h"

namespace recapture::report {

enum class JunitResult { Passed, Failed, Error, Skipped };

struct JunitTest {
  std::string suite, classname, name;
  JunitResult result = JunitResult::Passed;
  std::string message;  // Of a test that did not pass.
  std::string output = {};
  std::optional<double> seconds = {};
};

class Junit {
 public:
  explicit Junit(const std::string& name = "");
  // Whether it is the first test of its suite.
  bool add(const JunitTest& test);
  void add_property(const std::string& suite, const char* name, const std::string& value);
  // The document, once all tests are added.
  std::string text();

 private:
  struct Suite {
    pugi::xml_node node;
    std::array<int, 4> counts{};  // Tests, failures, errors, skipped.
    std::optional<double> seconds;
  };
  pugi::xml_document document_;
  pugi::xml_node root_;
  std::map<std::string, Suite> suites_;
};

// The verdicts of a record, a suite a case. A release or machine that no record has is said in its properties.
std::string render_junit(const JudgedRun& judged);

// The same into a file. Throws ExitError(Infrastructure) if it cannot be written.
void write_junit_file(const JudgedRun& judged, const std::string& path);

}  // namespace recapture::report
