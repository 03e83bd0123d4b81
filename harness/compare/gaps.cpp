#include "harness/compare/gaps.h"

#include <algorithm>
#include <optional>
#include <unordered_map>

#include "harness/compare/pairs.h"
#include "harness/store/run_heads.h"

namespace recapture::compare {
namespace {

// Equal for two runs of the same code of a test. Hashes of the two formats of records differ, so today's code is one
// word.
std::string code_of(const JudgedRun& run, const std::string& test, const Rules& rules) {
  const Record& record = run.record;
  const std::string id = case_of(test);
  const bool is_in_tree = is_of_program(name_of(test)) ? rules.programs.contains(id) : rules.tree.contains(id);
  return is_in_tree && !rules.is_stale_test(record, test) ? "today's" : recapture::code_of(record, test);
}

bool is_damage_to_a_program(std::optional<Effect> effect) {
  return effect == Effect::SilentlyWrong || effect == Effect::Leaks || effect == Effect::Hangs ||
         effect == Effect::Crashes;
}

class GapFinder {
 public:
  GapFinder(const GapInput& input, const History& history, const CompareContext& context)
      : input_(input), history_(history), context_(context) {
    for (const ComparedTest& test : input.comparison.tests) compared_.emplace(test.test, &test);
  }

  Gaps find() {
    for (const ComparedTest& test : input_.comparison.tests) add_lacking(test);
    // The operators that one side alone has run are no part of a comparison.
    for (const std::string& test : input_.then.operators()) {
      if (is_left_out(test) && !input_.now.is_absent(test) && can_hide_damage(test)) add(GapKind::NoResult, test);
    }
    for (const Damage& damage : input_.damage) {
      add_disagreement(damage);
      if (is_left_out(damage.test) && !input_.then.is_absent(damage.test)) {
        add_only_newer(damage.test, damage.code, damage.state);
      }
    }
    for (const Elsewhere& machine : input_.elsewhere) add_elsewhere(machine);
    return std::move(gaps_);
  }

 private:
  void add(GapKind kind, const std::string& test) { gaps_.open.insert({kind, test}); }

  bool can_hide_damage(const std::string& test) const { return history_.can_hide_damage(case_of(test)); }

  bool is_left_out(const std::string& test) const {
    return kind_of_id(test) == Kind::Operator && compared_.count(test) == 0 && is_of_today(test);
  }

  bool is_of_today(const std::string& test) const {
    const CatalogueCase* described = context_.find(case_of(test));
    return described == nullptr ||
           std::ranges::find(described->tests, name_of(test), &CatalogueTest::name) != described->tests.end();
  }

  void add_lacking(const ComparedTest& test) {
    switch (test.lacking) {
      case Lacking::Nothing:
        return;
      case Lacking::Both:
        gaps_.known.insert(test.test);
        return;
      case Lacking::Newer:
        if (can_hide_damage(test.test)) add(GapKind::NoResult, test.test);
        return;
      case Lacking::Older:
        if (!is_damage(test.now)) return;
        add_only_newer(test.test, code_of(*test.after, test.test, context_.rules), test.now);
    }
  }

  void add_only_newer(const std::string& test, const std::string& code, State state) {
    const bool is_known =
        input_.older.has(test, code, state) || history_.was_there_before(input_.from, input_.to, test, code, state);
    if (!is_known) add(GapKind::OnlyNewer, test);
  }

  // Another machine ran an older form of a test whose present form was compared.
  bool is_of_replaced_code(const ComparedTest* test, const Damage& damage) const {
    return test != nullptr && test->lacking == Lacking::Nothing && test->after != nullptr &&
           code_of(*test->after, damage.test, context_.rules) != damage.code;
  }

  const ComparedTest* compared(const std::string& test) const {
    const auto found = compared_.find(test);
    return found == compared_.end() ? nullptr : found->second;
  }

  // A race that one run shows and another does not is compared by all of its runs.
  void add_disagreement(const Damage& damage) {
    const ComparedTest* test = compared(damage.test);
    if (test == nullptr || test->is_damaged() || test->after == nullptr || damage.is_rate) return;
    if (code_of(*test->after, damage.test, context_.rules) != damage.code) return;
    if (input_.older.has(damage.test, damage.code, damage.state)) return;
    if (input_.older.has_judged(damage.test, damage.code)) add(GapKind::RunsDisagree, damage.test);
  }

  void add_elsewhere(const Elsewhere& machine) {
    DamagedMachine found{machine.machine, machine.is_chosen, {}};
    for (const Damage& damage : machine.damage) {
      const ComparedTest* test = compared(damage.test);
      if ((test != nullptr && test->is_damaged()) || !is_of_today(damage.test)) continue;
      if (input_.older.has(damage.test, damage.code, damage.state)) continue;
      if (input_.older.has_judged(damage.test, damage.code)) {
        if (!damage.is_disputed) found.tests.insert(damage.test);
        if (damage.is_disputed && machine.is_chosen) add(GapKind::RunsDisagree, damage.test);
      } else if (machine.is_chosen && (test != nullptr || is_left_out(damage.test)) &&
                 !input_.older.is_absent(damage.test) && !is_of_replaced_code(test, damage)) {
        add_only_newer(damage.test, damage.code, damage.state);
      }
    }
    if (!found.tests.empty()) gaps_.elsewhere.push_back(std::move(found));
  }

  const GapInput& input_;
  const History& history_;
  const CompareContext& context_;
  std::unordered_map<std::string_view, const ComparedTest*> compared_;
  Gaps gaps_;
};

}  // namespace

void Shown::add(const JudgedRun& run, const Rules& rules) {
  for (const TestVerdict& row : run.rows) {
    if (!row.ran || row.result == Result::Unseen) continue;  // A race that did not occur shows nothing.
    const auto state = worst_try({&run, &row}, rules);
    if (!state) continue;
    if (*state == State::Absent) {
      absent_.insert(row.test);
    } else {
      states_[row.test].emplace(code_of(run, row.test, rules), *state);
      if (row.kind == Kind::Operator) operators_.insert(row.test);
    }
  }
}

void Shown::add(const Shown& other) {
  for (const auto& [test, states] : other.states_) states_[test].insert(states.begin(), states.end());
  absent_.insert(other.absent_.begin(), other.absent_.end());
  operators_.insert(other.operators_.begin(), other.operators_.end());
}

bool Shown::has_judged(const std::string& test, const std::string& code) const {
  const auto found = states_.find(test);
  return found != states_.end() &&
         std::ranges::any_of(found->second, [&](const auto& shown) { return shown.first == code; });
}

bool Shown::has(const std::string& test, const std::string& code, State state) const {
  const auto found = states_.find(test);
  return found != states_.end() && found->second.count({code, state}) != 0;
}

History::History(const CompareContext& context, const History* base) : base_(base) {
  for (const CatalogueCase& described : context.catalogue) {
    const auto is_described = [](const CatalogueTest& test) { return is_damage_to_a_program(test.effect); };
    if (is_damage_to_a_program(described.effect) || std::ranges::any_of(described.tests, is_described))
      damaging_.insert(described.id);
  }
  for (const Expectation& expected : context.rules.expectations) {
    const bool is_fatal = expected.result == Result::Crashed || expected.result == Result::Hung;
    const std::string id = case_of(expected.test);
    const bool is_known = context.find(id) != nullptr;
    if (is_known && (is_fatal || is_damage_to_a_program(expected.effect))) damaging_.insert(id);
  }
}

void History::add(const JudgedRun& run, const Rules& rules) {
  const Environment& environment = run.record.environment;
  if (was_sent(environment)) return;
  for (const TestVerdict& row : run.rows) {
    const auto state = row.ran ? worst_try({&run, &row}, rules) : std::nullopt;
    if (state && is_damage(*state)) damaging_.insert(row.case_id);
  }
  if (environment.machine.overrides.empty()) releases_[environment.release].add(run, rules);
}

bool History::was_there_before(const Release& from, const Release& to, const std::string& test, const std::string& code,
                               State state) const {
  if (base_ != nullptr && base_->was_there_before(from, to, test, code, state)) return true;
  return std::ranges::any_of(releases_, [&](const auto& of_release) {
    const auto& [release, shown] = of_release;
    return release.is_older_than(from) && release.is_older_than(to) && shown.has(test, code, state);
  });
}

std::vector<Damage> damage_in(const ResultStore& store, const Rules& rules) {
  std::vector<Damage> all;
  for (const std::string& test : store.tests()) {
    const TestRuns test_runs = store.of(test);
    const auto is_disputed = [&](const TestRun& damaged) {
      return std::ranges::any_of(test_runs.runs, [&](const TestRun& run) {
        const auto state = worst_try(Seen(run), rules);
        return run.code == damaged.code && run.row->ran && state && *state != State::Absent && !is_damage(*state);
      });
    };
    for (const auto* runs : {&test_runs.runs, &test_runs.without}) {
      for (const TestRun& run : *runs) {
        if (!run.row->ran) continue;
        const Seen seen(run);
        const std::optional<State> state = worst_try(seen, rules);
        if (!state || !is_damage(*state) || test_runs.is_replaced(run)) continue;
        all.push_back({test, code_of(*run.run, test, rules), *state, seen.has_rate, is_disputed(run)});
      }
    }
  }
  return all;
}

Gaps gaps_of(const GapInput& input, const History& history, const CompareContext& context) {
  return GapFinder(input, history, context).find();
}

std::set<std::string> cases_in_question(const GapInput& input, const CompareContext& context) {
  std::set<std::string> cases;
  const History described(context);
  for (const Gap& gap : gaps_of(input, described, context).open) {
    if (gap.kind == GapKind::OnlyNewer) cases.insert(case_of(gap.test));
  }
  const auto add = [&](const std::string& test) {
    if (!described.can_hide_damage(case_of(test))) cases.insert(case_of(test));
  };
  std::set<std::string_view> compared;
  for (const ComparedTest& test : input.comparison.tests) {
    compared.insert(test.test);
    if (test.lacking == Lacking::Newer) add(test.test);
  }
  for (const auto& [test, states] : input.then.states()) {
    if (compared.count(test) == 0) add(test);
  }
  return cases;
}

}  // namespace recapture::compare
