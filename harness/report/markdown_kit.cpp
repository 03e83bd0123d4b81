#include "harness/report/markdown_kit.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

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

}  // namespace recapture::report
