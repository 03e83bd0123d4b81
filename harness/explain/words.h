// An explanation, for people and for programs.
#pragma once
#include <string>

#include "harness/explain/explain.h"
#include "harness/record/json.h"

namespace recapture {

// `release` is the one whose records say what holds, "" for none.
// A line for the remedy, and one for each of its prices, all of them indented.
std::string in_words(const RemedyFor& remedy, const std::string& release, size_t indent);
std::string in_words(const Explanation& explanation, const std::string& release);
Json as_json(const Explanation& explanation);

}  // namespace recapture
