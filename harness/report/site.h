// The records as a folder of static pages: failures by release, a page for each failure, the operators; or all of it in
// one file. Any host can serve them, and they open from disk. A page loads nothing from a network.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "harness/explain/causes.h"
#include "harness/model/catalogue.h"
#include "harness/model/expectations.h"
#include "harness/model/prices.h"
#include "harness/report/page.h"
#include "harness/report/site_search.h"
#include "harness/store/result_matrix.h"
#include "harness/timeline/operators.h"

namespace recapture::report {

struct SiteInput {
  std::string root;     // The tree with the cases' sources.
  std::string records;  // The records' folder. Their names are relative to it.
  const ResultMatrix& matrix;
  const Catalogue& catalogue;
  const std::vector<CitedSource>& sources = {};
  const std::vector<Deviation>& changes = {};
  const timeline::OperatorTable& operators = {};
  std::vector<Prices> prices = {};  // For each machine, in the order of the releases.
  std::string address = {};         // The project's, for links; empty where it has none.
  std::vector<explain::Cause> causes = {};
  Met met = {};
};

// The site's comparison of releases, made by page_of(). Links of the older page redirect to it.
inline constexpr char kUpgradePage[] = "upgrade.html";

// The pages by their path in the folder: index.html, gpus.html, libraries.html, operators.html, met.html, without a
// public address about.html, and failures/<case>.html, also of each cause that no case runs.
std::map<std::string, std::string> render_site(const SiteInput& input);

// The table of failures, their pages and the operators, as one page.
std::string render_single_file(const SiteInput& input);

// The header of the site and its links to the project, for the page that page_of() makes.
PageHeader render_site_header(const std::string& address = "");

}  // namespace recapture::report
