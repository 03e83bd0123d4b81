// One HTML file with all that is on record: it opens from a disk, and asks nothing of any network.
#pragma once
#include <string>

#include "harness/base/json.h"

namespace recapture::report {

// The data as of data.h, with the sources page.html, page.css and page.js.
std::string page_of(const Json& data);

}  // namespace recapture::report
