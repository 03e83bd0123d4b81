#include "harness/run/machine.h"

#include <fmt/format.h>

#include <algorithm>

#include "harness/base/exit.h"
#include "harness/run/process.h"

namespace recapture::run {

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
