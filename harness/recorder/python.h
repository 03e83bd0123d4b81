// Python frames of every thread, taken inside a failed call on any of them. faulthandler, a part of Python, writes them
// on a signal of our own; this file decides when that is safe.
#pragma once
#include <string>

namespace recapture::python {

// Registers faulthandler, now or once there is an interpreter, and follows PyTorch's captures if requested
// (exceptions.h). Does nothing without Python.
void listen(bool captures);

// faulthandler's output (python_text.h parses it) for all threads; for this thread only, if the others cannot be
// stopped or are not wanted; "" if it is not registered. One call at a time.
std::string frames_of_threads();
std::string frames_of_this_thread();

// For a process that was just forked.
void forked();

}  // namespace recapture::python
