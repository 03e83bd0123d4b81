#include "harness/report/markdown_kit.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string_view>

#include "harness/base/escape.h"

namespace recapture::report {

std::string row_of(const std::vector<std::string>& cells) { return fmt::format("| {} |\n", fmt::join(cells, " | ")); }

std::string head_of(const std::vector<std::string>& names) {
  return row_of(names) + row_of(std::vector<std::string>(names.size(), "---"));
}

std::string code_span(const std::string& text) {
  std::string line = escape_control(text);
  std::replace(line.begin(), line.end(), '`', '\'');
  return "`" + line + "`";
}

std::string case_link(const std::string& id, const compare::CompareContext& background) {
  const CatalogueCase* one = background.find(id);
  return one == nullptr ? escape_markdown(id)
                        : fmt::format("[{0}](../cases/{1}/{0}.cpp)", escape_markdown(id), escape_markdown(one->family));
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

}  // namespace recapture::report
