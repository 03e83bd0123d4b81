// The end of a C++ program by an uncaught exception while a capture is open.
#pragma once

namespace recapture {

// Puts a handler before the program's own, in the C++ library that the program has loaded; nothing where it has none,
// as where it is linked statically.
void follow_terminate();

}  // namespace recapture
