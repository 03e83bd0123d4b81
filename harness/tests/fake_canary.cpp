// A fake canary: prints the first line of the file `canary.txt` beside it, and removes that line unless it is the last.
#include <unistd.h>

#include <array>
#include <fstream>
#include <iostream>
#include <string>

int main() {
  std::array<char, 4096> path{};
  if (readlink("/proc/self/exe", path.data(), path.size() - 1) < 0) return 1;
  const std::string file = std::string(path.data()).substr(0, std::string(path.data()).rfind('/')) + "/canary.txt";
  std::ifstream in(file);
  std::string first, rest, line;
  std::getline(in, first);
  while (std::getline(in, line)) rest += line + "\n";
  in.close();
  std::cout << first << '\n';
  if (!rest.empty()) std::ofstream(file) << rest;
  return first.find("\"ok\"") != std::string::npos ? 0 : 77;
}
