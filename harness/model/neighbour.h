// What stands in for a release, a GPU or a driver that no record of the tree has: what is expected there is what is
// expected of its neighbour, until a record contradicts it.
#pragma once
#include <string>
#include <vector>

#include "harness/model/environment.h"

namespace recapture {

// A GPU with a driver.
struct GpuAndDriver {
  std::string gpu, driver;
  Architecture architecture = {};  // Older records lack it.

  bool operator==(const GpuAndDriver& other) const { return gpu == other.gpu && driver == other.driver; }
};

// What the tree's records were made on.
struct Measured {
  std::vector<Release> releases = {};   // That records of expectations are of, oldest first.
  std::vector<GpuAndDriver> gpus = {};  // Empty if no record was read: then nothing is known of any machine.

  void add(const Environment& environment);  // Its GPU and driver.
};

// How a machine is like the nearest one on record.
enum class Likeness { Same, OtherDriver, SameArchitecture, OtherArchitecture };

struct Neighbour {
  std::string release = {};  // The nearest older one on record, else the oldest; "" if the release itself is.
  Likeness likeness = Likeness::Same;
  GpuAndDriver gpu = {};  // Empty if the machine itself is on record, or has no GPU.

  bool has_record_of_release() const { return release.empty(); }
  bool has_record_of_machine() const { return likeness == Likeness::Same; }
  bool is_on_record() const { return has_record_of_release() && has_record_of_machine(); }
};

Neighbour neighbour_of(const Environment& environment, const Measured& measured);

}  // namespace recapture
