// The machine on record that is nearest to one that no record has.
#pragma once
#include <string>

#include "harness/model/neighbour.h"

namespace recapture {

// "NVIDIA H100 80GB HBM3, driver 580.159.04", escaped.
std::string name_of(const GpuAndDriver& machine);

// "NVIDIA H100 80GB HBM3, driver 580.159.04, another GPU of the same architecture"; "" if the machine is on record.
std::string nearest_machine(const Neighbour& neighbour);

// The same for a GPU that somebody named, with a driver or "": "; the nearest on record is …"; "" if nothing is known
// of such a GPU.
std::string nearest_to(const std::string& gpu, const std::string& driver, const Measured& measured);

}  // namespace recapture
