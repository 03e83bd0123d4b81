// One self-contained HTML file with all records: it opens from disk and loads nothing from a network.
#pragma once
#include <string>

#include "harness/base/json.h"

namespace recapture::report {

// The header's links to other pages, its search field, and the footer's links to the project; empty for a page alone.
struct PageHeader {
  std::string links, search, project = {};
};

// Combines the data of page_data.h with page.html, the sheets every_page.css and page.css, words.js and page.js; in a
// site also every_page.js.
std::string page_of(const Json& data, const PageHeader& header = {});

}  // namespace recapture::report
