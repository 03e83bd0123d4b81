// An explanation, as text and JSON.
#pragma once
#include <string>

#include "harness/base/json.h"
#include "harness/explain/explain.h"

namespace recapture::report {

// Lines for the remedy and for each of its prices, indented. `release` is the one whose records show what holds; "" for
// none.
std::string render_text(const explain::FixAdvice& remedy, const std::string& release, size_t indent);
std::string render_text(const explain::Explanation& explanation, const std::string& release);
// docs/reference/explain-json.md
Json render_json(const explain::Explanation& explanation, const std::string& release = "");

}  // namespace recapture::report
