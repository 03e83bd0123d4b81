#include "harness/run/machine.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "harness/base/exit.h"
#include "harness/model/gpu.h"
#include "harness/run/process.h"

namespace recapture::run {
namespace fs = std::filesystem;
namespace {

std::string value_of_variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// Its control pipe is in the folder in which a program looks for it.
bool has_mps_server() {
  const std::string folder = value_of_variable("CUDA_MPS_PIPE_DIRECTORY");
  std::error_code error;
  return fs::exists((folder.empty() ? "/tmp/nvidia-mps" : folder) + "/control", error);
}

int major_of(const std::string& version) { return std::atoi(version.c_str()); }

}  // namespace

bool is_wsl(const std::string& root) {
  std::ifstream file(root + "/proc/version");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  return text.find("microsoft") != std::string::npos;
}

std::string container_here(const std::string& root) {
  std::error_code error;
  if (fs::exists(root + "/.dockerenv", error)) return "Docker";
  if (fs::exists(root + "/run/.containerenv", error)) return "Podman";
  if (!value_of_variable("APPTAINER_CONTAINER").empty() || !value_of_variable("SINGULARITY_CONTAINER").empty())
    return "Apptainer";
  return value_of_variable("container");
}

std::string why_driver_cannot_run(const Machine& machine, const std::string& cuda_runtime, const std::string& release) {
  const int runtime = major_of(cuda_runtime), driver = major_of(machine.cuda_driver);
  if (machine.gpus == 0 || runtime == 0) return "";
  const KnownArchitecture* architecture = find_architecture(Architecture(machine.compute_capability));
  if (architecture != nullptr && architecture->last_major != 0 && runtime > architecture->last_major) {
    return fmt::format("LibTorch {} has CUDA {}, and CUDA {} was the last for {}, such as this {}", release,
                       cuda_runtime, architecture->last_major, architecture->name, machine.gpu);
  }
  if (driver == 0 || runtime <= driver) return "";
  // The first driver of each major release of CUDA.
  const std::string first = runtime == 13 ? " (R580 or newer)" : runtime == 12 ? " (R525 or newer)" : "";
  return fmt::format(
      "LibTorch {} has CUDA {}, which needs a driver for CUDA {}{}, and this one{} is for CUDA {}: install a "
      "newer one, or run a release with CUDA {}",
      release, cuda_runtime, runtime, first, machine.driver.empty() ? "" : ", " + machine.driver + ",",
      machine.cuda_driver, driver);
}

std::string Machine::lacks(const Needs& needs) const {
  if (needs.gpus == 0 || gpus >= needs.gpus) return "";
  return gpus == 0 ? "no GPU" : fmt::format("needs {} GPUs, {} here", needs.gpus, gpus);
}

Machine ask_machine(const Layout& places) {
  constexpr double kDeadline_s = 60;
  constexpr int kNoGpu = 77;
  const auto [seen, answer] = ask({places.canary(), {}, {}}, kDeadline_s);
  if (interrupted()) throw ExitError(Exit::Interrupted, "interrupted");
  const Json json = try_parse_json(answer).value_or(Json());
  const auto text = [&](const char* key) {
    return json.is_object() && json.contains(key) && json.at(key).is_string() ? json.at(key).get<std::string>() : "";
  };
  const auto number = [&](const char* key) {
    return json.is_object() && json.contains(key) && json.at(key).is_number_integer() ? json.at(key).get<int>() : 0;
  };
  Machine machine;
  machine.gpus = number("gpus");
  machine.gpu = text("gpu");
  machine.gpu_id = text("gpu_id");
  machine.compute_capability = text("compute_capability");
  machine.driver = text("driver");
  machine.cuda_driver = text("cuda_driver");
  machine.reason = text("reason");
  machine.mig = text("mig");
  machine.unlike = text("unlike");
  machine.others = number("others");
  machine.nvml = text("nvml");
  machine.compute_mode = text("compute_mode");
  if (machine.gpus > 0) {
    machine.mps = has_mps_server() ? "on" : "";
    machine.wsl = is_wsl() ? "WSL2" : "";
    machine.container = container_here();
  }
  if (json.is_object() && json.contains("bad") && json.at("bad").is_array()) {
    for (const Json& gpu : json.at("bad")) {
      if (gpu.is_number_integer()) machine.bad.push_back(gpu.get<int>());
    }
  }
  machine.health = text("canary");
  const bool makes_sense = machine.health == "ok"     ? seen.code == 0 && machine.gpus > 0
                           : machine.health == "none" ? seen.code == kNoGpu
                                                      : !machine.health.empty();
  if (seen.ending == Observation::Ending::Deadline) {
    machine.health = fmt::format("no answer in {} s", kDeadline_s);
  } else if (seen.ending == Observation::Ending::NotStarted) {
    machine.health = seen.last_words;
  } else if (seen.ending == Observation::Ending::Signal) {
    machine.health = fmt::format("the canary was killed by signal {}; {}", seen.code, seen.last_words);
  } else if (!makes_sense) {
    machine.health = fmt::format("the canary left with {} and said '{}'", seen.code,
                                 (seen.last_words.empty() ? answer : seen.last_words).substr(0, 200));
  }
  while (!machine.health.empty() && (machine.health.back() == '\n' || machine.health.back() == ' ')) {
    machine.health.pop_back();
  }
  // The number is unknown, but this machine has at least one.
  if (machine.health != "ok" && machine.health != "none") machine.gpus = std::max(1, machine.gpus);
  return machine;
}

}  // namespace recapture::run
