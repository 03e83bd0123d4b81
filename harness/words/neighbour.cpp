#include "harness/words/neighbour.h"

#include <fmt/format.h>

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

}  // namespace recapture
