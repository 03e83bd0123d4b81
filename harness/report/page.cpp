#include "harness/report/page.h"

#include <string_view>

#include "harness/base/embed.h"

// The page's sources are embedded. CMake rebuilds this file when one of them changes.
RECAPTURE_EMBED(page_html, "harness/report/page.html");
RECAPTURE_EMBED(page_every_page_css, "harness/report/every_page.css");
RECAPTURE_EMBED(page_css, "harness/report/page.css");
RECAPTURE_EMBED(page_js, "harness/report/page.js");
RECAPTURE_EMBED(page_every_page_js, "harness/report/every_page.js");
RECAPTURE_EMBED(page_words_js, "harness/report/words.js");

namespace recapture::report {
namespace {

// Text in a record may contain "</script>" or "<!--", which would end the data or swallow the rest. JSON needs no <
// outside its strings.
std::string without_tags(const std::string& json) {
  std::string out;
  out.reserve(json.size());
  for (const char c : json) {
    if (c == '<') {
      out += "\\u003c";
    } else {
      out += c;
    }
  }
  return out;
}

void put(std::string& page, std::string_view mark, std::string_view text) {
  page.replace(page.find(mark), mark.size(), text);
}

}  // namespace

std::string page_of(const Json& data, const PageHeader& header) {
  std::string page = page_html;
  // From the end, so that placeholders are never searched in text from outside.
  const std::string of_site = header.search.empty() ? "" : page_every_page_js;
  put(page, "/* page.js */", std::string(page_words_js) + page_js + of_site);
  put(page, "/* data */", without_tags(to_text(data)));
  put(page, "<!-- links -->", header.project);
  put(page, "<!-- search -->", header.search);
  put(page, "<!-- site -->", header.links);
  put(page, "/* page.css */", std::string(page_every_page_css) + page_css);
  return page;
}

}  // namespace recapture::report
