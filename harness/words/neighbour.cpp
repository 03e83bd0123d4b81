#include "harness/words/neighbour.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "harness/base/escape.h"

namespace recapture {
namespace {

std::string_view likeness_words(Likeness likeness) {
  switch (likeness) {
    case Likeness::OtherDriver:
      return "the same GPU with another driver";
    case Likeness::SameArchitecture:
      return "another GPU of the same architecture";
    case Likeness::OtherArchitecture:
      return "a GPU of another architecture";
    case Likeness::Same:
      break;
  }
  return "";
}

}  // namespace

std::string name_of(const GpuAndDriver& machine) {
  return escape_control(fmt::format("{}, driver {}", machine.gpu, machine.driver.empty() ? "unknown" : machine.driver));
}

std::string nearest_machine(const Neighbour& neighbour) {
  if (neighbour.has_record_of_machine()) return "";
  return fmt::format("{}, {}", name_of(neighbour.gpu), likeness_words(neighbour.likeness));
}

std::string nearest_to(const std::string& gpu, const std::string& driver, const Measured& measured) {
  const KnownArchitecture* known = architecture_of(gpu);
  if (known == nullptr && std::ranges::find(measured.gpus, gpu, &GpuAndDriver::gpu) == measured.gpus.end()) return "";
  const Environment machine(
      {{"gpu", gpu},
       {"driver", driver},
       {"compute_capability", known == nullptr ? std::string() : std::string(known->capability)}});
  const std::string nearest = nearest_machine(neighbour_of(machine, measured));
  return nearest.empty() ? "" : "; the nearest on record is " + nearest;
}

}  // namespace recapture
