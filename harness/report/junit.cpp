#include "harness/report/junit.h"

#include <fmt/format.h>

#include <array>
#include <sstream>

#include "harness/base/escape.h"
#include "harness/base/file.h"
#include "harness/base/text.h"
#include "harness/words/neighbour.h"
#include "harness/words/observation.h"

namespace recapture::report {
namespace {

constexpr std::array<const char*, 4> kElements = {"", "failure", "error", "skipped"};
constexpr std::array<const char*, 4> kCounts = {"tests", "failures", "errors", "skipped"};

JunitResult junit_result(Verdict verdict) {
  // JUnit readers look at counts only, and a test that did not run must not look as if it were optional.
  switch (verdict == Verdict::NotRun ? Severity::Error : severity_of(verdict)) {
    case Severity::Pass:
      return JunitResult::Passed;
    case Severity::Skip:
      return JunitResult::Skipped;
    case Severity::Error:
      return JunitResult::Error;
    case Severity::Fail:
      break;
  }
  return JunitResult::Failed;
}

}  // namespace

Junit::Junit(const std::string& name) {
  root_ = document_.append_child("testsuites");
  if (!name.empty()) root_.append_attribute("name") = name.c_str();
}

bool Junit::add(const JunitTest& test) {
  Suite& suite = suites_[test.suite];
  const bool is_new = !suite.node;
  if (is_new) {
    suite.node = root_.append_child("testsuite");
    suite.node.append_attribute("name") = test.suite.c_str();
  }
  auto node = suite.node.append_child("testcase");
  node.append_attribute("classname") = test.classname.c_str();
  node.append_attribute("name") = test.name.c_str();
  if (test.seconds) node.append_attribute("time") = fmt::format("{:.3f}", *test.seconds).c_str();
  const auto result = static_cast<size_t>(test.result);
  ++suite.counts[0];
  if (result > 0) {
    ++suite.counts.at(result);
    node.append_child(kElements.at(result)).append_attribute("message") = test.message.c_str();
  }
  if (test.seconds) suite.seconds = suite.seconds.value_or(0) + *test.seconds;
  if (!test.output.empty()) node.append_child("system-out").text() = test.output.c_str();
  return is_new;
}

void Junit::add_property(const std::string& suite, const char* name, const std::string& value) {
  auto properties = suites_[suite].node.child("properties");
  if (!properties) properties = suites_[suite].node.prepend_child("properties");
  auto property = properties.append_child("property");
  property.append_attribute("name") = name;
  property.append_attribute("value") = value.c_str();
}

std::string Junit::text() {
  for (auto& [name, suite] : suites_) {
    for (size_t i = 0; i < kCounts.size(); ++i) suite.node.append_attribute(kCounts.at(i)) = suite.counts.at(i);
    if (suite.seconds) suite.node.append_attribute("time") = fmt::format("{:.3f}", *suite.seconds).c_str();
  }
  std::ostringstream out;
  document_.save(out, "  ");
  return out.str();
}

std::string render_junit(const JudgedRun& judged) {
  Junit junit;
  for (const TestVerdict& row : judged.rows) {
    const std::string seen = escape_control(render_observed(row));
    const bool is_new =
        junit.add({row.case_id, row.family + "." + row.case_id, row.name, junit_result(row.verdict),
                   fmt::format("{}: {} {}", to_string(row.verdict), row.ran ? to_string(row.result) : "", seen), seen,
                   row.seconds});
    if (!is_new) continue;
    for (const char* key : {"release", "gpu", "driver", "cuda_runtime", "revision"}) {
      junit.add_property(row.case_id, key, judged.record.env(key));
    }
    if (!judged.neighbour.has_record_of_release()) {
      junit.add_property(row.case_id, "nearest_release", judged.neighbour.release);
    }
    if (!judged.neighbour.has_record_of_machine()) {
      junit.add_property(row.case_id, "nearest_machine", nearest_machine(judged.neighbour));
    }
  }
  if (!judged.record.is_complete()) {
    std::vector<std::string> why;
    if (!judged.record.end.empty()) why.push_back("the run ended: " + escape_control(judged.record.end));
    for (const std::string& note : judged.record.notes) why.push_back(escape_control(note));
    junit.add({"run", "run", "IsWhole", JunitResult::Error, join(why, "; ")});
  }
  return junit.text();
}

void write_junit_file(const JudgedRun& judged, const std::string& path) { write_file(path, render_junit(judged)); }

}  // namespace recapture::report
