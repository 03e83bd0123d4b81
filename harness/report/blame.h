// Which call broke which capture, as text and JSON.
#pragma once
#include <string>

#include "harness/base/json.h"
#include "harness/blame/causes.h"

namespace recapture::blame {

struct Style {
  bool verbose = false;  // All frames, victims, remedies and prices; otherwise at most ten lines a capture.
  bool colour = false;
};

std::string render_text(const Answer& answer, Style style);
Json render_json(const Answer& answer);

std::string render_text(const Failure& failure, std::string_view heard_by);
std::string render_text(const Silent& silent);

}  // namespace recapture::blame
