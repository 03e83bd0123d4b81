#include "harness/report/junit.h"

#include <fmt/format.h>

#include <array>
#include <map>
#include <ostream>
#include <pugixml.hpp>
#include <sstream>

#include "harness/base/escape.h"
#include "harness/base/file.h"

namespace recapture::report {

void write_junit(const JudgedRun& judged, std::ostream& out) {
  pugi::xml_document document;
  auto suites = document.append_child("testsuites");
  std::map<std::string, pugi::xml_node> by_case;
  std::map<std::string, std::array<int, 4>> counts;  // Tests, failures, errors, skipped.
  std::map<std::string, double> seconds;
  for (const TestVerdict& row : judged.rows) {
    auto& suite = by_case[row.case_id];
    if (!suite) {
      suite = suites.append_child("testsuite");
      suite.append_attribute("name") = row.case_id.c_str();
      auto properties = suite.append_child("properties");
      for (const char* key : {"release", "gpu", "driver", "cuda_runtime", "revision"}) {
        auto property = properties.append_child("property");
        property.append_attribute("name") = key;
        property.append_attribute("value") = judged.record.env(key).c_str();
      }
    }
    auto test = suite.append_child("testcase");
    test.append_attribute("classname") = (row.family + "." + row.case_id).c_str();
    test.append_attribute("name") = row.name.c_str();
    test.append_attribute("time") = fmt::format("{:.3f}", row.seconds).c_str();
    auto& count = counts[row.case_id];
    ++count[0];
    seconds[row.case_id] += row.seconds;
    const std::string seen = render_observed(row);
    const char* element = nullptr;
    // Whoever reads this sees only counts, and what has not run must not look as if it need not have.
    switch (row.verdict == Verdict::NotRun ? Severity::Error : severity_of(row.verdict)) {
      case Severity::Pass:
        break;
      case Severity::Skip:
        element = "skipped";
        ++count[3];
        break;
      case Severity::Error:
        element = "error";
        ++count[2];
        break;
      case Severity::Fail:
        element = "failure";
        ++count[1];
    }
    if (element != nullptr) {
      auto child = test.append_child(element);
      const std::string message =
          fmt::format("{}: {} {}", to_string(row.verdict), row.ran ? to_string(row.result) : "", escape_control(seen));
      child.append_attribute("message") = message.c_str();
    }
    if (!seen.empty()) test.append_child("system-out").text() = escape_control(seen).c_str();
  }
  if (!judged.record.is_complete()) {
    auto suite = suites.append_child("testsuite");
    suite.append_attribute("name") = "run";
    suite.append_attribute("tests") = 1;
    suite.append_attribute("failures") = 0;
    suite.append_attribute("errors") = 1;
    suite.append_attribute("skipped") = 0;
    auto test = suite.append_child("testcase");
    test.append_attribute("classname") = "run";
    test.append_attribute("name") = "IsWhole";
    std::string why = judged.record.end.empty() ? "" : "the run ended: " + escape_control(judged.record.end);
    for (const std::string& note : judged.record.notes) why += (why.empty() ? "" : "; ") + escape_control(note);
    test.append_child("error").append_attribute("message") = why.c_str();
  }
  for (auto& [id, suite] : by_case) {
    const auto& count = counts[id];
    suite.append_attribute("tests") = count[0];
    suite.append_attribute("failures") = count[1];
    suite.append_attribute("errors") = count[2];
    suite.append_attribute("skipped") = count[3];
    suite.append_attribute("time") = fmt::format("{:.3f}", seconds[id]).c_str();
  }
  document.save(out, "  ");
}

void write_junit_file(const JudgedRun& judged, const std::string& path) {
  std::ostringstream text;
  write_junit(judged, text);
  write_file(path, text.str());
}

}  // namespace recapture::report
