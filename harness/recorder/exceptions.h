// Captures that an exception ends. No CUDA call fails where PyTorch itself refuses something, and the driver's log has
// nothing of it: so the two methods of torch.cuda.CUDAGraph that begin and end a capture are followed.
#pragma once
#include <cstddef>
#include <string>
#include <vector>

#include "harness/recorder/python_text.h"

namespace recapture {

struct Raised {
  std::string type, text;
  std::vector<python::Frame> frames;  // Of its traceback, innermost first; of C++ none.
};

// A capture that an exception ended.
struct GivenUp {
  enum class At {
    Begin,      // The call that was to begin it raised the exception.
    Inside,     // The exception left the captured region, and the capture ended meanwhile.
    End,        // The call that was to end it raised the exception.
    Exit,       // It never ended: the interpreter did.
    Terminate,  // The same in C++, by an uncaught exception.
    Abort,      // The same by abort(), which such an exception ends in.
  };
  At at = At::Inside;
  std::vector<Raised> raised;        // The exception, then what it was raised from; none where it was not seen.
  std::vector<python::Frame> begun;  // Where the capture began.
  size_t failed_before = 0;          // How many failed calls had been reported when it began.
};

inline const char* name(GivenUp::At at) {
  constexpr const char* kNames[] = {"begin", "inside", "end", "exit", "terminate", "abort"};
  return kNames[static_cast<int>(at)];
}

namespace python {

// With the GIL, outside of any call of the driver. Puts a builtin in the place of each method: builtins have no frame,
// so that tracebacks stay as they are. `library` is a handle of dlopen's. Returns false as long as torch is not there.
bool follow_captures(void* library);

}  // namespace python
}  // namespace recapture
