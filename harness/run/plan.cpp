#include "harness/run/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <random>
#include <set>
#include <utility>

#include "harness/base/exit.h"
#include "harness/model/suggest.h"

namespace recapture::run {
namespace {

// Fisher-Yates. std::shuffle gives another order with each standard library.
template <class T>
void mix(std::vector<T>& all, std::mt19937_64& random) {
  for (size_t i = all.size(); i > 1; --i) std::swap(all[i - 1], all[random() % i]);
}

}  // namespace

Shard read_shard(const std::string& text) {
  if (const auto shard = shard_of(text)) return *shard;
  throw ExitError(Exit::Usage,
                  fmt::format("--shard takes i/n with i from 1 to n, and n up to {}, not '{}'", kMostShards, text));
}

std::vector<PlannedCase> plan_of(const std::vector<CaseBinary>& all, const std::vector<std::string>& filters,
                                 Break broken, const Shard& shard) {
  Names known;
  for (const CaseBinary& binary : all) {
    known.families.push_back(binary.info.family);
    known.cases.push_back(binary.info.id);
    for (const std::string& test : binary.info.tests) known.tests.push_back(binary.info.id + "." + test);
  }
  std::set<std::string> wanted;
  for (const std::string& filter : filters) {
    for (const std::string& name : named(filter, known)) wanted.insert(name);
  }
  std::vector<PlannedCase> plan;
  int index = 0;
  for (const CaseBinary& binary : all) {
    const CaseInfo& info = binary.info;
    PlannedCase planned{binary, {}};
    for (const std::string& test : info.tests) {
      const bool is_named = wanted.empty() || wanted.count(info.family) != 0 || wanted.count(info.id) != 0 ||
                            wanted.count(info.id + "." + test) != 0;
      const bool concerned = broken == Break::Nothing || is_breakable(kind_of_id(info.id + "." + test), broken);
      if (is_named && concerned) planned.tests.push_back(test);
    }
    if (!planned.tests.empty() && index++ % shard.of == shard.index - 1) plan.push_back(planned);
  }
  return plan;
}

std::vector<std::string> tests_of(const std::vector<PlannedCase>& plan) {
  std::vector<std::string> tests;
  for (const PlannedCase& planned : plan) {
    for (const std::string& test : planned.tests) tests.push_back(planned.binary.info.id + "." + test);
  }
  return tests;
}

void shuffle(std::vector<PlannedCase>& plan, uint64_t seed) {
  std::mt19937_64 random(seed);
  mix(plan, random);
  for (PlannedCase& planned : plan) mix(planned.tests, random);
}

std::vector<std::string> read_gpus(const std::string& text) {
  std::vector<std::string> gpus(1);
  for (const char c : text) {
    if (c == ',') {
      gpus.emplace_back();
    } else {
      gpus.back() += c;
    }
  }
  const auto is_number = [](const std::string& gpu) {
    return !gpu.empty() && gpu.size() < 4 && gpu.find_first_not_of("0123456789") == std::string::npos;
  };
  if (!std::ranges::all_of(gpus, is_number)) {
    throw ExitError(Exit::Usage, "--gpu takes numbers such as 0 or 0,1, not '" + text + "'");
  }
  return gpus;
}

}  // namespace recapture::run
