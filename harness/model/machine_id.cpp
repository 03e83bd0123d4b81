#include "harness/model/machine_id.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <tuple>

#include "harness/base/escape.h"
#include "harness/case/source_hash.h"

namespace recapture {
namespace {

// A name sorts after all names that begin with it.
std::strong_ordering compare_names(const std::string& a, const std::string& b) {
  const size_t shared = std::min(a.size(), b.size());
  const int order = a.compare(0, shared, b, 0, shared);
  return order != 0 ? order <=> 0 : b.size() <=> a.size();
}

}  // namespace

std::strong_ordering MachineId::operator<=>(const MachineId& other) const {
  for (const auto part : {&MachineId::gpu, &MachineId::driver, &MachineId::runtime}) {
    if (const auto order = compare_names(this->*part, other.*part); order != 0) return order;
  }
  return std::tie(packed, variables, overrides, processor) <=>
         std::tie(other.packed, other.variables, other.overrides, other.processor);
}

std::strong_ordering MachineKind::operator<=>(const MachineKind& other) const {
  const auto order = release <=> other.release;
  return order != 0 ? order : machine <=> other.machine;
}

MachineId MachineId::comparable() const {
  MachineId id;
  id.gpu = gpu;
  id.driver = driver;
  id.variables = variables;
  id.processor = processor;
  return id;
}

MachineId MachineId::with_overrides() const {
  MachineId id = comparable();
  id.overrides = overrides;
  return id;
}

MachineId MachineId::place() const {
  MachineId id = with_overrides();
  id.driver.clear();
  return id;
}

MachineKind kind_of_machine(const Release& release, const MachineId& machine) {
  MachineKind kind{release, machine};
  kind.machine.overrides.erase("cuda_runtime");
  return kind;
}

std::string label(const MachineId& machine, const Detail& detail) {
  std::string text(machine.gpu.empty() ? detail.no_gpu : machine.gpu);
  if (!machine.processor.empty()) text += ", " + machine.processor;
  if (detail.driver && !machine.gpu.empty())
    text += ", driver " + (machine.driver.empty() ? "unknown" : machine.driver);
  if (detail.runtime) text += ", CUDA runtime " + machine.runtime;
  if (detail.packed && machine.packed) text += " (packed)";
  if (detail.variables && !machine.variables.empty()) text += ", " + machine.variables;
  return escape_control(text) + (detail.overrides ? label_of_overrides(machine) : "");
}

std::string label_of_overrides(const MachineId& machine) {
  std::string text;
  for (const OverridableLibrary& library : kOverridableLibraries) {
    const auto version = machine.overrides.find(library.key);
    if (version != machine.overrides.end()) text += fmt::format(", {} {}", library.name, version->second);
  }
  return escape_control(text);
}

std::string file_name(const MachineId& machine) {
  const auto is_of_a_name = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; };
  std::string name = machine.gpu.empty() ? "host" : machine.gpu;
  for (char& c : name) c = is_of_a_name(c) ? static_cast<char>(std::tolower(static_cast<unsigned char>(c))) : '-';
  if (!machine.processor.empty()) {
    name += ".";
    for (const char c : machine.processor.substr(0, 20)) name += is_of_a_name(c) ? c : '-';
  }
  if (!machine.variables.empty()) {
    name += ".";
    for (const char c : machine.variables.substr(0, 60)) name += is_of_a_name(c) ? c : '-';
    name += "-" + hash_of(machine.variables).substr(0, 4);
  }
  for (const OverridableLibrary& library : kOverridableLibraries) {
    const auto version = machine.overrides.find(library.key);
    if (version != machine.overrides.end()) name += fmt::format(".{}-{}", library.tag, version->second);
  }
  return name;
}

}  // namespace recapture
