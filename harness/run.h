// One run: every planned test in its own process, a line in the record for each, the GPU's health watched.
#pragma once
#include <string>
#include <vector>

#include "harness/catalog.h"
#include "harness/report.h"

namespace recapture {

struct RunOptions {
  std::string release;               // Empty: the newest that is built.
  std::vector<std::string> filters;  // Families, cases or tests; empty: all.
  std::string record;                // Where to write; empty: below the build folder.
  std::string resume;                // A record to go on with.
  std::string libtorch;              // A site-packages folder to load LibTorch from.
  std::string broken = "nothing";    // --break: nothing, trigger, value or remedy.
  std::string revision;              // Empty: asked of git.
  std::string junit;
  std::vector<std::string> require;  // "gpu", "recorder".
  int shard = 1, shards = 1;
  bool exec = false;  // No servers: every test by plain exec.
};

Exit run(const Places& places, const RunOptions& options);

}  // namespace recapture
