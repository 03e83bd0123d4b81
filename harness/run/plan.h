// Which tests a run executes, and in which order.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "harness/base/shard.h"
#include "harness/case/types.h"
#include "harness/run/case_binaries.h"

namespace recapture::run {

// As shard_of(); throws ExitError(Usage) if it is invalid.
Shard read_shard(const std::string& text);

struct PlannedCase {
  CaseBinary binary;
  std::vector<std::string> tests;  // Names, in the file's order.
};

// The cases of a shard with the tests that a filter names: families, cases, tests as case.Test, globs or paths; all
// without a filter. A run broken on purpose has only the tests that the break concerns. Throws ExitError(Usage) for an
// unknown name.
std::vector<PlannedCase> plan_of(const std::vector<CaseBinary>& all, const std::vector<std::string>& filters,
                                 Break broken, const Shard& shard);

// Its tests as case.Test.
std::vector<std::string> tests_of(const std::vector<PlannedCase>& plan);

// Shuffles the cases and each case's tests; the same order everywhere for the same seed.
void shuffle(std::vector<PlannedCase>& plan, uint64_t seed);

// Parses a list of GPUs, "0,1". Throws ExitError(Usage) for anything but numbers.
std::vector<std::string> read_gpus(const std::string& text);

}  // namespace recapture::run
