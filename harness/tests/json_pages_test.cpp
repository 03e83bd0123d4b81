// docs/reference/*-json.md lists words that a program may compare with: they must be those that are printed.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "harness/base/regex.h"
#include "harness/compare/compare.h"
#include "harness/compare/consequence.h"
#include "harness/compare/features.h"
#include "harness/compare/gaps.h"
#include "harness/compare/policy.h"
#include "harness/explain/explain.h"
#include "harness/recorder/captures.h"
#include "harness/tests/namespaces.h"
#include "harness/tests/this_tree.h"

namespace recapture {
namespace {

using ::testing::ContainerEq;

using Words = std::set<std::string>;
using Member = std::pair<std::string, std::string>;  // "gate", "answer".

template <class Enum>
Words words_up_to(Enum last) {
  Words words;
  for (int value = 0; value <= static_cast<int>(last); ++value) words.emplace(to_string(static_cast<Enum>(value)));
  return words;
}

Words without(Words words, const Words& others) {
  for (const std::string& other : others) words.erase(other);
  return words;
}

// Words that are written as literals: the groups of all matches.
Words literals(const std::string& path, const char* pattern) {
  const std::string source = contents(std::string(RECAPTURE_ROOT "/") + path);
  Words words;
  for (const Match& match : all_matches(source, RE2(pattern))) {
    for (size_t group = 1; group < match.size(); ++group) words.emplace(match[group]);
  }
  return words;
}

Words lower(const Words& words) {
  Words all;
  for (std::string word : words) {
    std::ranges::transform(word, word.begin(), [](unsigned char c) { return std::tolower(c); });
    all.insert(word);
  }
  return all;
}

Words modes() {
  Words words;
  for (const CaptureMode mode :
       {CaptureMode::Global, CaptureMode::ThreadLocal, CaptureMode::Relaxed, CaptureMode::Unknown}) {
    words.insert(name(mode));
  }
  return words;
}

Words gate_answers() {
  Words words;
  for (const auto why :
       {compare::DecisionReason::None, compare::DecisionReason::Blocks, compare::DecisionReason::Gaps}) {
    compare::Decision decision;
    decision.why = why;
    words.emplace(answer_of(decision));
  }
  return words;
}

const std::map<Member, Words>& printed() {
  static const std::map<Member, Words> words = {
      {{"gate", "answer"}, gate_answers()},
      {{"gate", "consequence"}, without(words_up_to(compare::Consequence::Unknown), {"the same", "unknown"})},
      {{"gate", "kind"}, words_up_to(compare::GapKind::OnlyNewer)},
      {{"gate", "advice"}, words_up_to(compare::Advice::Try)},
      {{"gate", "use"}, words_up_to(compare::Use::NotUsed)},
      {{"explain", "answer"}, words_up_to(explain::Answer::CannotTell)},
      {{"explain", "role"}, words_up_to(explain::Role::Victim)},
      {{"explain", "platform"},
       literals("harness/report/explanation.cpp", R"re("platform", [^}]* \? "(\w+)" : "(\w+)")re")},
      {{"blame", "heard_by"}, literals("harness/recorder/recorder.cpp", R"re(\bway = "([^"]+)")re")},
      {{"blame", "mode"}, modes()},
      {{"blame", "what"}, literals("harness/report/blame.cpp", R"re("what", silent[^}]* \? "([^"]+)" : "([^"]+)")re")},
      {{"check", "kind"}, lower(literals("python/recapture/_check/findings.py", R"re(\n    ([A-Z_]+) = ")re"))},
  };
  return words;
}

// Members whose rows name other members.
bool names_members(const Member& member) {
  static const std::set<Member> all = {
      {"blame", "begun"},        {"blame", "given_up"},    {"blame", "thread"},
      {"blame", "why_not"},      {"check", "compared"},    {"check", "cost"},
      {"check", "differing"},    {"check", "line"},        {"explain", "holds"},
      {"explain", "id"},         {"explain", "operators"}, {"explain", "price"},
      {"explain", "release"},    {"gate", "counts"},       {"gate", "elsewhere"},
      {"gate", "features"},      {"gate", "fixes"},        {"gate", "not_measured_tests"},
      {"gate", "policy"},        {"gate", "prices"},       {"gate", "schema"},
      {"gate", "unknown_tests"}, {"gate", "upstream"}};
  return all.count(member) != 0;
}

Words code_in(std::string_view text) {
  static const RE2 kCode("`([^`]+)`");
  Words words;
  for (const Match& match : all_matches(text, kCode)) words.emplace(match[1]);
  return words;
}

// The lists of words on a page: of a row that has several, and "`member` (`word`, `word`)" anywhere.
std::map<Member, Words> listed() {
  static const RE2 kRow(R"(\| `(\w+)`.* \| (.*) \|)");
  static const RE2 kInside(R"re(`(\w+)` \(((?:`[^`]+`(?:, | or )?)+)\))re");
  std::map<Member, Words> all;
  for (const auto& entry : std::filesystem::directory_iterator(RECAPTURE_ROOT "/docs/reference")) {
    std::string verb = entry.path().stem().string();
    if (!verb.ends_with("-json")) continue;
    verb.resize(verb.size() - std::string_view("-json").size());
    std::istringstream lines(contents(entry.path().string()));
    for (std::string line, member, words; std::getline(lines, line);) {
      for (const Match& match : all_matches(line, kInside)) all[{verb, std::string(match[1])}] = code_in(match[2]);
      if (!RE2::FullMatch(line, kRow, &member, &words) || names_members({verb, member})) continue;
      if (const Words code = code_in(words); code.size() > 1) all.emplace(Member(verb, member), code);
    }
  }
  return all;
}

TEST(JsonPages, EachListedWord_IsPrintedAndEachPrintedOneIsListed) {
  const std::map<Member, Words> pages = listed();
  for (const auto& [member, words] : printed()) {
    ASSERT_GT(words.size(), 1U) << member.first << " " << member.second;
    ASSERT_EQ(pages.count(member), 1U) << member.first << "-json.md lists no words of " << member.second;
    EXPECT_THAT(pages.at(member), ContainerEq(words)) << member.first << " " << member.second;
  }
  for (const auto& [member, words] : pages) {
    EXPECT_EQ(printed().count(member), 1U)
        << member.first << "-json.md lists words of " << member.second << ", which this test does not know";
  }
}

}  // namespace
}  // namespace recapture
