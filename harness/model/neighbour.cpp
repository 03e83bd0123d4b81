#include "harness/model/neighbour.h"

#include <algorithm>
#include <cstdlib>
#include <tuple>

namespace recapture {
namespace {

// "2.16.0" of "2.16.0rc1", "2.16.0.dev20261124+cu132" and "2.16.0a0+git0123abc".
std::string base_of(const std::string& release) {
  std::string base = release.substr(0, release.find_first_not_of("0123456789."));
  while (!base.empty() && base.back() == '.') base.pop_back();
  return base;
}

std::string nearest_release(const Release& release, const std::vector<Release>& measured) {
  const auto is_on_record = [&](const std::string& name) {
    return std::ranges::find(measured, name, &Release::name) != measured.end();
  };
  const std::string base = base_of(release.name());
  if (!release.is_version() || measured.empty() || is_on_record(without_local(release.name()))) return "";
  if (is_on_record(base)) return base;
  const Release* nearest = &measured.front();
  for (const Release& each : measured) {
    if (each.is_older_than(release)) nearest = &each;
  }
  return nearest->name();
}

// "9.0" as 90; 0 if unknown.
int number_of(const Architecture& architecture) {
  const std::string& text = architecture.capability();
  const size_t point = text.find('.');
  return std::atoi(text.c_str()) * 10 + (point == std::string::npos ? 0 : std::atoi(text.c_str() + point + 1));
}

Likeness likeness_of(const GpuAndDriver& one, const GpuAndDriver& other) {
  if (one.gpu == other.gpu) return one.driver == other.driver ? Likeness::Same : Likeness::OtherDriver;
  const bool is_alike = !one.architecture.empty() && one.architecture == other.architecture;
  return is_alike ? Likeness::SameArchitecture : Likeness::OtherArchitecture;
}

}  // namespace

void Measured::add(const Environment& environment) {
  const GpuAndDriver one{environment.machine.gpu, environment.machine.driver, environment.architecture};
  if (one.gpu.empty()) return;
  const auto known = std::ranges::find(gpus, one);
  if (known == gpus.end()) {
    gpus.push_back(one);
  } else if (known->architecture.empty()) {
    known->architecture = one.architecture;
  }
}

Neighbour neighbour_of(const Environment& environment, const Measured& measured) {
  Neighbour found{.release = nearest_release(environment.release, measured.releases)};
  const GpuAndDriver here{environment.machine.gpu, environment.machine.driver, environment.architecture};
  if (here.gpu.empty() || measured.gpus.empty()) return found;
  // Of equally near ones the newest driver, then the first by name, so that the order of the records decides nothing.
  const auto distance = [&](const GpuAndDriver& other) {
    const int apart = std::abs(number_of(here.architecture) - number_of(other.architecture));
    return std::tuple(likeness_of(here, other), apart);
  };
  const auto is_nearer = [&](const GpuAndDriver& one, const GpuAndDriver& other) {
    if (distance(one) != distance(other)) return distance(one) < distance(other);
    const Release driver(one.driver), other_driver(other.driver);
    return driver == other_driver ? one.gpu < other.gpu : other_driver < driver;
  };
  const GpuAndDriver& nearest = *std::ranges::min_element(measured.gpus, is_nearer);
  found.likeness = likeness_of(here, nearest);
  if (found.likeness != Likeness::Same) found.gpu = nearest;
  return found;
}

}  // namespace recapture
