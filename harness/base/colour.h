// Colours on a terminal.
#pragma once
#include <string>
#include <string_view>

namespace recapture {

enum class Colour { None, Green, Yellow, Red };

// Whether this descriptor is a terminal and neither NO_COLOR nor TERM=dumb disables colours.
bool has_colours(int descriptor);

// The text in a colour where standard output has colours, or as it is.
std::string in_colour(std::string_view text, Colour colour);

}  // namespace recapture
