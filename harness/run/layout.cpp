#include "harness/run/layout.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "harness/base/exit.h"
#include "harness/base/text.h"
#include "harness/model/release.h"
#include "harness/model/suggest.h"

namespace recapture::run {
namespace fs = std::filesystem;

namespace {

// Where the wheel recapture-records puts them.
void take_newer_records(Layout& places, const std::string& beside) {
  auto set = record_set_in(beside);
  if (!set) return;
  const auto own = record_set_in(places.home);
  if (own && set->made <= own->made) return;
  places.root = beside;
  places.set = std::move(set);
}

}  // namespace

// A tree contains its build folder; an installation has bin/, lib/recapture/ and share/recapture/ side by side.
Layout Layout::find(const std::string& root_option) {
  Layout places;
  std::error_code error;
  const fs::path here = fs::read_symlink("/proc/self/exe", error).parent_path();
  const fs::path prefix = here.parent_path();
  const bool installed = fs::exists(prefix / "share/recapture/ci/matrix.toml");
  places.tools = installed ? (prefix / "lib/recapture").string() : here.string();
  places.build = installed ? (fs::current_path(error) / "build").string() : here.string();
  if (installed) {
    places.root = (prefix / "share/recapture").string();
  } else {
    for (fs::path folder = here; folder.has_relative_path(); folder = folder.parent_path()) {
      if (fs::exists(folder / "ci/matrix.toml")) {
        places.root = folder.string();
        break;
      }
    }
    if (places.root.empty()) places.root = fs::current_path(error).string();
  }
  places.home = places.root;
  if (!root_option.empty()) {
    places.root = root_option;
    places.set = record_set_in(root_option);
    if (!places.set) places.home = root_option;
  } else if (installed) {
    take_newer_records(places, (prefix / "share/recapture-records").string());
  }
  if (!fs::exists(places.root + "/ci/matrix.toml")) {
    throw ExitError(Exit::Usage, places.root + " has no ci/matrix.toml; --root names Recapture's own tree");
  }
  return places;
}

std::vector<std::string> built_releases(const Layout& places) {
  std::vector<std::string> releases;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(places.build, error)) {
    const std::string name = entry.path().filename().string();
    if (is_version(name) && fs::is_directory(places.cases_of(name))) releases.push_back(name);
  }
  sort_releases(releases);
  for (const char* without : {"cuda13", "cuda12"}) {
    if (fs::is_directory(places.cases_of(without))) releases.insert(releases.begin(), without);
  }
  return releases;
}

std::string named_release(const Layout& places, const std::string& word) {
  const auto built = built_releases(places);
  const std::string meant = resolve_release(word, built);
  return contains(built, meant) ? meant : known_release(places.root, word);
}

std::map<std::string, std::string> libtorch_variables(const std::string& site) {
  if (site.empty()) return {};
  const fs::path root = fs::absolute(site);
  if (!fs::exists(root / "torch/lib/libtorch_cpu.so")) {
    throw ExitError(Exit::Infrastructure,
                    site + " has no torch/lib/libtorch_cpu.so; --libtorch takes a site-packages folder");
  }
  std::string path = (root / "torch/lib").string();
  for (const char* below : {"nvidia", "cusparselt"}) {
    if (!fs::is_directory(root / below)) continue;
    if (fs::is_directory(root / below / "lib")) path += ":" + (root / below / "lib").string();
    for (const auto& entry : fs::directory_iterator(root / below)) {
      if (fs::is_directory(entry.path() / "lib")) path += ":" + (entry.path() / "lib").string();
    }
  }
  const char* before = std::getenv("LD_LIBRARY_PATH");  // It may name the driver's folder.
  if (before != nullptr && *before != '\0') path += std::string(":") + before;
  return {{"LD_LIBRARY_PATH", path}};
}

}  // namespace recapture::run
