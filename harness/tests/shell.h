// Runs a command line as a user would: its output, on both streams, and its exit code.
#pragma once
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <string>

#include "harness/tests/namespaces.h"

namespace recapture {

struct ShellResult {
  int code = 0;  // As in a shell: 128 plus the signal's number after a signal.
  std::string out;

  bool is_one_line() const { return std::count(out.begin(), out.end(), '\n') == 1 && out.rfind("recapture: ", 0) == 0; }
};

inline ShellResult shell(const std::string& line) {
  ShellResult said;
  FILE* pipe = popen(("exec 2>&1 </dev/null; " + line).c_str(), "r");
  std::array<char, 4096> buffer{};
  for (size_t got = 0; (got = fread(buffer.data(), 1, buffer.size(), pipe)) > 0;) said.out.append(buffer.data(), got);
  const int status = pclose(pipe);
  said.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return said;
}

}  // namespace recapture
