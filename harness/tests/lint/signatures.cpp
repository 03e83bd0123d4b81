#include "harness/tests/lint/signatures.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <tuple>

#include "harness/case/events.h"
#include "harness/case/pattern.h"
#include "harness/verdict/verdict.h"

namespace recapture::lint {
namespace {

// What distinguishes the failures of two tests. Records repeat each other, so each is stored once.
struct Observed {
  std::string test, seen, api;
  bool operator<(const Observed& other) const {
    return std::tie(test, seen, api) < std::tie(other.test, other.seen, other.api);
  }
};
struct Reproduced {
  Observed observed;
  std::string documented, raised_by;  // raised_by is "" if any call is accepted.
  bool operator<(const Reproduced& other) const {
    return std::tie(observed, documented, raised_by) < std::tie(other.observed, other.documented, other.raised_by);
  }
};

bool takes(const Reproduced& mine, const Observed& other) {
  if (case_of(mine.observed.test) == case_of(other.test)) return false;
  if (mine.observed.seen == other.seen && mine.observed.api == other.api) return false;
  const bool call_fits = mine.raised_by.empty() || other.api.empty() || matches(mine.raised_by, other.api);
  return call_fits && matches(mine.documented, other.seen);
}

// Whether two patterns describe one failure: a wildcard inside may match a word that only some releases have.
bool are_same_words(std::string one, std::string other) {
  std::erase(one, '*');
  std::erase(other, '*');
  return one == other;
}

}  // namespace

std::vector<std::string> loose_signatures(const std::vector<Record>& records, const Rules& rules) {
  std::set<Observed> all;
  std::set<Reproduced> reproduced;
  std::map<std::string, std::set<std::string>>
      own;  // What each test itself shows, on any release: never foreign to it.
  // By test: what it or an entry about it documents. With the same signature it is the same failure.
  std::map<std::string, std::set<std::string>> documented;
  // Differences that an entry names, with what the case cites: another case that cites the same is about the same
  // failure, which that release does not tell apart.
  std::set<std::tuple<std::string, std::string, Json>> expected;
  std::map<std::string, Json> sources;  // By case.
  // Cases that are programs in Python show the failures of several cases in C++, in the words of those cases' programs.
  std::set<std::string> of_python;
  for (const Record& record : records) {
    if (record.broken() != Break::Nothing) continue;
    for (const TestRecord& test : record.tests) {
      if (kind_of(test.name()) != Kind::Reproduces || !test.has(key::seen)) continue;
      if (rules.is_stale_test(record, test.id())) continue;
      const Observed observed{test.id(), test.text(key::seen), test.culprit("api")};
      all.insert(observed);
      if (record.cases.at(case_of(observed.test)).needs.python) of_python.insert(case_of(observed.test));
      const Json& cited = sources[case_of(observed.test)] = record.cases.at(case_of(observed.test)).sources;
      if (const Expectation* entry = find_expectation(rules.expectations, observed.test, record)) {
        expected.emplace(observed.test, observed.seen, cited);
        documented[test.id()].insert(entry->seen);
      }
      if (classify(Kind::Reproduces, test) != Result::Reproduced) continue;
      reproduced.insert({observed, test.text(key::documented), test.text(key::raised_by)});
      own[test.id()].insert(test.text(key::seen));
      documented[test.id()].insert(test.text(key::documented));
    }
  }
  std::set<std::string> errors;
  for (const Reproduced& mine : reproduced) {
    for (const Observed& other : all) {
      if (own[mine.observed.test].count(other.seen) != 0 || !takes(mine, other)) continue;
      if (is_of_program(name_of(mine.observed.test)) && of_python.count(case_of(other.test)) != 0) continue;
      const auto same = [&](const std::string& pattern) { return are_same_words(pattern, mine.documented); };
      if (std::ranges::any_of(documented[other.test], same)) continue;
      if (expected.count({other.test, other.seen, sources[case_of(mine.observed.test)]}) != 0) continue;
      errors.insert(fmt::format("{} documents '{}', which also takes {}'s '{}'", mine.observed.test, mine.documented,
                                other.test, other.seen));
    }
  }
  return {errors.begin(), errors.end()};
}

}  // namespace recapture::lint
