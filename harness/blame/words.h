// Who broke which capture, for people, for programs, and for `explain`.
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "harness/blame/report.h"
#include "harness/record/json.h"

namespace recapture::blame {

// Of a failure: the lines of the driver's log, and the lines of the program that stand behind them.
std::string as_log(const Failure& failure);

// What the culprit's call came through: functions, and the Python lines down to the program's own.
std::string path_of(const Call& culprit);

// Whether what stood in its way is the capture of another thread. False where it is its own, and where it works on the
// capturing stream, as autograd's thread does; nothing if it is not known.
std::optional<bool> beside_another(const Call& call);

// The process and what it is, as a line begins.
std::string name(const Process& process);

std::string in_words(const Failure& failure, std::string_view heard_by);
std::string in_words(const Call& refused);
std::string in_words(const Silent& silent);

// What to do where --deep is not possible, in one line.
std::string without_deep(const std::string& why_not);

Json as_json(const Failure& failure);
Json as_json(const Call& call);
Json as_json(const Silent& silent);

}  // namespace recapture::blame
