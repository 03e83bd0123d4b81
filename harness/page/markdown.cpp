#include "harness/page/markdown.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string_view>

#include "harness/record/visible.h"

namespace recapture {

std::string row_of(const std::vector<std::string>& cells) { return fmt::format("| {} |\n", fmt::join(cells, " | ")); }

std::string head_of(const std::vector<std::string>& names) {
  return row_of(names) + row_of(std::vector<std::string>(names.size(), "---"));
}

std::string case_link(const std::string& id, const Background& background) {
  const CatalogueCase* one = background.find(id);
  return one == nullptr ? escaped(id) : fmt::format("[{0}](../cases/{1}/{0}.cpp)", escaped(id), escaped(one->family));
}

std::string from_the_root(std::string text) {
  for (size_t at = 0; (at = text.find("](../", at)) != std::string::npos;) text.replace(at, 5, "](");
  return text;
}

std::vector<const Line*> top_of(const std::vector<Line>& lines, size_t top) {
  std::vector<const Line*> sorted, best;
  for (const Line& line : lines) sorted.push_back(&line);
  std::stable_sort(sorted.begin(), sorted.end(), [](const Line* a, const Line* b) { return a->rank < b->rank; });
  for (const bool again : {false, true}) {
    for (const Line* line : sorted) {
      const auto is_known = [&](const Line* known) {
        return known == line || (!again && known->subject == line->subject);
      };
      if (best.size() < top && std::none_of(best.begin(), best.end(), is_known)) best.push_back(line);
    }
  }
  return best;
}

}  // namespace recapture
