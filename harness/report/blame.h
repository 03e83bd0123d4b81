// Which call broke which capture, as text and JSON.
#pragma once
#include <string>

#include "harness/base/json.h"
#include "harness/blame/causes.h"

namespace recapture::report {

struct BlameStyle {
  bool verbose = false;  // All frames, victims, remedies and prices; otherwise at most ten lines a capture.
  bool colour = false;
};

std::string render_text(const blame::Answer& answer, BlameStyle style);
Json render_json(const blame::Answer& answer);

std::string render_text(const blame::Failure& failure, std::string_view heard_by);
std::string render_text(const blame::Silent& silent);

}  // namespace recapture::report
