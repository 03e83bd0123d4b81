#include "harness/compare/policy.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>
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

void read_block(const toml::table& file, const std::string& path, Policy& policy, std::vector<std::string>& notes) {
  policy.block.clear();
  for (const std::string& text : texts_in(file, "block", path)) {
    const auto old =
        std::find_if(kOldWords.begin(), kOldWords.end(), [&](const auto& one) { return one.word == text; });
    if (old != kOldWords.end()) {
      std::vector<std::string_view> meant;
      for (const Consequence consequence : old->meant) meant.push_back(to_string(consequence));
      policy.block.insert(old->meant.begin(), old->meant.end());
      notes.push_back(fmt::format("{}: '{}' is now called {}", path, text, fmt::join(meant, " and ")));
      continue;
    }
    const auto consequence = consequence_from(text);
    if (!consequence || !can_block(*consequence)) {
      std::vector<std::string> known;
      for (size_t i = 0; i < kConsequenceCount; ++i) {
        if (can_block(static_cast<Consequence>(i))) known.emplace_back(to_string(static_cast<Consequence>(i)));
      }
      throw ExitError(Exit::Usage, fmt::format("{}: 'block' takes {}, not '{}'", path, fmt::join(known, ", "),
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
  static const RE2 kDate(R"(\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01]))");
  return RE2::FullMatch(text, kDate);
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

// "3 new errors (a, b), 1 new damage (c)", by case.
std::string counts_by_case(const std::map<Consequence, std::set<std::string>>& cases) {
  std::vector<std::string> parts;
  parts.reserve(cases.size());
  for (const auto& [consequence, ids] : cases) {
    parts.push_back(fmt::format("{} ({})", to_string(consequence), fmt::join(ids, ", ")));
  }
  return join(parts, "; ");
}

std::string why_too_much_is_unknown(const Comparison& ours, const Limits& limits) {
  const size_t all = ours.tests.size(), not_measured = ours.not_measured();
  if (too_little_measured(ours, limits) || not_measured == all) {
    return fmt::format("{} of {} tests in scope are not measured, and {} % may be", not_measured, all,
                       limits.not_measured);
  }
  return fmt::format("{} of {}{} tests in scope are unknown, and {} % may be", ours.unknown(), all - not_measured,
                     not_measured == 0 ? "" : " measured", limits.unknown);
}

// The words of a scope whose cases have no judged test. Results of other cases in scope do not replace them.
std::vector<std::string> words_without_a_result(const Policy& policy, const Comparison& all,
                                                const Catalogue& catalogue) {
  std::set<std::string> judged;
  for (const ComparedTest& test : all.tests) {
    if (test.consequence != Consequence::Unknown) judged.insert(case_of(test.test));
  }
  std::vector<std::string> words;
  for (const std::string& word : policy.scope) {
    const std::set<std::string> cases = cases_meant(word, catalogue);
    const auto is_judged = [&](const std::string& id) { return judged.count(id) != 0; };
    if (!cases.empty() && std::none_of(cases.begin(), cases.end(), is_judged)) words.push_back(word);
  }
  return words;
}

// Why these words of a scope have no judged test.
std::string why_blind(const std::vector<std::string>& words, const Catalogue& catalogue) {
  std::vector<std::string> simulated, others, sentences;
  for (const std::string& word : words) {
    const std::set<std::string> cases = cases_meant(word, catalogue);
    const auto is_one = [&](const std::string& id) {
      return find_case(catalogue, id)->fidelity == Fidelity::Simulated;
    };
    (std::all_of(cases.begin(), cases.end(), is_one) ? simulated : others).push_back(word);
  }
  if (!simulated.empty()) {
    sentences.push_back(fmt::format("{} {} simulated: our own model, which shows nothing about a release",
                                    join(simulated), simulated.size() == 1 ? "is" : "are"));
  }
  if (!others.empty()) sentences.push_back(fmt::format("no test is judged of {}, which the scope names", join(others)));
  return escape_control(join(sentences, "; "));
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
  for (const CatalogueCase& one : catalogue) families[one.id] = one.family;
  std::set<std::string> tests;
  for (const std::string& test : names.tests) {
    const std::string id = case_of(test);
    if (words.count(test) + words.count(id) + words.count(families[id]) != 0) tests.insert(test);
  }
  return tests;
}

}  // namespace

Policy compare_policy() {
  Policy policy;
  policy.prices = true;
  return policy;
}

Policy read_policy(const std::string& path, std::vector<std::string>& notes) {
  const toml::table file = parse_toml(path);
  only_keys(file, {"block", "scope", "concerns", "unknown", "not_measured", "waiver", "ignore"}, path);
  texts_in(file, "ignore", path);  // Paths for gate_pins, which reads them; here only a wrong type is an error.
  Policy policy;
  if (file.contains("scope") && file.contains("concerns")) {
    throw ExitError(Exit::Usage, path + ": 'concerns' is the old name of 'scope'; write one of them");
  }
  if (file.contains("concerns")) notes.push_back(path + ": 'concerns' is now called 'scope'");
  policy.scope = texts_in(file, file.contains("concerns") ? "concerns" : "scope", path);
  if (file.contains("block")) read_block(file, path, policy, notes);
  policy.limits.unknown = read_percent(file, "unknown", path, policy.limits.unknown);
  policy.limits.not_measured = read_percent(file, "not_measured", path, policy.limits.not_measured);
  if (const auto* list = tables_in(file, "waiver", path, "[[waiver]]")) {
    for (const auto& node : *list) policy.waivers.push_back(read_waiver(*node.as_table(), place_of(path, node)));
  }
  return policy;
}

std::string to_string(const WaiverState& state) {
  const Waiver& waiver = state.waiver;
  const std::string name = escape_control(waiver.test), reason = escape_control(waiver.reason);
  switch (state.kind) {
    case WaiverState::Kind::Applied:
      return fmt::format("waived: {} ({}{}{})", fmt::join(state.tests, ", "), reason,
                         waiver.until.empty() ? "" : "; until ", waiver.until);
    case WaiverState::Kind::Expired:
      return fmt::format("waiver expired on {}: {} ({})", waiver.until, name, reason);
    case WaiverState::Kind::WithoutEffect:
      break;
  }
  return fmt::format("waiver without effect: {} ({})", name, reason);
}

void add_never_run(const std::set<std::string>& cases, const Catalogue& catalogue, Comparison& comparison) {
  std::set<std::string> tests;
  for (const ComparedTest& test : comparison.tests) tests.insert(test.test);
  for (const CatalogueCase& one : catalogue) {
    if (cases.count(one.id) == 0 || one.fidelity == Fidelity::Simulated) continue;
    for (const CatalogueTest& test : one.tests) {
      ComparedTest never;
      never.test = one.id + "." + test.name;
      never.unknown = {.kind = UnknownKind::NotPlanned, .side = WhichSide::Both};
      never.is_measured = false;
      if (tests.count(never.test) == 0) comparison.tests.push_back(std::move(never));
    }
  }
}

void demand_measured(const std::set<std::string>& cases, Comparison& comparison) {
  for (ComparedTest& test : comparison.tests) {
    if (cases.count(case_of(test.test)) != 0) test.is_measured = true;
  }
}

Decision decide(const Policy& policy, const Comparison& all, const std::set<std::string>& scope,
                const Catalogue& catalogue, const std::string& today) {
  Decision decision;
  std::set<std::string> waived;
  std::vector<std::set<std::string>> named_tests;
  for (const Waiver& waiver : policy.waivers) {
    named_tests.push_back(waived_tests(waiver, catalogue, all));
    if (!is_expired(waiver, all.release, today)) waived.insert(named_tests.back().begin(), named_tests.back().end());
  }
  const auto matters = [&](Consequence consequence) {
    return is_regression(consequence) || policy.block.count(consequence) > 0;
  };
  std::map<Consequence, std::set<std::string>> blocking, outside;  // Cases.
  std::set<std::string> hurting;                                   // Tests, waived or not.
  for (const ComparedTest& test : all.tests) {
    if (!matters(test.consequence)) continue;
    hurting.insert(test.test);
    if (waived.count(test.test) != 0) continue;
    const std::string id = case_of(test.test);
    const bool is_in_scope = scope.count(id) != 0;
    if (test.consequence == Consequence::NewDamage || (is_in_scope && policy.block.count(test.consequence) != 0)) {
      blocking[test.consequence].insert(id);
      decision.blocking.insert(test.test);
    }
    if (!is_in_scope && is_regression(test.consequence)) outside[test.consequence].insert(id);
  }
  for (size_t i = 0; i < policy.waivers.size(); ++i) {
    WaiverState state{WaiverState::Kind::WithoutEffect, policy.waivers[i], {}};
    std::set_intersection(named_tests[i].begin(), named_tests[i].end(), hurting.begin(), hurting.end(),
                          std::back_inserter(state.tests));
    if (is_expired(state.waiver, all.release, today)) {
      state.kind = WaiverState::Kind::Expired;
    } else if (!state.tests.empty()) {
      state.kind = WaiverState::Kind::Applied;
    }
    decision.waivers.push_back(std::move(state));
  }
  if (!outside.empty()) decision.outside_scope = "outside your scope: " + counts_by_case(outside);
  const Comparison ours = filter_cases(all, scope);
  const std::vector<std::string> blind = words_without_a_result(policy, all, catalogue);
  if (!blocking.empty()) {
    decision.exit = Exit::Changed;
    decision.answer = "blocked";
    decision.reason = counts_by_case(blocking);
  } else if (too_much_unknown(ours, policy.limits)) {
    decision.exit = Exit::Inconclusive;
    decision.answer = "cannot tell";
    decision.reason = why_too_much_is_unknown(ours, policy.limits);
  } else if (!blind.empty()) {
    decision.exit = Exit::Inconclusive;
    decision.answer = "cannot tell";
    decision.reason = why_blind(blind, catalogue);
  } else {
    decision.answer = "passes";
  }
  return decision;
}

}  // namespace recapture::compare
