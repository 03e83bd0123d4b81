// How far it is on record what cases/expectations.toml expects.
#pragma once
#include <string>

#include "harness/model/expectations.h"

namespace recapture {

// The oldest and the newest release of an entry's records, between which it is no guess: "2.9.1 to 2.11.0", or "2.9.1".
// "" if none of its records is of a release.
std::string bounds_of(const Expectation& expectation);

}  // namespace recapture
