// The folders on this machine.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "harness/model/record_set.h"

namespace recapture::run {

struct Layout {
  std::string root;                   // Recapture's own tree, or the installed part of it, or a newer set of records.
  std::string home;                   // The program's own tree, or the installed part of it.
  std::string build;                  // Where cases are built and records go.
  std::string tools;                  // The canary's and the recorder's folder.
  std::optional<RecordSet> set = {};  // If `root` is one that is not the program's own.

  // Relative to this program. An installed one takes the records beside it, share/recapture-records/, if they are newer
  // than its own. Throws ExitError(Usage) if no tree is found, or the records are for a newer program.
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
