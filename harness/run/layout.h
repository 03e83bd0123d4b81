// The folders on this machine.
#pragma once
#include <map>
#include <string>
#include <vector>

namespace recapture::run {

struct Layout {
  std::string root;   // Recapture's own tree, or the installed part of it.
  std::string build;  // Where cases are built and records go.
  std::string tools;  // The canary's and the recorder's folder.

  // Relative to this program. Throws ExitError(Usage) if no tree is found.
  static Layout find(const std::string& root_option);

  std::string cases_of(const std::string& release) const { return build + "/" + release + "/cases"; }
  std::string reports() const { return root + "/reports"; }
  std::string canary() const { return tools + "/canary"; }
  std::string recorder() const { return tools + "/librecorder.so"; }
};

// The releases that cases are built for, in ci/matrix.toml or not, oldest first; builds without LibTorch come first.
std::vector<std::string> built_releases(const Layout& places);

// Resolves a word to a release that cases are built for, or else to one of ci/matrix.toml. Throws ExitError(Usage) with
// the nearest.
std::string named_release(const Layout& places, const std::string& word);

// The variables that make case binaries load the LibTorch in `site` (a site-packages folder) instead of the one that
// they were built with. Empty for none. Throws ExitError(Infrastructure) if there is none.
std::map<std::string, std::string> libtorch_variables(const std::string& site);

}  // namespace recapture::run
