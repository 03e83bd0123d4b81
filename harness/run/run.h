// One run: every planned test in its own process, a line in the record for each, with the GPU checked in between.
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
#include "harness/verdict/judge.h"
#include "harness/verdict/rules.h"

namespace recapture::run {

struct RunOptions {
  std::string release;               // Empty: the newest that is built.
  std::string label = {};            // Of a build that is not the release's own; "" of any other.
  std::vector<std::string> filters;  // Families, cases or tests; empty: all, or the plan of `resume`.
  std::string record;                // Where to write; empty: below the build folder.
  std::string resume;                // A record to resume; of the same kind of run.
  bool go_on = false;                // `resume` may be complete, or without any test.
  bool replace = false;              // Replace an existing record.
  bool left = false;                 // Only what the records in reports/ lack for this release on this machine.
  std::string libtorch;              // A site-packages folder with the LibTorch to load.
  std::map<std::string, std::string> libraries;  // Instead of LibTorch's own, by kReplaceable's key: 12.9, or 12.9.79.
  std::string revision;                          // Empty: from git.
  Break broken = Break::Nothing;
  Requirements demands;
  Shard shard;
  size_t jobs = 0;                         // Tests in parallel; 0: chosen for the machine, and stored here.
  std::optional<uint64_t> seed;            // Of a random order; nothing: the fastest order.
  std::vector<std::string> gpus;           // For CUDA_VISIBLE_DEVICES, assigned in turn; empty: unchanged.
  std::map<std::string, std::string> env;  // Variables set on purpose for tests.
  bool exec = false;                       // No servers: every test by plain exec.
  bool verbose = false;                    // Also measure what the run's time consists of.
};

// What a worker did, in order: each test with the seconds from the end of the one before to its own end. These contain
// the start of its case's server.
using WorkerTimes = std::vector<std::pair<std::string, double>>;

// As many contexts as tests with a GPU ran side by side, created by processes that do nothing else, as many at once.
struct BareContexts {
  std::map<int, size_t> tests;       // By the number of connections.
  std::map<int, double> per_second;  // Measured at the run's end.
  double seconds() const;            // What as many take.
};

// A run's pace. It runs tests in parallel, then the races alone.
struct Pace {
  size_t jobs = 1;                 // Tests at once.
  size_t together = 0, alone = 0;  // Started tests of either kind.
  double together_s = 0, alone_s = 0;
  std::vector<WorkerTimes> workers = {};  // Side by side; only with RunOptions::verbose, as what follows.
  std::optional<BareContexts> bare = {};  // Nothing without a GPU.
};

// The record of a finished run, read back and judged.
struct Finished {
  Record record;
  std::vector<TestVerdict> rows;
  Pace pace;
  bool before = false;         // It was already complete; nothing was run.
  std::string none_left = {};  // What had nothing left to run; there is no record then.
  Neighbour neighbour = {};    // Of the record.
};

// Prints a line for each test, made by `render_line`. Throws ExitError if the run cannot be completed.
using RenderLine = std::string (*)(const TestVerdict& row);
Finished run_cases(const Layout& places, const RunOptions& options, RenderLine render_line);

}  // namespace recapture::run
