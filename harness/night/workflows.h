// What runs a night on GitHub, on GitLab and under Slurm: files whose every line follows from ci/matrix.toml.
#pragma once
#include <string>

#include "harness/night/plan.h"

namespace recapture {

struct Tiers {
  Tier pull_request, night;
};

std::string github_workflow(const Tiers& tiers);
std::string gitlab_pipeline(const Tiers& tiers);
std::string slurm_script(const Tier& night);

}  // namespace recapture
