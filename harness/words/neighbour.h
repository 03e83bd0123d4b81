// The machine on record that is nearest to one that no record has.
#pragma once
#include <string>

#include "harness/model/neighbour.h"

namespace recapture {

// "NVIDIA H100 80GB HBM3, driver 580.159.04", escaped.
std::string name_of(const GpuAndDriver& machine);

// "NVIDIA H100 80GB HBM3, driver 580.159.04, another GPU of the same architecture"; "" if the machine is on record.
std::string nearest_machine(const Neighbour& neighbour);

}  // namespace recapture
