// The machine that tests run on, as the canary finds it.
#pragma once
#include <string>

#include "harness/record/record.h"
#include "harness/run/places.h"

namespace recapture {

struct Machine {
  int gpus = 0;
  std::string gpu, driver, cuda_driver;    // Of the first GPU; "" without one.
  std::string gpu_id, compute_capability;  // Its UUID, hashed; "9.0".
  std::string health;                      // "ok", "none" (no GPU), or what went wrong.
  std::string reason;                      // Why there is no GPU.

  bool answers() const { return health == "ok"; }

  // "" if a case that needs this can run here, otherwise why not.
  std::string lacks(const Needs& needs) const;
};

// Runs the canary: one small kernel whose result is checked.
Machine ask_machine(const Places& places);

}  // namespace recapture
