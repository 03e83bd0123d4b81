// Python's frames of every thread, out of a call that failed on any of them, without the GIL: faulthandler, which comes
// with Python, writes them when a signal of its own reaches the thread.
#pragma once
#include <string>

namespace recapture::python {

// Makes faulthandler listen, now or as soon as there is an interpreter. Nothing happens where there is no Python.
void listen();

// What faulthandler writes about all threads (python_text.h reads it); "" if it does not listen. One call at a time.
std::string frames_of_all_threads();

// In a process that has just been forked.
void forked();

}  // namespace recapture::python
