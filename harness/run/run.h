// One run: every planned test in its own process, a line in the record for each, the GPU's health watched.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "harness/base/exit.h"
#include "harness/case/types.h"
#include "harness/run/layout.h"
#include "harness/run/plan.h"
#include "harness/verdict/rules.h"
#include "harness/verdict/test_verdict.h"

namespace recapture::run {

struct RunOptions {
  std::string release;               // Empty: the newest that is built.
  std::vector<std::string> filters;  // Families, cases or tests; empty: all, or what is planned in `resume`.
  std::string record;                // Where to write; empty: below the build folder.
  std::string resume;                // A record to go on with; it must be of such a run.
  bool go_on = false;                // `resume` may be complete, or have been cut before its first test.
  bool replace = false;              // Put the record in the place of any other.
  bool left = false;                 // Only what the records below reports/ lack of this release on this machine.
  std::string libtorch;              // A site-packages folder to load LibTorch from.
  std::map<std::string, std::string> libraries;  // Instead of LibTorch's own, by kReplaceable's key: 12.9, or 12.9.79.
  std::string revision;                          // Empty: asked of git.
  Break broken = Break::Nothing;
  Requirements demands;
  Shard shard;
  size_t jobs = 0;                // Tests at once; 0: what is best for the machine, which the run then puts here.
  std::optional<uint64_t> seed;   // Of a random order; nothing: the order that ends first.
  std::vector<std::string> gpus;  // For CUDA_VISIBLE_DEVICES, shared out in turn; empty: the variable as it is.
  std::map<std::string, std::string> env;  // Variables that tests have on purpose.
  bool exec = false;                       // No servers: every test by plain exec.
};

// What a run took. It tests side by side what it may, and then the races alone.
struct Pace {
  size_t jobs = 1;                 // Tests at once.
  size_t together = 0, alone = 0;  // Tests of either kind that were started.
  double together_s = 0, alone_s = 0;
};

// The record that a run wrote, read again and judged as every record is.
struct Finished {
  Record record;
  std::vector<TestVerdict> rows;
  Pace pace;
  bool before = false;         // It was complete before; nothing was run.
  std::string none_left = {};  // Where nothing was left to run, of what; there is no record then.
};

// Prints a line a test, as `render_line` makes it. Throws ExitError where it does not come to its end.
using RenderLine = std::string (*)(const TestVerdict& row);
Finished run_cases(const Layout& places, const RunOptions& options, RenderLine render_line);

}  // namespace recapture::run
