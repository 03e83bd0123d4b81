// The environment of the fake cases, instead of fixtures/cuda/environment.cpp.
#include <cstdlib>
#include <map>
#include <string>

namespace recapture {
// A test may name a folder with a fake torch.
std::map<std::string, std::string> environment() {
  const char* site = std::getenv("RECAPTURE_FAKE_SITE");
  const std::string library = site == nullptr ? "/" : std::string(site) + "/torch/lib/libtorch_cpu.so";
  return {{"libtorch", ""}, {"cuda_runtime", "0"}, {"library", library}};
}
}  // namespace recapture
