// Frames with file, line and function, and whether they belong to the program or to a library.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "harness/recorder/frames.h"
#include "harness/recorder/python_text.h"

namespace recapture::blame {

struct SourceFrame {
  std::string file;  // "" if it is unknown.
  int line = 0;
  std::string function;
  bool own = false;
  std::string module = {};  // Of a C++ frame.
};

std::vector<SourceFrame> python_frames(const std::vector<python::Frame>& frames);

// With file and line if the module has debug information and addr2line is installed; inlined calls give several frames.
// Libraries are large: only those with symbols for functions that they do not export are resolved.
std::vector<SourceFrame> native_frames(const std::vector<Frame>& frames);

// Whether the stack throws an exception, as far as function names show it.
bool is_thrown(const std::vector<Frame>& stack);

// Whether a C++ module is a library of the system, Python, CUDA or PyTorch, and not the program's own.
bool is_library(std::string_view module);

// "train.py:12 in step", "step() at main.cpp:12", "libfoo.so+0x12".
std::string text(const SourceFrame& frame);

// The line's text without surrounding spaces; "" if the file is not on this machine.
std::string source_line(const SourceFrame& frame);

}  // namespace recapture::blame
