#include "harness/compare/policy.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <iterator>
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
  only_keys(file, {"block", "scope", "concerns", "without", "machines", "unknown", "not_measured", "waiver", "ignore"},
            path);
  texts_in(file, "ignore", path);  // Paths for gate_pins, which reads them; here only a wrong type is an error.
  Policy policy;
  if (file.contains("scope") && file.contains("concerns")) {
    throw ExitError(Exit::Usage, path + ": 'concerns' is the old name of 'scope'; write one of them");
  }
  if (file.contains("concerns")) notes.push_back(path + ": 'concerns' is now called 'scope'");
  policy.scope = texts_in(file, file.contains("concerns") ? "concerns" : "scope", path);
  for (const std::string& word : texts_in(file, "without", path)) {
    add_once(policy.without, require_feature(word, path + ": 'without'"));
  }
  policy.machines = texts_in(file, "machines", path);
  if (contains(policy.machines, "")) throw ExitError(Exit::Usage, path + ": 'machines' has an empty name");
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

std::string require_feature(const std::string& word, const std::string& place) {
  const Tag* tag = tag_of(word);
  if (tag != nullptr && tag->name != kAnyProgram) return std::string(tag->name);
  throw ExitError(Exit::Usage, fmt::format("{}: no feature is called '{}'; recapture list --features prints them",
                                           place, escape_control(word)));
}

std::set<std::string> cases_not_met(const std::vector<std::string>& without, const Catalogue& catalogue) {
  std::set<std::string> cases;
  for (const CatalogueCase& one : catalogue) {
    if (std::ranges::any_of(one.features, [&](const std::string& feature) { return contains(without, feature); })) {
      cases.insert(one.id);
    }
  }
  return cases;
}

void leave_out_known_gaps(const Gaps& gaps, Comparison& comparison) {
  for (ComparedTest& test : comparison.tests) {
    if (gaps.known.count(test.test) != 0) test.is_measured = false;
  }
}

void add_never_run(const std::set<std::string>& cases, const Catalogue& catalogue, Comparison& comparison) {
  std::set<std::string> tests;
  for (const ComparedTest& test : comparison.tests) tests.insert(test.test);
  for (const CatalogueCase& one : catalogue) {
    if (cases.count(one.id) == 0 || one.fidelity == Fidelity::Simulated) continue;
    for (const CatalogueTest& test : one.tests) {
      if (repeats(one, test)) continue;
      ComparedTest never;
      never.test = one.id + "." + test.name;
      never.unknown = {.kind = UnknownKind::NotPlanned, .side = WhichSide::Both};
      never.is_measured = false;
      never.lacking = Lacking::Both;
      if (tests.count(never.test) == 0) comparison.tests.push_back(std::move(never));
    }
  }
}

void demand_measured(const std::set<std::string>& cases, Comparison& comparison) {
  for (ComparedTest& test : comparison.tests) {
    if (cases.count(case_of(test.test)) != 0) test.is_measured = true;
  }
}

namespace {

// The features of which one must be absent to lift what a case does, the case's own first.
std::vector<std::string> features_of(const std::string& case_id, const Catalogue& catalogue) {
  const CatalogueCase* one = find_case(catalogue, case_id);
  return one == nullptr ? std::vector<std::string>() : one->features;
}

class Decider {
 public:
  Decider(const Policy& policy, const Comparison& all, const std::set<std::string>& scope, const Catalogue& catalogue,
          const std::string& today)
      : policy_(policy),
        all_(all),
        scope_(scope),
        catalogue_(catalogue),
        today_(today),
        not_met_(cases_not_met(policy.without, catalogue)) {
    for (const Waiver& waiver : policy.waivers) {
      named_.push_back(waived_tests(waiver, catalogue, all));
      if (!is_expired(waiver, all.release, today)) waived_.insert(named_.back().begin(), named_.back().end());
    }
  }

  Decision decide(const Gaps& gaps) {
    for (const ComparedTest& test : all_.tests) judge(test);
    for (const DamagedMachine& machine : gaps.elsewhere) judge(machine);
    for (const Gap& gap : gaps.open) judge(gap);
    for (const std::string& test : gaps.known) {
      if (not_met_.count(case_of(test)) == 0) decision_.gaps.known.insert(test);
    }
    for (size_t i = 0; i < policy_.waivers.size(); ++i) decision_.waivers.push_back(state_of_waiver(i));
    if (!outside_.empty()) decision_.outside_scope = "outside your scope: " + counts_by_case(outside_);
    if (!unmet_.empty()) {
      decision_.not_met = fmt::format("not met without {}: {}", fmt::join(absent_, ", "), counts_by_case(unmet_));
    }
    answer();
    for (const std::string& test : decision_.blocking) add_lift(test);
    for (const Gap& gap : decision_.gaps.open) add_lift(gap.test);
    return std::move(decision_);
  }

 private:
  bool is_lifted(const std::string& test) {
    hurting_.insert(test);
    if (waived_.count(test) != 0) return true;
    return not_met_.count(case_of(test)) != 0;
  }

  void judge(const ComparedTest& test) {
    const bool is_listed = policy_.block.count(test.consequence) != 0;
    if (!is_regression(test.consequence) && !is_listed) return;
    const std::string id = case_of(test.test);
    if (is_lifted(test.test)) {
      if (waived_.count(test.test) == 0 && is_regression(test.consequence)) add_unmet(test.consequence, id);
      return;
    }
    const bool is_in_scope = scope_.count(id) != 0;
    if (test.is_damaged() || (is_in_scope && is_listed)) {
      blocking_[test.consequence].insert(id);
      decision_.blocking.insert(test.test);
    }
    if (!is_in_scope && is_regression(test.consequence)) outside_[test.consequence].insert(id);
  }

  void add_unmet(Consequence consequence, const std::string& id) {
    unmet_[consequence].insert(id);
    for (const std::string& feature : features_of(id, catalogue_)) {
      if (contains(policy_.without, feature)) absent_.insert(feature);
    }
  }

  void judge(const DamagedMachine& machine) {
    DamagedMachine left{machine.machine, machine.is_chosen, {}};
    for (const std::string& test : machine.tests) {
      if (!is_lifted(test)) left.tests.insert(test);
    }
    if (left.tests.empty()) return;
    if (left.is_chosen) decision_.blocking.insert(left.tests.begin(), left.tests.end());
    decision_.gaps.elsewhere.push_back(std::move(left));
  }

  void judge(const Gap& gap) {
    if (!is_lifted(gap.test)) decision_.gaps.open.insert(gap);
  }

  WaiverState state_of_waiver(size_t i) const {
    WaiverState state{WaiverState::Kind::WithoutEffect, policy_.waivers[i], {}};
    std::ranges::set_intersection(named_[i], hurting_, std::back_inserter(state.tests));
    if (is_expired(state.waiver, all_.release, today_)) {
      state.kind = WaiverState::Kind::Expired;
    } else if (!state.tests.empty()) {
      state.kind = WaiverState::Kind::Applied;
    }
    return state;
  }

  void answer() {
    std::set<std::string> met;
    std::ranges::set_difference(scope_, not_met_, std::inserter(met, met.end()));
    const Comparison ours = filter_cases(all_, met);
    const std::vector<std::string> blind = words_without_a_result(policy_, all_, catalogue_);
    if (!decision_.blocking.empty()) {
      decision_.exit = Exit::Changed;
      decision_.answer = "blocked";
      decision_.reason = counts_by_case(blocking_);
      return;
    }
    if (decision_.gaps.open.empty() && !too_much_unknown(ours, policy_.limits) && blind.empty()) {
      decision_.answer = "passes";
      return;
    }
    decision_.exit = Exit::Inconclusive;
    decision_.answer = "cannot tell";
    if (!decision_.gaps.open.empty()) return;  // They are the reason.
    decision_.reason = blind.empty() || too_much_unknown(ours, policy_.limits)
                           ? why_too_much_is_unknown(ours, policy_.limits)
                           : why_blind(blind, catalogue_);
  }

  void add_lift(const std::string& test) {
    const std::string id = case_of(test);
    if (auto features = features_of(id, catalogue_); !features.empty()) {
      decision_.lifted_by.emplace(id, std::move(features));
    }
  }

  const Policy& policy_;
  const Comparison& all_;
  const std::set<std::string>& scope_;
  const Catalogue& catalogue_;
  const std::string& today_;
  const std::set<std::string> not_met_;
  std::set<std::string> waived_;
  std::vector<std::set<std::string>> named_;                                 // By waiver.
  std::map<Consequence, std::set<std::string>> blocking_, outside_, unmet_;  // Cases.
  std::set<std::string> absent_;   // Features for want of which a case is not met.
  std::set<std::string> hurting_;  // Tests, lifted or not.
  Decision decision_;
};

}  // namespace

Decision decide(const Policy& policy, const Comparison& all, const std::set<std::string>& scope,
                const Catalogue& catalogue, const std::string& today, const Gaps& gaps) {
  return Decider(policy, all, scope, catalogue, today).decide(gaps);
}

}  // namespace recapture::compare
