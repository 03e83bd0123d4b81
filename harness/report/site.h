// The records as a folder of static pages: which failure shows in which release, a page for each failure, the
// operators; or all of it in one file. Any host can serve them, and they open from a disk. A page asks nothing of any
// network.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "harness/model/catalogue.h"
#include "harness/model/expectations.h"
#include "harness/model/prices.h"
#include "harness/timeline/operators.h"
#include "harness/verdict/result_matrix.h"

namespace recapture::report {

struct SiteInput {
  std::string root;     // Of the tree that has the cases' sources.
  std::string records;  // Folder of the records; they are named from there.
  const ResultMatrix& matrix;
  const Catalogue& catalogue;
  const std::vector<CitedSource>& sources = {};
  const std::vector<Change>& changes = {};
  const timeline::OperatorTable& operators = {};
  std::vector<Prices> prices = {};  // Of each machine, in the order of the releases.
};

// Where the site has the comparison of releases, which page_of() makes. Links of the older page lead there.
inline constexpr char kUpgradePage[] = "upgrade.html";

// The pages by their path in the folder: index.html, gpus.html, libraries.html, operators.html, failures/<case>.html.
std::map<std::string, std::string> render_site(const SiteInput& input);

// The table of failures, their pages and the operators as one page.
std::string render_single_file(const SiteInput& input);

// Links to the other pages, for the one that page_of() makes.
std::string render_site_links();

}  // namespace recapture::report
