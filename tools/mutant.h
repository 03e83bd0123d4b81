// tools/mutate includes this in the sources that it changes: which of the mutants in them this process has, and, where
// a process is asked for it, in whose functions it came. What a child that is killed has marked is kept.
#pragma once
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <type_traits>

inline bool is_chosen(int number) {
  static const char* const name = std::getenv("MUTANT");
  static const int chosen = name == nullptr ? -1 : std::atoi(name);
  static char* const reached = [] {
    const char* path = std::getenv("MUTANTS_REACHED");
    const int file = path == nullptr ? -1 : open(path, O_RDWR | O_CLOEXEC);
    if (file < 0) return static_cast<char*>(nullptr);
    void* bytes = mmap(nullptr, lseek(file, 0, SEEK_END), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    return bytes == MAP_FAILED ? nullptr : static_cast<char*>(bytes);
  }();
  if (reached != nullptr) reached[number] = 1;
  return number == chosen;
}

constexpr bool is_mutant(int number) { return !std::is_constant_evaluated() && is_chosen(number); }
