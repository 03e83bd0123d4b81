// A busy disk: preloaded, it blocks fdatasync as long as the named file exists. Or a disk whose first wait is
// interrupted by a signal, as on a network.
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
