// Finds the libraries of the process.
#pragma once
#include <link.h>

#include <cstddef>
#include <string>
#include <string_view>

#include "harness/recorder/frames.h"

namespace recapture {

// The path of the first loaded library whose file name has this prefix, or nothing.
inline std::string loaded(std::string_view start) {
  struct Search {
    std::string_view start;
    std::string path;
  } search{start, {}};
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* data) {
        auto* s = static_cast<Search*>(data);
        const std::string_view path = info->dlpi_name ? info->dlpi_name : "";
        if (base_name(path).substr(0, s->start.size()) != s->start) return 0;
        s->path = path;
        return 1;
      },
      &search);
  return search.path;
}

}  // namespace recapture
