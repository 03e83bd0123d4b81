#include "harness/run/machine.h"

#include <fmt/format.h>

#include "harness/run/process.h"

namespace recapture {

std::string Machine::lacks(const Needs& needs) const {
  if (needs.gpus == 0 || gpus >= needs.gpus) return "";
  return gpus == 0 ? "no GPU" : fmt::format("needs {} GPUs, {} here", needs.gpus, gpus);
}

Machine ask_machine(const Places& places) {
  constexpr double kDeadline_s = 60;
  const auto [seen, answer] = ask({places.canary(), {}, {}}, kDeadline_s);
  Json json = Json::parse(answer, nullptr, false);
  if (!json.is_object()) json = Json::object();
  Machine machine;
  machine.gpus = json.value("gpus", 0);
  machine.gpu = json.value("gpu", "");
  machine.gpu_id = json.value("gpu_id", "");
  machine.compute_capability = json.value("compute_capability", "");
  machine.driver = json.value("driver", "");
  machine.cuda_driver = json.value("cuda_driver", "");
  machine.reason = json.value("reason", "the canary died");
  machine.health = json.value("canary", "");
  if (seen.ending == Observation::Ending::Deadline) {
    machine.health = fmt::format("no answer in {} s", kDeadline_s);
  } else if (seen.ending != Observation::Ending::Exited || machine.health.empty()) {
    machine.health = fmt::format("died: {} {}", seen.code, seen.last_words);
  }
  return machine;
}

}  // namespace recapture
