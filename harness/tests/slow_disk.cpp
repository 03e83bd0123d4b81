// A disk that is busy: preloaded, it keeps whoever waits for it waiting as long as the named file is there.
#include <unistd.h>

#include <cstdlib>

extern "C" int fdatasync(int) {
  const char* busy = std::getenv("RECAPTURE_DISK_IS_BUSY");
  while (busy != nullptr && access(busy, F_OK) == 0) usleep(1000);
  return 0;
}
