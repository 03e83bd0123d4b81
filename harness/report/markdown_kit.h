// Helpers for Markdown tables.
#pragma once
#include <string>
#include <vector>

#include "harness/base/escape.h"
#include "harness/compare/compare.h"

namespace recapture::report {

std::string row_of(const std::vector<std::string>& cells);
std::string head_of(const std::vector<std::string>& names);

// As a code span, in which only backticks are special.
std::string code_span(const std::string& text);

// A case's source, from reports/.
std::string case_link(const std::string& id, const compare::CompareContext& background);

}  // namespace recapture::report
