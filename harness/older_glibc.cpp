// Functions that the static C++ library needs from a newer C library than the one that a wheel is linked for.
#include <sys/random.h>

#include <cstdint>
#include <cstdlib>

extern "C" {

// glibc 2.32: whether this process is single-threaded. False is always correct and costs some locked instructions.
extern char __libc_single_threaded;  // NOLINT(bugprone-reserved-identifier)
char __libc_single_threaded = 0;     // NOLINT(bugprone-reserved-identifier)

// glibc 2.36: for std::random_device.
uint32_t arc4random() {
  uint32_t number = 0;
  if (getrandom(&number, sizeof number, 0) != sizeof number) std::abort();
  return number;
}
}
