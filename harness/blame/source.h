// Frames as their authors know them: file, line and function, and whether they are the program's own or a library's.
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

// With file and line where the module has debug information and addr2line is there; a frame with inlined calls is
// several. Of libraries, which are large, only those are asked that have names for functions they do not export.
std::vector<SourceFrame> native_frames(const std::vector<Frame>& frames);

// Whether an exception was being thrown, as far as the functions have names.
bool is_thrown(const std::vector<Frame>& stack);

// Whether a C++ module is a library of the system's, Python's, CUDA's or PyTorch's, and not the program's own.
bool is_library(std::string_view module);

// "train.py:12 in step", "step() at main.cpp:12", "libfoo.so+0x12".
std::string text(const SourceFrame& frame);

// The line itself, without the spaces around it; "" if the file is not here.
std::string source_line(const SourceFrame& frame);

}  // namespace recapture::blame
