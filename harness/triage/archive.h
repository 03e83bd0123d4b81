// One archive of several small files, the same bytes for the same files.
#pragma once
#include <string>
#include <vector>

namespace recapture::triage {

struct BundleFile {
  std::string name, text;
};

// A .tar.gz with the files in one folder: no times, no owner, in the order in which they come.
std::string archive_of(const std::string& folder, const std::vector<BundleFile>& files);

}  // namespace recapture::triage
