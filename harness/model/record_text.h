// A record that is not in a file of its own.
#pragma once
#include <string>

#include "harness/model/record.h"

namespace recapture {

// Reads the lines as read_record() reads a file's, without notes on what is missing; `path` names them in errors.
// Throws ExitError(Usage).
Record read_record_text(const std::string& text, const std::string& path);

}  // namespace recapture
