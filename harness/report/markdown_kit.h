// What tables of Markdown are put together from.
#pragma once
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "harness/base/escape.h"
#include "harness/compare/compare.h"

namespace recapture::report {

std::string row_of(const std::vector<std::string>& cells);
std::string head_of(const std::vector<std::string>& names);

// In a line of code, where nothing but its ticks has a meaning.
std::string code_span(const std::string& text);

// A case's source, from reports/.
std::string case_link(const std::string& id, const compare::CompareContext& background);
// The same from README, which stands elsewhere.
std::string from_the_root(std::string text);

struct Line {
  std::pair<size_t, size_t> rank;  // For the few that say most: the lowest.
  std::string subject;             // Of two with the same one is enough there.
  std::string group;               // The release or the document that it stands under.
  std::vector<std::string> cells;
  std::vector<std::string> brief;  // As it stands among those few.
};

// The lines that say most, and no two about the same.
std::vector<const Line*> top_of(const std::vector<Line>& lines, size_t top);

}  // namespace recapture::report
