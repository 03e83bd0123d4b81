#include "harness/base/colour.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>

namespace recapture {

bool has_colours(int descriptor) {
  const char *no_colour = std::getenv("NO_COLOR"), *terminal = std::getenv("TERM");
  if (no_colour != nullptr && *no_colour != '\0') return false;
  return isatty(descriptor) != 0 && (terminal == nullptr || std::string_view(terminal) != "dumb");
}

std::string in_colour(std::string_view text, Colour colour) {
  if (colour == Colour::None || !has_colours(STDOUT_FILENO)) return std::string(text);
  const int code = colour == Colour::Green ? 32 : colour == Colour::Yellow ? 33 : 31;
  return fmt::format("\x1b[{}m{}\x1b[0m", code, text);
}

}  // namespace recapture
