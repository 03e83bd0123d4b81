#include "harness/check/sources.h"

#include <fmt/format.h>

#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <set>

#include "harness/judge/changes.h"
#include "harness/judge/toml.h"
#include "harness/judge/tree.h"

namespace recapture {
namespace {

constexpr const char* kUpstream = "upstream";

// Ids by their place, with what is wrong with their entries.
std::map<std::string, std::string> entries(const std::string& path, std::vector<std::string>& errors) {
  std::map<std::string, std::string> ids;
  const toml::table file = parse_toml(path);
  only_keys(file, {"source"}, path);
  if (const auto* list = tables_in(file, "source", path, "[[source]]")) {
    for (const auto& node : *list) {
      const std::string place = place_of(path, node);
      const auto* entry = node.as_table();
      only_keys(*entry, {"id", "kind", "title", "date", "url"}, place);
      const std::string id = text_in(*entry, "id", place), kind = text_in(*entry, "kind", place);
      text_in(*entry, "title", place);
      if (text_in(*entry, "url", place).rfind("https://", 0) != 0) errors.push_back(place + ": the URL is no https://");
      if (kind != "document" && kind != kUpstream) errors.push_back(fmt::format("{}: '{}' is no kind", place, kind));
      if (!ids.emplace(id, place).second) errors.push_back(fmt::format("{}: {} stands here a second time", place, id));
    }
  }
  return ids;
}

// The ids that a case cites: a document, or below "upstream" a number.
std::set<std::string> cited_by(const std::string& source) {
  static const std::regex kSources(R"re(\.sources = \{([^;]*?)\},?\s*\.documented)re");
  static const std::regex kSource(R"re(\{"([^"]+)",\s*"([^"]+)"\})re");
  std::set<std::string> cited;
  std::smatch sources;
  if (!std::regex_search(source, sources, kSources)) return cited;
  const std::string list = sources[1];
  for (std::sregex_iterator at(list.begin(), list.end(), kSource), end; at != end; ++at) {
    cited.insert((*at)[1] == kUpstream ? (*at)[2] : (*at)[1]);
  }
  return cited;
}

}  // namespace

std::vector<std::string> source_errors(const std::string& root) {
  std::vector<std::string> errors;
  const auto known = entries(root + "/cases/sources.toml", errors);
  std::set<std::string> cited;
  const auto cite = [&](const std::string& id, const std::string& by) {
    cited.insert(id);
    if (known.count(id) == 0) errors.push_back(fmt::format("{}: cites {}, which cases/sources.toml lacks", by, id));
  };
  for (const auto& [id, tree_case] : cases_in_tree(root)) {
    std::ifstream file(tree_case.path, std::ios::binary);
    const std::string source{std::istreambuf_iterator<char>(file), {}};
    const std::set<std::string> sources = cited_by(source);
    if (sources.empty()) errors.push_back(tree_case.path + ": cites nothing");
    for (const std::string& source_id : sources) cite(source_id, tree_case.path);
  }
  static const std::regex kNumber(R"re([A-Za-z][\w.-]*#\d+)re");
  for (const Change& change : read_changes(root)) {
    for (std::sregex_iterator at(change.number.begin(), change.number.end(), kNumber), end; at != end; ++at) {
      cite(at->str(), change.place);
    }
  }
  for (const auto& [id, place] : known) {
    if (cited.count(id) == 0) errors.push_back(fmt::format("{}: nothing cites {}", place, id));
  }
  return errors;
}

}  // namespace recapture
