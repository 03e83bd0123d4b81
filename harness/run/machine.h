// The machine that tests run on, as the canary finds it.
#pragma once
#include <string>

#include "harness/model/record.h"
#include "harness/run/layout.h"

namespace recapture::run {

struct Machine {
  int gpus = 0;
  std::string gpu, driver, cuda_driver;    // Of the first GPU; "" without one.
  std::string gpu_id, compute_capability;  // Its UUID, hashed; "9.0".
  std::string health;                      // "ok" of all GPUs, "none" (no GPU), or what went wrong.
  std::string reason;                      // Why there is no GPU.
  std::string mig;                         // "on" or "off"; "" where NVML does not say.
  std::string unlike;                      // The name of another GPU, of another model than the first; "" if none is.
  int others = 0;                          // Processes of others that compute on these GPUs.

  bool answers() const { return health == "ok"; }

  // "" if a case that needs this can run here, otherwise why not.
  std::string lacks(const Needs& needs) const;
};

// Runs the canary: on each GPU one small kernel whose result is checked. Only a driver's own answer makes a machine one
// without a GPU; a canary that dies, hangs or makes no sense is a GPU that does not answer. Throws
// ExitError(Interrupted) where the user has interrupted.
Machine ask_machine(const Layout& places);

}  // namespace recapture::run
