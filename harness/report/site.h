// The records as a folder of static pages: which failure shows in which release, a page for each failure, the
// operators. Any host can serve it, and it opens from a disk. A page asks nothing of any network.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "harness/model/catalogue.h"
#include "harness/model/expectations.h"
#include "harness/timeline/failures.h"
#include "harness/timeline/operators.h"

namespace recapture::report {

struct SiteInput {
  std::string root;     // Of the tree that has the cases' sources.
  std::string records;  // Folder of the records; they are named from there.
  const std::vector<CitedSource>& sources;
  const std::vector<Change>& changes;
  const timeline::FailureTable& failures;
  const timeline::OperatorTable& operators;
  std::string newest = {};  // When the newest record began.
};

// Where the site has the comparison of releases, which page_of() makes. Links of the older page lead there.
inline constexpr char kUpgradePage[] = "upgrade.html";

// The pages by their path in the folder: index.html, operators.html, failures/<case>.html.
std::map<std::string, std::string> render_site(const SiteInput& input, const ResultMatrix& matrix);

}  // namespace recapture::report
