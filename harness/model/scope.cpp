#include "harness/model/scope.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "harness/base/escape.h"
#include "harness/base/exit.h"
#include "harness/case/pattern.h"
#include "harness/model/suggest.h"

namespace recapture {
namespace {

// Tags first, in their own spelling, even if an alias is the near one; else families and cases.
std::vector<std::string> nearest(const std::string& word, const Catalogue& catalogue) {
  std::vector<std::string> spellings, tags;
  for (const Tag& tag : kTags) {
    spellings.emplace_back(tag.name);
    for (const std::string_view alias : tag.aliases) {
      if (!alias.empty()) spellings.emplace_back(alias);
    }
  }
  for (const std::string& spelling : near(word, spellings)) {
    const std::string tag(tag_of(spelling)->name);
    if (std::find(tags.begin(), tags.end(), tag) == tags.end()) tags.push_back(tag);
  }
  if (!tags.empty()) return tags;
  const Names names = names_in(catalogue);
  const std::vector<std::string> families = near(word, names.families);
  return families.empty() ? near(word, names.cases) : families;
}

std::string nothing_called(const std::string& word, const Catalogue& catalogue) {
  std::vector<std::string_view> all;
  all.reserve(std::size(kTags));
  for (const Tag& tag : kTags) all.push_back(tag.name);
  const std::vector<std::string> found = nearest(word, catalogue);
  return fmt::format("no feature, family or case is called '{}'; {}features: {}", escape_control(word),
                     found.empty() ? "" : fmt::format("did you mean {}? ", fmt::join(found, " or ")),
                     fmt::join(all, ", "));
}

bool is_named(const CatalogueCase& one, const std::string& word) {
  return word.find('*') == std::string::npos ? word == one.family || word == one.id
                                             : matches(word, one.family) || matches(word, one.id);
}

}  // namespace

bool has_tag(const CatalogueCase& one, const Tag& tag) {
  return std::find(one.tags.begin(), one.tags.end(), tag.name) != one.tags.end();
}

std::set<std::string> cases_meant(const std::string& word, const Catalogue& catalogue) {
  const Tag* tag = tag_of(word);
  if (tag == nullptr) return cases_named(word, catalogue);
  std::set<std::string> cases;
  for (const CatalogueCase& one : catalogue) {
    if (has_tag(one, *tag)) cases.insert(one.id);
  }
  return cases;
}

std::set<std::string> cases_named(const std::string& word, const Catalogue& catalogue) {
  std::set<std::string> cases;
  for (const CatalogueCase& one : catalogue) {
    if (is_named(one, word)) cases.insert(one.id);
  }
  return cases;
}

std::set<std::string> cases_in_scope(const std::vector<std::string>& words, const Catalogue& catalogue) {
  std::set<std::string> scope = cases_meant(std::string(kAnyProgram), catalogue);
  for (const CatalogueCase& one : catalogue) {
    if (words.empty()) scope.insert(one.id);
  }
  for (const std::string& word : words) {
    const std::set<std::string> cases = cases_meant(word, catalogue);
    if (cases.empty() && tag_of(word) == nullptr) throw ExitError(Exit::Usage, nothing_called(word, catalogue));
    scope.insert(cases.begin(), cases.end());
  }
  return scope;
}

std::vector<std::pair<const Tag*, size_t>> tags_with_counts(const Catalogue& catalogue) {
  std::vector<std::pair<const Tag*, size_t>> counts;
  for (const Tag& tag : kTags) {
    const auto has = [&](const CatalogueCase& one) { return has_tag(one, tag); };
    counts.emplace_back(&tag, std::count_if(catalogue.begin(), catalogue.end(), has));
  }
  return counts;
}

}  // namespace recapture
