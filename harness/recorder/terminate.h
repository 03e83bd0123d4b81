// The end of a C++ program by an uncaught exception while a capture is open.
#pragma once

namespace recapture {

// Installs a handler before the program's own, in the C++ library that the program has loaded. If the library is linked
// statically, only the program's abort() is seen, without the exception.
void follow_terminate();

}  // namespace recapture
