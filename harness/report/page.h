// One self-contained HTML file with all records: it opens from disk and loads nothing from a network.
#pragma once
#include <string>

#include "harness/base/json.h"

namespace recapture::report {

// Combines the data of page_data.h with page.html, page.css, words.js and page.js. `site` has the links to other pages,
// if there are any.
std::string page_of(const Json& data, const std::string& site = "");

}  // namespace recapture::report
