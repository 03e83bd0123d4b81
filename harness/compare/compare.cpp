#include "harness/compare/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <iterator>
#include <optional>
#include <set>
#include <tuple>
#include <unordered_map>

#include "harness/base/escape.h"
#include "harness/base/text.h"
#include "harness/case/events.h"
#include "harness/compare/pairs.h"
#include "harness/model/release.h"
#include "harness/store/run_heads.h"
#include "harness/words/neighbour.h"

namespace recapture::compare {
namespace {

constexpr std::array<std::string_view, 4> kAdvice = {"do", "no longer needed", "still needed",
                                                     "perhaps no longer needed"};
std::vector<UpstreamChange> named_sources(const std::string& numbers, const std::vector<CitedSource>& sources) {
  std::vector<UpstreamChange> all;
  for (size_t at = 0; at < numbers.size();) {
    const size_t end = std::min(numbers.find(", ", at), numbers.size());
    const std::string number = numbers.substr(at, end - at);
    const CitedSource* found = find_source(sources, number);
    if (found != nullptr) all.push_back({"", number, "", found->url, found->title});
    at = end + 2;
  }
  return all;
}

// Whether a remedy can be deleted in a release where its failure is gone. That the call no longer fails does not mean
// that it does its work: emptying the cache during a capture used to raise, then did nothing. So runs of that release
// without the remedy decide. If a newer release still needs it, the safe advice is to keep it.
Advice advice_on(const std::string& fix, const std::string& release, const CompareContext& context) {
  const auto runs = context.without_remedy.find(fix);
  Advice advice = Advice::Try;
  const Release wanted(release);
  if (runs == context.without_remedy.end() || !wanted.is_version()) return advice;
  for (const WithoutRemedy& run : runs->second) {
    const Release tried(run.release);
    if (tried.is_older_than(wanted)) continue;
    if (run.failed) return Advice::Keep;
    if (!wanted.is_older_than(tried)) advice = Advice::Delete;
  }
  return advice;
}

// Leaves out a fix that stopped holding: it is a change of its own.
std::vector<Advised> fixes_of(const Pair& pair, const std::set<std::string_view>& stopped, const Results& to,
                              const CompareContext& context) {
  std::vector<Advised> fixes;
  const CatalogueCase* described = context.find(case_of(pair.compared.test));
  if (described == nullptr) return fixes;
  const std::string release = pair.to.run->record.env("release");
  for (const CatalogueTest& test : described->tests) {
    if (test.fix.empty()) continue;
    const std::string name = described->id + "." + test.name;
    const std::vector<Seen>& results = to.of(name).ran;
    const bool holds = !results.empty() && results.front().row->result == Result::Holds;
    if (stopped.contains(name)) continue;
    if (pair.compared.consequence == Consequence::Healed) {
      fixes.push_back({advice_on(name, release, context), test.fix});
    } else if (holds) {
      fixes.push_back({Advice::Apply, test.fix});
    }
  }
  return fixes;
}

std::vector<CaseChange> changes_of(const std::vector<Pair>& pairs, const Results& to, const CompareContext& context) {
  std::vector<std::pair<bool, CaseChange>> changes;  // With whether it is damage now.
  std::set<std::string_view> stopped;
  for (const Pair& pair : pairs) {
    if (pair.compared.consequence == Consequence::StoppedHolding) stopped.insert(pair.compared.test);
  }
  size_t first = 0;  // Of the case's changes: its tests are adjacent.
  for (const Pair& pair : pairs) {
    const ComparedTest& test = pair.compared;
    if (!test.has_change()) continue;
    const std::string id = case_of(test.test);
    if (!changes.empty() && changes.back().second.case_id != id) first = changes.size();
    auto at = std::find_if(changes.begin() + static_cast<ptrdiff_t>(first), changes.end(), [&](const auto& entry) {
      const CaseChange& change = entry.second;
      return change.consequence == test.consequence && change.change == *test.change;
    });
    if (at == changes.end()) {
      const CatalogueCase* described = context.find(id);
      CaseChange change;
      change.consequence = test.consequence;
      change.case_id = id;
      change.title = described == nullptr ? escape_control(pair.to.run->record.cases.at(id).title) : described->title;
      change.change = *test.change;
      change.fixes = fixes_of(pair, stopped, to, context);
      change.upstream = upstream_of(pair, context);
      at = changes.insert(changes.end(), {is_damage(pair.to.state()), std::move(change)});
    }
    at->second.tests.push_back(test.test);
  }
  const auto rank = [](const auto& entry) {
    const CaseChange& change = entry.second;
    const std::string_view number = change.upstream.empty() ? "~" : std::string_view(change.upstream.front().number);
    return std::tuple<Consequence, bool, std::string_view, const Change&, std::string_view>(
        change.consequence, !entry.first, number, change.change, change.case_id);
  };
  std::sort(changes.begin(), changes.end(), [&](const auto& a, const auto& b) { return rank(a) < rank(b); });
  std::vector<CaseChange> sorted;
  sorted.reserve(changes.size());
  for (auto& [does_damage, change] : changes) sorted.push_back(std::move(change));
  return sorted;
}

// A range with two ends is either the state since its change, which then explains the range's begin, or the state
// before it, which explains the end. The other end belongs to another change, for example a later regression.
bool is_cause(const Deviation& change, const Expectation& e, bool begins) {
  const std::string& range = e.where.release;
  const bool has_two_ends = range.find('>') != std::string::npos && range.find('<') != std::string::npos;
  return change.since.empty() || !has_two_ends || in_range(change.since, range) == begins;
}

// Whether a change is known to be newer than one release and not newer than the other, in either order.
bool came_between(const Deviation& change, const std::string& release, const std::string& other_release) {
  const Release since(change.since), a(release), b(other_release);
  if (!since.is_version() || !a.is_version() || !b.is_version()) return true;
  const auto& [first, last] = std::minmax(a, b);
  return first.is_older_than(since) && !last.is_older_than(since);
}

constexpr std::array<std::pair<const char*, const char*>, 4> kLibraries = {
    {{"cuda_runtime", "CUDA runtime"}, {"cudnn", "cuDNN"}, {"nccl", "NCCL"}, {"nvrtc", "NVRTC"}}};

// Of one machine, or of two if the sides were chosen so.
std::string machine_of(const Record& before, const Record& now) {
  const auto name = [](const Record& record) {
    return label(record.environment.machine, {.driver = true, .variables = true, .no_gpu = "a machine without a GPU"});
  };
  const std::string older = name(before), newer = name(now);
  return older == newer || before.environment.machine.gpu.empty() ? newer : fmt::format("{} -> {}", older, newer);
}

Json facts_of(const Record& from, const Record& to) {
  Json facts = {{"gpu", to.env("gpu")},
                {"driver", to.env("driver")},
                {"variables", escape_control(to.environment.machine.variables)},
                {"libraries", Json::object()}};
  for (const auto& [key, name] : kLibraries) {
    facts["libraries"][name] = {{"from", from.env(key)}, {"to", to.env(key)}};
  }
  return facts;
}

std::vector<Note> notes_of(const Results& from, const Results& to, const std::vector<Pair>& pairs,
                           const CompareContext& context) {
  std::vector<Note> notes;
  std::set<std::string> moved, blind;
  const Pair* last = nullptr;
  for (const Pair& pair : pairs) {
    if (pair.to.row == nullptr) continue;
    const Record &before = pair.from.run->record, &after = pair.to.run->record;
    const std::string& id = pair.to.row->case_id;
    // The tests of a case are adjacent, and most come from the same runs.
    const bool is_known = last != nullptr && last->from.run == pair.from.run && last->to.run == pair.to.run &&
                          last->to.row->case_id == id;
    last = &pair;
    if (is_known) continue;
    if (context.rules.stale(before, id) || context.rules.stale(after, id)) moved.insert(id);
    if (before.format() < 2 && after.format() < 2 && before.env("revision") != after.env("revision")) blind.insert(id);
  }
  if (!moved.empty()) notes.push_back({.kind = NoteKind::EditedCases, .count = moved.size()});
  if (!blind.empty()) notes.push_back({.kind = NoteKind::UnknownFixtures, .count = blind.size()});
  for (const Results* side : {&from, &to}) {
    for (const Note& note : side->notes()) {
      if (std::ranges::find(notes, note) == notes.end()) notes.push_back(note);
    }
  }
  for (const Results* side : {&from, &to}) {
    const Neighbour& neighbour = side->side().runs.front().neighbour;
    if (!neighbour.has_record_of_release()) {
      notes.push_back({.kind = NoteKind::NoRecordOfRelease, .side = side->name(), .text = neighbour.release});
    }
    if (!neighbour.has_record_of_machine()) {
      notes.push_back({.kind = NoteKind::NoRecordOfMachine, .side = side->name(), .text = nearest_machine(neighbour)});
    }
  }
  return notes;
}

}  // namespace

std::vector<UpstreamChange> upstream_of(const Pair& pair, const CompareContext& context) {
  const Record &from = pair.from.run->record, &to = pair.to.run->record;
  const Deviation* found = nullptr;
  bool is_told = true;
  for (const Deviation& change : context.changes) {
    for (const Expectation& e : change.expectations) {
      if (e.test != pair.compared.test) continue;
      const bool before = e.where.covers(from), now = e.where.covers(to);
      if (before == now || !is_cause(change, e, now)) continue;
      const bool came = came_between(change, from.env("release"), to.env("release"));
      // A range without an end may begin with another release than it states. A range with an end that neither begins
      // nor ends with the change's release has another reason.
      if (!came && e.where.release.find('<') != std::string::npos) continue;
      if (found != nullptr && !now) continue;
      found = &change;
      is_told = came;
    }
  }
  if (found != nullptr) {
    auto all = named_sources(found->number, context.sources);
    if (all.empty()) all.push_back({"", found->number, "", "", ""});
    for (UpstreamChange& named : all) {
      named.since = found->since;
      named.contradicted = !is_told;
    }
    all.front().what = found->what;
    return all;
  }
  std::vector<UpstreamChange> all;
  if (pair.compared.change->kind == ChangeKind::Origin) return all;  // None of the case's threads is about that.
  if (const CatalogueCase* described = context.find(case_of(pair.compared.test))) {
    for (const Json& source : described->sources) {
      if (text_at(source, "document") != "upstream") continue;
      for (UpstreamChange& cited : named_sources(text_at(source, "heading"), context.sources)) all.push_back(cited);
    }
  }
  return all;
}

bool ComparedTest::is_damaged() const {
  // Of a sign that is gone, the damage is another test's, and is no new one.
  const bool is_its_own = change->kind != ChangeKind::Sign && is_damage(change->to.state);
  return consequence == Consequence::NewDamage || (consequence == Consequence::BrokenHandlers && is_its_own);
}

size_t Comparison::judged() const { return tests.size() - unknown() - not_measured(); }
size_t Comparison::unknown() const {
  return static_cast<size_t>(std::count_if(tests.begin(), tests.end(), [](const ComparedTest& test) {
    return test.consequence == Consequence::Unknown && test.is_measured;
  }));
}
size_t Comparison::not_measured() const {
  return static_cast<size_t>(
      std::count_if(tests.begin(), tests.end(), [](const ComparedTest& test) { return !test.is_measured; }));
}

std::string_view to_string(Advice advice) { return kAdvice.at(static_cast<size_t>(advice)); }

void CompareContext::learn_from(const Record& record) {
  if (record.broken() != Break::Remedy || !is_version(record.env("release")) || was_sent(record.environment)) return;
  for (const TestRecord& test : record.tests) {
    const bool is_of_release = kind_of_id(test.id()) == Kind::Fix && rules.simulated.count(test.case_id()) == 0;
    if (!is_of_release || !test.has(key::remedy) || rules.is_stale_test(record, test.id())) continue;
    const Result result = classify(Kind::Fix, test);
    const bool failed = result == Result::Broken || result == Result::Crashed || result == Result::Hung;
    if (failed || result == Result::Holds) without_remedy[test.id()].push_back({record.env("release"), failed});
  }
}

const CatalogueCase* CompareContext::find(const std::string& case_id) const { return find_case(catalogue, case_id); }

CompareContext read_compare_context(const std::string& root) {
  CompareContext context{rules_of(root), read_deviations(root), read_sources(root), {}};
  if (std::filesystem::exists(catalogue_path(root))) context.catalogue = read_catalogue(root);
  return context;
}

Rules without_staleness(Rules rules) {
  rules.tree.clear();
  // Observations count regardless of the age of the records that expected them.
  for (Expectation& e : rules.expectations) e.records.clear();
  return rules;
}

JudgedRun judge_run(Record record, const Rules& rules) {
  JudgedRun run = judged(std::move(record), rules);
  std::erase_if(run.rows, [](const TestVerdict& row) { return row.is_simulated; });
  return run;
}

JudgedRun judge_without_staleness(Record record, const CompareContext& context) {
  return judge_run(std::move(record), without_staleness(context.rules));
}

std::vector<Alike> groups_of(const Comparison& comparison) {
  const auto numbers_of = [](const CaseChange& change) {
    std::vector<std::string_view> numbers;
    for (const UpstreamChange& upstream : change.upstream) numbers.emplace_back(upstream.number);
    return numbers;
  };
  const auto are_alike = [&](const CaseChange& a, const CaseChange& b) {
    // An error with a new type or text is one change, even if the probes afterwards differ.
    const bool have_same_notes = a.change.notes == b.change.notes || b.consequence == Consequence::ErrorChanged;
    return have_same_notes && a.consequence == b.consequence && is_same(a.change, b.change) &&
           numbers_of(a) == numbers_of(b);
  };
  std::vector<Alike> groups;
  for (const CaseChange& change : comparison.changes) {
    auto group = std::ranges::find_if(groups, [&](const Alike& alike) { return are_alike(*alike.front(), change); });
    if (group == groups.end()) group = groups.insert(groups.end(), Alike());
    group->push_back(&change);
  }
  return groups;
}

Comparison compare_sides(const Side& from, const Side& to, const CompareContext& context) {
  return compare_sides(Results(from), Results(to), context);
}

Comparison compare_sides(const Results& from, const Results& to, const CompareContext& context) {
  auto pairs = pairs_of(from, to, context);
  const Record &before = from.side().runs.front().record, &now = to.side().runs.front().record;
  Comparison comparison{from.name(),
                        to.name(),
                        machine_of(before, now),
                        facts_of(before, now),
                        notes_of(from, to, pairs, context),
                        {},
                        changes_of(pairs, to, context)};
  comparison.release = now.env("release");
  comparison.tests.reserve(pairs.size());
  for (Pair& pair : pairs) comparison.tests.push_back(std::move(pair.compared));
  return comparison;
}

void fill_in(Comparison& comparison, const Comparison& elsewhere) {
  std::unordered_map<std::string, size_t> places;
  for (size_t i = 0; i < comparison.tests.size(); ++i) places.emplace(comparison.tests[i].test, i);
  std::set<std::string_view> taken;
  std::vector<ComparedTest> more;  // In no run here.
  for (const ComparedTest& test : elsewhere.tests) {
    if (test.consequence == Consequence::Unknown) continue;
    const auto at = places.find(test.test);
    if (at != places.end() && !comparison.tests[at->second].is_replaceable) continue;
    ComparedTest copy = test;
    if (copy.has_change()) {
      Change change = *copy.change;
      change.notes.machine = elsewhere.machine;
      copy.change = std::move(change);
    }
    taken.insert(test.test);
    if (at == places.end()) {
      more.push_back(std::move(copy));
    } else {
      comparison.tests[at->second] = std::move(copy);
    }
  }
  if (taken.empty()) return;
  std::ranges::move(more, std::back_inserter(comparison.tests));
  for (CaseChange change : elsewhere.changes) {
    std::erase_if(change.tests, [&](const std::string& test) { return taken.count(test) == 0; });
    if (change.tests.empty()) continue;
    change.change.notes.machine = elsewhere.machine;
    comparison.changes.push_back(std::move(change));
  }
  std::ranges::stable_sort(comparison.changes, {}, &CaseChange::consequence);
  comparison.notes.push_back({.kind = NoteKind::FilledIn, .text = elsewhere.machine, .count = taken.size()});
}

Comparison filter_cases(const Comparison& comparison, const std::set<std::string>& cases) {
  Comparison some{comparison.from, comparison.to, comparison.machine, comparison.facts, comparison.notes, {}, {}};
  for (const ComparedTest& test : comparison.tests) {
    if (cases.count(case_of(test.test)) != 0) some.tests.push_back(test);
  }
  for (const CaseChange& change : comparison.changes) {
    if (cases.count(change.case_id) != 0) some.changes.push_back(change);
  }
  for (const PriceChange& change : comparison.prices) {
    const auto& fixes = change.now.fixes;
    const auto is_of_them = [&](const std::string& fix) { return cases.count(case_of(fix)) != 0; };
    if (std::any_of(fixes.begin(), fixes.end(), is_of_them)) some.prices.push_back(change);
  }
  return some;
}

bool too_little_measured(const Comparison& comparison, const Limits& limits) {
  return comparison.not_measured() * 100 > comparison.tests.size() * static_cast<size_t>(limits.not_measured);
}

bool too_much_unknown(const Comparison& comparison, const Limits& limits) {
  const size_t measured = comparison.tests.size() - comparison.not_measured();
  return comparison.judged() == 0 || too_little_measured(comparison, limits) ||
         comparison.unknown() * 100 > measured * static_cast<size_t>(limits.unknown);
}

Exit exit_for(const Comparison& comparison) {
  const auto& all = comparison.changes;
  if (std::any_of(all.begin(), all.end(), [](const CaseChange& change) { return is_regression(change.consequence); })) {
    return Exit::Changed;
  }
  if (too_much_unknown(comparison)) return Exit::Inconclusive;
  if (!comparison.prices.empty()) return Exit::PriceChanged;
  return all.empty() ? Exit::AsExpected : Exit::Harmless;
}

}  // namespace recapture::compare
