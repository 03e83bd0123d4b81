// One run: every planned test in its own process, a line in the record for each, the GPU's health watched.
#pragma once
#include <string>
#include <vector>

#include "harness/case/types.h"
#include "harness/judge/row.h"
#include "harness/judge/rules.h"
#include "harness/record/exit.h"
#include "harness/run/places.h"
#include "harness/run/plan.h"

namespace recapture {

struct RunOptions {
  std::string release;               // Empty: the newest that is built.
  std::vector<std::string> filters;  // Families, cases or tests; empty: all.
  std::string record;                // Where to write; empty: below the build folder.
  std::string resume;                // A record to go on with.
  std::string libtorch;              // A site-packages folder to load LibTorch from.
  std::string revision;              // Empty: asked of git.
  Break broken = Break::Nothing;
  Demands demands;
  Shard shard;
  bool exec = false;  // No servers: every test by plain exec.
};

// The record that a run wrote, read again and judged as every record is.
struct Finished {
  Record record;
  std::vector<Row> rows;
};

// Prints a line a test. Throws Stop where it does not come to its end.
Finished run(const Places& places, const RunOptions& options);

}  // namespace recapture
