// Somebody else's library for CUDA_INJECTION64_PATH: it leaves a file that says it was called.
#include <cstdio>
#include <cstdlib>

extern "C" int InitializeInjection() {
  if (const char* path = std::getenv("CHAINED_FILE")) {
    if (FILE* file = std::fopen(path, "a")) {
      std::fputs("called\n", file);
      std::fclose(file);
    }
  }
  return 1;
}
