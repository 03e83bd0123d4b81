#include "harness/tests/lint/sources.h"

#include <fmt/format.h>

#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <set>

#include "harness/base/exit.h"
#include "harness/base/regex.h"
#include "harness/base/toml.h"
#include "harness/model/expectations.h"
#include "harness/model/release.h"
#include "harness/model/tree.h"

namespace recapture::lint {
namespace {

constexpr const char* kUpstream = "upstream";

// TOML's own dates, such as 2025-06-03 without quotes: the parser refuses an impossible date.
std::optional<toml::date> day_in(const toml::table& table, const char* key, const std::string& place) {
  if (!table.contains(key)) return std::nullopt;
  if (const auto* day = table[key].as_date()) return day->get();
  throw ExitError(Exit::Usage, fmt::format("{}: '{}' is not a day such as 2025-06-03, without quotes", place, key));
}

std::string describe(const toml::date& day) {
  return fmt::format("{:04}-{:02}-{:02}", day.year, unsigned{day.month}, unsigned{day.day});
}

struct Source {
  std::string place;
  std::optional<toml::date> date;
};

// The entries by id; errors are added to `errors`.
std::map<std::string, Source> entries(const std::string& path, std::vector<std::string>& errors) {
  std::map<std::string, Source> ids;
  const toml::table file = parse_toml(path);
  only_keys(file, {"source"}, path);
  if (const auto* list = tables_in(file, "source", path, "[[source]]")) {
    for (const auto& node : *list) {
      const std::string place = place_of(path, node);
      const auto* entry = node.as_table();
      only_keys(*entry, {"id", "kind", "title", "date", "url"}, place);
      const std::string id = text_in(*entry, "id", place), kind = text_in(*entry, "kind", place);
      text_in(*entry, "title", place);
      if (text_in(*entry, "url", place).rfind("https://", 0) != 0)
        errors.push_back(place + ": the URL does not begin with https://");
      if (kind != "document" && kind != kUpstream) errors.push_back(fmt::format("{}: '{}' is not a kind", place, kind));
      if (!ids.emplace(id, Source{place, day_in(*entry, "date", place)}).second)
        errors.push_back(fmt::format("{}: {} stands here a second time", place, id));
    }
  }
  return ids;
}

// The ids that a case cites: a document, or for "upstream" a number.
std::set<std::string> cited_by(const std::string& source) {
  static const RE2 kSources(R"re(\.sources = \{([^;]*?)\},?\s*\.documented)re");
  static const RE2 kSource(R"re(\{"([^"]+)",\s*"([^"]+)"\})re");
  std::set<std::string> cited;
  std::string list;
  if (!RE2::PartialMatch(source, kSources, &list)) return cited;
  for (const Match& one : all_matches(list, kSource)) cited.emplace(one[1] == kUpstream ? one[2] : one[1]);
  return cited;
}

std::vector<std::string> numbers_of(const Deviation& change) {
  static const RE2 kNumber(R"re([A-Za-z][\w.-]*#\d+)re");
  std::vector<std::string> numbers;
  for (const Match& number : all_matches(change.number, kNumber)) numbers.emplace_back(number[0]);
  return numbers;
}

struct DatedRelease {
  std::string version, line;  // 2.1.2, and 2.1, which stands for the first release of its line.
  toml::date date, began;     // Of this release, and of the first one of its line.
};

// The releases of ci/matrix.toml, with their days.
std::vector<DatedRelease> releases_in(const std::string& root) {
  const std::string path = root + "/ci/matrix.toml";
  const toml::table matrix = parse_toml(path);
  std::vector<DatedRelease> releases;
  if (const auto* list = tables_in(matrix, "release", path, "[[release]]")) {
    for (const auto& node : *list) {
      const std::string place = place_of(path, node), version = text_in(*node.as_table(), "version", place);
      const std::string line = version.substr(0, version.find('.', version.find('.') + 1));
      const auto date = day_in(*node.as_table(), "date", place), began = day_in(*node.as_table(), "began", place);
      if (!date) throw ExitError(Exit::Usage, place + ": needs 'date', the day on which it came out");
      if (!began && Release(line).is_older_than(Release(version))) {
        throw ExitError(Exit::Usage, fmt::format("{}: needs 'began', the day on which {}.0 came out", place, line));
      }
      releases.push_back({version, line, *date, began.value_or(*date)});
    }
  }
  return releases;
}

// The day of a release. For a patch release that the matrix lacks, the next one in the matrix counts.
std::optional<toml::date> day_of(const std::string& version, const std::vector<DatedRelease>& releases) {
  for (const DatedRelease& release : releases) {
    if (!Release(release.version).is_older_than(Release(version)))
      return Release(release.line).is_older_than(Release(version)) ? release.date : release.began;
  }
  return std::nullopt;
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
  for (const Deviation& change : read_deviations(root)) {
    for (const std::string& number : numbers_of(change)) cite(number, change.place);
  }
  for (const auto& [id, source] : known) {
    if (cited.count(id) == 0) errors.push_back(fmt::format("{}: nothing cites {}", source.place, id));
  }
  return errors;
}

std::vector<std::string> date_errors(const std::string& root) {
  std::vector<std::string> errors, of_entries;  // source_errors() reports the latter.
  const auto known = entries(root + "/cases/sources.toml", of_entries);
  const std::vector<DatedRelease> releases = releases_in(root);
  for (const Deviation& change : read_deviations(root)) {
    if (change.since.empty()) continue;
    const auto came_out = day_of(change.since, releases);
    if (!came_out) {
      errors.push_back(
          fmt::format("{}: since {}, which is newer than all of ci/matrix.toml", change.place, change.since));
      continue;
    }
    for (const std::string& number : numbers_of(change)) {
      const auto source = known.find(number);
      if (source == known.end()) continue;  // source_errors() reports it.
      const auto& [place, date] = source->second;
      if (!date) {
        errors.push_back(fmt::format("{}: needs 'date', since {} cites {}", place, change.place, number));
      } else if (!(*date < *came_out)) {
        errors.push_back(fmt::format("{}: {} is of {}, and cannot be in {}, which came out on {}", change.place, number,
                                     describe(*date), change.since, describe(*came_out)));
      }
    }
  }
  return errors;
}

}  // namespace recapture::lint
