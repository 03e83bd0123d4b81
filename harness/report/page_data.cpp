#include "harness/report/page_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <unordered_map>

#include "harness/base/escape.h"
#include "harness/base/lines.h"
#include "harness/base/parallel.h"
#include "harness/case/events.h"
#include "harness/case/tags.h"
#include "harness/compare/gates.h"
#include "harness/compare/machine_pairs.h"
#include "harness/compare/pairs.h"
#include "harness/compare/prices.h"
#include "harness/compare/sides.h"
#include "harness/model/operator_cases.h"
#include "harness/model/release.h"
#include "harness/model/scope.h"
#include "harness/report/case_view.h"
#include "harness/report/change.h"
#include "harness/report/comparison.h"
#include "harness/report/latest.h"
#include "harness/report/note.h"
#include "harness/report/operators.h"
#include "harness/report/verdicts.h"
#include "harness/store/coverage.h"
#include "harness/store/machine_runs.h"
#include "harness/store/rate_pools.h"
#include "harness/store/result_matrix.h"
#include "harness/store/result_store.h"
#include "harness/store/select.h"
#include "harness/timeline/failures.h"
#include "harness/verdict/price.h"
#include "harness/verdict/rate.h"
#include "harness/words/measurement.h"
#include "harness/words/observation.h"

namespace recapture::report {
namespace {

constexpr size_t kResults = static_cast<size_t>(Result::Invalid) + 1;

// How a headline names one and several changes of a consequence. Same and unknown are not counted.
constexpr std::array<std::pair<const char*, const char*>, compare::kConsequenceCount> kCounted = {
    {{"new damage", "kinds of new damage"},
     {"new error", "new errors"},
     {"broken handler", "broken handlers"},
     {"fix or control stopped holding", "fixes or controls stopped holding"},
     {"operator no longer captured", "operators no longer captured"},
     {"error text changed", "error texts changed"},
     {"silent failure raises now", "silent failures raise now"},
     {"failure does less damage", "failures do less damage"},
     {"failure healed", "failures healed"},
     {"fix or control holds again", "fixes or controls hold again"},
     {"new fix", "new fixes"},
     {"operator now captured", "operators now captured"},
     {"", ""},
     {"", ""}}};

// Values, each once, by their number. Number 0 is what is empty.
template <class Numbered>
class Once {
 public:
  using Value = typename Numbered::key_type;
  Once() { add({}); }
  int add(const Value& value) {
    const auto [at, is_new] = known_.try_emplace(value, all_.size());
    if (is_new) all_.push_back(value);
    return at->second;
  }
  Json take() { return std::move(all_); }

 private:
  Numbered known_;
  Json all_ = Json::array();
};
using Texts = Once<std::unordered_map<std::string, int>>;
using Numbers = std::vector<int>;
using Lists = Once<std::map<Numbers, int>>;

// Text from outside: keeps its lines, escapes all other control characters.
std::string shown(const std::string& text) {
  std::string lines;
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    lines += escape_control(text.substr(at, end - at)) + (end < text.size() ? "\n" : "");
    at = end + 1;
  }
  return lines.substr(0, lines.find_last_not_of('\n') + 1);
}

class Page {
 public:
  Page(std::vector<Record> records, const PageInput& input) : records_(std::move(records)), input_(input) {
    for (const CitedSource& source : input_.background.sources) {
      sources_.emplace(source.id, source_list_.size());
      source_list_.push_back({text(source.id), text(source.title), text(source.url)});
    }
    for (const CatalogueCase& one : input_.background.catalogue) add(one);
  }

  PageData data() {
    Json made = {{"newest", newest()},
                 {"records", records_.size()},
                 {"broken", input_.broken},
                 {"unreadable", input_.unreadable}};
    sort_by_time(records_);
    const Catalogue& catalogue = input_.background.catalogue;
    std::set<std::string> in_any_scope = cases_in_scope({}, catalogue);
    for (const Record& record : records_) {
      for (const auto& [id, info] : record.cases) {
        add(info);
        in_any_scope.insert(id);
      }
    }
    scopes_.push_back(compare::scope_of({}, std::move(in_any_scope), catalogue));
    for (const Tag& tag : kTags) {
      const std::vector<std::string> words = {std::string(tag.name)};
      scopes_.push_back(compare::scope_of(words, cases_in_scope(words, catalogue), catalogue));
    }
    const auto rates = all_rates();
    // Records are large and many, so they are moved from the comparisons to the board.
    auto machines = compare::sides_by_machine(std::move(records_), input_.background);
    number_the_runs(machines);
    const auto changed = changed_since_the_run_before(machines);
    gates_ = std::make_unique<compare::Gates>(machines, input_.background);
    Json compared = Json::array();
    for (const compare::MachineSides& machine : machines) {
      all_pairs_ += machine.releases.size() * machine.releases.size();
    }
    const std::vector<compare::ChosenPair> chosen = compare::choose_pairs(machines, input_.background.rules);
    for (const compare::ChosenPair& one : chosen) {
      const auto open = std::make_shared<OpenPair>(OpenPair{one, one.fill_in.size() + 1});
      open_.emplace(one.used, open);
      for (const compare::MachinePair& other : one.fill_in) open_.emplace(other, open);
    }
    for (size_t i = 0; i < machines.size(); ++i) compared.push_back(all_pairs(machines, i));
    for (const compare::ChosenPair& one : chosen) pair_in(compared, one.used)["taken"] = true;
    show_kept_pairs(chosen, compared);
    const Json first = first_pair(machines, chosen);
    gates_.reset();
    std::vector<Record> records(runs_.size());
    for (compare::MachineSides& machine : machines) {
      for (auto* sides : {&machine.releases, &machine.other_runtimes}) {
        for (compare::Side& side : *sides) {
          for (JudgedRun& run : side.runs) records[runs_.at(run.record.path)] = std::move(run.record);
        }
      }
    }
    ResultMatrix board(std::move(records), input_.rules);
    const auto all = latest(board);
    Json runs = Json::array();
    for (const JudgedRun& judged : board.records()) {
      runs.push_back(run(judged, board, all));
      if (const auto found = changed.find(judged.record.path); found != changed.end()) {
        runs.back()["changed"] = found->second;
      }
    }
    Json columns =
        Json::array();  // No run broken on purpose is among them, so latest() has a run's column by its number.
    for (const OnMachine& on : all) columns.push_back(column(on));
    Json json = {
        {"made", made},
        {"first", first},
        {"verdicts", words<Verdict>(kVerdictCount)},
        {"results", words<Result>(kResults)},
        {"outcomes", words<timeline::FailureOutcome>(static_cast<size_t>(timeline::FailureOutcome::NotRun) + 1)},
        {"consequences", consequences()},
        {"same", compare::Consequence::Same},
        {"unknown", compare::Consequence::Unknown},
        {"tags", tags()},
        {"any_program", number_of(kAnyProgram)},
        {"releases", releases(machines)},
        {"advice", words<compare::Advice>(static_cast<size_t>(compare::Advice::Try) + 1)},
        {"tones", Json::array()},
        {"letters", Json::array()},
        {"meanings", Json::array()}};
    for (size_t i = 0; i < kVerdictCount; ++i) {
      json["tones"].push_back(severity_of(static_cast<Verdict>(i)));
      json["letters"].push_back(letter_of(static_cast<Verdict>(i)));
      json["meanings"].push_back(meaning_of(static_cast<Verdict>(i)));
    }
    json["sources"] = std::move(source_list_);
    json["cases"] = std::move(case_list_);
    json["tests"] = std::move(test_list_);
    json["columns"] = std::move(columns);
    json["runs"] = std::move(runs);
    json["compared"] = std::move(compared);
    json["rates"] = rates;
    json["operators"] = operators();
    json["observations"] = observations_.take();
    json["changes"] = changes_.take();
    json["gates"] = gate_list_.take();
    json["sentence"] = kChangeSentence;
    json["upstream"] = upstream_.take();
    json["reasons"] = reasons_.take();
    json["lists"] = lists_.take();
    json["texts"] = texts_.take();
    return {std::move(json), std::move(board)};
  }

 private:
  int text(const std::string& words) { return texts_.add(words); }
  int from_outside(const std::string& words) {
    const auto [at, is_new] = shown_.try_emplace(words);
    if (is_new) at->second = text(shown(words));
    return at->second;
  }

  template <class Enum>
  static Json words(size_t count) {
    Json all = Json::array();
    for (size_t i = 0; i < count; ++i) all.push_back(to_string(static_cast<Enum>(i)));
    return all;
  }

  // For each, worst first: [word, meaning, whether it is a regression, tone, whether only operators have it, its
  // singular and plural in a headline].
  static Json consequences() {
    Json all = Json::array();
    for (size_t i = 0; i < compare::kConsequenceCount; ++i) {
      const auto consequence = static_cast<compare::Consequence>(i);
      const bool of_operators =
          consequence == compare::Consequence::NotCapturable || consequence == compare::Consequence::Capturable;
      const auto& [one, several] = kCounted.at(i);
      all.push_back({to_string(consequence), meaning(consequence), compare::is_regression(consequence),
                     color_of(consequence), of_operators, one, several});
    }
    return all;
  }

  static const char* color_of(compare::Consequence consequence) {
    if (compare::is_regression(consequence)) return "red";
    switch (consequence) {
      case compare::Consequence::ErrorChanged:
        return "amber";
      case compare::Consequence::DamageRaises:
        return "blue";
      case compare::Consequence::Same:
      case compare::Consequence::Unknown:
        return "grey";
      default:
        return "green";
    }
  }

  // For each: [name, meaning, the words for it in the form of folded_tag()].
  static Json tags() {
    Json all = Json::array();
    for (const Tag& tag : kTags) {
      Json words = {folded_tag(tag.name)};
      for (const std::string_view alias : tag.aliases) {
        if (!alias.empty()) words.push_back(folded_tag(alias));
      }
      all.push_back({tag.name, tag.meaning, words});
    }
    return all;
  }

  static int number_of(std::string_view tag) { return static_cast<int>(tag_of(tag) - kTags.data()); }

  // Of all machines, oldest first; short names are resolved among them.
  Json releases(const std::vector<compare::MachineSides>& machines) {
    std::set<Release> releases;
    for (const compare::MachineSides& machine : machines) {
      for (const compare::Side& side : machine.releases) releases.emplace(side.name);
    }
    Json all = Json::array();
    for (const Release& release : releases) all.push_back(from_outside(release.name()));
    return all;
  }

  // "pytorch#1, pytorch#2": of those that are in cases/sources.toml.
  int cited(const std::string& ids) {
    Numbers list;
    for (size_t at = 0; at < ids.size();) {
      const size_t end = std::min(ids.find(", ", at), ids.size());
      if (const auto found = sources_.find(ids.substr(at, end - at)); found != sources_.end()) {
        list.push_back(found->second);
      }
      at = end + 2;
    }
    return lists_.add(list);
  }

  std::string newest() const {
    std::string newest;
    for (const Record& record : records_) newest = std::max(newest, record.environment.started);
    return newest;
  }

  int test(const std::string& id) {
    const auto [at, is_new] = tests_.try_emplace(id, test_list_.size());
    if (is_new) {  // A case without such data.
      const auto [its, is_new_case] = cases_.emplace(case_of(id), case_list_.size());
      if (is_new_case) {
        case_list_.push_back({{"id", from_outside(case_of(id))}});
        if (lists_operators(case_of(id))) case_list_.back()["family"] = text(std::string(kOperatorsCase));
      }
      test_list_.push_back({its->second, from_outside(name_of(id)), text(""), text("")});
    }
    return at->second;
  }
  template <class Ids>
  int tests(const Ids& ids) {
    Numbers list;
    for (const std::string& id : ids) list.push_back(test(id));
    return lists_.add(list);
  }

  // Operators have a table of their own, reports/operators.md; here they appear only if two releases differ.
  void add(const CatalogueCase& one) {
    if (lists_operators(one.id)) return;
    Json cites = Json::array();
    for (const Json& source : one.sources) {
      const std::string document = source.at("document"), heading = source.at("heading");
      const bool is_upstream = document == "upstream";
      cites.push_back({text(is_upstream ? "" : heading), cited(is_upstream ? heading : document)});
    }
    Numbers tags;
    for (const std::string& tag : one.tags) {
      if (tag_of(tag) != nullptr) tags.push_back(number_of(tag));
    }
    const size_t number = case_list_.size();
    cases_.emplace(one.id, number);
    case_list_.push_back({{"id", text(one.id)},
                          {"family", text(one.family)},
                          {"title", text(one.title)},
                          {"why", text(one.why)},
                          {"documented", text(one.documented)},
                          {"nature", text(std::string(to_string(one.nature)))},
                          {"fidelity", text(std::string(to_string(one.fidelity)))},
                          {"needs", text(one.needs.words())},
                          {"file", text(fmt::format("cases/{}/{}.cpp", one.family, one.id))},
                          {"cites", cites},
                          {"tags", lists_.add(tags)}});
    for (const CatalogueTest& test : one.tests) {
      tests_.emplace(one.id + "." + test.name, test_list_.size());
      test_list_.push_back(
          {number, text(test.name), text(test.effect ? std::string(to_string(*test.effect)) : ""), text(test.fix)});
    }
  }

  // A case that the catalogue lacks, as its record describes it.
  void add(const CaseInfo& info) {
    if (cases_.count(info.id) != 0 || lists_operators(info.id)) return;
    const size_t number = case_list_.size();
    cases_.emplace(info.id, number);
    case_list_.push_back({{"id", from_outside(info.id)},
                          {"family", from_outside(info.family)},
                          {"title", from_outside(info.title)},
                          {"documented", from_outside(info.documented)},
                          {"nature", text(std::string(to_string(info.nature)))},
                          {"fidelity", text(std::string(to_string(info.fidelity)))},
                          {"needs", text(info.needs.words())}});
    const std::map<std::string_view, std::string_view> fixes(info.fixes.begin(), info.fixes.end());
    for (const std::string& name : info.tests) {
      tests_.emplace(info.id + "." + name, test_list_.size());
      const auto effect = info.effect_of(name);
      const auto fix = fixes.find(name);
      test_list_.push_back({number, from_outside(name), text(effect ? std::string(to_string(*effect)) : ""),
                            from_outside(fix == fixes.end() ? "" : std::string(fix->second))});
    }
  }

  // [result, verdict, seen, effect, reason, call, stack, message, exception, after, documented, healthy, raised by],
  // without the zeros at its end; result is -1 of what did not run.
  int observation(const TestVerdict& row, const TestRecord* test) {
    const auto [at, is_new] = observed_.try_emplace(&row);
    if (is_new) at->second = add(row, test);
    return at->second;
  }

  int add(const TestVerdict& row, const TestRecord* test) {
    Numbers one = {row.ran ? static_cast<int>(row.result) : -1, static_cast<int>(row.verdict),
                   from_outside(render_observed(row)),
                   from_outside(row.effect ? std::string(to_string(*row.effect)) : ""), 0};
    if (!row.reason.empty()) {
      one.back() = reasons_.add({text(row.reason), text(row.source), cited(row.source)});
    }
    if (test != nullptr) {
      const Details known = details_of(*test);
      Numbers stack;
      for (const std::string& frame : known.stack) stack.push_back(from_outside(frame));
      one.push_back(from_outside(known.call));
      one.push_back(lists_.add(stack));
      for (const std::string& words : {known.message, known.exception, known.after, test->text(key::documented),
                                       test->text(key::healthy), test->text(key::raised_by)}) {
        one.push_back(from_outside(words));
      }
    }
    while (one.size() > 2 && one.back() == 0) one.pop_back();
    return observations_.add(one);
  }

  int all_from_outside(const std::vector<std::string>& words) {
    Numbers list;
    for (const std::string& each : words) list.push_back(from_outside(each));
    return lists_.add(list);
  }

  // A table of its own, without operators that have no record.
  Json operators() {
    Json rows = Json::array(), words = Json::array();
    for (const timeline::OperatorRow& row : input_.operators.rows) {
      if (row.releases.empty()) continue;
      const OperatorView view = view_of(input_.operators, row);
      rows.push_back({from_outside(row.what.call), from_outside(row.what.name), all_from_outside(view.words),
                      all_from_outside(view.phrases), view.is_captured ? 1 : 0, from_outside(view.why),
                      from_outside(view.instead), all_from_outside(lines_in(render_text(row)))});
    }
    for (const OperatorWord& word : operator_words()) words.push_back({word.text, word.color});
    Json releases = Json::array();
    for (const std::string& release : input_.operators.releases) releases.push_back(from_outside(release));
    return {{"releases", releases}, {"words", words}, {"rows", rows}};
  }

  Json all_rates() {
    Json all = Json::array();
    for (const RatePool& pool : rate_pools(records_, input_.rules)) {
      all.push_back({test(pool.test), from_outside(pool.machine), from_outside(describe(pool.runs))});
    }
    return all;
  }

  // Numbers them by start time.
  void number_the_runs(const std::vector<compare::MachineSides>& machines) {
    std::vector<const JudgedRun*> runs;
    for (const compare::MachineSides& machine : machines) {
      for (const auto* sides : {&machine.releases, &machine.other_runtimes}) {
        for (const compare::Side& side : *sides) {
          for (const JudgedRun& run : side.runs) runs.push_back(&run);
        }
      }
    }
    std::ranges::sort(runs, [](const JudgedRun* run, const JudgedRun* other) { return is_newer(*other, *run); });
    for (const JudgedRun* run : runs) runs_.emplace(run->record.path, runs_.size());
  }

  // {"head", "exit", "prices": changed ones, if any, "counts": of tests, "tests", "groups": [[[change, run before, run
  // after]…]…], "unknown": [[why, tests, whether they are measured, unlisted operators]…], "operators": unlisted ones
  // that are the same}. Operators are listed only where they changed: they have a table of their own.
  Json pair(const compare::Comparison& comparison) {
    Json head = Json::array(), groups = Json::array(), unknown = Json::array();
    for (const std::string& line : render_head(comparison)) head.push_back(text(line));
    std::array<size_t, compare::kConsequenceCount> counts{};
    using Ids = std::vector<std::reference_wrapper<const std::string>>;
    Ids all;
    struct Reason {
      Ids ids;
      size_t operators = 0;
      size_t size() const { return ids.size() + operators; }
    };
    std::map<std::pair<compare::Unknown, bool>, Reason> reasons;
    size_t same_operators = 0;
    std::unordered_map<std::string_view, const compare::ComparedTest*> by_test;
    for (const compare::ComparedTest& one : comparison.tests) {
      const bool changed = one.has_change();
      if (lists_operators(case_of(one.test)) && !changed) {
        const bool is_unknown = one.consequence == compare::Consequence::Unknown;
        ++(is_unknown ? reasons[{*one.unknown, one.is_measured}].operators : same_operators);
        continue;
      }
      ++counts.at(static_cast<size_t>(one.consequence));
      all.emplace_back(one.test);
      if (changed) by_test.emplace(one.test, &one);
      if (one.consequence == compare::Consequence::Unknown)
        reasons[{*one.unknown, one.is_measured}].ids.emplace_back(one.test);
    }
    for (const compare::Alike& alike : groups_of(comparison)) {
      Json group = Json::array();
      for (const compare::CaseChange* change : alike) {
        const compare::ComparedTest& one = *by_test.at(change->tests.front());
        group.push_back({this->change(*change), runs_.at(one.before->record.path), runs_.at(one.after->record.path)});
      }
      groups.push_back(std::move(group));
    }
    std::vector<std::pair<std::pair<compare::Unknown, bool>, Reason>> sorted(reasons.begin(), reasons.end());
    std::stable_sort(sorted.begin(), sorted.end(),
                     [](const auto& a, const auto& b) { return a.second.size() > b.second.size(); });
    for (const auto& [reason, its] : sorted) {
      unknown.push_back({text(render_unknown(reason.first, comparison.from, comparison.to)), tests(its.ids),
                         reason.second, its.operators});
    }
    Json json = {{"head", std::move(head)}, {"exit", exit_for(comparison)}, {"counts", counts},
                 {"tests", tests(all)},     {"groups", std::move(groups)},  {"unknown", std::move(unknown)}};
    if (same_operators > 0) json["operators"] = same_operators;
    for (const compare::PriceChange& change : comparison.prices) json["prices"].push_back(price(change));
    return json;
  }

  // [tests of the fixes, the work, whether it is dearer now, before, now]
  Json price(const compare::PriceChange& change) {
    return {tests(change.now.fixes), from_outside(change.now.what),
            price_of(change.now).cost > price_of(change.before).cost ? 1 : 0, from_outside(describe(change.before)),
            from_outside(describe(change.now))};
  }

  int change(const compare::CaseChange& change) {
    Numbers fixes, advices, upstream;
    for (const auto& [advice, fix] : change.fixes) {
      fixes.push_back(text(fix));
      advices.push_back(static_cast<int>(advice));
    }
    for (const compare::UpstreamChange& one : change.upstream) {
      upstream.push_back(
          upstream_.add({text(one.what), text(one.number), text(since_words(one)), text(one.title), text(one.url)}));
    }
    const ChangeWords words = words_of(change.change);
    test(change.tests.front());  // Which adds its case.
    return changes_.add({static_cast<int>(change.consequence), cases_.at(change.case_id), tests(change.tests),
                         text(words.was), text(words.is), text(words.note), lists_.add(fixes), lists_.add(advices),
                         lists_.add(upstream)});
  }

  // What a gate answers without a scope, and with each feature as scope, in their order.
  struct GateWords {
    Exit exit;
    compare::TestCounts shown;
    std::string why;
  };
  using Decisions = std::vector<GateWords>;
  Decisions decisions_on(const compare::MachinePair& place, const compare::Comparison& comparison,
                         compare::Gates::Choice choice) const {
    const compare::Gates::Pair pair = gates_->gate_of(place, comparison, choice);
    Decisions all;
    std::string gaps;  // Those of every scope.
    for (const compare::Scope& scope : scopes_) {
      const compare::Decision decision = pair.gate->decide(scope);
      if (all.empty()) gaps = render_gaps(decision, comparison.from, comparison.to);
      all.push_back({decision.exit(), decision.shown, why_of(decision, gaps)});
    }
    return all;
  }
  int numbered(const Decisions& decisions) {
    Numbers all;
    for (const auto& [exit, shown, words] : decisions) {
      Numbers why;  // In its parts: many answers share them.
      for (size_t at = 0; at < words.size();) {
        const size_t end = std::min(words.find("; ", at), words.size());
        why.push_back(text(words.substr(at, end - at)));
        at = end + 2;
      }
      all.push_back(
          gate_list_.add({static_cast<int>(exit), static_cast<int>(shown.judged), static_cast<int>(shown.unknown),
                          static_cast<int>(shown.not_measured), lists_.add(why)}));
    }
    return lists_.add(all);
  }

  // As machineOption() of page.js names a machine.
  static compare::Gates::Choice choice_of(const std::vector<compare::MachineSides>& machines, size_t number) {
    const std::string& gpu = machines[number].environment.machine.gpu;
    bool is_only = true, has_driver = false;
    for (size_t i = 0; i < machines.size(); ++i) {
      if (i == number || machines[i].releases.size() < 2) continue;
      is_only = false;
      has_driver = has_driver || (!gpu.empty() && machines[i].name.starts_with(gpu));
    }
    return is_only      ? compare::Gates::Choice::None
           : has_driver ? compare::Gates::Choice::GpuAndDriver
                        : compare::Gates::Choice::Gpu;
  }

  struct ComparedSide {
    explicit ComparedSide(const compare::Side& side) : results(side) {
      try {
        prices = compare::read_side_prices(side);
      } catch (const ExitError& stop) {  // An invalid file of prices must not hide the rest of the page.
        error = escape_control(stop.what());
      }
    }
    compare::Results results;
    std::optional<Prices> prices;
    std::string error;
  };

  compare::Comparison compared(const ComparedSide& from, const ComparedSide& to) const {
    compare::Comparison comparison = compare::compare_sides(from.results, to.results, input_.background);
    if (from.error.empty() && to.error.empty()) {
      compare::compare_prices(from.prices, to.prices, comparison);
    } else {
      const std::string& error = from.error.empty() ? to.error : from.error;
      comparison.notes.push_back({.kind = compare::NoteKind::UnreadablePrices, .text = error});
    }
    return comparison;
  }

  // {"name", "releases", "pairs": [[pair of the first and the first: null, …]…]}
  Json all_pairs(const std::vector<compare::MachineSides>& machines, size_t number) {
    const compare::MachineSides& machine = machines[number];
    const std::vector<compare::Side>& sides = machine.releases;
    const compare::Gates::Choice choice = choice_of(machines, number);
    Json releases = Json::array(), pairs = Json::array();
    for (const compare::Side& side : sides) releases.push_back(from_outside(side.name));
    std::vector<ComparedSide> results;
    results.reserve(sides.size());
    for (const compare::Side& side : sides) results.emplace_back(side);
    for (size_t from = 0; from < sides.size(); ++from) {
      input_.progress(done_pairs_, all_pairs_);
      done_pairs_ += sides.size();
      // Only comparisons run in parallel: they change nothing, and stored values are numbered in order.
      std::vector<compare::Comparison> comparisons(sides.size());
      std::vector<Decisions> decisions(sides.size());
      in_parallel(sides.size(), [&](size_t to) {
        if (from == to) return;
        comparisons[to] = compared(results[from], results[to]);
        decisions[to] = decisions_on({number, from, to}, comparisons[to], choice);
      });
      pairs.push_back(Json::array());
      for (size_t to = 0; to < sides.size(); ++to) {
        if (from == to) {
          pairs.back().push_back(nullptr);
          continue;
        }
        compare::Comparison& comparison = comparisons[to];
        pairs.back().push_back(pair(comparison));
        pairs.back().back()["gate"] = numbered(decisions[to]);
        const Release before(sides[from].name), now(sides[to].name);
        if (from < to && before.is_version() && now.is_version()) {
          consider({before, now, comparison.judged() * 2 >= comparison.tests.size(), comparison.judged()});
        }
        keep({number, from, to}, std::move(comparison));
      }
    }
    return {{"name", from_outside(machine.name)}, {"releases", std::move(releases)}, {"pairs", std::move(pairs)}};
  }

  struct OpenPair {
    compare::ChosenPair pair;
    size_t missing = 0;  // Comparisons.
  };
  // Keeps a comparison that a pair in open_ needs. Once the last one is there, tests without a result on the pair's
  // machine get that of another GPU with the same driver and variables, as in `compare` without a chosen machine.
  void keep(const compare::MachinePair& place, compare::Comparison comparison) {
    const auto found = open_.find(place);
    if (found == open_.end()) return;
    kept_.emplace(place, std::move(comparison));
    OpenPair& open = *found->second;
    if (--open.missing > 0) return;
    for (const compare::MachinePair& other : open.pair.fill_in) {
      fill_in(kept_.at(open.pair.used), kept_.at(other));
      kept_.erase(other);
    }
  }

  // In place of the pairs on their machines alone.
  void show_kept_pairs(const std::vector<compare::ChosenPair>& pairs, Json& compared_pairs) {
    std::vector<Decisions> decisions(pairs.size());
    in_parallel(pairs.size(), [&](size_t i) {
      const compare::MachinePair& used = pairs[i].used;
      decisions[i] = decisions_on(used, kept_.at(used), compare::Gates::Choice::None);
    });
    for (size_t i = 0; i < pairs.size(); ++i) {
      Json& known = pair_in(compared_pairs, pairs[i].used);
      known = pair(kept_.at(pairs[i].used));
      known["taken"] = true;
      known["gate"] = numbered(decisions[i]);
    }
    kept_.clear();
  }
  static Json& pair_in(Json& compared_pairs, const compare::MachinePair& place) {
    return compared_pairs[place.machine]["pairs"][place.from][place.to];
  }

  // The initial pair: the newest upgrade with results for at least half of its tests.
  struct Upgrade {
    Release from, to;
    bool enough = false;
    size_t judged = 0;
  };
  void consider(const Upgrade& one) {
    const auto better = [&](const Upgrade& known) {
      if (one.enough != known.enough) return one.enough;
      if (!one.enough && one.judged != known.judged) return one.judged > known.judged;
      if (one.to != known.to) return known.to < one.to;
      if (one.from != known.from) return known.from < one.from;
      return one.judged > known.judged;
    };
    if (!first_ || better(*first_)) first_ = one;
  }
  // Where it is compared: the machine, and the two releases among its own; null if there is no such upgrade.
  Json first_pair(const std::vector<compare::MachineSides>& machines,
                  const std::vector<compare::ChosenPair>& chosen) const {
    for (const compare::ChosenPair& one : chosen) {
      const std::vector<compare::Side>& releases = machines[one.used.machine].releases;
      if (!first_ || !(first_->from == releases[one.used.from].name) || !(first_->to == releases[one.used.to].name)) {
        continue;
      }
      return {one.used.machine, one.used.from, one.used.to};
    }
    return nullptr;
  }

  // For each run, by path: what differs from earlier runs on the same kind of machine. A first run has no entry.
  std::map<std::string, Json> changed_since_the_run_before(std::vector<compare::MachineSides>& machines) {
    std::map<const JudgedRun*, JudgedRun*> own;
    for (compare::MachineSides& machine : machines) {
      for (auto* sides : {&machine.releases, &machine.other_runtimes}) {
        for (compare::Side& side : *sides) {
          for (JudgedRun& run : side.runs) {
            // Results of a machine without a GPU belong to that machine; those that others use are copies.
            if (run.record.env("gpu") == machine.environment.machine.gpu) own.emplace(&run, &run);
          }
        }
      }
    }
    std::vector<const JudgedRun*> runs;
    for (const auto& [run, same] : own) runs.push_back(run);
    const ResultStore store(runs);
    std::map<std::string, Json> changed;
    for (const JudgedRun* run : store.runs()) {
      std::vector<JudgedRun*> before;
      for (const JudgedRun* earlier : store.before(*run)) before.push_back(own.at(earlier));
      if (!before.empty()) changed.emplace(run->record.path, changed_between(*own.at(run), before));
    }
    return changed;
  }

  // Records are large, so the comparison borrows them.
  Json changed_between(JudgedRun& run, const std::vector<JudgedRun*>& before) {
    const auto time = [&](const JudgedRun& one) {  // As timeOf() of page.js.
      constexpr size_t kDay = 10, kMinutes = 16;
      std::string text = escape_control(one.record.environment.started).substr(0, kMinutes);
      if (text.size() > kDay) text[kDay] = ' ';
      return text.empty() ? "no date" : text;
    };
    std::set<std::string> planned;
    for (const TestVerdict& row : run.rows) planned.insert(row.test);
    compare::Side from{time(*before.front()), {}}, to{time(run), {}};
    to.runs.push_back(std::move(run));
    for (JudgedRun* earlier : before) from.runs.push_back(std::move(*earlier));
    compare::Comparison comparison = compare::compare_sides(from, to, input_.background);
    std::erase_if(comparison.tests, [&](const compare::ComparedTest& one) { return planned.count(one.test) == 0; });
    Json json = pair(comparison);
    json["before"] = runs_.at(from.runs.front().record.path);
    run = std::move(to.runs.front());
    for (size_t i = 0; i < before.size(); ++i) *before[i] = std::move(from.runs[i]);
    return json;
  }

  Json run(const JudgedRun& judged, const ResultMatrix& board, const std::vector<OnMachine>& all) {
    const Record& record = judged.record;
    std::vector<std::string> plan;
    Json seen = Json::array();
    for (const TestVerdict& row : judged.rows) {
      if (row.kind == Kind::Operator) continue;
      plan.push_back(row.test);
      seen.push_back(observation(row, record.find(row.test)));
    }
    const auto at = std::find_if(all.begin(), all.end(), [&](const OnMachine& on) {
      return on.broken == Break::Nothing && on.machine == board.machine_of(record);
    });
    Json notes = Json::array();
    for (const std::string& note : record.notes) notes.push_back(from_outside(note));
    if (!record.end.empty() && record.end != "complete") {
      notes.push_back(text("the run ended early: " + escape_control(record.end)));
    }
    return {{"column", at - all.begin()},
            {"started", from_outside(record.environment.started)},
            {"path", from_outside(std::filesystem::path(record.path).lexically_relative(input_.folder))},
            {"facts", facts(record)},
            {"notes", notes},
            {"tests", tests(plan)},
            {"seen", std::move(seen)}};
  }

  // What the record says of its machine, as a list of label, value, label, value.
  int facts(const Record& record) {
    constexpr std::array<std::pair<const char*, const char*>, 12> kFacts = {
        {{"CUDA runtime", "cuda_runtime"},
         {"CUDA of the driver", "cuda_driver"},
         {"cuDNN", "cudnn"},
         {"NCCL", "nccl"},
         {"NVRTC", "nvrtc"},
         {"Python", "python"},
         {"LibTorch's revision", "libtorch_git"},
         {"compute capability", "compute_capability"},
         {"system", "system"},
         {"image", "image"},
         {"host", "host"},
         {"revision of the cases", "revision"}}};
    Numbers list;
    for (const auto& [label, key] : kFacts) {
      const std::string value = record.env(key);
      if (value.empty()) continue;
      list.push_back(text(label));
      list.push_back(from_outside(value));
    }
    return lists_.add(list);
  }

  // The newest result of each test there, and the worst verdict of each case; -1 if it was not run. "failing" lists
  // [the case, the worst outcome of its failures]; "partly", for cases that are only partly unavailable, [the case, its
  // unavailable tests, its tests].
  Json column(const OnMachine& on) {
    const Record& record = on.newest->record;
    Numbers tests;
    Json seen = Json::array(), runs = Json::array();
    std::vector<std::vector<Verdict>> verdicts(case_list_.size());
    std::map<size_t, timeline::FailureOutcome> failing;
    std::set<size_t> ran;
    for (const Latest& latest : on.rows) {
      tests.push_back(test(latest.row->test));
      seen.push_back(observation(*latest.row, latest.test()));
      runs.push_back(runs_.at(latest.judged->record.path));
      const size_t its_case = cases_.at(latest.row->case_id);
      verdicts[its_case].push_back(latest.row->verdict);
      if (latest.row->ran) ran.insert(its_case);
      if (latest.row->kind != Kind::Reproduces) continue;
      const auto outcome = timeline::outcome_of(*latest.row, latest.judged->record);
      if (is_known(outcome) && outcome != timeline::FailureOutcome::Works) {
        const auto [at, is_new] = failing.emplace(its_case, outcome);
        if (!is_new) at->second = std::max(at->second, outcome);
      }
    }
    Json cells = Json::array(), partly = Json::array();
    for (size_t i = 0; i < verdicts.size(); ++i) {
      if (ran.count(i) == 0) {
        cells.push_back(-1);
        continue;
      }
      const std::vector<Verdict>& its = verdicts[i];
      const Verdict cell = worst_of(its);
      const auto lacking = static_cast<size_t>(std::count(its.begin(), its.end(), Verdict::Unavailable));
      cells.push_back(static_cast<int>(cell));
      if (cell == Verdict::Unavailable && lacking < its.size()) partly.push_back({i, lacking, its.size()});
    }
    const std::string gpu = record.env("gpu");
    const MachineId machine = record.environment.machine;
    return {{"name", from_outside(on.machine)},
            {"release", from_outside(record.env("release"))},
            {"gpu", from_outside(gpu.empty() ? "no GPU" : gpu)},
            {"machine", from_outside(label(machine, {.driver = true, .variables = true}))},
            {"chosen", from_outside(label_of_overrides(machine))},
            {"runtime", from_outside(record.env("cuda_runtime"))},
            {"packed", machine.packed},
            {"tests", lists_.add(tests)},
            {"seen", seen},
            {"runs", runs},
            {"cells", cells},
            {"failing", failing},
            {"partly", partly}};
  }

  std::vector<Record> records_;
  const PageInput& input_;
  size_t done_pairs_ = 0, all_pairs_ = 0;
  Texts texts_;
  std::unordered_map<std::string, int> shown_;  // Texts from outside.
  std::unordered_map<const TestVerdict*, int> observed_;
  Lists lists_, observations_, reasons_, upstream_, changes_, gate_list_;
  std::unordered_map<std::string, int> sources_, cases_, tests_, runs_;  // By id; runs by path.
  std::optional<Upgrade> first_;
  std::unique_ptr<const compare::Gates> gates_;
  std::vector<compare::Scope> scopes_;  // Any, and each feature.
  std::map<compare::MachinePair, std::shared_ptr<OpenPair>> open_;
  std::map<compare::MachinePair, compare::Comparison> kept_;  // They are large, so only those of open_.
  Json source_list_ = Json::array(), case_list_ = Json::array(), test_list_ = Json::array();
};

}  // namespace

PageData page_data(std::vector<Record> records, const PageInput& input) {
  return Page(std::move(records), input).data();
}

}  // namespace recapture::report
