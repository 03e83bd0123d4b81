// A disk that is busy: preloaded, it keeps whoever waits for it waiting as long as the named file is there. Or one
// whose first wait a signal interrupts, as it may on a network.
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

extern "C" int fdatasync(int) {
  const char* busy = std::getenv("RECAPTURE_DISK_IS_BUSY");
  while (busy != nullptr && access(busy, F_OK) == 0) usleep(1000);
  static bool interrupts = std::getenv("RECAPTURE_DISK_IS_INTERRUPTED") != nullptr;
  if (interrupts) {
    interrupts = false;
    errno = EINTR;
    return -1;
  }
  return 0;
}
