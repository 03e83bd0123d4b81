// The environment of the fake cases, instead of fixtures/cuda/environment.cpp.
#include <map>
#include <string>

namespace recapture {
std::map<std::string, std::string> environment() {
  return {{"libtorch", "0"}, {"cuda_runtime", "0"}, {"library", "/"}};
}
}  // namespace recapture
