#include "harness/report/comparison.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <sstream>

#include "harness/base/colour.h"
#include "harness/base/escape.h"
#include "harness/base/text.h"
#include "harness/model/operator_cases.h"
#include "harness/model/release.h"
#include "harness/report/change.h"
#include "harness/report/decision.h"
#include "harness/report/features.h"
#include "harness/report/junit.h"
#include "harness/report/note.h"
#include "harness/words/measurement.h"

namespace recapture::report {

using compare::Alike;

namespace {

constexpr size_t kMostCommentBytes = 20000;  // Longer comments are not read to the end.
constexpr size_t kFewCases = 12;             // More cases with the same change are only listed.

bool is_change(const compare::CaseChange& change) {
  return !change.upstream.empty() && !change.upstream.front().what.empty();
}

std::string upstream_words(const compare::UpstreamChange& one) {
  return fmt::format("{}{}{}{}", one.number, one.since.empty() ? "" : ", since " + since_words(one),
                     one.url.empty() ? "" : ", ", one.url);
}

std::vector<std::string> short_names_of(const compare::CaseChange& change) {
  std::vector<std::string> names;
  for (const std::string& test : change.tests) names.push_back(name_of(test));
  return names;
}

std::string names_of(const compare::CaseChange& change) { return join(short_names_of(change)); }

// Why tests are unknown, or not measured, each with its tests; most tests first.
using ReasonWithTests = std::pair<compare::Unknown, std::vector<std::string>>;
std::vector<ReasonWithTests> reasons_of(const compare::Comparison& comparison, bool measured = true) {
  std::map<compare::Unknown, std::vector<std::string>> tests;
  for (const compare::ComparedTest& test : comparison.tests) {
    const bool is_unknown = test.consequence == compare::Consequence::Unknown;
    if (is_unknown && test.is_measured == measured) tests[*test.unknown].push_back(test.test);
  }
  std::vector<ReasonWithTests> reasons(tests.begin(), tests.end());
  std::stable_sort(reasons.begin(), reasons.end(), [](const ReasonWithTests& a, const ReasonWithTests& b) {
    return a.second.size() > b.second.size();
  });
  return reasons;
}

// "a, b, c and 4 more"
std::string list(const std::vector<std::string>& names, size_t most) {
  const size_t more = names.size() > most ? names.size() - most : 0;
  const std::vector<std::string> few(names.begin(), names.end() - static_cast<std::ptrdiff_t>(more));
  return fmt::format("{}{}", fmt::join(few, ", "), more == 0 ? "" : fmt::format(" and {} more", more));
}

std::vector<std::string> cases_of(const std::vector<std::string>& tests) {
  std::vector<std::string> cases;
  for (const std::string& test : tests) add_once(cases, case_of(test));
  return cases;
}

std::vector<std::string> cases_of(const Alike& group) {
  std::vector<std::string> cases;
  for (const compare::CaseChange* change : group) add_once(cases, change->case_id);
  return cases;
}

size_t tests_of(const Alike& group) {
  size_t tests = 0;
  for (const compare::CaseChange* change : group) tests += change->tests.size();
  return tests;
}

// The sentence of all changes of a group, without their notes if those differ.
std::string sentence_of(const Alike& group, const compare::Comparison& comparison) {
  const compare::Change& first = group.front()->change;
  const bool is_same = std::ranges::all_of(
      group, [&](const compare::CaseChange* change) { return change->change.notes == first.notes; });
  return is_same ? render_change(first, comparison.from, comparison.to)
                 : render_difference(first, comparison.from, comparison.to);
}

// If the notes of a group differ: each with its changes, "afterwards emptyCache(): keeps the memory".
std::vector<std::pair<std::string, Alike>> notes_of(const Alike& group) {
  std::vector<std::pair<std::string, Alike>> notes;
  for (const compare::CaseChange* change : group) {
    const auto has_same = [&](const auto& known) { return known.second.front()->change.notes == change->change.notes; };
    auto at = std::ranges::find_if(notes, has_same);
    if (at == notes.end()) at = notes.insert(notes.end(), {render_notes(change->change), {}});
    at->second.push_back(change);
  }
  if (notes.size() == 1) notes.clear();
  std::erase_if(notes, [](const auto& note) { return note.first.empty(); });
  return notes;
}

// "93 tests of 60 cases"
std::string size_of(const Alike& group) {
  return fmt::format("{} of {}", plural(tests_of(group), "test"), plural(cases_of(group).size(), "case"));
}

// Whether the user can act on it: a new error text under the same constraint needs no fix.
bool shows_fixes(compare::Consequence consequence) {
  return compare::is_regression(consequence) || consequence == compare::Consequence::Healed;
}

// A change of many cases is one line; `is_whole` lists the cases.
std::string group_text(const Alike& group, const compare::Comparison& comparison, bool is_whole) {
  const compare::CaseChange& first = *group.front();
  const bool is_long = group.size() > kFewCases;
  std::string text = "\n" + wrap("  ", sentence_of(group, comparison) + (is_long ? ": " + size_of(group) : ""), "    ");
  for (const auto& [note, those] : notes_of(group)) text += wrap("    ", note + ": " + size_of(those), "      ");
  for (const compare::UpstreamChange& change : first.upstream) {
    if (is_long) break;
    const std::string what = is_change(first) ? change.what : "see " + change.title;
    text += wrap("    ", fmt::format("{}{}{}", what, what.empty() ? "" : ": ", upstream_words(change)), "      ");
  }
  if (is_long) {
    return is_whole ? text + wrap("    in ", join(cases_of(group), " "), "      ") : text;
  }
  for (const compare::CaseChange* change : group) {
    text += wrap("    ", fmt::format("{} ({}): {}", change->case_id, names_of(*change), change->title), "      ");
    if (!shows_fixes(change->consequence)) continue;
    for (const auto& [advice, fix] : change->fixes) {
      text += wrap("      ", fmt::format("{}: {}", to_string(advice), fix), "        ");
    }
  }
  return text + wrap("    ", fmt::format("more: recapture show {}", fmt::join(cases_of(group), " ")), "      ");
}

std::string link(const compare::UpstreamChange& change) {
  const std::string since = change.since.empty() ? "" : ", since " + since_words(change);
  return change.url.empty() ? escape_markdown(change.number) + since
                            : fmt::format("[{}]({}){}", escape_markdown(change.number), change.url, since);
}

// A changed price: the work, then both sides with their spread.
std::string describe(const compare::PriceChange& change, const compare::Comparison& comparison,
                     const char* between = "; ") {
  const Price before = price_of(change.before), now = price_of(change.now);
  const auto side = [](const std::string& name, const PriceLine& line, const Price& price) {
    return fmt::format("in {} {}, pairs from {:.2f} to {:.2f} µs more", name, describe(line), price.least_cost,
                       price.greatest_cost);
  };
  return join({(now.cost > before.cost ? "dearer, " : "cheaper, ") + change.now.what,
               side(comparison.from, change.before, before), side(comparison.to, change.now, now)},
              between);
}

}  // namespace

std::string render_counts(const compare::Comparison& comparison) {
  std::array<size_t, compare::kConsequenceCount> counts{};
  for (const Alike& group : groups_of(comparison)) ++counts.at(static_cast<size_t>(group.front()->consequence));
  std::vector<std::string> parts;
  for (size_t i = 0; i < counts.size(); ++i) {
    if (counts.at(i) != 0)
      parts.push_back(fmt::format("{} {}", counts.at(i), to_string(static_cast<compare::Consequence>(i))));
  }
  return parts.empty() ? "no change" : join(parts);
}

std::string render_judged(const compare::Comparison& comparison) {
  const size_t not_measured = comparison.not_measured();
  return fmt::format("{} of {} tests judged, {} unknown{}", comparison.judged(), comparison.tests.size(),
                     comparison.unknown(), not_measured == 0 ? "" : fmt::format(", {} not measured", not_measured));
}

namespace {

// How many tests of how many cases are not measured, and how to measure them; "" if all are.
std::string not_measured_words(const compare::Comparison& comparison) {
  std::vector<std::string> tests;
  for (const compare::ComparedTest& test : comparison.tests) {
    if (!test.is_measured) tests.push_back(test.test);
  }
  if (tests.empty()) return "";
  const bool has_command = is_version(comparison.from) && is_version(comparison.to);
  return fmt::format("not measured: {} of {}{}", plural(tests.size(), "test"), plural(cases_of(tests).size(), "case"),
                     has_command ? fmt::format("; `recapture gate {} {} --run` measures {} on a GPU", comparison.from,
                                               comparison.to, tests.size() == 1 ? "it" : "them")
                                 : "");
}

// "blocked"; for compare, the regressions.
std::string answer_of(const ComparisonReport& report) {
  if (report.decision != nullptr) return std::string(answer_of(*report.decision));
  const auto& changes = report.comparison.changes;
  const auto is_hurting = [](const compare::CaseChange& change) { return compare::is_regression(change.consequence); };
  if (std::any_of(changes.begin(), changes.end(), is_hurting)) return "breaks programs that run today";
  if (compare::too_much_unknown(report.comparison)) return "too much is unknown";
  return changes.empty() ? "no change" : "nothing that runs today breaks";
}

std::string title_of(const ComparisonReport& report) {
  const compare::Comparison& comparison = report.comparison;
  const Exit exit = report.decision != nullptr ? report.decision->exit() : exit_for(comparison);
  const Colour colour = exit == Exit::Changed        ? Colour::Red
                        : exit == Exit::Inconclusive ? Colour::Yellow
                                                     : Colour::Green;
  return fmt::format("{} -> {} on {}: {}\n", comparison.from, comparison.to, comparison.machine,
                     in_colour(answer_of(report), colour));
}

// "words: a, b and 7 more", at most kTextWidth columns; `is_whole` lists all.
std::string list_line(const std::string& words, const std::vector<std::string>& names, bool is_whole) {
  constexpr size_t kForTheRest = 14;  // " and 1234 more"
  std::string line = words + ": ";
  for (size_t i = 0; i < names.size(); ++i) {
    const std::string next = (i == 0 ? "" : ", ") + names[i];
    const bool fits = line.size() + next.size() + (i + 1 == names.size() ? 0 : kForTheRest) <= kTextWidth;
    if (!is_whole && i > 0 && !fits) return fmt::format("{} and {} more", line, names.size() - i);
    line += next;
  }
  return line;
}

// What a gate lacks, a line for each reason.
std::vector<std::string> lines_of_gaps(const compare::Decision& decision, const std::string& from,
                                       const std::string& to, bool is_whole) {
  const std::set<compare::Gap>& open = decision.gaps->open;
  const std::array<std::string, compare::kGapKinds.size()> words = {
      fmt::format("without a result in {}", to), fmt::format("runs of {} disagree", to),
      fmt::format("damage in {}, without a result in {}", to, from)};
  std::vector<std::string> lines;
  for (size_t kind = 0; kind < words.size(); ++kind) {
    std::vector<std::string> tests;
    for (const compare::Gap& gap : open) {
      if (gap.kind == static_cast<compare::GapKind>(kind)) tests.push_back(gap.test);
    }
    std::stable_partition(tests.begin(), tests.end(),
                          [](const std::string& test) { return kind_of_id(test) == Kind::Reproduces; });
    if (!tests.empty()) lines.push_back(list_line(words.at(kind), tests, is_whole));
  }
  return lines;
}

// Damage on other machines, those that block first.
std::vector<std::string> lines_of_machines(const compare::Decision& decision, bool is_whole) {
  std::vector<std::string> lines;
  for (const bool is_chosen : {true, false}) {
    for (const compare::DamagedMachine& machine : decision.gaps->elsewhere) {
      if (machine.is_chosen != is_chosen) continue;
      lines.push_back(list_line(fmt::format("{}damage on {}", is_chosen ? "" : "note: ", machine.machine),
                                {machine.tests.begin(), machine.tests.end()}, is_whole));
    }
  }
  return lines;
}

std::string known_gap_words(const ComparisonReport& report, bool is_whole) {
  const std::set<std::string>& known = report.decision->gaps->known;
  std::vector<std::string> cases;
  for (const std::string& test : known) add_once(cases, case_of(test));
  return cases.empty() ? "" : list_line("neither release has a result", cases, is_whole);
}

// "without = ["torch.compile"] or ["threads"] in the policy"
std::string lift_of(const std::vector<std::string>& features) {
  return fmt::format("without = [\"{}\"] in the policy", fmt::join(features, "\"] or [\""));
}

std::vector<std::string> lines_of_gaps(const ComparisonReport& report, bool is_whole) {
  return lines_of_gaps(*report.decision, report.comparison.from, report.comparison.to, is_whole);
}

// The lines of the gaps, indented, and under the last what lifts some of them.
std::vector<std::vector<std::string>> gaps_with_lift(const ComparisonReport& report) {
  std::vector<std::vector<std::string>> parts;
  for (const std::string& line : lines_of_gaps(report, false)) parts.push_back({"  " + line});
  for (const compare::Gap& gap : report.decision->gaps->open) {
    const std::string id = case_of(gap.test);
    const auto lift = report.decision->lifted_by.find(id);
    if (lift == report.decision->lifted_by.end()) continue;
    parts.back().push_back(fmt::format("    {}: lifted by {}", id, lift_of(lift->second)));
    break;
  }
  return parts;
}

// A note on a run itself, such as a missing plan, or on its machine.
bool is_of_run(const compare::Note& note) {
  return note.kind == compare::NoteKind::OfRun || note.kind == compare::NoteKind::EndedEarly ||
         note.kind == compare::NoteKind::NoRecordOfMachine;
}
std::vector<std::string> lines_of_run_notes(const compare::Comparison& comparison) {
  std::vector<std::string> lines;
  for (const compare::Note& note : comparison.notes) {
    if (is_of_run(note)) lines.push_back(render_note(note));
  }
  return lines;
}

// The lines before the changes, without the title.
std::vector<std::string> summary_of(const ComparisonReport& report) {
  std::vector<std::string> lines;
  if (const compare::Decision* decision = report.decision) {
    if (std::string line = render_reason(*decision); !line.empty()) lines.push_back(std::move(line));
    for (std::string& line : lines_of_machines(*decision, true)) lines.push_back(std::move(line));
    for (std::string& line : lines_of_gaps(report, true)) lines.push_back(std::move(line));
    for (const auto& [id, features] : decision->lifted_by) {
      lines.push_back(fmt::format("{}: lifted by {}", id, lift_of(features)));
    }
    if (std::string line = known_gap_words(report, true); !line.empty()) lines.push_back(std::move(line));
    if (std::string line = render_not_met(*decision); !line.empty()) lines.push_back(std::move(line));
    if (std::string line = render_outside_scope(*decision); !line.empty()) lines.push_back(std::move(line));
    for (const compare::WaiverState& waiver : decision->waivers) lines.push_back(render_waiver(waiver));
    if (!report.policy.scope.empty())
      lines.push_back(escape_control(fmt::format("scope: {}", fmt::join(report.policy.scope, ", "))));
  }
  lines.push_back(fmt::format("{}: {}", render_judged(report.comparison), render_counts(report.comparison)));
  if (const std::string words = not_measured_words(report.comparison); !words.empty()) lines.push_back(words);
  for (std::string& line : render_head(report.comparison)) lines.push_back(std::move(line));
  return lines;
}

// By a gate's decision; without one, by the policy.
bool blocks(const ComparisonReport& report, const std::string& test, compare::Consequence consequence) {
  return report.decision != nullptr ? report.decision->blocking.count(test) != 0
                                    : report.policy.block.count(consequence) != 0;
}

bool blocks(const ComparisonReport& report, const compare::CaseChange& change) {
  return std::any_of(change.tests.begin(), change.tests.end(),
                     [&](const std::string& test) { return blocks(report, test, change.consequence); });
}

// Blocking changes of one case, or of several with the same change.
struct Blocking {
  std::vector<std::string> cases;
  const compare::CaseChange* change;
};

std::vector<Blocking> blocking_of(const ComparisonReport& report) {
  std::vector<Blocking> all;
  for (const Alike& group : groups_of(report.comparison)) {
    Blocking one{{}, nullptr};
    for (const compare::CaseChange* change : group) {
      if (!blocks(report, *change)) continue;
      if (one.change == nullptr) one.change = change;
      add_once(one.cases, change->case_id);
    }
    const bool is_known = std::any_of(all.begin(), all.end(), [&](const Blocking& other) {
      return one.change != nullptr && other.cases == one.cases && other.change->consequence == one.change->consequence;
    });
    if (one.change != nullptr && !is_known) all.push_back(std::move(one));
  }
  return all;
}

// At most kTextWidth columns.
std::string cut(std::string line) {
  line.erase(line.find_last_not_of(" :") + 1);  // If a test had no text.
  if (line.size() <= kTextWidth) return line;
  const size_t indent = line.find_first_not_of(' ');
  return std::string(indent, ' ') + truncated(line.substr(indent), kTextWidth - indent - 3);
}

// The case; of operators, which ones.
std::string named(const compare::CaseChange& change, const std::string& case_id) {
  return lists_operators(change.case_id) ? fmt::format("{} ({})", case_id, list(short_names_of(change), 3)) : case_id;
}

std::vector<std::string> lines_of(const Blocking& one, const ComparisonReport& report) {
  const std::string& to = report.comparison.to;
  const compare::CaseChange& change = *one.change;
  const ChangeWords words = words_of(change.change);
  const std::string& machine = change.change.notes.machine;
  const std::string others = one.cases.size() > 1 ? fmt::format(" and {} more", one.cases.size() - 1) : "";
  std::vector<std::string> lines = {fmt::format("  {}: {}{}: {}; now {}{}", to_string(change.consequence),
                                                named(change, one.cases.front()), others, words.was, words.is,
                                                machine.empty() ? "" : fmt::format("; on {}", machine))};
  std::vector<std::string> fixes;
  for (const auto& [advice, fix] : change.fixes) {
    if (advice == compare::Advice::Apply) fixes.push_back(fix);
  }
  lines.push_back(fixes.empty()
                      ? fmt::format("    fix: no remedy is known to hold in {}", to)
                      : fmt::format("    fix{}: {}", fixes.size() > 1 ? fmt::format(" (1 of {})", fixes.size()) : "",
                                    fixes.front()));
  if (report.decision == nullptr) return lines;
  const auto lift = report.decision->lifted_by.find(one.cases.front());
  if (lift != report.decision->lifted_by.end()) lines.push_back("    lifted by: " + lift_of(lift->second));
  return lines;
}

std::string name_of_part(compare::Consequence consequence) {
  std::string name(to_string(consequence));
  std::ranges::replace(name, ' ', '-');
  return name;
}

// What failed and works now; a new fix heals nothing.
bool is_healing(compare::Consequence consequence) {
  return consequence == compare::Consequence::Healed || consequence == compare::Consequence::HoldsAgain ||
         consequence == compare::Consequence::Capturable;
}

// "  a_case and 2 more: what failed there"
std::string healed_words(const Alike& group) {
  const std::vector<std::string> cases = cases_of(group);
  return fmt::format("  {}{}: {}", named(*group.front(), cases.front()),
                     cases.size() > 1 ? fmt::format(" and {} more", cases.size() - 1) : "", group.front()->title);
}

// Changes that do not block.
size_t count_others(const ComparisonReport& report) {
  const auto groups = groups_of(report.comparison);
  return static_cast<size_t>(std::count_if(groups.begin(), groups.end(), [&](const Alike& group) {
    return std::none_of(group.begin(), group.end(),
                        [&](const compare::CaseChange* change) { return blocks(report, *change); });
  }));
}

// "  and 3 more: a_case, b_case"
std::string left_out_words(const std::vector<Blocking>& blocking, size_t from, size_t all) {
  std::vector<std::string> cases;
  for (size_t i = from; i < blocking.size(); ++i) {
    for (const std::string& one : blocking[i].cases) add_once(cases, one);
  }
  return fmt::format("  and {} more{}{}", all - from, cases.empty() ? "" : ": ", join(cases));
}

std::string waiver_words(const compare::Decision& decision) {
  std::vector<std::string> words;
  for (const compare::WaiverState& waiver : decision.waivers) words.push_back(render_waiver(waiver));
  return join(words, "; ");
}

// "2 other changes and 1 price change allowed; 3 notes"
std::string words_of_others(const ComparisonReport& report) {
  std::vector<std::string> allowed;
  if (const size_t others = count_others(report); others > 0) allowed.push_back(plural(others, "other change"));
  if (const size_t prices = report.comparison.prices.size(); prices > 0) {
    allowed.push_back(plural(prices, "price change"));
  }
  const auto notes = std::ranges::count_if(
      report.comparison.notes, [](const compare::Note& note) { return is_qualification(note) && !is_of_run(note); });
  return (allowed.empty() ? "nothing else changed" : join(allowed, " and ") + " allowed") +
         (notes == 0 ? "" : "; " + plural(static_cast<size_t>(notes), "note"));
}

std::string scope_words(const ComparisonReport& report) {
  if (report.features == nullptr) return escape_control(join(report.policy.scope));
  const std::string& program = report.features->program;
  const auto count = [&](compare::Use use) { return report.features->of(use).size(); };
  return fmt::format("what {} uses: {}, and {} assumed", program.empty() ? "the program" : escape_control(program),
                     plural(count(compare::Use::Used), "feature"), count(compare::Use::Assumed));
}

// What no record has of a side's release or machine; each names the nearest that one has.
std::vector<compare::Note> notes_of_nearest(const compare::Comparison& comparison) {
  std::vector<compare::Note> notes;
  std::ranges::copy_if(comparison.notes, std::back_inserter(notes), [](const compare::Note& note) {
    return note.kind == compare::NoteKind::NoRecordOfMachine || note.kind == compare::NoteKind::NoRecordOfRelease;
  });
  return notes;
}
const char* what_is_missing(const compare::Note& note) {
  return note.kind == compare::NoteKind::NoRecordOfMachine ? "machine" : "release";
}

}  // namespace

std::string render_gaps(const compare::Decision& decision, const std::string& from, const std::string& to) {
  std::vector<std::string> lines = lines_of_machines(decision, false);
  for (std::string& line : lines_of_gaps(decision, from, to, false)) lines.push_back(std::move(line));
  return join(lines, "; ");
}

std::string why_of(const compare::Decision& decision, const std::string& gaps) {
  const std::string reason = render_reason(decision);
  return reason + (reason.empty() || gaps.empty() ? "" : "; ") + gaps;
}

const std::vector<std::string>& part_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> words = {"breaks", "heals"};
    for (size_t i = 0; i < compare::kConsequenceCount; ++i) {
      const auto consequence = static_cast<compare::Consequence>(i);
      if (consequence == compare::Consequence::Same || consequence == compare::Consequence::Unknown) continue;
      words.push_back(name_of_part(consequence));
    }
    words.insert(words.end(), {"prices", "unknown", "not-measured"});
    return words;
  }();
  return names;
}

std::optional<Part> part_from(std::string word) {
  std::ranges::replace(word, ' ', '-');
  if (!contains(part_names(), word)) return std::nullopt;
  Part part{std::set<compare::Consequence>(), false, word == "prices", word == "unknown", word == "not-measured"};
  for (size_t i = 0; i < compare::kConsequenceCount; ++i) {
    const auto consequence = static_cast<compare::Consequence>(i);
    if (word == "breaks"  ? compare::is_regression(consequence)
        : word == "heals" ? is_healing(consequence)
                          : name_of_part(consequence) == word && !part.unknown) {
      part.consequences->insert(consequence);
    }
  }
  return part;
}

std::string render_text(const ComparisonReport& report, bool is_whole, const Part& part) {
  const compare::Comparison& comparison = report.comparison;
  std::string text = title_of(report);
  for (const std::string& line : part.head ? summary_of(report) : std::vector<std::string>()) {
    text += wrap("  ", line, "    ");
  }
  const size_t title = text.size();
  compare::Consequence current = compare::Consequence::Same;
  for (const Alike& group : groups_of(comparison)) {
    if (part.consequences && !part.consequences->contains(group.front()->consequence)) continue;
    if (group.front()->consequence != current) {
      current = group.front()->consequence;
      const Colour colour = compare::is_regression(current) ? Colour::Red : Colour::None;
      text += fmt::format("\n{} ({})\n", in_colour(to_string(current), colour), meaning(current));
    }
    text += group_text(group, comparison, is_whole);
  }
  const std::vector<compare::PriceChange> prices =
      part.prices ? comparison.prices : std::vector<compare::PriceChange>();
  if (!prices.empty()) text += "\nprices of remedies\n";
  for (const compare::PriceChange& change : prices) {
    text += fmt::format("\n  {}\n    {}\n", describe(change, comparison, "\n    "), join(change.now.fixes, ", "));
  }
  for (const bool measured : {true, false}) {
    const auto reasons = (measured ? part.unknown : part.not_measured) ? reasons_of(comparison, measured)
                                                                       : std::vector<ReasonWithTests>();
    if (!reasons.empty()) text += measured ? "\nunknown\n" : "\nnot measured\n";
    for (const auto& [reason, tests] : reasons) {
      text +=
          wrap(fmt::format("  {}: ", tests.size()), render_unknown(reason, comparison.from, comparison.to), "     ");
      text += wrap("     in ", list(cases_of(tests), is_whole ? tests.size() : kFewCases), "        ");
    }
  }
  if (!part.head) return text.size() == title ? text + "  none\n" : text;
  if (report.features != nullptr) text += "\n" + render_text(*report.features);
  return text;
}

std::string render_summary(const ComparisonReport& report, const std::string& command) {
  constexpr size_t kLines = 40, kMostHealed = 6, kMostRunNotes = 2;
  const compare::Comparison& comparison = report.comparison;
  const auto only = [&](std::string_view part) { return fmt::format("{} --only {}", command, part); };
  std::string head = title_of(report);
  head += cut("  " + render_judged(comparison)) + "\n";
  for (const std::string& line : render_head(comparison)) {
    if (line.starts_with("bundled: ")) head += wrap("  ", line, "    ");
  }
  std::vector<std::string> of_runs = lines_of_run_notes(comparison);
  of_runs.resize(std::min(of_runs.size(), kMostRunNotes));
  for (const std::string& line : of_runs) head += wrap("  ", line, "    ");

  std::vector<std::pair<std::string, std::string>> rest;  // A number of things, and what prints them.
  std::array<size_t, compare::kConsequenceCount> counts{};
  std::vector<Alike> healing;
  for (Alike& group : groups_of(comparison)) {
    const compare::Consequence consequence = group.front()->consequence;
    if (is_healing(consequence)) {
      healing.push_back(std::move(group));
    } else if (!compare::is_regression(consequence)) {
      ++counts.at(static_cast<size_t>(consequence));
    }
  }
  for (size_t i = 0; i < counts.size(); ++i) {
    const auto consequence = static_cast<compare::Consequence>(i);
    if (counts.at(i) == 0) continue;
    rest.emplace_back(fmt::format("{} {}", counts.at(i), to_string(consequence)), only(name_of_part(consequence)));
  }
  if (const size_t prices = comparison.prices.size(); prices > 0) {
    rest.emplace_back(plural(prices, "fix price") + " changed", only("prices"));
  }
  if (comparison.unknown() > 0) {
    rest.emplace_back(plural(comparison.unknown(), "unknown test"), only("unknown"));
  }
  if (comparison.not_measured() > 0) {
    rest.emplace_back(fmt::format("{} not measured", plural(comparison.not_measured(), "test")), only("not-measured"));
  }
  const auto notes = static_cast<size_t>(std::ranges::count_if(comparison.notes, is_qualification)) - of_runs.size();
  if (notes > 0) {
    rest.emplace_back(plural(notes, "note") + " on these records", command + " --all");
  }
  std::string tail;
  size_t width = 0;
  for (const auto& [what, how] : rest) width = std::max(width, what.size());
  for (const auto& [what, how] : rest) tail += fmt::format("  {:{}}  {}\n", what, width, how);
  if (!tail.empty()) tail = "\nthe rest\n" + tail;
  if (is_version(comparison.from) && is_version(comparison.to)) {
    tail += fmt::format("\n`recapture gate {} {} -- PROGRAM` judges what your program uses.\n", comparison.from,
                        comparison.to);
  }

  const size_t healed_lines = healing.empty() ? 0 : 2 + std::min(healing.size(), kMostHealed + 1);
  size_t left = kLines - count_lines(head) - count_lines(tail) - healed_lines;
  const auto breaking = blocking_of(report);
  std::string text = head;
  if (!breaking.empty()) {
    text += "\nbreaks (`recapture show CASE` has the error, the code and every fix)\n";
    left -= 2;
  }
  for (size_t i = 0; i < breaking.size(); ++i) {
    const std::vector<std::string> lines = lines_of(breaking[i], report);
    if (lines.size() + (i + 1 == breaking.size() ? 0 : 1) > left) {  // The last line counts what is left out.
      text += fmt::format("  and {} more: {}\n", breaking.size() - i, only("breaks"));
      break;
    }
    for (const std::string& line : lines) text += cut(line) + "\n";
    left -= lines.size();
  }
  if (!healing.empty()) {
    text += fmt::format("\nheals (failed in {}, works in {})\n", comparison.from, comparison.to);
  }
  for (size_t i = 0; i < healing.size(); ++i) {
    if (i == kMostHealed && healing.size() > kMostHealed + 1) {
      text += fmt::format("  and {} more: {}\n", healing.size() - i, only("heals"));
      break;
    }
    text += cut(healed_words(healing[i])) + "\n";
  }
  return text + tail;
}

std::string render_short(const ComparisonReport& report) {
  constexpr size_t kLines = 10, kFewNotes = 3, kFirst = 4;  // The first change with its remedies, and what is left out.
  const compare::Decision& decision = *report.decision;
  const auto blocking = blocking_of(report);
  std::vector<std::string> tail;  // The lines after the blocking changes.
  if (const std::string words = render_not_met(decision); !words.empty()) tail.push_back("  " + words);
  if (const std::string words = render_outside_scope(decision); !words.empty()) tail.push_back("  " + words);
  if (const std::string words = waiver_words(decision); !words.empty()) tail.push_back("  " + words);
  if (const std::string words = scope_words(report); !words.empty()) tail.push_back("  scope: " + words);
  if (const std::string words = known_gap_words(report, false); !words.empty()) tail.push_back("  " + words);
  if (const std::string words = not_measured_words(report.comparison); !words.empty()) tail.push_back("  " + words);
  const std::vector<std::string> notes = lines_of_run_notes(report.comparison);
  for (size_t i = 0; i < std::min(notes.size(), kFewNotes); ++i) {
    std::istringstream lines(wrap("  ", notes[i], "    "));
    for (std::string line; std::getline(lines, line);) tail.push_back(line);
  }
  if (notes.size() > kFewNotes) tail.push_back(fmt::format("  and {} more notes on runs", notes.size() - kFewNotes));
  tail.push_back(fmt::format("  {}; {}", render_judged(report.comparison), words_of_others(report)));
  tail.emplace_back("  --verbose prints every change, price, note and reason; `recapture show CASE` what is on record");
  std::vector<std::vector<std::string>> parts;
  parts.reserve(blocking.size());
  for (const Blocking& one : blocking) parts.push_back(lines_of(one, report));
  for (const std::string& line : lines_of_machines(decision, false)) parts.push_back({"  " + line});
  for (std::vector<std::string>& lines : gaps_with_lift(report)) parts.push_back(std::move(lines));
  if (const std::string reason = render_reason(decision); decision.exit() == Exit::Inconclusive && !reason.empty()) {
    parts.push_back({"  " + reason});
    for (const bool measured : {true, false}) {
      for (const auto& [reason, tests] : reasons_of(report.comparison, measured)) {
        const std::string words = render_unknown(reason, report.comparison.from, report.comparison.to);
        parts.push_back({fmt::format("  {}: {}", tests.size(), words)});
      }
    }
  }
  std::string text = title_of(report);
  size_t left = std::max(kLines, 1 + tail.size() + kFirst) - 1 - tail.size();
  for (size_t i = 0; i < parts.size(); ++i) {
    const bool is_last = i + 1 == parts.size();
    if (parts[i].size() + (is_last ? 0 : 1) > left) {  // The last line counts what is left out.
      tail.insert(tail.begin(), left_out_words(blocking, i, parts.size()));
      break;
    }
    for (const std::string& line : parts[i]) text += cut(line) + "\n";
    left -= parts[i].size();
  }
  for (const std::string& line : tail) text += cut(line) + "\n";
  return text;
}

std::string render_markdown(const ComparisonReport& report) {
  const compare::Comparison& comparison = report.comparison;
  std::string text =
      fmt::format("### {} → {} on {}: {}\n\n", escape_markdown(comparison.from), escape_markdown(comparison.to),
                  escape_markdown(comparison.machine), answer_of(report));
  for (const std::string& line : summary_of(report)) text += fmt::format("* {}\n", escape_markdown(line));
  std::string tail = "\n`recapture show CASE` has all results of a case.\n", prices;
  for (const compare::PriceChange& change : comparison.prices) {
    prices += fmt::format("| {} | {} |\n", escape_markdown(join(change.now.fixes, ", ")),
                          escape_markdown(describe(change, comparison)));
  }
  size_t left_out = 0;
  const auto fits = [&](const std::string& more) {
    constexpr size_t kReserve = 300;  // For closing tags, and for the line on what is left out.
    return text.size() + more.size() + tail.size() + kReserve < kMostCommentBytes;
  };
  const auto row_of = [&](const Alike& group) {
    const compare::CaseChange& first = *group.front();
    std::vector<std::string> fixes, links, names;
    for (const auto& [advice, fix] : first.fixes) {
      if (group.size() > 1 || !shows_fixes(first.consequence)) break;
      fixes.push_back((advice == compare::Advice::Apply ? "" : fmt::format("{}: ", to_string(advice))) +
                      escape_markdown(fix));
    }
    for (const compare::UpstreamChange& change : first.upstream) links.push_back(link(change));
    for (const std::string& one : cases_of(group)) names.push_back(fmt::format("`{}`", one));
    const std::string title = group.size() == 1 ? escape_markdown(first.title) + "<br>" : "";
    std::string sentence = escape_markdown(sentence_of(group, comparison));
    for (const auto& [note, those] : notes_of(group)) {
      sentence += fmt::format("<br>{}: {}", escape_markdown(note), size_of(those));
    }
    return fmt::format("| {}{} | {} | {} | {} |\n", title, list(names, kFewCases), sentence, join(fixes, "<br>"),
                       join(links, "<br>"));
  };
  const auto groups = groups_of(comparison);
  for (auto group = groups.begin(); group != groups.end();) {
    const compare::Consequence consequence = group->front()->consequence;
    const auto end = std::find_if(group, groups.end(),
                                  [&](const Alike& other) { return other.front()->consequence != consequence; });
    const std::string title = fmt::format("{} {} ({})", end - group, to_string(consequence), meaning(consequence));
    std::string part = compare::is_regression(consequence) ? fmt::format("\n**{}**\n", title)
                                                           : fmt::format("\n<details><summary>{}</summary>\n", title);
    part += "\n| what | change | what to do | upstream |\n| --- | --- | --- | --- |\n";
    const std::string close = compare::is_regression(consequence) ? "" : "\n</details>\n";
    const bool is_open = fits(part + close + row_of(*group));
    if (is_open) text += part;
    for (; group != end; ++group) {
      const std::string row = row_of(*group);
      if (is_open && fits(row + close)) {
        text += row;
      } else {
        left_out += group->size();
      }
    }
    if (is_open) text += close;
  }
  for (const bool measured : {true, false}) {
    const size_t count = measured ? comparison.unknown() : comparison.not_measured();
    std::string folded =
        fmt::format("\n<details><summary>{} {}</summary>\n\n| tests | why | cases |\n| --- | --- | --- |\n", count,
                    measured ? "unknown" : "not measured");
    for (const auto& [reason, tests] : reasons_of(comparison, measured)) {
      const std::string row = fmt::format("| {} | {} | {} |\n", tests.size(),
                                          escape_markdown(render_unknown(reason, comparison.from, comparison.to)),
                                          list(cases_of(tests), kFewCases));
      if (fits(folded + row)) folded += row;
    }
    if (count > 0 && fits(folded)) text += folded + "\n</details>\n";
  }
  prices = "\n<details><summary>" + std::to_string(comparison.prices.size()) +
           " prices of remedies changed</summary>\n\n| fixes | what changes |\n| --- | --- |\n" + prices +
           "\n</details>\n";
  if (!comparison.prices.empty() && fits(prices)) text += prices;
  if (left_out > 0) {
    text += fmt::format("\n{} more cases are left out here; `recapture compare` lists them all.\n", left_out);
  }
  return text + tail + (report.features == nullptr ? "" : "\n" + render_markdown(*report.features));
}

Json render_json(const ComparisonReport& report) {
  const compare::Comparison& comparison = report.comparison;
  const compare::Decision* decision = report.decision;
  const std::vector<Alike> groups = groups_of(comparison);
  Json changes = Json::array(), counts = Json::object();
  for (const Alike& group : groups) {
    Json& count = counts[std::string(to_string(group.front()->consequence))];
    if (count.is_null()) count = {{"changes", 0}, {"tests", 0}};
    count["changes"] = count["changes"].get<size_t>() + 1;
    count["tests"] = count["tests"].get<size_t>() + tests_of(group);
  }
  for (const compare::CaseChange& change : comparison.changes) {
    const auto group = std::find_if(groups.begin(), groups.end(), [&](const Alike& one) {
      return std::find(one.begin(), one.end(), &change) != one.end();
    });
    const ChangeWords words = words_of(change.change);
    std::vector<std::string> upstream;
    Json upstream_changes = Json::array(), fixes = Json::array();
    for (const compare::UpstreamChange& source : change.upstream) {
      upstream.push_back(upstream_words(source));
      upstream_changes.push_back({{"what", source.what},
                                  {"number", source.number},
                                  {"since", source.since},
                                  {"title", source.title},
                                  {"url", source.url}});
    }
    for (const auto& [advice, fix] : change.fixes) fixes.push_back({{"advice", to_string(advice)}, {"fix", fix}});
    changes.push_back({{"consequence", to_string(change.consequence)},
                       {"case", change.case_id},
                       {"tests", change.tests},
                       {"was", words.was},
                       {"is", words.is},
                       {"sentence", render_change(change.change, comparison.from, comparison.to)},
                       {"fixes", fixes},
                       {"upstream", join(upstream, "; ")},
                       {"upstream_changes", upstream_changes},
                       {"group", group - groups.begin()},
                       {"blocks", blocks(report, change)}});
    if (const std::string& machine = change.change.notes.machine; !machine.empty()) changes.back()["machine"] = machine;
  }
  Json unknown = Json::array(), not_measured = Json::array();
  for (const compare::ComparedTest& test : comparison.tests) {
    const std::string words = render_compared(test, comparison.from, comparison.to);
    if (!test.is_measured) {
      not_measured.push_back({{"test", test.test}, {"reason", words}});
    } else if (test.consequence == compare::Consequence::Unknown) {
      unknown.push_back({{"test", test.test}, {"reason", words}, {"ran", test.ran}});
    }
  }
  Json json = {{"from", comparison.from}, {"to", comparison.to}, {"machine", comparison.machine}};
  json.update(comparison.facts);
  Json not_on_record = Json::array();
  for (const compare::Note& note : notes_of_nearest(comparison)) {
    not_on_record.push_back({{"side", note.side}, {"what", what_is_missing(note)}, {"nearest", note.text}});
  }
  json.update({{"not_on_record", not_on_record},
               {"head", render_head(comparison)},
               {"judged", comparison.judged()},
               {"unknown", comparison.unknown()},
               {"unknown_tests", unknown},
               {"not_measured", comparison.not_measured()},
               {"not_measured_tests", not_measured},
               {"counts", counts},
               {"changes", changes}});
  for (const compare::PriceChange& change : comparison.prices) {
    json["prices"].push_back(Json{{"before", render_json(change.before)}, {"now", render_json(change.now)}});
  }
  Json block = Json::array(), waivers = Json::array();
  for (const compare::Consequence consequence : report.policy.block) block.push_back(to_string(consequence));
  for (const compare::Waiver& waiver : report.policy.waivers) {
    waivers.push_back({{"test", waiver.test}, {"reason", waiver.reason}, {"until", waiver.until}});
  }
  json["policy"] = {{"block", block},
                    {"scope", report.policy.scope},
                    {"unknown", report.policy.limits.unknown},
                    {"not_measured", report.policy.limits.not_measured},
                    {"without", report.policy.without},
                    {"machines", report.policy.machines},
                    {"waivers", waivers}};
  json["exit"] = static_cast<int>(decision != nullptr ? decision->exit() : exit_for(comparison));
  json["answer"] = answer_of(report);
  json["schema"] = 2;
  if (decision == nullptr) return json;
  if (report.features != nullptr) json["features"] = render_json(*report.features);
  Json lacking = Json::array(), elsewhere = Json::array();
  for (const compare::Gap& gap : decision->gaps->open) {
    lacking.push_back({{"test", gap.test}, {"kind", to_string(gap.kind)}});
  }
  for (const compare::DamagedMachine& machine : decision->gaps->elsewhere) {
    elsewhere.push_back({{"machine", machine.machine}, {"blocks", machine.is_chosen}, {"tests", machine.tests}});
  }
  json["why"] = why_of(*decision, render_gaps(*decision, comparison.from, comparison.to));
  json["blocking"] = decision->blocking;
  json["lacking"] = lacking;
  json["known_gaps"] = decision->gaps->known;
  json["elsewhere"] = elsewhere;
  json["lifted_by"] = decision->lifted_by;
  json["not_met"] = render_not_met(*decision);
  json["outside_scope"] = render_outside_scope(*decision);
  json["waivers"] = Json::array();
  for (const compare::WaiverState& waiver : decision->waivers) json["waivers"].push_back(render_waiver(waiver));
  return json;
}

std::string render_junit(const ComparisonReport& report) {
  const auto& [comparison, policy, decision, features] = report;
  Junit junit(comparison.from + " -> " + comparison.to);
  const std::vector<compare::Note> notes = notes_of_nearest(comparison);
  for (const compare::ComparedTest& compared : comparison.tests) {
    const std::string id = case_of(compared.test);
    const bool is_unknown = compared.consequence == compare::Consequence::Unknown;
    const bool is_skipped = is_unknown && (!compared.ran || !compared.is_measured);
    const JunitResult result = blocks(report, compared.test, compared.consequence) ? JunitResult::Failed
                               : is_skipped                                        ? JunitResult::Skipped
                               : is_unknown                                        ? JunitResult::Error
                                                                                   : JunitResult::Passed;
    const bool is_elsewhere = result == JunitResult::Failed && !compared.has_change();
    const std::string message =
        is_elsewhere ? "damage on another machine"
                     : fmt::format("{}: {}", compared.is_measured ? to_string(compared.consequence) : "not measured",
                                   render_compared(compared, comparison.from, comparison.to));
    const bool is_told = result == JunitResult::Passed && compared.has_change();
    if (!junit.add({id, id, name_of(compared.test), result, message, is_told ? message : ""})) continue;
    for (const compare::Note& note : notes) {
      const std::string name = fmt::format("nearest_{}", what_is_missing(note));
      junit.add_property(id, name.c_str(), fmt::format("{}: {}", note.side, note.text));
    }
  }
  for (const compare::PriceChange& change : comparison.prices) {
    const std::string words = describe(change, comparison);
    junit.add({"prices of remedies", change.now.fixes.front(), change.now.what,
               policy.prices ? JunitResult::Failed : JunitResult::Passed, words, policy.prices ? "" : words});
  }
  const bool cannot_tell = decision != nullptr && decision->exit() == Exit::Inconclusive;
  if (cannot_tell || compare::too_much_unknown(comparison, policy.limits)) {  // Skipped tests alone would look green.
    junit.add({"comparison", "comparison", "EnoughIsKnown", JunitResult::Error,
               !cannot_tell                                     ? render_judged(comparison)
               : decision->why == compare::DecisionReason::Gaps ? join(lines_of_gaps(report, true), "; ")
                                                                : render_reason(*decision)});
  }
  return junit.text();
}

}  // namespace recapture::report
