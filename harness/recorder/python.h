// Python's frames of every thread, out of a call that failed on any of them. faulthandler, which comes with Python,
// writes them when a signal of its own reaches a thread; what is here is when that is safe.
#pragma once
#include <string>

namespace recapture::python {

// Makes faulthandler listen, now or as soon as there is an interpreter, and follows PyTorch's captures if they are
// wanted (exceptions.h). Nothing happens where there is no Python.
void listen(bool captures);

// What faulthandler writes (python_text.h reads it) about all threads; about this one alone, where the others cannot be
// stopped or are not wanted; "" if it does not listen. One call at a time.
std::string frames_of_threads();
std::string frames_of_this_thread();

// In a process that has just been forked.
void forked();

}  // namespace recapture::python
