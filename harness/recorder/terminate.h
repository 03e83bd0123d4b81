// The end of a C++ program by an uncaught exception while a capture is open.
#pragma once

namespace recapture {

// Puts a handler before the program's own, in the C++ library that the program has loaded. Where it has none, as it is
// linked statically, only the program's abort() is heard, and not which exception it was.
void follow_terminate();

}  // namespace recapture
