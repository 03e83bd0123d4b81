// The machine that tests run on, as reported by the canary.
#pragma once
#include <string>
#include <vector>

#include "harness/model/record.h"
#include "harness/run/layout.h"

namespace recapture::run {

struct Machine {
  int gpus = 0;
  std::string gpu, driver, cuda_driver;    // Of the first GPU; "" without one.
  std::string gpu_id, compute_capability;  // Its UUID, hashed; "9.0".
  std::string health;                      // "ok" (all GPUs), "none" (no GPU), or the error.
  std::string reason;                      // Why there is no GPU.
  std::string mig;                         // "on" or "off"; "" if NVML does not report it.
  std::string unlike;                      // The name of a GPU of another model than the first; "" if none.
  int others = 0;                          // Other processes that compute on these GPUs.
  std::vector<int> bad;                    // The GPUs that do not work, if others do.
  // Only what is unusual, else "": "missing", if NVML does not answer; "exclusive process"; "on", if an MPS server
  // runs; "WSL2"; "Docker".
  std::string nvml, compute_mode, mps, wsl, container;

  bool answers() const { return health == "ok"; }

  // "" if a case with these needs can run here, otherwise why not.
  std::string lacks(const Needs& needs) const;
};

// "Docker", "Podman", "Apptainer" or another one's own name; "" outside a container. `root` has the system's files.
std::string container_here(const std::string& root = "");
bool is_wsl(const std::string& root = "");

// Why no test can run with this driver, given the version of CUDA that it supports, the runtime's and the GPU's
// capability, "" each if unknown; "" if they fit. Within one major release any driver runs any runtime.
std::string why_driver_cannot_run(const Machine& machine, const std::string& cuda_runtime, const std::string& release);

// Runs the canary: on each GPU a small kernel with a checked result. Only the driver's own answer means that there is
// no GPU; if the canary dies, hangs or prints nonsense, the GPU does not answer. Throws ExitError(Interrupted) on the
// user's interruption.
Machine ask_machine(const Layout& places);

}  // namespace recapture::run
