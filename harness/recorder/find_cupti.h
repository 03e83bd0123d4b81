// Finds CUPTI for the process. CUPTI is not linked: the program's own is used if it has one.
#pragma once
#include <dlfcn.h>

#include <cstring>
#include <string>
#include <vector>

#include "harness/recorder/loaded.h"

namespace recapture {

// LibTorch brings CUPTI along. For a plain CUDA program it is looked for beside the runtime, where packages and the
// toolkit put it, and on the loader's path.
inline void* find_cupti() {
  if (void* program = dlopen(nullptr, RTLD_NOW); program && dlsym(program, "cuptiSubscribe")) return program;
  const std::string theirs = loaded("libcupti.so");
  if (!theirs.empty()) return dlopen(theirs.c_str(), RTLD_NOW | RTLD_NOLOAD);
  std::vector<std::string> candidates;
  if (const std::string runtime = loaded("libcudart.so."); !runtime.empty()) {
    const std::string folder = runtime.substr(0, runtime.rfind('/') + 1);
    const std::string soname = "libcupti.so." + std::string(base_name(runtime).substr(std::strlen("libcudart.so."), 2));
    for (const char* there : {"", "../../cuda_cupti/lib/", "../extras/CUPTI/lib64/", "../../../extras/CUPTI/lib64/"}) {
      std::string candidate = folder;
      candidates.push_back(candidate.append(there).append(soname));
    }
    candidates.push_back(soname);
  }
  candidates.insert(candidates.end(), {"libcupti.so.13", "libcupti.so.12", "libcupti.so"});
  for (const std::string& candidate : candidates) {
    if (void* library = dlopen(candidate.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
  }
  return nullptr;
}

}  // namespace recapture
