// Captures that an exception ends. If PyTorch itself refuses something, no CUDA call fails and the driver's log is
// empty: so the two methods of torch.cuda.CUDAGraph that begin and end a capture are followed.
#pragma once
#include <cstddef>
#include <string>
#include <vector>

#include "harness/recorder/python_text.h"

namespace recapture {

struct Raised {
  std::string type, text;
  std::vector<python::Frame> frames;  // Of its traceback, innermost first; none for C++.
};

// A capture that an exception ended.
struct GivenUp {
  enum class At {
    Begin,      // The call that begins the capture raised it.
    Inside,     // It left the captured region, and the capture ended during unwinding.
    End,        // The call that ends the capture raised it.
    Exit,       // The interpreter exited with the capture open.
    Terminate,  // The same in C++, by an uncaught exception.
    Abort,      // The same by abort(), which follows such an exception.
  };
  At at = At::Inside;
  std::vector<Raised> raised;        // The exception, then its causes; empty if unseen.
  std::vector<python::Frame> begun;  // Where the capture began.
  size_t failed_before = 0;          // How many failed calls were reported before it began.
};

inline const char* name(GivenUp::At at) {
  constexpr const char* kNames[] = {"begin", "inside", "end", "exit", "terminate", "abort"};
  return kNames[static_cast<int>(at)];
}

namespace python {

// Needs the GIL, and must not run inside a driver call. Replaces each method by a builtin: builtins have no frame, so
// tracebacks do not change. `library` is a handle of dlopen's. Returns false until torch is imported.
bool follow_captures(void* library);

}  // namespace python
}  // namespace recapture
