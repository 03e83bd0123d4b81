// Reports on real upgrades: the expected answers in data/upgrades.toml, and properties of all pairs of recorded
// releases.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "harness/base/toml.h"
#include "harness/case/tags.h"
#include "harness/compare/compare.h"
#include "harness/compare/features.h"
#include "harness/compare/policy.h"
#include "harness/model/scope.h"
#include "harness/report/change.h"
#include "harness/report/comparison.h"
#include "harness/report/decision.h"
#include "harness/tests/committed_records.h"
#include "harness/tests/namespaces.h"
#include "harness/tests/shell.h"
#include "harness/tests/this_tree.h"

namespace recapture {
namespace {

const std::string kToday = "2026-11-25";

std::set<std::string> texts_of(const toml::table& table, const char* key, const std::string& path) {
  const auto texts = texts_in(table, key, path);
  return {texts.begin(), texts.end()};
}

std::set<std::string> operator-(std::set<std::string> all, const std::set<std::string>& some) {
  for (const std::string& each : some) all.erase(each);
  return all;
}

std::map<Consequence, std::set<std::string>> tests_by_consequence(const Comparison& comparison) {
  std::map<Consequence, std::set<std::string>> tests;
  for (const ComparedTest& test : comparison.tests) {
    // Programs repeat what was written down of the tests in C++, in those releases in which they ran.
    if (!is_of_program(name_of(test.test))) tests[test.consequence].insert(test.test);
  }
  return tests;
}

TEST(Upgrades, FourPairs_ReportWhatWasWrittenDownBefore) {
  const std::string path = kRoot + "/harness/tests/data/upgrades.toml";
  const toml::table file = parse_toml(path);
  const std::map<const char*, Consequence> complete = {{"new_damage", Consequence::NewDamage},
                                                       {"new_errors", Consequence::NewErrors},
                                                       {"broken_handlers", Consequence::BrokenHandlers},
                                                       {"stopped_holding", Consequence::StoppedHolding}};
  const std::map<const char*, Consequence> partial = {{"error_changed", Consequence::ErrorChanged},
                                                      {"damage_raises_now", Consequence::DamageRaises},
                                                      {"recovers", Consequence::Recovers},
                                                      {"healed", Consequence::Healed},
                                                      {"holds_again", Consequence::HoldsAgain},
                                                      {"new_fix", Consequence::NewFix},
                                                      {"unknown", Consequence::Unknown}};
  const auto* pairs = tables_in(file, "pair", path, "[[pair]]");
  ASSERT_NE(pairs, nullptr);
  ASSERT_EQ(pairs->size(), 4U);
  for (const auto& node : *pairs) {
    const toml::table& pair = *node.as_table();
    const std::string from = text_in(pair, "from", path), to = text_in(pair, "to", path);
    auto tests = tests_by_consequence(CommittedRecords::get().compared(from, to));
    for (const auto& [key, consequence] : complete) {
      const auto expected = texts_of(pair, key, path);
      EXPECT_EQ(tests[consequence], expected) << from << " -> " << to << ": " << key;
      EXPECT_EQ(texts_of(pair, "never", path) - tests[consequence], texts_of(pair, "never", path))
          << from << " -> " << to << ": " << key;
    }
    for (const auto& [key, consequence] : partial) {
      EXPECT_EQ(texts_of(pair, key, path) - tests[consequence], std::set<std::string>())
          << from << " -> " << to << ": not " << key;
    }
  }
}

TEST(Upgrades, ThreeTeams_GetTheAnswerThatWasWrittenDown) {
  const std::string path = kRoot + "/harness/tests/data/upgrades.toml";
  const toml::table file = parse_toml(path);
  const auto* upgrades = tables_in(file, "upgrade", path, "[[upgrade]]");
  ASSERT_NE(upgrades, nullptr);
  ASSERT_EQ(upgrades->size(), 12U);
  const CompareContext& background = CommittedRecords::get().background;
  for (const auto& node : *upgrades) {
    const toml::table& upgrade = *node.as_table();
    const std::string from = text_in(upgrade, "from", path), to = text_in(upgrade, "to", path);
    const std::string name = fmt::format("{} -> {} for {}", from, to, text_in(upgrade, "team", path));
    const Comparison comparison = CommittedRecords::get().compared(from, to);
    Policy policy;
    policy.scope = texts_in(upgrade, "scope", path);
    const auto scope = cases_in_scope(policy.scope, background.catalogue);
    const Decision decision = decide(policy, comparison, scope, background.catalogue, kToday);
    EXPECT_EQ(answer_of(decision), text_in(upgrade, "answer", path)) << name;
    for (const std::string& test : texts_in(upgrade, "worst", path)) {
      EXPECT_EQ(scope.count(case_of(test)), 1U) << name << ": " << test;
      EXPECT_EQ(decision.blocking.count(test), 1U) << name << ": " << test;
    }
    for (const std::string& test : texts_in(upgrade, "outside", path)) {
      EXPECT_EQ(scope.count(case_of(test)), 0U) << name << ": " << test;
      EXPECT_EQ(decision.blocking.count(test), 1U) << name << ": " << test;
      EXPECT_THAT(report::render_outside_scope(decision), ::testing::HasSubstr(case_of(test))) << name;
    }
    const ComparisonReport report{filter_cases(comparison, scope), policy, &decision};
    const std::string markdown = render_markdown(report);
    EXPECT_LT(markdown.size(), 20000U) << name;
    EXPECT_THAT(markdown.substr(0, markdown.find('\n')), ::testing::EndsWith(std::string(answer_of(decision)))) << name;
  }
}

// By the rows alone, independently of compare's table.
bool works(const TestVerdict& row) {
  return row.result == Result::Healthy || row.result == Result::Holds || row.result == Result::Unseen ||
         (row.result == Result::Reproduced && row.effect == Effect::Works);
}
bool does_damage(const TestVerdict& row) {
  if (row.result == Result::Crashed || row.result == Result::Hung) return true;
  return row.kind == Kind::Reproduces && row.result == Result::Reproduced &&
         (row.effect == Effect::SilentlyWrong || row.effect == Effect::Hangs || row.effect == Effect::Crashes);
}

const TestVerdict* row_in(const JudgedRun* run, const std::string& test) {
  if (run == nullptr) return nullptr;
  const auto row =
      std::find_if(run->rows.begin(), run->rows.end(), [&](const TestVerdict& each) { return each.test == test; });
  return row == run->rows.end() ? nullptr : &*row;
}

TEST(Upgrades, WorksToDamage_IsNeverPassedInAnyScope) {
  const CommittedRecords& records = CommittedRecords::get();
  std::vector<std::vector<std::string>> scopes = {{}, {"DDP", "graphed callables", "generators"}, {"sync"}};
  for (const Tag& tag : kTags) scopes.push_back({std::string(tag.name)});
  ASSERT_GE(scopes.size(), 20U);
  std::vector<std::pair<Policy, std::set<std::string>>> gates;
  for (const auto& words : scopes) {
    Policy policy;
    policy.scope = words;
    policy.limits = {100, 100};
    policy.block = {};  // The most lenient one.
    gates.emplace_back(policy, cases_in_scope(words, records.background.catalogue));
  }
  size_t damaging = 0;
  records.for_each_pair([&](const Side& from, const Side& to, const Comparison& comparison) {
    std::set<std::string> damaged;
    for (const ComparedTest& test : comparison.tests) {
      const TestVerdict *before = row_in(test.before, test.test), *now = row_in(test.after, test.test);
      if (before == nullptr || now == nullptr || test.consequence == Consequence::Unknown) continue;
      const bool is_race = test.before->record.find(test.test)->has("tries");  // Judged by all its runs.
      const bool is_judged = before->verdict != Verdict::Inconclusive;         // Else the gate cannot tell.
      if (!is_race && is_judged && works(*before) && does_damage(*now)) damaged.insert(test.test);
    }
    if (damaged.empty()) return;
    ++damaging;
    for (const auto& [policy, scope] : gates) {
      const Decision decision = decide(policy, comparison, scope, records.background.catalogue, kToday);
      ASSERT_EQ(decision.exit(), Exit::Changed)
          << from.name << " -> " << to.name << ", scope " << fmt::format("{}", fmt::join(policy.scope, ", "));
      ASSERT_EQ(damaged - decision.blocking, std::set<std::string>()) << from.name << " -> " << to.name;
    }
  });
  EXPECT_GT(damaging, 10U) << "there are such upgrades on record";
}

// "raised X" and "raises X" count as equal.
std::string in_present(const std::string& text) {
  static const std::vector<std::pair<std::string, std::string>> kVerbs = {
      {"raised ", "raises "}, {"warned of ", "warns of "}, {"showed ", "shows "}, {"left ", "leaves "},
      {"had ", "has "},       {"worked", "works"},         {"held", "holds"},     {"hung", "hangs"},
      {"crashed", "crashes"}, {"leaked", "leaks"},         {"was ", "is "}};
  for (const auto& [past, present] : kVerbs) {
    if (text.rfind(past, 0) == 0) return present + text.substr(past.size());
  }
  return text;
}

TEST(Upgrades, Sentences_HaveTwoHalvesThatDiffer) {
  std::set<std::string> checked;
  CommittedRecords::get().for_each_pair([&](const Side& from, const Side& to, const Comparison& comparison) {
    for (const CaseChange& change : comparison.changes) {
      const auto [was, is, note] = words_of(change.change);
      if (!checked.insert(was + "|" + is).second) continue;
      EXPECT_NE(was, "") << is;
      EXPECT_NE(in_present(was), is) << from.name << " -> " << to.name << ": " << change.case_id;
    }
  });
  EXPECT_GT(checked.size(), 50U);
}

// Of the upgrades from one release to the next, harmless ones must not look like regressions. Which are which is in
// data/kept/.
TEST(Upgrades, NeighbouringReleases_EndWithOneOnlyWhereARunningProgramBreaks) {
  std::vector<std::string> releases = read_matrix(kRoot);
  std::erase_if(releases, [](const std::string& release) { return !CommittedRecords::get().has(release); });
  ASSERT_GE(releases.size(), 15U);
  size_t failing = 0;
  for (size_t i = 0; i + 1 < releases.size(); ++i) {
    const Comparison comparison = CommittedRecords::get().compared(releases[i], releases[i + 1]);
    const bool breaks = std::any_of(comparison.changes.begin(), comparison.changes.end(),
                                    [](const CaseChange& change) { return is_regression(change.consequence); });
    EXPECT_EQ(exit_for(comparison) == Exit::Changed, breaks) << releases[i];
    if (breaks) ++failing;
  }
  EXPECT_GE(failing, 11U) << "upgrades that break a running program";
  EXPECT_LT(failing, releases.size() - 1) << "others do not";
}

// The answer of `gate --json` for an upgrade of a program with these features.
Json answer_of_gate(const std::string& from, const std::string& to, const std::string& features) {
  return Json::parse(shell(fmt::format("{0}/recapture --root {1} gate --json {2} {3} --features {4}", RECAPTURE_BUILD,
                                       kRoot, from, to, features))
                         .out);
}

std::set<std::string> listed_in(const Json& answer) {
  std::set<std::string> listed;
  for (const Json& change : answer.at("changes")) {
    for (const Json& test : change.at("tests")) listed.insert(test.get<std::string>());
  }
  return listed;
}

// Ten programs that were observed on a GPU (examples/gate), each for one family of cases.
TEST(Stories, ProgramOfAFamily_IsToldOfItsChangesAndOfFewOthers) {
  const std::string folder = kRoot + "/harness/tests/data/features";
  const std::string records = kRoot + "/reports/";
  const toml::table file = parse_toml(folder + "/stories.toml");
  const auto most = file["most"].value<size_t>();
  const auto* stories = tables_in(file, "story", folder, "[[story]]");
  ASSERT_TRUE(most && stories != nullptr && stories->size() == 10);
  for (const auto& node : *stories) {
    const toml::table& story = *node.as_table();
    const std::string family = text_in(story, "family", folder), observed = folder + "/" + family + ".toml";
    const compare::Features features = compare::read_features(observed);
    for (const compare::Feature& one : features.all) {
      if (one.tag->name == text_in(story, "feature", folder)) {
        EXPECT_EQ(one.use, compare::Use::Used) << family;
      }
    }
    const std::set<std::string> listed = listed_in(
        answer_of_gate(records + "2.6.0/nvidia-h200.jsonl.gz", records + "2.15.0/nvidia-h200.jsonl.gz", observed));
    EXPECT_EQ(texts_of(story, "tests", folder) - listed, std::set<std::string>()) << family << ": not named";
    EXPECT_LE(listed.size(), *most) << family;
  }
}

// A program that uses these features; others are assumed only if they cannot be observed.
void write_features(const std::string& path, const std::set<std::string>& uses) {
  std::ofstream file(path);
  file << "[features]\n";
  for (const Tag& tag : kTags) {
    if (tag.name == kAnyProgram || tag.name == "torch.load" || tag.name == "runtime compilation") continue;
    file << fmt::format("\"{}\" = \"{}\"\n", tag.name, uses.count(std::string(tag.name)) ? "used" : "not used");
  }
}

// https://github.com/pytorch/pytorch/pull/172156: pytorch#172156.
std::string number_of(const std::string& thread) {
  const std::filesystem::path path = thread;
  return path.parent_path().parent_path().filename().string() + "#" + path.filename().string();
}

// Upgrades that users reported: their breakage is reported, and no change other than the expected ones blocks.
TEST(Reported, WhatAnUpgradeBroke_IsAnnouncedAndNothingElseIsClaimed) {
  const std::string path = kRoot + "/harness/tests/data/reported.toml";
  const std::string features = ::testing::TempDir() + "reported-" + std::to_string(getpid()) + ".toml";
  std::ostringstream page;
  page << std::ifstream(kRoot + "/docs/reference/reported-upgrades.md").rdbuf();
  const toml::table file = parse_toml(path);
  const auto* reports = tables_in(file, "report", path, "[[report]]");
  ASSERT_TRUE(reports != nullptr && reports->size() == 20);
  std::map<std::string, size_t> answers;
  for (const auto& node : *reports) {
    const toml::table& report = *node.as_table();
    const std::string thread = text_in(report, "thread", path), from = text_in(report, "from", path),
                      to = text_in(report, "to", path);
    const std::set<std::string> announced = texts_of(report, "announced", path), also = texts_of(report, "also", path);
    write_features(features, texts_of(report, "uses", path));
    const Json answer = answer_of_gate(from, to, features);
    EXPECT_EQ(announced - listed_in(answer), std::set<std::string>()) << thread << ": not reported";
    std::set<std::string> blocking;
    for (const Json& test : answer.at("blocking")) blocking.insert(test.get<std::string>());
    EXPECT_EQ(blocking - announced, also) << thread << ": further changes block";
    const std::string why = announced.empty() ? text_in(report, "why", path) : "";
    ++answers[announced.empty() ? why : "announced"];
    EXPECT_THAT(page.str(), ::testing::HasSubstr(fmt::format(
                                "| [{}]({}) | {} → {} | {} | {} |\n", number_of(thread), thread, from, to,
                                text_in(report, "story", path),
                                announced.empty() ? why : fmt::format("`{}`", fmt::join(announced, "`, `")))));
  }
  std::filesystem::remove(features);
  EXPECT_THAT(answers,
              ::testing::UnorderedElementsAre(::testing::Pair("announced", 10U), ::testing::Pair("not the release", 5U),
                                              ::testing::Pair("Inductor", 3U), ::testing::Pair("speed", 1U),
                                              ::testing::Pair("no case", 1U)));
}

}  // namespace
}  // namespace recapture
