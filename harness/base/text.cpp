#include "harness/base/text.h"

#include <sstream>

namespace recapture {

std::string wrap(const std::string& first, const std::string& text, const std::string& more) {
  std::string lines, line = first;
  bool is_empty = true;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    if (!is_empty && line.size() + 1 + word.size() > kTextWidth) {
      lines += line + "\n";
      line = more;
      is_empty = true;
    }
    line += (is_empty ? "" : " ") + word;
    is_empty = false;
  }
  return lines + line + "\n";
}

}  // namespace recapture
