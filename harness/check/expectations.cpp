#include "harness/check/expectations.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "harness/case/events.h"
#include "harness/judge/verdict.h"
#include "harness/judge/version.h"

namespace recapture {
namespace {

// Whether a release of the matrix and a GPU exist on which both apply.
bool can_meet(const Expectation& a, const Expectation& b, const std::vector<std::string>& matrix) {
  if (a.test != b.test) return false;
  return std::any_of(matrix.begin(), matrix.end(), [&](const std::string& release) {
    return satisfies(release, a.where.release) && satisfies(release, b.where.release) &&
           (a.where.gpu.empty() || b.where.gpu.empty() || a.where.gpu == b.where.gpu);
  });
}

// "" if the record shows it.
std::string what_is_wrong(const Expectation& e, const Record& record, const std::string& name) {
  const TestRecord* test = record.find(e.test);
  const Kind kind = kind_of_id(e.test);
  if (test == nullptr || !e.where.covers(record) ||
      judge(kind, classify(kind, *test), &e, test->text(key::seen)) != Verdict::AsExpected) {
    return ": unused: " + name + " does not show it";
  }
  const auto confirmed = record.confirmations.find(e.test);
  if (e.open_question() && (confirmed == record.confirmations.end() || confirmed->second.size() < 2)) {
    return ": an open question needs two confirmations by plain exec in " + name;
  }
  return "";
}

}  // namespace

std::vector<std::string> expectation_errors(const std::vector<Expectation>& all, const std::vector<std::string>& matrix,
                                            const std::vector<Record>& records, const std::string& reports) {
  std::vector<std::string> errors;
  std::set<std::string> known;
  for (const Record& record : records) {
    for (const auto& [id, info] : record.cases) {
      for (const std::string& test : info.tests) known.insert(fmt::format("{}.{}", id, test));
    }
  }
  for (size_t i = 0; i < all.size(); ++i) {
    const Expectation& e = all[i];
    if (known.count(e.test) == 0) errors.push_back(e.place + ": no record knows the test " + e.test);
    const bool somewhere = std::any_of(matrix.begin(), matrix.end(),
                                       [&](const std::string& release) { return satisfies(release, e.where.release); });
    if (!somewhere) errors.push_back(e.place + ": unused: no release of the matrix is " + e.where.release);
    for (size_t j = 0; j < i; ++j) {
      if (!can_meet(e, all[j], matrix)) continue;
      errors.push_back(e.place + ": shadowed by " + all[j].place + ": both can apply to " + e.test);
    }
    for (const std::string& name : e.records) {
      const auto record = std::find_if(records.begin(), records.end(), [&](const Record& r) {
        return std::filesystem::path(r.path).lexically_relative(reports) == name;
      });
      if (record == records.end()) {
        errors.push_back(e.place + ": there is no record " + name);
      } else if (const std::string wrong = what_is_wrong(e, *record, name); !wrong.empty()) {
        errors.push_back(e.place + wrong);
      }
    }
  }
  return errors;
}

}  // namespace recapture
