// Which tests a run makes, and in which order.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "harness/base/shard.h"
#include "harness/case/types.h"
#include "harness/run/case_binaries.h"

namespace recapture::run {

// As shard_of() has it; throws ExitError(Usage) where that is none.
Shard read_shard(const std::string& text);

struct PlannedCase {
  CaseBinary binary;
  std::vector<std::string> tests;  // Names, in the file's order.
};

// The cases of a shard with the tests that a filter names: families, cases, tests as case.Test, globs or paths; all
// where there is none. A run broken on purpose has only the tests that the break concerns. Throws ExitError(Usage) for
// a filter that names nothing.
std::vector<PlannedCase> plan_of(const std::vector<CaseBinary>& all, const std::vector<std::string>& filters,
                                 Break broken, const Shard& shard);

// Its tests as case.Test.
std::vector<std::string> tests_of(const std::vector<PlannedCase>& plan);

// Another order of the cases and of each case's tests, the same everywhere for the same seed.
void shuffle(std::vector<PlannedCase>& plan, uint64_t seed);

// "0,1" as a list of GPUs. Throws ExitError(Usage) on anything else than numbers.
std::vector<std::string> read_gpus(const std::string& text);

}  // namespace recapture::run
