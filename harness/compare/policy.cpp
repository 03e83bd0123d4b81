#include "harness/compare/policy.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <string_view>
#include <utility>

#include "harness/judge/suggest.h"
#include "harness/judge/toml.h"
#include "harness/record/spelling.h"
#include "harness/record/visible.h"

namespace recapture {
namespace {

// What a feature rests on, whose cases do not name the feature itself.
constexpr std::array<std::pair<std::string_view, std::string_view>, 2> kParts = {
    {{"ddp", "accumulategrad"}, {"ddp", "nccl"}}};

bool is_of_a_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

// Whether a text has the words, from a word's beginning on: "graphed callable" is in "two graphed callables".
bool speaks_of(const std::string& text, const std::string& words) {
  for (size_t at = text.find(words); at != std::string::npos; at = text.find(words, at + 1)) {
    if (at == 0 || !is_of_a_word(text[at - 1])) return true;
  }
  return false;
}

std::string prose_of(const CatalogueCase& one) {
  std::string text = one.title + "\n" + one.why + "\n" + one.documented;
  for (const CatalogueTest& test : one.tests) text += "\n" + test.fix;
  std::string id = one.id;
  std::replace(id.begin(), id.end(), '_', ' ');
  return lower_case(text + "\n" + id);
}

}  // namespace

Policy whatever_hurts() {
  Policy policy;
  policy.block.insert(Consequence::ErrorChanged);
  policy.prices = true;
  return policy;
}

Policy read_policy(const std::string& path) {
  const toml::table file = parse_toml(path);
  only_keys(file, {"block", "concerns", "unknown"}, path);
  Policy policy;
  policy.concerns = texts_in(file, "concerns", path);
  if (file.contains("block")) {
    policy.block.clear();
    for (const std::string& text : texts_in(file, "block", path)) {
      const auto consequence = consequence_from(text);
      if (!consequence || !hurts(*consequence)) {
        std::vector<std::string> known;
        for (auto each = Consequence::SilentNow; hurts(each);
             each = static_cast<Consequence>(static_cast<int>(each) + 1)) {
          known.emplace_back(word(each));
        }
        throw Stop(Exit::Usage,
                   fmt::format("{}: 'block' takes {}, not '{}'", path, fmt::join(known, ", "), visible(text)));
      }
      policy.block.insert(*consequence);
    }
  }
  if (file.contains("unknown")) {
    const auto number = file["unknown"].value_exact<int64_t>();
    if (!number || *number < 0 || *number > 100) {
      throw Stop(Exit::Usage, path + ": 'unknown' is no whole number from 0 to 100, of a hundred tests");
    }
    policy.unknown = static_cast<int>(*number);
  }
  return policy;
}

std::set<std::string> cases_concerned(const std::string& word, const Catalogue& catalogue) {
  std::set<std::string> cases;
  std::string wanted = lower_case(word);
  const Names names = names_in(catalogue);
  const bool is_name = std::find(names.families.begin(), names.families.end(), word) != names.families.end() ||
                       std::find(names.cases.begin(), names.cases.end(), word) != names.cases.end() ||
                       word.find('*') != std::string::npos;
  if (is_name) {
    for (const CatalogueCase& one : selected(catalogue, {word})) cases.insert(one.id);
    return cases;
  }
  if (wanted.size() > 3 && wanted.back() == 's') wanted.pop_back();  // "graphed callables" is one too.
  std::vector<std::string> all = {wanted};
  for (const auto& [feature, part] : kParts) {
    if (feature == wanted) all.emplace_back(part);
  }
  for (const CatalogueCase& one : catalogue) {
    const std::string prose = prose_of(one);
    const auto said = [&](const std::string& words) { return speaks_of(prose, words); };
    if (std::any_of(all.begin(), all.end(), said)) cases.insert(one.id);
  }
  if (cases.empty()) {
    throw Stop(Exit::Usage,
               fmt::format("no case is about '{}'; `recapture list` names families and cases", visible(word)));
  }
  return cases;
}

std::set<std::string> cases_concerned(const Policy& policy, const Comparison& comparison, const Catalogue& catalogue) {
  std::set<std::string> cases;
  for (const std::string& concern : policy.concerns) cases.merge(cases_concerned(concern, catalogue));
  if (!policy.concerns.empty()) return cases;
  for (const ComparedTest& test : comparison.tests) cases.insert(case_of(test.test));
  return cases;
}

void add_never_run(const Policy& policy, const Catalogue& catalogue, Comparison& comparison) {
  std::set<std::string> concerned, known;
  for (const std::string& concern : policy.concerns) concerned.merge(cases_concerned(concern, catalogue));
  for (const ComparedTest& test : comparison.tests) known.insert(test.test);
  for (const CatalogueCase& one : catalogue) {
    if (!policy.concerns.empty() && concerned.count(one.id) == 0) continue;
    for (const CatalogueTest& test : one.tests) {
      ComparedTest never;
      never.test = one.id + "." + test.name;
      never.sentence = fmt::format("not part of any run of {} or {}", comparison.from, comparison.to);
      if (known.count(never.test) == 0) comparison.tests.push_back(std::move(never));
    }
  }
}

Decision decide(const Policy& policy, const Comparison& comparison) {
  std::map<Consequence, std::set<std::string>> blocking;
  for (const CaseChange& change : comparison.changes) {
    if (policy.block.count(change.consequence) != 0) blocking[change.consequence].insert(change.case_id);
  }
  if (!blocking.empty()) {
    std::string words = "blocked";
    for (const auto& [consequence, cases] : blocking) {
      words += fmt::format("{} {} ({})", words == "blocked" ? ":" : ";", word(consequence), fmt::join(cases, ", "));
    }
    return {Exit::Changed, "blocked", words};
  }
  if (too_much_unknown(comparison, policy.unknown)) {
    return {Exit::Inconclusive, "cannot tell",
            fmt::format("cannot tell: {} of {} tests that concern you are unknown, and {} % may be",
                        comparison.unknown(), comparison.tests.size(), policy.unknown)};
  }
  return {Exit::AsExpected, "passes", "passes"};
}

}  // namespace recapture
