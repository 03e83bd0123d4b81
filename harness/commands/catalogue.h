// The catalogue as the built cases give it.
#pragma once
#include <string>

#include "harness/judge/catalogue.h"
#include "harness/run/places.h"

namespace recapture {

// What the cases that are built for a release say about themselves; "" is the newest that is built, and is put into
// `release`. Throws Stop if nothing is built.
Catalogue built_catalogue(const Places& places, std::string& release);

}  // namespace recapture
