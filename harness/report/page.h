// One HTML file with all that is on record: it opens from a disk, and asks nothing of any network.
#pragma once
#include <string>

#include "harness/base/json.h"

namespace recapture::report {

// The data as of page_data.h, with the sources page.html, page.css, words.js and page.js. `site` has the links to
// the pages beside it, where there are some.
std::string page_of(const Json& data, const std::string& site = "");

}  // namespace recapture::report
