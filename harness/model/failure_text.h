// The forms in which a test's observation names what was raised. An observation in any other form is a value.
#pragma once
#include <optional>
#include <string>

namespace recapture {

// What a Python program's capture raises, and then its end: "900 > 901", "900 > ok by cuStreamSynchronize on …".
struct ProgramFailure {
  std::string code, end;  // Of CUDA; `end` may be "ok".

  static std::optional<ProgramFailure> read(const std::string& seen);
};

// The message of a check or an assertion that failed: `check "…"`, `assert "…"`.
std::optional<std::string> failed_check(const std::string& seen);

// Whether it is a capture's failures, an error code, or an exception as Python prints it: "RuntimeError: …".
bool names_failure(const std::string& seen);

}  // namespace recapture
