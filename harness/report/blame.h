// Who broke which capture, for people, for programs, and for `explain`.
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "harness/base/json.h"
#include "harness/blame/report.h"

namespace recapture::blame {

// Of a failure: the lines of the driver's log, and the lines of the program that stand behind them.
std::string render_log(const blame::Failure& failure);

// What the culprit's call came through: functions, and the Python lines down to the program's own.
std::string path_of(const blame::Call& culprit);

// Whether what stood in its way is the capture of another thread. False where it is its own, and where it works on the
// capturing stream, as autograd's thread does; nothing if it is not known.
std::optional<bool> beside_another(const blame::Call& call);

// The process and what it is, as a line begins.
std::string name(const blame::Process& process);

std::string render_text(const blame::Failure& failure, std::string_view heard_by);
std::string render_text(const blame::Call& refused);
std::string render_text(const blame::Silent& silent);

// What to do where --deep is not possible, in one line.
std::string without_deep(const std::string& why_not);

Json render_json(const blame::Failure& failure);
Json render_json(const blame::Call& call);
Json render_json(const blame::Silent& silent);

}  // namespace recapture::blame
