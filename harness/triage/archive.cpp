#include "harness/triage/archive.h"

#include "harness/base/file.h"
#include "harness/base/tar.h"

namespace recapture::triage {

std::string archive_of(const std::string& folder, const std::vector<BundleFile>& files) {
  std::vector<TarMember> members;
  members.reserve(files.size());
  for (const BundleFile& file : files) members.push_back({folder + "/" + file.name, file.text});
  return packed_by_gzip(tar_of(members));
}

}  // namespace recapture::triage
