#include "harness/lint/expectations.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "harness/case/events.h"
#include "harness/lint/propose.h"
#include "harness/model/gpu.h"
#include "harness/model/release.h"
#include "harness/verdict/judge.h"

namespace recapture::lint {
namespace {

// Whether both can apply to one machine: a release of the matrix, a recorded GPU whose name contains both parts, and
// versions of driver, CUDA runtime and NCCL.
bool both_apply(const Expectation& a, const Expectation& b, const std::vector<std::string>& matrix,
                const std::set<std::string>& gpus) {
  if (a.test != b.test) return false;
  const auto has_both = [&](const std::string& gpu) {
    return GpuFilter(a.where.gpu).covers(gpu) && GpuFilter(b.where.gpu).covers(gpu);
  };
  const bool same_gpu = has_both(a.where.gpu) || has_both(b.where.gpu) || std::ranges::any_of(gpus, has_both);
  return same_gpu && can_meet(a.where.driver, b.where.driver) && can_meet(a.where.cuda_runtime, b.where.cuda_runtime) &&
         can_meet(a.where.nccl, b.where.nccl) && std::ranges::any_of(matrix, [&](const std::string& release) {
           return in_range(release, a.where.release) && in_range(release, b.where.release);
         });
}

// "" if the record shows it.
std::string what_is_wrong(const Expectation& e, const Record& record, const std::string& name) {
  const TestRecord* test = record.find(e.test);
  const Kind kind = kind_of_id(e.test);
  const auto as_expected = [&](Result result) { return is_as_expected(e, result, shown(result, *test)); };
  if (test == nullptr || !e.where.covers(record) || !as_expected(classify(kind, *test))) {
    return ": unused: " + name + " does not show it";
  }
  const auto confirmed = record.confirmations.find(e.test);
  if (e.is_open_question && (confirmed == record.confirmations.end() || confirmed->second.size() < 2)) {
    return ": an open question needs two confirmations by plain exec in " + name;
  }
  return "";
}

}  // namespace

std::vector<std::string> expectation_errors(const std::vector<Expectation>& all, const std::vector<std::string>& matrix,
                                            const std::vector<Record>& records, const std::string& reports) {
  std::vector<std::string> errors;
  std::set<std::string> known, gpus;
  for (const Record& record : records) {
    gpus.insert(record.env("gpu"));
    for (const auto& [id, info] : record.cases) {
      for (const std::string& test : info.tests) known.insert(fmt::format("{}.{}", id, test));
    }
  }
  for (size_t i = 0; i < all.size(); ++i) {
    const Expectation& e = all[i];
    for (const std::string& reason : {e.why, e.source}) {
      if (reason.find(kTodo) != std::string::npos)
        errors.push_back(e.place + ": its reason is still to be found: " + reason);
    }
    if (known.count(e.test) == 0) errors.push_back(e.place + ": no record knows the test " + e.test);
    const bool somewhere =
        std::ranges::any_of(matrix, [&](const std::string& release) { return in_range(release, e.where.release); });
    if (!somewhere) errors.push_back(e.place + ": unused: no release of the matrix is " + e.where.release);
    for (size_t j = 0; j < i; ++j) {
      if (!both_apply(e, all[j], matrix, gpus)) continue;
      errors.push_back(e.place + ": shadowed by " + all[j].place + ": both can apply to " + e.test);
    }
    for (const std::string& name : e.records) {
      const auto record = std::ranges::find_if(
          records, [&](const Record& r) { return std::filesystem::path(r.path).lexically_relative(reports) == name; });
      if (record == records.end()) {
        errors.push_back(e.place + ": there is no record " + name);
      } else if (const std::string wrong = what_is_wrong(e, *record, name); !wrong.empty()) {
        errors.push_back(e.place + wrong);
      }
    }
  }
  return errors;
}

}  // namespace recapture::lint
