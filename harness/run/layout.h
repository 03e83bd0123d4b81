// Where things are on this machine.
#pragma once
#include <map>
#include <string>
#include <vector>

namespace recapture::run {

struct Layout {
  std::string root;   // Recapture's own tree, or what an installation has of it.
  std::string build;  // Where cases are built and records go.
  std::string tools;  // Where the canary and the recorder lie.

  // From where this program lies. Throws ExitError(Usage) if there is no tree to be found.
  static Layout find(const std::string& root_option);

  std::string cases_of(const std::string& release) const { return build + "/" + release + "/cases"; }
  std::string reports() const { return root + "/reports"; }
  std::string canary() const { return tools + "/canary"; }
  std::string recorder() const { return tools + "/librecorder.so"; }
};

// The releases that cases are built for, in ci/matrix.toml or not, oldest first; builds without LibTorch before all
// others.
std::vector<std::string> built_releases(const Layout& places);

// The release that a word means of those that cases are built for, or else of ci/matrix.toml. Throws ExitError(Usage)
// with the nearest.
std::string named_release(const Layout& places, const std::string& word);

// The variables that make the case binaries load the LibTorch in `site` (its site-packages folder) instead of the one
// they were built against. Empty for none. Throws ExitError(Infrastructure) if there is none.
std::map<std::string, std::string> libtorch_variables(const std::string& site);

}  // namespace recapture::run
