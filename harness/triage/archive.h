// Packs small files into one archive; the same files give the same bytes.
#pragma once
#include <string>
#include <vector>

namespace recapture::triage {

struct BundleFile {
  std::string name, text;
};

// A .tar.gz with the files in one folder: no times, no owner, in the given order.
std::string archive_of(const std::string& folder, const std::vector<BundleFile>& files);

}  // namespace recapture::triage
