#include "harness/compare/policy.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <iterator>
#include <map>
#include <string_view>
#include <tuple>
#include <unordered_set>
#include <utility>

#include "harness/base/escape.h"
#include "harness/base/regex.h"
#include "harness/base/text.h"
#include "harness/base/toml.h"
#include "harness/model/release.h"
#include "harness/model/scope.h"
#include "harness/model/suggest.h"

namespace recapture::compare {
namespace {

struct OldWord {
  std::string_view word;
  std::vector<Consequence> meant;
};
// Words of the previous version; the next version will refuse them.
const std::array<OldWord, 4> kOldWords = {{{"silent now", {Consequence::NewDamage, Consequence::BrokenHandlers}},
                                           {"new failures", {Consequence::NewDamage, Consequence::NewErrors}},
                                           {"remedy gone", {Consequence::StoppedHolding}},
                                           {"error text or type changed", {Consequence::ErrorChanged}}}};

// What a policy may block: everything except improvements.
bool can_block(Consequence consequence) {
  return is_regression(consequence) || consequence == Consequence::ErrorChanged;
}

void read_block(const toml::table& file, const std::string& path, Policy& policy, std::vector<RenamedWord>& renamed) {
  policy.block.clear();
  for (const std::string& text : texts_in(file, "block", path)) {
    const auto old =
        std::find_if(kOldWords.begin(), kOldWords.end(), [&](const auto& old) { return old.word == text; });
    if (old != kOldWords.end()) {
      RenamedWord word{text, {}};
      for (const Consequence consequence : old->meant) word.now.emplace_back(to_string(consequence));
      policy.block.insert(old->meant.begin(), old->meant.end());
      renamed.push_back(std::move(word));
      continue;
    }
    const auto consequence = consequence_from(text);
    if (!consequence || !can_block(*consequence)) {
      std::vector<std::string> words;
      for (size_t i = 0; i < kConsequenceCount; ++i) {
        if (can_block(static_cast<Consequence>(i))) words.emplace_back(to_string(static_cast<Consequence>(i)));
      }
      throw ExitError(Exit::Usage, fmt::format("{}: 'block' takes {}, not '{}'", path, fmt::join(words, ", "),
                                               escape_control(text)));
    }
    policy.block.insert(*consequence);
  }
}

int read_percent(const toml::table& file, const std::string& key, const std::string& path, int otherwise) {
  if (!file.contains(key)) return otherwise;
  constexpr int kAll = 100;
  const auto number = file[key].value_exact<int64_t>();
  if (!number || *number < 0 || *number > kAll) {
    throw ExitError(Exit::Usage, fmt::format("{}: '{}' must be a whole number of percent, from 0 to 100", path, key));
  }
  return static_cast<int>(*number);
}

bool is_date(const std::string& text) {
  static const RE2 kDate(R"((\d{4})-(\d\d)-(\d\d))");
  int year = 0;
  unsigned month = 0, day = 0;
  if (!RE2::FullMatch(text, kDate, &year, &month, &day)) return false;
  return std::chrono::year_month_day(std::chrono::year(year), std::chrono::month(month), std::chrono::day(day)).ok();
}

Waiver read_waiver(const toml::table& entry, const std::string& place) {
  only_keys(entry, {"test", "reason", "until"}, place);
  Waiver waiver{text_in(entry, "test", place), text_in(entry, "reason", place), ""};
  if (waiver.reason.empty()) throw ExitError(Exit::Usage, place + ": a waiver needs a reason");
  if (!entry.contains("until")) return waiver;
  waiver.until = text_in(entry, "until", place);
  if (!is_date(waiver.until) && !is_version(waiver.until)) {
    throw ExitError(Exit::Usage, fmt::format("{}: 'until' takes a date such as \"2026-12-31\" or a release such as "
                                             "\"2.16\", not '{}'",
                                             place, escape_control(waiver.until)));
  }
  return waiver;
}

// A waiver until a date holds through that day; a waiver until a release holds for older releases only.
bool is_expired(const Waiver& waiver, const std::string& release, const std::string& today) {
  if (waiver.until.empty()) return false;
  if (is_date(waiver.until)) return waiver.until < today;
  return is_version(release) && !Release(release).is_older_than(Release(waiver.until));
}

// The tests that a waiver names, of the catalogue and of a comparison.
std::set<std::string> waived_tests(const Waiver& waiver, const Catalogue& catalogue, const Comparison& comparison) {
  Names names = names_in(catalogue);
  for (const ComparedTest& test : comparison.tests) {  // Records may also have cases that are not in the catalogue.
    add_once(names.cases, case_of(test.test));
    names.tests.push_back(test.test);
  }
  const std::vector<std::string> meant = named(waiver.test, names);
  const std::set<std::string> words(meant.begin(), meant.end());
  std::map<std::string, std::string> families;
  for (const CatalogueCase& described : catalogue) families[described.id] = described.family;
  std::set<std::string> tests;
  for (const std::string& test : names.tests) {
    const std::string id = case_of(test);
    if (words.count(test) + words.count(id) + words.count(families[id]) != 0) tests.insert(test);
  }
  return tests;
}

// Whether all cases that a word of a scope means are simulated.
bool is_simulated(const std::string& word, const Catalogue& catalogue) {
  return std::ranges::all_of(cases_meant(word, catalogue), [&](const std::string& id) {
    return find_case(catalogue, id)->fidelity == Fidelity::Simulated;
  });
}

}  // namespace

bool TestCounts::are_too_little_measured(const Limits& limits) const {
  return not_measured * 100 > all() * static_cast<size_t>(limits.not_measured);
}

bool TestCounts::are_too_unknown(const Limits& limits) const {
  return judged == 0 || are_too_little_measured(limits) ||
         unknown * 100 > (all() - not_measured) * static_cast<size_t>(limits.unknown);
}

Exit Decision::exit() const {
  return why == DecisionReason::None     ? Exit::AsExpected
         : why == DecisionReason::Blocks ? Exit::Changed
                                         : Exit::Inconclusive;
}

std::string_view answer_of(const Decision& decision) {
  switch (decision.exit()) {
    case Exit::AsExpected:
      return "passes";
    case Exit::Changed:
      return "blocked";
    default:
      return "cannot tell";
  }
}

void TestCounts::add(const TestCounts& other) {
  judged += other.judged;
  unknown += other.unknown;
  not_measured += other.not_measured;
}

Policy compare_policy() {
  Policy policy;
  policy.prices = true;
  return policy;
}

Policy read_policy(const std::string& path, std::vector<RenamedWord>& renamed) {
  const toml::table file = parse_toml(path);
  only_keys(file, {"block", "scope", "concerns", "without", "machines", "unknown", "not_measured", "waiver", "ignore"},
            path);
  texts_in(file, "ignore", path);  // Paths for gate_pins, which reads them; here only a wrong type is an error.
  Policy policy;
  if (file.contains("scope") && file.contains("concerns")) {
    throw ExitError(Exit::Usage, path + ": 'concerns' is the old name of 'scope'; write one of them");
  }
  if (file.contains("concerns")) renamed.push_back({"concerns", {"'scope'"}});
  policy.scope = texts_in(file, file.contains("concerns") ? "concerns" : "scope", path);
  for (const std::string& word : texts_in(file, "without", path)) {
    add_once(policy.without, require_feature(word, path + ": 'without'"));
  }
  for (const std::string& word : policy.scope) {
    const Tag* tag = tag_of(word);
    if (tag == nullptr || !contains(policy.without, tag->name)) continue;
    throw ExitError(Exit::Usage, fmt::format("{}: 'without' has '{}', which 'scope' names", path, tag->name));
  }
  policy.machines = texts_in(file, "machines", path);
  if (file.contains("block")) read_block(file, path, policy, renamed);
  policy.limits.unknown = read_percent(file, "unknown", path, policy.limits.unknown);
  policy.limits.not_measured = read_percent(file, "not_measured", path, policy.limits.not_measured);
  if (const auto* list = tables_in(file, "waiver", path, "[[waiver]]")) {
    for (const auto& node : *list) policy.waivers.push_back(read_waiver(*node.as_table(), place_of(path, node)));
  }
  return policy;
}

std::string require_feature(const std::string& word, const std::string& place) {
  const Tag* tag = tag_of(word);
  if (tag != nullptr && tag->name != kAnyProgram) return std::string(tag->name);
  throw ExitError(Exit::Usage, fmt::format("{}: no feature is called '{}'; recapture list --features prints them",
                                           place, escape_control(word)));
}

std::set<std::string> cases_not_met(const std::vector<std::string>& without, const Catalogue& catalogue) {
  std::set<std::string> cases;
  for (const CatalogueCase& described : catalogue) {
    if (std::ranges::any_of(described.features,
                            [&](const std::string& feature) { return contains(without, feature); })) {
      cases.insert(described.id);
    }
  }
  return cases;
}

void leave_out_known_gaps(const Gaps& gaps, Comparison& comparison) {
  for (ComparedTest& test : comparison.tests) {
    if (test.lacking == Lacking::Both && gaps.known.contains(test.test)) test.is_measured = false;
  }
}

std::vector<std::string> tests_to_judge(const std::set<std::string>& cases, const Catalogue& catalogue) {
  std::vector<std::string> tests;
  for (const CatalogueCase& described : catalogue) {
    if (cases.count(described.id) == 0 || described.fidelity == Fidelity::Simulated) continue;
    for (const CatalogueTest& test : described.tests) {
      if (!repeats(described, test)) tests.push_back(described.id + "." + test.name);
    }
  }
  return tests;
}

void add_never_run(const std::vector<std::string>& tests, Comparison& comparison) {
  std::unordered_set<std::string_view> compared;
  for (const ComparedTest& test : comparison.tests) compared.insert(test.test);
  std::vector<ComparedTest> all;
  const Shared<Unknown> unknown = Unknown{.kind = UnknownKind::NotPlanned, .side = WhichSide::Both};
  for (const std::string& test : tests) {
    if (compared.contains(test)) continue;
    ComparedTest& never = all.emplace_back();
    never.test = test;
    never.unknown = unknown;
    never.is_measured = false;
    never.lacking = Lacking::Both;
  }
  std::ranges::move(all, std::back_inserter(comparison.tests));
}

void demand_measured(const std::set<std::string>& cases, Comparison& comparison) {
  for (ComparedTest& test : comparison.tests) {
    if (cases.count(case_of(test.test)) != 0) test.is_measured = true;
  }
}

// What does not depend on the scope.
struct Gate::Found {
  struct Regression {
    const ComparedTest* test;
    bool is_lifted, is_unmet;  // By a waiver or `without`; by `without` alone.
  };
  struct OfCase {
    TestCounts counts;
    std::vector<Regression> regressions = {};  // And what else the policy lists.
    bool is_met = true;
    // A test other than a fix is judged. A fix counts as judged even if both releases lack the API.
    bool is_compared = false;
  };
  Policy policy;
  const Catalogue& catalogue;
  std::map<std::string, OfCase> cases = {};
  Decision common = {};                // The gaps and waivers; blocking is what blocks by damage elsewhere,
  std::set<std::string> blocked = {};  // in these cases.
};

namespace {

// The features of which one must be absent to lift what a case does, the case's own first.
std::vector<std::string> features_of(const std::string& case_id, const Catalogue& catalogue) {
  const CatalogueCase* described = find_case(catalogue, case_id);
  return described == nullptr ? std::vector<std::string>() : described->features;
}

bool is_listed(const ComparedTest& test, const Policy& policy) {
  return is_regression(test.consequence) || policy.block.count(test.consequence) != 0;
}

}  // namespace

Gate::~Gate() = default;

Gate::Gate(Policy policy, const Comparison& all, const Gaps& gaps, const Catalogue& catalogue,
           const std::string& today) {
  Found found{std::move(policy), catalogue};
  std::set<std::string> waived, hurting;  // Tests; hurting ones whether lifted or not.
  std::vector<std::set<std::string>> named;
  for (const Waiver& waiver : found.policy.waivers) {
    named.push_back(waived_tests(waiver, catalogue, all));
    if (!is_expired(waiver, all.release, today)) waived.insert(named.back().begin(), named.back().end());
  }
  const std::set<std::string> not_met = cases_not_met(found.policy.without, catalogue);
  const auto is_lifted = [&](const std::string& test) {
    hurting.insert(test);
    return waived.count(test) != 0 || not_met.count(case_of(test)) != 0;
  };
  auto place = found.cases.end();
  for (const ComparedTest& test : all.tests) {
    if (place == found.cases.end() ||
        !test.test.starts_with(place->first + ".")) {  // The tests of a case are adjacent.
      bool is_new = false;
      std::tie(place, is_new) = found.cases.try_emplace(case_of(test.test));
      if (is_new) place->second.is_met = not_met.count(place->first) == 0;
    }
    Found::OfCase& of_case = place->second;
    ++(!test.is_measured                          ? of_case.counts.not_measured
       : test.consequence == Consequence::Unknown ? of_case.counts.unknown
                                                  : of_case.counts.judged);
    of_case.is_compared |=
        test.is_measured && test.consequence != Consequence::Unknown && kind_of_id(test.test) != Kind::Fix;
    if (!is_listed(test, found.policy)) continue;
    const bool lifted = is_lifted(test.test);
    of_case.regressions.push_back({&test, lifted, lifted && waived.count(test.test) == 0});
  }
  Decision& common = found.common;
  Gaps kept;
  for (const DamagedMachine& machine : gaps.elsewhere) {
    DamagedMachine left{machine.machine, machine.is_chosen, {}};
    for (const std::string& test : machine.tests) {
      if (!is_lifted(test)) left.tests.insert(test);
    }
    if (left.tests.empty()) continue;
    if (left.is_chosen) common.blocking.insert(left.tests.begin(), left.tests.end());
    kept.elsewhere.push_back(std::move(left));
  }
  for (const Gap& gap : gaps.open) {
    if (!is_lifted(gap.test)) kept.open.insert(gap);
  }
  for (const std::string& test : gaps.known) {
    if (not_met.count(case_of(test)) == 0) kept.known.insert(test);
  }
  common.gaps = std::move(kept);
  for (const std::string& test : common.blocking) found.blocked.insert(case_of(test));
  for (size_t i = 0; i < named.size(); ++i) {
    WaiverState state{WaiverState::Kind::WithoutEffect, found.policy.waivers[i], {}};
    std::ranges::set_intersection(named[i], hurting, std::back_inserter(state.tests));
    if (is_expired(state.waiver, all.release, today)) {
      state.kind = WaiverState::Kind::Expired;
    } else if (!state.tests.empty()) {
      state.kind = WaiverState::Kind::Applied;
    }
    common.waivers.push_back(std::move(state));
  }
  found_ = std::make_unique<const Found>(std::move(found));
}

Scope scope_of(const std::vector<std::string>& words, std::set<std::string> cases, const Catalogue& catalogue) {
  Scope scope{{}, std::move(cases)};
  for (const std::string& word : words) {
    scope.words.push_back(
        {word, cases_named(word, catalogue), cases_meant(word, catalogue), is_simulated(word, catalogue)});
  }
  return scope;
}

Decision Gate::decide(const Scope& scope) const {
  const auto& [policy, catalogue, cases, common, blocked] = *found_;
  Decision decision = common;
  const auto is_demanded = [&](const std::string& id) {  // It must be measured.
    return std::ranges::any_of(scope.words, [&](const Scope::Word& word) { return word.named.contains(id); });
  };
  auto next = scope.cases.begin();  // Both are sorted.
  for (const auto& [id, of_case] : cases) {
    while (next != scope.cases.end() && *next < id) ++next;
    const bool is_in_scope = next != scope.cases.end() && *next == id;
    bool is_blocked = blocked.contains(id);
    for (const auto& [test, is_lifted, is_unmet] : of_case.regressions) {
      const bool regressed = is_regression(test->consequence);
      if (is_unmet && regressed) {
        decision.not_met[test->consequence].insert(id);
        for (const std::string& feature : features_of(id, catalogue)) {
          if (contains(policy.without, feature)) decision.absent.insert(feature);
        }
      }
      if (is_lifted) continue;
      if (test->is_damaged() || (is_in_scope && policy.block.count(test->consequence) != 0)) {
        decision.blocking_cases[test->consequence].insert(id);
        decision.blocking.insert(test->test);
        is_blocked = true;
      }
      if (!is_in_scope && regressed) decision.outside_scope[test->consequence].insert(id);
    }
    if (!is_in_scope && !is_blocked) continue;
    TestCounts counts = of_case.counts;
    if (is_demanded(id)) counts = {counts.judged, counts.unknown + counts.not_measured, 0};
    if (is_in_scope && of_case.is_met) {
      decision.in_scope.add(counts);
      if (counts.unknown > 0) decision.unknown_cases.push_back(id);
      if (counts.not_measured > 0) decision.unmeasured_cases.push_back(id);
    }
    decision.shown.add(counts);
  }
  decision.limits = policy.limits;
  const auto is_judged = [&cases = cases](const std::string& id) {
    const auto found = cases.find(id);
    return found != cases.end() && found->second.is_compared;
  };
  for (const Scope::Word& word : scope.words) {  // Other cases in scope do not replace those of a word.
    if (word.meant.empty() || std::ranges::any_of(word.meant, is_judged)) continue;
    (word.is_simulated ? decision.simulated : decision.unjudged).push_back(word.word);
  }
  decision.why = !decision.blocking.empty()                                  ? DecisionReason::Blocks
                 : !decision.gaps->open.empty()                              ? DecisionReason::Gaps
                 : decision.in_scope.are_too_unknown(policy.limits)          ? DecisionReason::Unknown
                 : !decision.simulated.empty() || !decision.unjudged.empty() ? DecisionReason::NothingJudged
                                                                             : DecisionReason::None;
  return decision;
}

Decision decide(const Policy& policy, const Comparison& all, const std::set<std::string>& scope,
                const Catalogue& catalogue, const std::string& today, const Gaps& gaps) {
  Decision decision = Gate(policy, all, gaps, catalogue, today).decide(scope_of(policy.scope, scope, catalogue));
  const auto add_lift = [&](const std::string& test) {
    const std::string id = case_of(test);
    if (auto features = features_of(id, catalogue); !features.empty()) {
      decision.lifted_by.emplace(id, std::move(features));
    }
  };
  for (const std::string& test : decision.blocking) add_lift(test);
  for (const Gap& gap : decision.gaps->open) add_lift(gap.test);
  return decision;
}

}  // namespace recapture::compare
