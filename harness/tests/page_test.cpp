// The page: it shows what `show` and `compare` print, each once, and escapes all texts of records. tools/page tests it
// in a browser.
#include "harness/report/page.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "harness/model/catalogue.h"
#include "harness/model/operator_cases.h"
#include "harness/model/scope.h"
#include "harness/report/change.h"
#include "harness/report/operators.h"
#include "harness/report/page_data.h"
#include "harness/report/verdicts.h"
#include "harness/store/result_matrix.h"
#include "harness/store/select.h"
#include "harness/tests/fake_record.h"
#include "harness/tests/namespaces.h"
#include "harness/tests/shell.h"
#include "harness/tests/small_tree.h"
#include "harness/tests/this_tree.h"
#include "harness/timeline/failures.h"
#include "harness/words/observation.h"

namespace recapture {
namespace {

namespace fs = std::filesystem;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;
using ::testing::Not;

const std::string kDataBegin = R"(<script type="application/json" id="data">)";

std::string data_text(const std::string& page) {
  const size_t begin = page.find(kDataBegin) + kDataBegin.size();
  return page.substr(begin, page.find("</script>", begin) - begin);
}

class Page : public ::testing::Test {
 protected:
  void SetUp() override {
    fs::create_directories(folder);
    fs::create_directories(root + "/ci");
    fs::copy(kRoot + "/ci/matrix.toml", root + "/ci/matrix.toml");
  }
  void TearDown() override {
    fs::remove_all(folder);
    fs::remove_all(root);
  }

  // In the folder, of a tree without cases.
  ShellResult recapture(const std::string& arguments, const std::string& before = "") const {
    return shell("cd '" + folder + "' && " + before + RECAPTURE_BUILD "/recapture --root '" + root + "' page " +
                 arguments);
  }

  // A run of one case on a day, with this observation of Reproduces.
  std::string run(const std::string& name, const std::string& day, const std::string& saw,
                  const Json& more = Json::object()) const {
    Json environment = fake_environment({{"release", "2.6.0"}, {"volatile", {{"started", day + "T00:00:00Z"}}}});
    environment.update(more);
    const std::string path = folder + "/" + name + ".jsonl";
    FakeRecord{environment, {fake_test("c.Control"), fake_failure("c.Reproduces", saw)}}.write(path);
    return path;
  }

  // For the records below the folder, without a tree.
  Json data() const {
    PageInput input;
    input.folder = folder;
    return page_data(read_records_below(folder), std::move(input)).json;
  }

  const std::string folder = ::testing::TempDir() + "recapture-page-" + std::to_string(getpid()),
                    root = folder + "-root";
};

// Committed records that differ in everything that matters to the page: a run that was cut short, so that most tests
// are unknown beside it; two releases with races, prices and all cases, the older one with two runs; both without a
// GPU; and a run broken on purpose.
const SmallTree& small_tree() {
  static const SmallTree tree({"2.1.0/nvidia-h200.jsonl.gz", "2.6.0/nvidia-h200.jsonl.gz",
                               "2.6.0/nvidia-h200.run-2.jsonl.gz", "2.6.0/nvidia-h200.prices.gz", "2.6.0/host.jsonl.gz",
                               "2.15.0/nvidia-h200.jsonl.gz", "2.15.0/nvidia-h200.prices.gz",
                               "2.15.0/nvidia-h200.trigger.jsonl.gz", "2.15.0/host.jsonl.gz"});
  return tree;
}
const Json& of_small_tree() {
  static const Json data = parse_json(data_text(small_tree().recapture("page --output -").out));
  return data;
}
std::string text_of(const Json& data, const Json& number) { return data.at("texts").at(number.get<size_t>()); }
Json list_of(const Json& data, const Json& number) { return data.at("lists").at(number.get<size_t>()); }
std::string test_id(const Json& data, const Json& number) {
  const Json& test = data.at("tests").at(number.get<size_t>());
  return text_of(data, data.at("cases").at(test.at(0).get<size_t>()).at("id")) + "." + text_of(data, test.at(1));
}
// For a change: "showed D in 2.6.0; in 2.15.0 it shows E".
std::string sentence_of(const Json& data, const Json& change, const std::string& from, const std::string& to) {
  std::string sentence = data.at("sentence");
  for (const auto& [name, words] : {std::pair("{was}", text_of(data, change.at(3))),
                                    {"{from}", from},
                                    {"{to}", to},
                                    {"{is}", text_of(data, change.at(4))},
                                    {"{note}", text_of(data, change.at(5))}}) {
    sentence.replace(sentence.find(name), std::string_view(name).size(), words);
  }
  return sentence;
}

// Each pair is a run of compare: all upgrades, and downgrades between neighbours. Kept checks compare's answers for all
// committed records.
TEST_F(Page, EveryPairOfReleases_AgreesWithCompare) {
  const Json& data = of_small_tree();
  size_t pairs = 0;
  std::set<int> exits;
  for (const Json& machine : data.at("compared")) {
    const Json& releases = machine.at("releases");
    const std::string name = text_of(data, machine.at("name")), gpu = name.substr(0, name.find(','));
    for (size_t from = 0; from < releases.size(); ++from) {
      for (size_t to = 0; to < releases.size(); ++to) {
        const Json& pair = machine.at("pairs").at(from).at(to);
        EXPECT_EQ(pair.is_null(), from == to);
        if (from == to || from > to + 1) continue;
        const std::string before = text_of(data, releases.at(from)), now = text_of(data, releases.at(to));
        const std::string sides = before + " " + now + " --gpu '" + (gpu == "no GPU" ? "none" : gpu) + "'";
        const ShellResult said = small_tree().recapture("compare --json " + sides);
        EXPECT_EQ(pair.at("exit"), said.code) << sides;
        const Json expected = parse_json(said.out);
        size_t unknown = 0, not_measured = 0, unlisted = pair.value("operators", size_t{0});
        for (const Json& why : pair.at("unknown")) {
          const auto operators = why.at(3).get<size_t>();
          (why.at(2).get<bool>() ? unknown : not_measured) += list_of(data, why.at(1)).size() + operators;
          unlisted += operators;
        }
        EXPECT_EQ(list_of(data, pair.at("tests")).size() + unlisted,
                  expected.at("judged").get<size_t>() + unknown + not_measured);
        EXPECT_EQ(unknown, expected.at("unknown"));
        EXPECT_EQ(not_measured, expected.at("not_measured"));
        std::set<std::string> theirs, ours;
        for (const Json& change : expected.at("changes")) {
          std::string fixes;
          for (const Json& one : change.at("fixes")) {
            fixes += "; " + one.at("advice").get<std::string>() + ": " + one.at("fix").get<std::string>();
          }
          theirs.insert(change.at("consequence").get<std::string>() + change.at("case").get<std::string>() +
                        change.at("tests").dump() + change.at("sentence").get<std::string>() + fixes);
        }
        for (const Json& group : pair.at("groups")) {
          for (const Json& one : group) {
            const Json& change = data.at("changes").at(one.at(0).get<size_t>());
            Json tests = Json::array();
            for (const Json& test : list_of(data, change.at(2))) tests.push_back(test_id(data, test));
            std::string fixes;
            const Json &words = list_of(data, change.at(6)), &advices = list_of(data, change.at(7));
            for (size_t i = 0; i < words.size(); ++i) {
              const size_t advice = advices.at(i).get<size_t>();
              fixes += "; " + data.at("advice").at(advice).get<std::string>() + ": " + text_of(data, words.at(i));
            }
            ours.insert(data.at("consequences").at(change.at(0).get<size_t>()).at(0).get<std::string>() +
                        text_of(data, data.at("cases").at(change.at(1).get<size_t>()).at("id")) + tests.dump() +
                        sentence_of(data, change, before, now) + fixes);
          }
        }
        EXPECT_EQ(ours, theirs) << sides;
        exits.insert(said.code);
        ++pairs;
      }
    }
  }
  EXPECT_EQ(pairs, 7U);
  EXPECT_THAT(exits, IsSupersetOf({static_cast<int>(Exit::Changed), static_cast<int>(Exit::Inconclusive)}));
}

// These decide what is green on the page, and what ends with a code other than 1.
TEST_F(Page, HurtingChange_IsRedAndEndsWithOne) {
  const Json& data = of_small_tree();
  size_t pairs = 0, hurting = 0;
  for (const Json& machine : data.at("compared")) {
    for (const Json& row : machine.at("pairs")) {
      for (const Json& pair : row) {
        if (pair.is_null()) continue;
        bool is_hurting = false;
        for (const Json& group : pair.at("groups")) {
          for (const Json& one : group) {
            const size_t number = data.at("changes").at(one.at(0).get<size_t>()).at(0);
            const Json& consequence = data.at("consequences").at(number);
            ASSERT_EQ(consequence.at(2), is_regression(static_cast<Consequence>(number)));
            if (consequence.at(2) != true) continue;
            is_hurting = true;
            EXPECT_EQ(consequence.at(3), "red");
            EXPECT_GT(pair.at("counts").at(number), 0);
          }
        }
        EXPECT_EQ(pair.at("exit") == static_cast<int>(Exit::Changed), is_hurting);
        hurting += is_hurting ? 1 : 0;
        ++pairs;
      }
    }
  }
  EXPECT_GT(hurting, 0U);
  EXPECT_GT(pairs, hurting);
}

TEST_F(Page, Consequences_AreThoseOfTheTableWorstFirst) {
  run("1", "2026-01-01", "D");
  const Json data = this->data();
  ASSERT_EQ(data.at("consequences").size(), kConsequenceCount);
  for (size_t i = 0; i < kConsequenceCount; ++i) {
    const auto consequence = static_cast<Consequence>(i);
    const Json& told = data.at("consequences").at(i);
    EXPECT_EQ(told.at(0), to_string(consequence));
    EXPECT_EQ(told.at(1), meaning(consequence));
    EXPECT_EQ(told.at(2), is_regression(consequence));
  }
  for (const auto consequence : {Consequence::NewErrors, Consequence::ErrorChanged, Consequence::Capturable}) {
    for (const size_t headline : {5, 6}) {
      EXPECT_FALSE(
          data.at("consequences").at(static_cast<size_t>(consequence)).at(headline).get<std::string>().empty());
    }
  }
  EXPECT_EQ(data.at("consequences").at(data.at("same").get<size_t>()).at(0), to_string(Consequence::Same));
  EXPECT_EQ(data.at("consequences").at(data.at("unknown").get<size_t>()).at(0), to_string(Consequence::Unknown));
}

TEST_F(Page, Tags_ChooseTheCasesOfAGateWithThatScope) {
  const Json& data = of_small_tree();
  const Catalogue catalogue = read_catalogue(kRoot);
  const Json& tags = data.at("tags");
  ASSERT_EQ(tags.size(), kTags.size());
  for (size_t number = 0; number < tags.size(); ++number) {
    for (const Json& folded : tags.at(number).at(2)) {
      std::set<std::string> chosen;
      for (const Json& one : data.at("cases")) {
        if (!one.contains("tags")) continue;
        const Json list = list_of(data, one.at("tags"));
        if (std::find(list.begin(), list.end(), Json(number)) == list.end() &&
            std::find(list.begin(), list.end(), data.at("any_program")) == list.end()) {
          continue;
        }
        chosen.insert(text_of(data, one.at("id")));
      }
      std::set<std::string> expected = cases_in_scope({folded.get<std::string>()}, catalogue);
      std::erase_if(expected,
                    [](const auto& each) { return lists_operators(each); });  // These have a table of their own.
      EXPECT_EQ(chosen, expected) << folded;
      EXPECT_GT(chosen.size(), 0U);
      EXPECT_LT(chosen.size(), catalogue.size());
    }
  }
}

TEST_F(Page, PriceThatChanged_EndsWithThreeAsInCompare) {
  run("2.6.0/g", "2026-01-01", "D");
  run("2.15.0/g", "2026-01-02", "D", {{"release", "2.15.0"}});
  const auto price = [&](const std::string& release, double with) {
    std::ofstream file(folder + "/" + release + "/g.prices");
    const Json environment = fake_environment(Json::object());
    file << Json{{"prices", 2},
                 {"release", release},
                 {"gpu", environment.at("gpu")},
                 {"driver", environment.at("driver")},
                 {"cuda_runtime", environment.at("cuda_runtime")},
                 {"hash", "h"},
                 {"volatile", {{"started", "2026-01-01T00:00:00Z"}}}}
                .dump()
         << "\n"
         << Json{{"price", Json::array({"c.Fix"})},
                 {"what", "a replay"},
                 {"clock", "gpu"},
                 {"without", std::vector<double>(12, 10.0)},
                 {"control", std::vector<double>(12, 10.0)},
                 {"with", std::vector<double>(12, with)}}
                .dump()
         << "\n";
  };
  price("2.6.0", 10);
  price("2.15.0", 20);
  const auto pair = [&] { return data().at("compared").at(0).at("pairs").at(0).at(1); };
  EXPECT_EQ(small_tree().recapture("compare 2.6.0 2.15.0 --records '" + folder + "'").code, 3);
  EXPECT_EQ(pair().at("exit"), 3);
  ASSERT_EQ(pair().at("prices").size(), 1U);
  EXPECT_EQ(text_of(data(), pair().at("prices").at(0).at(1)), "a replay");
  std::ofstream(folder + "/2.15.0/g.prices") << "bad\n";
  EXPECT_EQ(pair().at("exit"), 0) << "the rest of the page is unchanged";
}

TEST_F(Page, EveryRun_HasTheVerdictsOfShow) {
  const Json& data = of_small_tree();
  const Rules rules = rules_as_in_a_run(small_tree().folder);
  size_t runs = 0, results = 0;
  std::map<std::string, const Json*> by_path;
  for (const Json& run : data.at("runs")) by_path[text_of(data, run.at("path"))] = &run;
  const ResultMatrix board(all_records(small_tree().reports).records, rules);
  for (const JudgedRun& judged : board.records()) {
    const Record& record = judged.record;
    const std::string& path = record.path;
    const auto found = by_path.find(fs::path(path).lexically_relative(small_tree().reports));
    EXPECT_EQ(found == by_path.end(), record.broken() != Break::Nothing) << path;
    if (found == by_path.end()) continue;
    const Json &run = *found->second, tests = list_of(data, run.at("tests"));
    const std::vector<TestVerdict>& rows = judged.rows;
    ASSERT_EQ(tests.size(), rows.size());
    for (size_t i = 0; i < rows.size(); ++i) {
      const Json& seen = data.at("observations").at(run.at("seen").at(i).get<size_t>());
      EXPECT_EQ(test_id(data, tests.at(i)), rows[i].test);
      EXPECT_EQ(data.at("verdicts").at(seen.at(1).get<size_t>()), to_string(rows[i].verdict))
          << path << " " << rows[i].test;
      EXPECT_EQ(seen.at(0), rows[i].ran ? static_cast<int>(rows[i].result) : -1);
      EXPECT_EQ(seen.size() > 2 ? text_of(data, seen.at(2)) : "",
                render_observed(rows[i]).substr(0, render_observed(rows[i]).find_last_not_of('\n') + 1));
      ++results;
    }
    ++runs;
  }
  EXPECT_EQ(runs, data.at("runs").size());
  EXPECT_EQ(runs, data.at("made").at("records"));
  EXPECT_GT(results, 2000U);
}

TEST_F(Page, Cell_HasTheWorstVerdictOfItsTests) {
  const Json& data = of_small_tree();
  size_t cells = 0, empty = 0;
  for (const Json& column : data.at("columns")) {
    const Json tests = list_of(data, column.at("tests"));
    std::map<size_t, std::vector<Verdict>> verdicts;
    std::set<size_t> ran;
    for (size_t i = 0; i < tests.size(); ++i) {
      const size_t its_case = data.at("tests").at(tests.at(i).get<size_t>()).at(0);
      const Json& seen = data.at("observations").at(column.at("seen").at(i).get<size_t>());
      verdicts[its_case].push_back(static_cast<Verdict>(seen.at(1).get<int>()));
      if (seen.at(0) != -1) ran.insert(its_case);
    }
    ASSERT_EQ(column.at("cells").size(), data.at("cases").size());
    Json partly = Json::array();
    for (size_t i = 0; i < data.at("cases").size(); ++i) {
      const int cell = column.at("cells").at(i);
      EXPECT_EQ(cell == -1, ran.count(i) == 0);
      empty += cell == -1 ? 1 : 0;
      if (cell == -1) continue;
      const auto worst = static_cast<Verdict>(cell);
      EXPECT_THAT(verdicts[i], Contains(worst));
      ++cells;
      if (worst != Verdict::Unavailable) {
        EXPECT_EQ(exit_for(verdicts[i]), exit_for({worst}));
        continue;
      }
      // Passes may be beside it.
      EXPECT_THAT(exit_for(verdicts[i]), ::testing::AnyOf(Exit::AsExpected, Exit::NothingRan));
      const auto lacking = std::count(verdicts[i].begin(), verdicts[i].end(), Verdict::Unavailable);
      const auto all = static_cast<std::ptrdiff_t>(verdicts[i].size());
      if (lacking < all) partly.push_back({i, lacking, all});
    }
    EXPECT_EQ(column.at("partly"), partly);
  }
  EXPECT_GT(cells, 500U);
  EXPECT_GT(empty, 50U);
}

// For example, if one test of several needs a second GPU.
TEST_F(Page, CellWithUnavailableTests_IsNoPass) {
  const std::string path = run("1", "2026-01-01", "D");
  const auto without = [&](const std::set<std::string>& tests) {
    std::istringstream lines(contents(path));
    std::string text;
    for (std::string line; std::getline(lines, line);) {
      Json one = parse_json(line);
      const std::string test = text_at(one, "test");
      if (tests.count(test) != 0) {
        one = {{"test", test}, {"ending", "exited"}, {"code", 77}, {"ended", "skipped"}, {"skipped", "needs 2 GPUs"}};
      }
      text += one.dump() + "\n";
    }
    std::ofstream(path) << text;
    return data().at("columns").at(0);
  };
  const Json all = without({});
  EXPECT_EQ(all.at("cells").at(0), static_cast<int>(Verdict::AsDocumented));
  EXPECT_EQ(all.at("failing").at(0), Json({0, static_cast<int>(timeline::FailureOutcome::Raises)}));
  const Json some = without({"c.Reproduces"});
  EXPECT_EQ(some.at("cells").at(0), static_cast<int>(Verdict::Unavailable));
  EXPECT_EQ(some.at("partly"), parse_json("[[0,1,2]]"));
  EXPECT_EQ(some.at("failing"), Json::array());
  const Json none = without({"c.Control", "c.Reproduces"});
  EXPECT_EQ(none.at("cells").at(0), static_cast<int>(Verdict::Unavailable));
  EXPECT_EQ(none.at("partly"), Json::array());
}

TEST_F(Page, Data_StoresEachEntryOnce) {
  const Json& data = of_small_tree();
  for (const char* kind : {"texts", "lists", "observations", "reasons", "changes", "upstream"}) {
    std::set<std::string> all;
    for (const Json& one : data.at(kind))
      EXPECT_TRUE(all.insert(one.dump()).second) << kind << " has twice " << one.dump();
    EXPECT_GT(all.size(), 5U) << kind;
  }
}

TEST_F(Page, Operators_AreWhatTheVerbPrints) {
  run("1", "2026-01-01", "D");
  PageInput input;
  input.folder = folder;
  input.operators = timeline::operator_table(kRoot, kRoot + "/reports");
  const timeline::OperatorTable table = input.operators;
  const Json data = page_data(read_records_below(folder), std::move(input)).json;
  const Json& operators = data.at("operators");
  ASSERT_EQ(operators.at("releases").size(), table.releases.size());
  std::set<std::string> words;
  for (const Json& word : operators.at("words")) words.insert(word.at(0));
  size_t number = 0, captured = 0;
  for (const timeline::OperatorRow& row : table.rows) {
    if (row.releases.empty()) continue;
    const Json& one = operators.at("rows").at(number++);
    EXPECT_EQ(text_of(data, one.at(0)), row.what.call);
    EXPECT_EQ(text_of(data, one.at(1)), row.what.name);
    std::string lines;
    for (const Json& line : list_of(data, one.at(7))) lines += text_of(data, line) + "\n";
    EXPECT_EQ(lines, render_text(row));
    for (const Json& word : list_of(data, one.at(2))) {
      EXPECT_TRUE(text_of(data, word).empty() || words.count(text_of(data, word)) == 1) << text_of(data, word);
    }
    EXPECT_EQ(list_of(data, one.at(3)).size(), table.releases.size());
    captured += one.at(4) == 1 ? 1 : 0;
  }
  EXPECT_EQ(number, operators.at("rows").size());
  EXPECT_GT(captured, 500U);
  EXPECT_LT(captured, number);
  EXPECT_LT(operators.dump().size(), 200U << 10) << "texts that operators share are stored once";
}

TEST_F(Page, RecordsWithoutOperators_HaveNone) {
  run("1", "2026-01-01", "D");
  EXPECT_TRUE(data().at("operators").at("rows").empty());
}

TEST_F(Page, LaterRun_ListsChangesSinceTheRunBefore) {
  run("1", "2026-01-01", "D");
  run("2", "2026-01-02", "D");
  run("3", "2026-01-03", "E");
  run("other", "2026-01-04", "D", {{"driver", "2"}});
  const Json data = this->data();
  const Json& runs = data.at("runs");
  ASSERT_EQ(runs.size(), 4U);
  EXPECT_FALSE(runs.at(0).contains("changed"));
  EXPECT_EQ(runs.at(1).at("changed").at("before"), 0);
  EXPECT_TRUE(runs.at(1).at("changed").at("groups").empty());
  EXPECT_EQ(runs.at(2).at("changed").at("before"), 1);
  const Json& group = runs.at(2).at("changed").at("groups").at(0);
  const Json& change = data.at("changes").at(group.at(0).at(0).get<size_t>());
  EXPECT_EQ(sentence_of(data, change, "1", "2"), "showed D in 1; in 2 it shows E");
  EXPECT_EQ(group.at(0).at(1), 1) << "compared with the newest run before it";
  EXPECT_EQ(group.at(0).at(2), 2);
  EXPECT_FALSE(runs.at(3).contains("changed")) << "another driver";
}

TEST_F(Page, RunCutBeforeItsPlan_HasNoChanges) {
  run("1", "2026-01-01", "D");
  const std::string cut = contents(run("2", "2026-01-02", "D"));
  std::ofstream(folder + "/2.jsonl") << cut.substr(0, cut.find('\n') + 1);
  const Json data = this->data();
  ASSERT_EQ(data.at("runs").size(), 2U);
  EXPECT_FALSE(data.at("runs").at(1).contains("changed"));
}

TEST_F(Page, FirstUpgrade_IsTheNewestThatIsHalfKnown) {
  run("a", "2026-01-01", "D");
  run("b", "2026-01-02", "E", {{"release", "2.10.0"}});
  run("c", "2026-01-03", "E", {{"release", "2.9.0"}});
  run("d", "2026-01-04", "E", {{"release", "2.11.0"}, {"driver", "2"}});  // Alone on its machine.
  const Json data = this->data();
  ASSERT_EQ(data.at("compared").size(), 2U);
  std::vector<std::string> releases;
  for (const Json& release : data.at("compared").at(0).at("releases")) releases.push_back(text_of(data, release));
  EXPECT_THAT(releases, ElementsAre("2.6.0", "2.9.0", "2.10.0"));
  EXPECT_EQ(data.at("first"), Json({0, 1, 2}));

  // The newest release ran other code, so nothing is known about an upgrade to it.
  const std::string path = run("b", "2026-01-02", "E", {{"release", "2.10.0"}});
  std::string text = contents(path);
  text.replace(text.find(R"("hash":"h")"), 10, R"("hash":"i")");
  std::ofstream(path) << text;
  EXPECT_EQ(this->data().at("first"), Json({0, 0, 1}));
}

TEST_F(Page, RunBrokenOnPurpose_IsLeftOutAndCounted) {
  run("1", "2026-01-01", "D");
  run("2", "2026-01-02", "ok", {{"break", "trigger"}});
  const ShellResult said = recapture("--records . --output -");
  EXPECT_EQ(said.code, 0);
  const Json data = parse_json(data_text(said.out));
  EXPECT_EQ(data.at("runs").size(), 1U);
  EXPECT_EQ(data.at("made"),
            Json({{"newest", "2026-01-01T00:00:00Z"}, {"records", 1}, {"broken", 1}, {"unreadable", 0}}));
}

TEST_F(Page, HostileText_StaysText) {
  const std::string hurt =
      "</script><script>alert(1)</script><!--<img src=x onerror=alert(1)> \xe2\x80\xae \x1b]52;c;x\x07 & \" ' \xff";
  const auto copies = [](const std::string& page, const std::string& what) {
    size_t count = 0;
    for (size_t at = 0; (at = page.find(what, at)) != std::string::npos; at += what.size()) ++count;
    return count;
  };
  run("1", "2026-01-01", "D");
  const std::string harmless = recapture("--records . --output -").out;
  const std::string path = run("1", "2026-01-01", "x");
  std::string text = contents(path);
  std::string in_json = Json(hurt).dump(-1, ' ', false, Json::error_handler_t::replace);
  in_json = in_json.substr(1, in_json.size() - 2);
  for (const std::string before :
       {R"("gpu":"G)", R"("title":"A title)", R"("seen":"x)", R"("documented":"D)", R"("driver":"1)"}) {
    for (size_t at = 0; (at = text.find(before, at)) != std::string::npos;) text.insert(at += before.size(), "@@");
  }
  for (size_t at = 0; (at = text.find("@@")) != std::string::npos;) text.replace(at, 2, in_json);
  std::ofstream(path) << text;
  const ShellResult said = recapture("--records . --output -");
  ASSERT_EQ(said.code, 0) << said.out.substr(0, 300);
  for (const char* what : {"<script", "</script", "<!--", "<img", "<"})
    EXPECT_EQ(copies(said.out, what), copies(harmless, what)) << what;
  EXPECT_THAT(said.out, HasSubstr(R"(\u003c/script>\u003cscript>alert(1))"));
  EXPECT_EQ(said.out.find('\x1b'), std::string::npos);
  EXPECT_EQ(said.out.find("\xe2\x80\xae"), std::string::npos);
  EXPECT_THAT(data_text(said.out), Not(HasSubstr("<")));
  EXPECT_NO_THROW(parse_json(data_text(said.out)));
}

TEST(PageLetters, NoTwoVerdicts_HaveTheSame) {
  std::set<std::string_view> letters = {"p"};  // The page's letter for a partly unavailable case.
  for (size_t i = 0; i < kVerdictCount; ++i) {
    EXPECT_TRUE(letters.insert(letter_of(static_cast<Verdict>(i))).second) << to_string(static_cast<Verdict>(i));
  }
}

TEST_F(Page, SameRecords_GiveTheSameBytes) {
  run("1", "2026-01-01", "D");
  run("2", "2026-01-02", "E");
  const std::string once = recapture("--records . --output -").out;
  fs::rename(folder + "/1.jsonl", folder + "/x");  // Changes the order in the folder and the file times.
  fs::copy(folder + "/x", folder + "/1.jsonl");
  fs::remove(folder + "/x");
  EXPECT_EQ(recapture("--records '" + folder + "' --output -").out, once);
  EXPECT_EQ(recapture("--records .").code, 0);
  EXPECT_EQ(contents(folder + "/page.html"), once);
  EXPECT_FALSE(fs::exists(folder + "/page.html.part"));
}

TEST_F(Page, Sources_LoadNothingFromTheNetwork) {
  for (const char* source : {"html", "css", "js"}) {
    const std::string text = contents(kRoot + "/harness/report/page." + source);
    EXPECT_THAT(text, Not(HasSubstr("://"))) << source;
    EXPECT_THAT(text, Not(HasSubstr("@import"))) << source;
    EXPECT_THAT(text, Not(HasSubstr("innerHTML"))) << source;
    EXPECT_THAT(text, Not(HasSubstr("src="))) << source;
  }
  EXPECT_THAT(contents(kRoot + "/harness/report/page.html"), HasSubstr("default-src 'none'"));
}

TEST_F(Page, BadArguments_GetOneLineAndTheirExitCode) {
  for (const char* name : {"/one", "/empty", "/bad", "/fifo"}) fs::create_directories(folder + name);
  run("one/1", "2026-01-01", "D");
  std::ofstream(folder + "/bad/b.jsonl") << "no record\n";
  mkfifo((folder + "/fifo/f.jsonl").c_str(), 0600);
  std::ofstream(folder + "/notes.txt") << "not to be lost";
  const std::vector<std::tuple<std::string, int, std::string>> table = {
      {"--records none", 2, "none: No such file or directory"},
      {"--records one/1.jsonl", 2, "one/1.jsonl is not a folder"},
      {"--records empty", 4, "no records below empty"},
      {"--records bad", 2, "bad/b.jsonl:1: "},
      {"--records fifo", 2, "is not a regular file"},
      {"--records ''", 2, "--records is empty"},
      {"--output ''", 2, "--output is empty"},
      {"--site ''", 2, "--site is empty"},
      {"--records one --site one/1.jsonl", 2, "one/1.jsonl is not a folder"},
      {"--records one --site bad", 2, "bad has other files in it"},
      {"--records one --site site --output page.html", 2, "--site"},
      {"2.6.0", 2, "2.6.0"},
      {"--records one --output one/1.jsonl", 2, "one/1.jsonl exists and is not a page"},
      {"--records one --output notes.txt", 2, "notes.txt exists and is not a page"},
      {"--records one --output empty", 2, "empty is a folder"},
      {"--records one --output none/page.html", 7, "none/page.html: cannot write it: No such file or directory"},
      {"--records one --output /proc/page.html", 7, "/proc/page.html: cannot write it"},
      {"--records one --output /dev/full", 7, "/dev/full: cannot write it"},
      {"--records one --output - >/dev/full", 7, "standard output: No space left on device"},
  };
  for (const auto& [arguments, code, words] : table) {
    const ShellResult said = recapture(arguments);
    EXPECT_EQ(said.code, code) << arguments << ": " << said.out.substr(0, 300);
    EXPECT_TRUE(said.is_one_line()) << arguments << ": " << said.out.substr(0, 300);
    EXPECT_THAT(said.out, HasSubstr(words)) << arguments;
  }
  EXPECT_EQ(contents(folder + "/notes.txt"), "not to be lost");
}

TEST_F(Page, UnreadableRecord_DoesNotHideTheOthers) {
  run("1", "2026-01-01", "D");
  std::ofstream(folder + "/2.jsonl") << "{\"recapture\":99}\n";
  const ShellResult said = recapture("--records . --output p.html");
  EXPECT_EQ(said.code, 2);
  EXPECT_EQ(std::ranges::count(said.out, '\n'), 2) << said.out;  // What was written, and what could not be read.
  EXPECT_THAT(said.out, AllOf(HasSubstr("wrote p.html"), HasSubstr("2.jsonl:1")));
  const Json data = parse_json(data_text(contents(folder + "/p.html")));
  EXPECT_EQ(data.at("runs").size(), 1U);
  EXPECT_EQ(data.at("made").at("unreadable"), 1);
}

TEST_F(Page, FullDisk_KeepsTheEarlierPage) {
  run("1", "2026-01-01", "D");
  EXPECT_EQ(recapture("--records . --output p.html").code, 0);
  const std::string before = contents(folder + "/p.html");
  run("2", "2026-01-02", "E");
  const ShellResult said = recapture("--records . --output p.html", "ulimit -f 8 && ");
  EXPECT_EQ(said.code, 7);
  EXPECT_TRUE(said.is_one_line()) << said.out;
  EXPECT_THAT(said.out, HasSubstr("p.html: cannot write it: File too large"));
  EXPECT_EQ(contents(folder + "/p.html"), before);
  EXPECT_FALSE(fs::exists(folder + "/p.html.part"));
}

TEST_F(Page, ClosedPipe_IsNoError) {
  const ShellResult said =
      shell("cd '" + folder + "' && (" + small_tree().command("page --output -") + "; echo $? >code) | head -c 20");
  EXPECT_EQ(said.out, "<!doctype html>\n<htm");
  EXPECT_EQ(contents(folder + "/code"), "0\n");
}

}  // namespace
}  // namespace recapture
