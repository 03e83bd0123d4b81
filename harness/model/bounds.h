// The releases for which an entry of cases/expectations.toml has records.
#pragma once
#include <string>

#include "harness/model/expectations.h"

namespace recapture {

// The oldest and the newest release of an entry's records: "2.9.1 to 2.11.0", or "2.9.1"; between them it is no guess.
// "" if none of its records is of a release.
std::string bounds_of(const Expectation& expectation);

}  // namespace recapture
