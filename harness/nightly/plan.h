// What a night is to run, on which machines: releases × GPUs × shards, from ci/matrix.toml.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "harness/model/record.h"

namespace recapture::nightly {

// One run on one machine.
struct NightTask {
  std::string release;  // Or a build of ci/matrix.toml, such as "nightly".
  std::string gpu;      // Part of the GPU's name, whatever the case; "none" for a run without one.
  int shard = 1, of = 1;
  std::string code = {};  // What tools/pack packs for it: "sm_90". Not in the plan that a night keeps.

  std::string name() const;                  // "2.6.0-h200-1of2"
  std::string label() const;                 // "h200", as runners and Slurm call the GPU.
  std::string shard_words() const;           // "1/2"
  std::vector<std::string> options() const;  // Of `recapture run`, all but where the record goes.
  // Whether a run of it would have this environment.
  bool is_of(const Environment& environment) const;
};

using NightPlan = std::vector<NightTask>;

// What a tier of ci/matrix.toml asks for.
struct Tier {
  std::vector<std::string> releases;
  std::map<std::string, std::string> gpus;  // With what tools/pack packs for each: "sm_90".
  int shards = 1;

  NightPlan plan() const;
};

// Throws ExitError(Usage) where ci/matrix.toml has no such tier or what it says is wrong.
Tier read_tier(const std::string& root, const std::string& name);

// [{"task","release","gpu","label","shard","record","command","code"}, …], numbered from 1; GitHub takes it as a
// matrix.
Json render_json(const NightPlan& plan);

// Of a file with that. Throws ExitError(Usage) for an empty plan, and for one with two tasks that are the same.
NightPlan read_plan(const std::string& path);
NightPlan plan_from(const Json& json, const std::string& path);

}  // namespace recapture::nightly
