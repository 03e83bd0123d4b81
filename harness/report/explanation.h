// An explanation, for people and for programs.
#pragma once
#include <string>

#include "harness/base/json.h"
#include "harness/explain/explain.h"

namespace recapture::report {

// `release` is the one whose records say what holds, "" for none.
// A line for the remedy, and one for each of its prices, all of them indented.
std::string render_text(const explain::FixAdvice& remedy, const std::string& release, size_t indent);
std::string render_text(const explain::Explanation& explanation, const std::string& release);
// docs/reference/explain-json.md
Json render_json(const explain::Explanation& explanation, const std::string& release = "");

}  // namespace recapture::report
