// The tasks of a night: releases × GPUs × shards, from ci/matrix.toml.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "harness/model/record.h"

namespace recapture::nightly {

// One run on one machine.
struct NightTask {
  std::string release;  // Or a build of ci/matrix.toml, such as "nightly".
  std::string gpu;      // Words of the GPU's name, as GpuFilter has them; "none" without a GPU.
  int shard = 1, of = 1;
  std::string code = {};  // The architecture for tools/pack: "sm_90". Not in a stored plan.

  std::string name() const;                  // "2.6.0-h200-1of2"
  std::string label() const;                 // "h200", the GPU's name for runners and Slurm.
  std::string shard_words() const;           // "1/2"
  std::vector<std::string> options() const;  // Of `recapture run`, without --record.
  // Whether a run of it would have this environment.
  bool is_of(const Environment& environment) const;
};

using NightPlan = std::vector<NightTask>;

// A tier of ci/matrix.toml.
struct Tier {
  std::vector<std::string> releases;
  std::map<std::string, std::string> gpus;  // With the architecture for tools/pack: "sm_90".
  int shards = 1;
  int days = 1;  // From one night to the next.

  NightPlan plan() const;
};

// Throws ExitError(Usage) if ci/matrix.toml lacks the tier or has an invalid one.
Tier read_tier(const std::string& root, const std::string& name);

// `days` of [tier.night]; 0 without such a tier.
int period_of_nights(const std::string& root);

// [{"task","release","gpu","label","shard","record","command","code"}, …], numbered from 1; valid as a matrix of
// GitHub.
Json render_json(const NightPlan& plan);

// Reads such a file. Throws ExitError(Usage) for an empty plan or two equal tasks.
NightPlan read_plan(const std::string& path);
NightPlan plan_from(const Json& json, const std::string& path);

}  // namespace recapture::nightly
