// Summaries of all records: the tables for made-up records.
#include "harness/report/tables.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/base/xz.h"
#include "harness/model/bounds.h"
#include "harness/model/release.h"
#include "harness/report/overview.h"
#include "harness/store/select.h"
#include "harness/tests/fake_record.h"
#include "harness/tests/namespaces.h"
#include "harness/tests/shell.h"
#include "harness/tests/this_tree.h"
#include "harness/timeline/operators.h"
#include "harness/words/observation.h"

namespace recapture {
namespace {

using recapture::Deviation;

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(TablesVerb, BadArguments_GetOneLineAndTheirExitCode) {
  const std::string empty = ::testing::TempDir() + "recapture-no-tables-" + std::to_string(getpid());
  fs::create_directories(empty);
  for (const auto& [arguments, code] :
       std::vector<std::pair<std::string, int>>{{"rules --records '" + empty + "'", 2},
                                                {"failures --records /nowhere", 2},
                                                {"machines --records '" + empty + "'", 4},
                                                {"operators --records '" + empty + "'", 4},
                                                {"calls --records '" + empty + "'", 4}}) {
    const ShellResult said = shell(kRecapture + " dev tables " + arguments);
    EXPECT_EQ(said.code, code) << arguments;
    EXPECT_TRUE(said.is_one_line()) << said.out;
  }
  for (const std::string which : {"machines", "calls", "failures", "documents"}) {
    const std::string arguments = which + " --records '" + kRoot + "/reports/2.6.0'";
    EXPECT_EQ(shell(kRecapture + " dev tables " + arguments).code, 0) << arguments;
  }
  fs::remove_all(empty);
}

TEST(ReportsTables, Calls_AreUpToDate) {
  const bool same = contents(kRoot + "/reports/calls.md") == shell(kRecapture + " dev tables calls 2>/dev/null").out;
  EXPECT_TRUE(same) << "run `tools/tables`";
}

TEST(ReportsTables, Operators_AreUpToDate) {
  const std::string page = kRoot + "/reports/operators.md", json = kRoot + "/reports/operators.json.xz";
  const auto made = [](const std::string& table) {
    return shell(kRecapture + " dev tables " + table + " 2>/dev/null").out;
  };
  constexpr size_t kMost = 8U << 20;
  EXPECT_TRUE(contents(page) == made("operators")) << "run `tools/tables`";
  EXPECT_TRUE(unpacked_by_xz(contents(json), json, kMost) == made("operators.json")) << "run `tools/tables`";
}

// Not compared by any test of the case, although calls.md has it.
TEST(ReportsTables, CaptureBesideARefusedCall_EndsIn901AndAnyOtherWell) {
  RecordFilter filter;
  filter.cases = {"unsafe_calls_by_mode"};
  size_t cells = 0;
  for (const Record& record : newest_records(kRoot + "/reports", filter).records) {
    for (const TestRecord& test : record.tests) {
      if (test.case_id() != "unsafe_calls_by_mode" || !test.has("facts")) continue;
      const Json facts = test.part("facts");
      for (const auto& [key, value] : facts.items()) {
        if (key.rfind("table.", 0) != 0 || !facts.contains(key + ".end")) continue;
        std::istringstream calls(value.get<std::string>()), ends(facts.at(key + ".end").get<std::string>());
        for (std::string call, end; calls >> call && ends >> end; ++cells) {
          const size_t at = call.find('=') + 1;
          EXPECT_EQ(end, call.substr(0, at) + (call.substr(at) == "900" ? "901" : "ok"))
              << record.path << ": " << test.id() << ", " << key;
        }
      }
    }
  }
  EXPECT_GT(cells, 1000U);
}

// How long NCCL's watchdog delays a capture is no result of a test. The records have it for every release.
TEST(ReportsTables, ClaimsAboutTheWatchdog_AreJudgedByFactsOfTheRecords) {
  std::istringstream table(shell(kRecapture + " dev tables documents 2>/dev/null").out);
  std::map<std::string, std::string> holds;  // By the beginning of the claim.
  for (std::string line; std::getline(table, line);) {
    std::vector<std::string> cells;
    std::istringstream row(line);
    for (std::string cell; std::getline(row, cell, '|');) cells.push_back(cell);
    if (cells.size() < 6 || cells[2] != " NCCL Watchdog Thread ") continue;
    holds[cells[3].substr(1, 20)] = cells[4];
  }
  EXPECT_EQ(holds["so from 2.2 on; not "], " no longer ") << "2.1.0 had no counter, 2.1.2 has one";
  EXPECT_EQ(holds["so up to 2.5; not so"], " not yet ") << "2.6 still waits";
  EXPECT_EQ(holds["so from 2.6 on; not "], " not yet ") << "the guard came in 2.7";
  for (const char* right : {"the capture first wa", "the watchdog calls c", "1.9 to 2.1: NCCL_ASY"}) {
    EXPECT_EQ(holds.count(right), 0U) << right;
  }
}

TEST(ReportsTables, OperatorThatIsRefusedOrWrong_HasAnAnswerThatWorksOrAReason) {
  // The first release with the replacement: pytorch#141838 implements nonzero_static() for CUDA.
  const std::map<std::string, std::string> kSince = {{"argwhere", "2.6"}, {"nonzero", "2.6"}};
  const timeline::OperatorTable table = timeline::operator_table(kRoot, kRoot + "/reports");
  size_t answered = 0;
  for (const timeline::OperatorRow& row : table.rows) {
    for (const timeline::OperatorOnRelease& on : row.releases) {
      const auto worst = on.worst();
      if (!worst || *worst == OperatorVerdict::Captured || *worst == OperatorVerdict::Undefined) continue;
      ++answered;
      EXPECT_FALSE(row.instead.name.empty()) << row.what.name << " on " << on.release << " is " << to_string(*worst)
                                             << ", but instead.toml has no entry for it";
      if (row.instead.call.empty()) continue;
      const auto since = kSince.find(row.what.name);
      const bool is_there = since == kSince.end() || !Release(on.release).is_older_than(Release(since->second));
      const OperatorResult* instead = on.find(OperatorForm::Instead);
      EXPECT_TRUE(instead != nullptr &&
                  instead->verdict == (is_there ? OperatorVerdict::Captured : OperatorVerdict::EagerFails))
          << row.what.name << ": no record shows that its replacement " << (is_there ? "works" : "is missing") << " on "
          << on.release;
    }
  }
  EXPECT_GE(answered, 500U);
}

// The results of an operator in a case and in the table, on each release that has both.
TEST(ReportsTables, Operators_AgreeWithTheCases) {
  const std::vector<std::pair<std::string, std::string>> kBoth = {
      {"nonzero_in_capture.Reproduces", "nonzero"},
      {"unique_in_capture.Reproduces", "unique"},
      {"item_in_capture.Reproduces", "item"},
      {"boolean_index_in_capture.Reproduces", "__getitem__"},
      {"boolean_index_in_capture.ReproducesByMaskedSelect", "masked_select"},
      {"repeat_interleave_in_capture.Reproduces", "repeat_interleave"},
      {"multinomial_in_capture.Reproduces", "multinomial"}};
  const timeline::OperatorTable table = timeline::operator_table(kRoot, kRoot + "/reports");
  RecordFilter filter;
  for (const auto& [test, name] : kBoth) filter.cases.insert(case_of(test));
  const std::vector<Record> records = newest_records(kRoot + "/reports", filter).records;
  for (const auto& [test, name] : kBoth) {
    size_t compared = 0;
    const auto row = std::find_if(table.rows.begin(), table.rows.end(),
                                  [&, &wanted = name](const auto& one) { return one.what.name == wanted; });
    ASSERT_TRUE(row != table.rows.end()) << name;
    for (const timeline::OperatorOnRelease& on : row->releases) {
      for (const Record& record : records) {
        const TestRecord* line = record.find(test);
        if (line == nullptr || record.env("release") != on.release || record.broken() != Break::Nothing) continue;
        const Result result = read_test(Kind::Reproduces, *line).result;
        if (result != Result::Reproduced && result != Result::Healthy) continue;
        const bool is_refused = on.worst() == OperatorVerdict::Refused || on.worst() == OperatorVerdict::SomeRefused;
        EXPECT_EQ(is_refused, result == Result::Reproduced) << test << " and " << name << " on " << on.release;
        ++compared;
      }
    }
    EXPECT_GT(compared, 0U) << test << " and " << name << " have no release with both on record";
  }
}

// Records of c.Reproduces, c.FixIt and the table of one call.
class Tables : public ::testing::Test {
 protected:
  void SetUp() override { fs::create_directories(folder); }
  void TearDown() override { fs::remove_all(folder); }

  void record(const std::string& release, const std::string& seen, const std::string& runtime = "12.4",
              const std::string& row =
                  "global/self=900 global/other=900 thread-local/self=900 thread-local/other=ok "
                  "relaxed/self=ok relaxed/other=ok",
              const Json& more = Json::object()) {
    Json environment = {{"release", release}, {"cuda_runtime", runtime}};
    environment.update(more);
    Json test = fake_failure("c.Reproduces", seen, "D*", kOk);
    test["facts"] = {{"table.cudaMalloc", row}, {"table.cudaMalloc.end", row}, {"table.odd", "something else"}};
    if (test.at("ended") == "passed") {
      test["culprit"] = {{"api", "cuMemAlloc_v2"}, {"code", 900}, {"mode", "global"}, {"thread", "capturing"}};
    }
    record_line(environment, test);
  }
  // A record with this result of c.Reproduces.
  void record_line(const Json& environment, const Json& seen, const Json& more = Json::object()) {
    const std::string id = more.value("case", "c");
    Json test = {{"test", id + ".Reproduces"}, {"ending", "exited"}};
    test.update(seen);
    FakeRecord{fake_environment(environment), {fake_test(id + ".Control"), test}, more}.write(
        fmt::format("{}/{}.jsonl", folder, ++records));
  }
  TableInput input() const {
    TableInput input{read_records_below(folder), {}, {"2.5.1", "2.6.0", "2.7.1", "2.8.0", "2.9.1"}, {}, folder};
    CatalogueCase one;
    one.id = "c";
    one.family = "f";
    one.tests = {{"Control", Kind::Control, {}, ""}, {"Reproduces", Kind::Reproduces, Effect::Raises, ""}};
    input.background.catalogue = {one};
    input.background.sources = {{"pytorch#1", "a title", "https://x/1"}};
    DocumentLine claim;
    claim.document = "the document";
    claim.lines = "12-14";
    claim.heading = "A heading";
    claim.says = "a call | fails";
    claim.covered = "c.Reproduces c.Control";
    input.documents = {claim};
    return input;
  }
  static Deviation change(const std::string& since, const std::string& where) {
    Deviation change;
    change.what = "it was mended";
    change.number = "pytorch#1";
    change.since = since;
    Expectation e;
    e.test = "c.Reproduces";
    e.where.release = where;
    e.result = Result::Healthy;
    e.why = "it was mended";
    e.source = change.number;
    change.expectations = {e};
    return change;
  }
  const std::string folder = ::testing::TempDir() + "recapture-tables-" + std::to_string(getpid());
  const std::string kD = "D > active > ok", kOk = "ok > active > ok";
  int records = 0;
};

TEST_F(Tables, Range_IsBoundByRecordsAndTheRestIsAGuess) {
  record("2.6.0", kD);
  record("2.8.0", kOk);
  TableInput all = input();
  all.background.changes = {change("2.7", ">=2.7")};
  const std::string text = render_failures(all);
  EXPECT_THAT(text,
              HasSubstr("| [c](../cases/f/c.cpp) (Reproduces) | reproduced in 2.6.0 (older: a guess); 2.7.1: a guess; "
                        "healthy in 2.8.0 (newer: a guess) | raised D in 2.6.0; in 2.8.0 it works | "
                        "[pytorch#1](https://x/1) since 2.7 | G |\n"));
  EXPECT_THAT(text, HasSubstr("* G: 2.6.0, 2.8.0\n"));
}

TEST_F(Tables, ReleaseNotInTheMatrix_IsNoGuess) {
  record("2.5.1", kD);
  record("2.8.0", kOk);
  FakeRecord{fake_environment({{"release", "2.4.0"}}), {fake_test("c.Control")}}.write(folder + "/control.jsonl");
  EXPECT_THAT(render_failures(input()), HasSubstr("| reproduced in 2.5.1; 2.6.0, 2.7.1: a guess; healthy in 2.8.0"));
}

TEST_F(Tables, StaleResults_AreLeftOutOfFailures) {
  record("2.6.0", kD);
  record("2.8.0", kOk);
  TableInput all = input();
  EXPECT_THAT(render_failures(all), HasSubstr("reproduced in 2.6.0"));
  all.background.rules.tree["c"].code = "another";
  EXPECT_THAT(render_failures(all), Not(HasSubstr("reproduced in 2.6.0")));
}

TEST_F(Tables, ResultWhereTheCaseCannotRun_IsInapplicable) {
  record("2.5.1", kD);
  record("2.6.0", kOk);
  record("2.9.1", kD);
  TableInput all = input();
  EXPECT_THAT(render_failures(all), HasSubstr("healthy in 2.6.0"));
  EXPECT_THAT(render_documents(all), HasSubstr("| 12-14 | A heading | a call \\| fails | not always | "));
  all.background.changes = {change("", "==2.6.0")};
  all.background.changes.front().inapplicable = true;
  for (Expectation& e : all.background.changes.front().expectations) e.inapplicable = true;
  all.background.rules.expectations = expectations_of(all.background.changes);
  EXPECT_THAT(render_failures(all), HasSubstr("| reproduced in 2.5.1; inapplicable in 2.6.0; "));
  EXPECT_THAT(render_documents(all), Not(HasSubstr("| 12-14 |"))) << "no evidence on the claim";
}

TEST_F(Tables, ContradictingRecord_WinsOverTheExpectation) {
  record("2.5.1", kD);
  record("2.6.0", kOk);
  TableInput all = input();
  all.background.changes = {change("2.7", ">=2.6")};
  EXPECT_THAT(render_failures(all), HasSubstr("since 2.7: the records contradict 2.7: 2.6.0 has it already"));
}

TEST_F(Tables, HostCase_IsCompletedFromAllMachines) {
  record("2.5.1", kD);
  record("2.9.1", kD);
  record("2.6.0", kOk, "12.4", "", {{"gpu", ""}});
  record("2.9.1", kD, "12.4", "", {{"gpu", ""}});
  TableInput all = input();
  all.background.catalogue.front().needs = {.gpus = 1};
  EXPECT_THAT(render_failures(all), HasSubstr("| reproduced from 2.5.1 to 2.9.1 | 1 |")) << "a GPU's is its own";
  all.background.catalogue.front().needs = {.python = true};
  EXPECT_THAT(render_failures(all), HasSubstr("| reproduced in 2.5.1; healthy in 2.6.0; "));
  EXPECT_THAT(render_failures(all), HasSubstr("| G; no GPU |\n"));
  record("2.5.1", kOk, "12.4", "", {{"gpu", ""}});
  TableInput apart = input();
  apart.background.catalogue.front().needs = {.python = true};
  EXPECT_THAT(render_failures(apart), HasSubstr("| reproduced from 2.5.1 to 2.9.1 | 1 |")) << "they contradict";
}

TEST_F(Tables, MachinesThatAgree_ShareALine) {
  for (const char* gpu : {"G", "H"}) {
    record("2.5.1", kD, "12.4", "", {{"gpu", gpu}});
    record("2.9.1", kD, "12.4", "", {{"gpu", gpu}});
  }
  record("2.6.0", kD, "12.4", "", {{"gpu", "I"}});
  record("2.5.1", kD, "12.4", "", {{"gpu", "I"}});
  record("2.5.1", kOk, "12.4", "", {{"gpu", "J"}});
  EXPECT_THAT(
      render_failures(input()),
      AllOf(HasSubstr("| reproduced from 2.5.1 to 2.9.1 | 1 | [c](../cases/f/c.cpp) | G; H |\n"),
            HasSubstr("| reproduced from 2.5.1 to 2.6.0 (newer: a guess) | 1 | [c](../cases/f/c.cpp) | I |\n")));
  record("2.6.0", kD);
  EXPECT_THAT(render_failures(input()), HasSubstr("| G; H for 2.5.1, 2.9.1; I for 2.5.1, 2.6.0 |\n"));
}

TEST_F(Tables, ClaimThatDoesNotHold_IsNamed) {
  record("2.6.0", kD);
  record("2.7.1", kOk);
  TableInput all = input();
  all.background.changes = {change("2.7", ">=2.7")};
  EXPECT_THAT(
      render_documents(all),
      AllOf(HasSubstr("## the document\n"),
            HasSubstr("| 12-14 | A heading | a call \\| fails | no longer | reproduced in 2.6.0 (older: a guess); "
                      "healthy in 2.7.1 (newer: a guess) | 1 of 2: c.Reproduces | [pytorch#1](https://x/1): it was "
                      "mended | [2.jsonl](../reports/2.jsonl) | G |\n")));
  fs::remove(folder + "/1.jsonl");
  EXPECT_THAT(render_documents(input()), HasSubstr("| never | healthy in 2.7.1"));
  fs::remove(folder + "/2.jsonl");
  record("2.8.0", kD);
  EXPECT_THAT(render_documents(input()), Not(HasSubstr("12-14")));
}

TEST_F(Tables, RoleOfATest_DecidesWhetherAClaimHolds) {
  record("2.5.1", kD);
  record("2.6.0", "other words");
  record("2.7.1", kOk);
  TableInput all = input();
  const auto said_of = [&](const std::string& covered) {
    all.documents.front().covered = covered;
    const std::string text = render_documents(all);
    const size_t claim = text.find("| 12-14 |");
    return claim == text.npos ? "" : text.substr(claim, text.find('\n', claim) - claim);
  };
  EXPECT_THAT(said_of("c.Reproduces"),
              HasSubstr("| no longer | reproduced in 2.5.1; different in 2.6.0; healthy in 2.7.1 (newer: a guess) | "
                        "c.Reproduces | nothing in `cases/expectations.toml` | [2.jsonl]"));
  EXPECT_THAT(said_of("c.Reproduces:fails"), AllOf(HasSubstr("| no longer |"), HasSubstr("| [3.jsonl]")));
  EXPECT_THAT(said_of("c.Reproduces:against"),
              AllOf(HasSubstr("| not yet |"), HasSubstr("| [c](../cases/f/c.cpp) shows it | [1.jsonl]")));
  EXPECT_THAT(said_of("c.Control:against"), HasSubstr("| never | holds from 2.5.1 to 2.7.1 (newer: a guess) |"));
  EXPECT_THAT(said_of("c.Control:against c.Reproduces:any"), HasSubstr("| never | holds "));
  said_of("c.Control:against c.Reproduces");
  EXPECT_THAT(render_documents(all), HasSubstr("| not always | holds from 2.5.1 to 2.7.1 "));
  EXPECT_EQ(said_of("c.Reproduces:any"), "");
}

TEST_F(Tables, ClaimAboutSomeReleases_IsJudgedByThemAlone) {
  record("2.5.1", kD);
  record("2.7.1", kOk);
  TableInput all = input();
  const auto holds = [&](const std::string& covered) {
    all.documents.front().covered = covered;
    return render_documents(all).find("| 12-14 |") == std::string::npos;
  };
  EXPECT_FALSE(holds("c.Reproduces"));
  EXPECT_TRUE(holds("@<2.6 c.Reproduces"));
  EXPECT_FALSE(holds("@>=2.6 c.Reproduces"));
  EXPECT_THAT(render_documents(all), HasSubstr("| never | "));
  EXPECT_FALSE(holds("@>=2.4,<2.6 c.Reproduces @>=2.6 c.Reproduces")) << "a range applies to the tests after it";
}

TEST_F(Tables, FactOfARecord_DecidesWhereAClaimNamesIt) {
  record("2.5.1", kD, "12.4", "no");
  record("2.7.1", kOk, "12.4", "yes");
  TableInput all = input();
  const auto said_of = [&](const std::string& covered) {
    all.documents.front().covered = covered;
    const std::string text = render_documents(all);
    const size_t claim = text.find("| 12-14 |");
    return claim == text.npos ? "" : text.substr(claim, text.find('\n', claim) - claim);
  };
  EXPECT_EQ(said_of("@<2.6 c.Reproduces?table.cudaMalloc=no"), "");
  EXPECT_EQ(said_of("@>=2.6 c.Reproduces?table.cudaMalloc=yes"), "") << "for any result of the test";
  EXPECT_THAT(said_of("c.Reproduces?table.cudaMalloc=yes"), HasSubstr("| not yet |"));
  EXPECT_THAT(said_of("c.Reproduces?table.cudaMalloc=yes:against"), HasSubstr("| no longer |"));
  EXPECT_EQ(said_of("c.Reproduces?no.such.fact=yes"), "") << "no record has it";
}

TEST_F(Tables, SameResultInOtherWords_IsOneRange) {
  record("2.5.1", kD);
  record("2.6.0", "D and more words");
  record("2.7.1", kOk);
  EXPECT_THAT(render_documents(input()), HasSubstr("| no longer | reproduced from 2.5.1 to 2.6.0; healthy in "));
}

TEST(Bounds, OfAnEntry_AreTheOldestAndTheNewestOfItsRecords) {
  Expectation e;
  e.records = {"2.11.0/g.jsonl", "2.9.1/g.jsonl", "cuda13/g.jsonl"};
  EXPECT_EQ(bounds_of(e), "2.9.1 to 2.11.0");
  e.records = {"2.9.1/g.jsonl"};
  EXPECT_EQ(bounds_of(e), "2.9.1");
  e.records = {"cuda13/g.jsonl"};
  EXPECT_EQ(bounds_of(e), "");
}

TEST_F(Tables, Calls_AreListedByModeThreadAndRuntime) {
  record("2.5.1", kD, "12.4");
  record("2.6.0", kD, "12.6");
  record("2.7.1", kOk, "12.8",
         "global/self=ok global/other=ok thread-local/self=ok thread-local/other=ok relaxed/self=ok relaxed/other=ok");
  record("2.7.1", kD, "13.0", "", {{"cuda_runtime_by", "preload"}});
  const std::string text = render_calls(input());
  EXPECT_THAT(text,
              HasSubstr("| cudaMalloc | 900, end 900 | 900, end 900 | 900, end 900 | ok | ok | ok | 12.4 to 12.6 |\n"));
  EXPECT_THAT(text, HasSubstr("| cudaMalloc | ok | ok | ok | ok | ok | ok | 12.8 |\n"));
  EXPECT_THAT(
      text, HasSubstr("| cuMemAlloc | 900 | global | capturing | 12.4 to 12.6, 13.0 | 1 | [c](../cases/f/c.cpp) |\n"));
  EXPECT_THAT(text, Not(HasSubstr("odd")));
}

TEST_F(Tables, RuntimeWithAnotherResult_IsAGapInCalls) {
  record("2.5.1", kD, "12.4");
  record("2.7.1", kD, "12.6");
  record_line(
      {{"release", "2.6.0"}, {"cuda_runtime", "12.5"}},
      {{"code", 77}, {"ended", "skipped"}, {"inapplicable", "no member"}, {"skipped", "Not applicable: no member"}});
  EXPECT_THAT(render_calls(input()),
              AllOf(HasSubstr("On record are\n12.4, 12.5, 12.6."), HasSubstr("| ok | ok | ok | 12.4 to 12.6 |\n"),
                    HasSubstr("| capturing | 12.4 to 12.6 | 1 |")));
  record("2.6.0", kOk, "12.5", "");
  EXPECT_THAT(render_calls(input()),
              AllOf(HasSubstr("| ok | ok | ok | 12.4, 12.6 |\n"), HasSubstr("| capturing | 12.4, 12.6 | 1 |")));
}

TEST_F(Tables, ReleaseWithAnotherResult_IsNoGapInCalls) {
  record("2.5.1", kD, "12.4");
  record("2.7.1", kD, "12.6");
  const auto of_another_release = [&](const std::string& runtime) {
    record("2.6.0", kOk, runtime, "", {{"cuda_runtime_by", "preload"}});
  };
  of_another_release("12.5");
  EXPECT_THAT(render_calls(input()), HasSubstr("| capturing | 12.4, 12.6 | 1 |")) << "it may be the runtime's";
  of_another_release("12.6");
  EXPECT_THAT(render_calls(input()), HasSubstr("| capturing | 12.4 to 12.6 | 1 |"));
}

TEST_F(Tables, UnseenRace_LosesNoCall) {
  record("2.5.1", kD, "12.4", "", {{"volatile", {{"started", "2026-11-01T00:00:00Z"}}}});
  record_line({{"release", "2.5.1"}, {"cuda_runtime", "12.4"}, {"volatile", {{"started", "2026-11-02T00:00:00Z"}}}},
              {{"code", 1}, {"ended", "failed"}, {"hits", 0}, {"tries", 50}, {"stopping", "300 captures"}});
  EXPECT_THAT(render_calls(input()), HasSubstr("| cuMemAlloc | 900 | global | capturing | 12.4 | 1 |"));
}

TEST_F(Tables, RaceInAnotherCall_IsNoGapInCalls) {
  const auto race = [&](const std::string& runtime, const std::string& api, const std::string& day = "01") {
    record_line(
        {{"release", "2.5.1"}, {"cuda_runtime", runtime}, {"volatile", {{"started", "2026-11-" + day + "T00:00:00Z"}}}},
        {{"code", 0},
         {"ended", "passed"},
         {"hits", 1},
         {"tries", 1},
         {"culprit", {{"api", api}, {"code", 900}, {"mode", "global"}, {"thread", "capturing"}}}},
        {{"case", "r"}, {"nature", "race"}});
  };
  race("12.4", "cuMemAlloc_v2");
  race("12.5", "cuEventQuery");
  race("12.6", "cuMemAlloc_v2");
  EXPECT_THAT(render_calls(input()), HasSubstr("| cuMemAlloc | 900 | global | capturing | 12.4, 12.6 | 1 |"));
  race("12.6", "cuStreamQuery", "02");
  EXPECT_THAT(render_calls(input()), AllOf(HasSubstr("| cuMemAlloc | 900 | global | capturing | 12.4, 12.6 | 1 |"),
                                           HasSubstr("| cuStreamQuery | 900 | global | capturing | 12.6 | 1 |")))
      << "a later run in another call takes none back";
  record("2.5.1", kD, "12.4");
  record("2.7.1", kD, "12.6");
  EXPECT_THAT(render_calls(input()), HasSubstr("| cuMemAlloc | 900 | global | capturing | 12.4 to 12.6 | 2 |"));
}

TEST_F(Tables, StaleResults_AreLeftOutOfCalls) {
  record("2.5.1", kD);
  TableInput all = input();
  EXPECT_THAT(render_calls(all), HasSubstr("| cuMemAlloc |"));
  all.background.rules.tree["c"].code = "another";
  EXPECT_THAT(render_calls(all), AllOf(Not(HasSubstr("| cuMemAlloc |")), Not(HasSubstr("| cudaMalloc |"))));
}

// A machine's newest result of each test; runs broken on purpose are not among them.
TEST_F(Tables, Machines_HaveNewestResultsAndWhatIsIncomplete) {
  record("2.6.0", "D", "12.4", "", {{"volatile", {{"started", "2026-01-01T00:00:00Z"}}}});
  record("2.6.0", "E", "12.4", "", {{"volatile", {{"started", "2026-01-02T00:00:00Z"}}}});
  record("2.6.0", "ok > active > ok", "12.4", "", {{"break", "trigger"}});
  record("2.7.1", "D", "12.6", "", {{"gpu", "H|"}});
  const std::string cut = contents(folder + "/4.jsonl");
  std::ofstream(folder + "/4.jsonl") << cut.substr(0, cut.find(R"({"test":"c.Reproduces")"));
  TableInput all = input();
  const auto text = [&] { return render_machines(ResultMatrix(all.records, all.background.rules)); };
  EXPECT_THAT(text(), HasSubstr("| 2.6.0, G | 12.4 | 1 | 2026-01-02 | 2 | 1 as documented, 1 changed |  |\n"
                                "| 2.7.1, H\\| | 12.6 | 1 |  | 2 | 1 as documented | 1 not run, the newest run was cut "
                                "short |\n\n"));
  all.background.rules.tree["c"].code = "another";
  EXPECT_THAT(text(), HasSubstr("| 2.6.0, G | 12.4 | 1 | 2026-01-02 | 2 |  | 2 stale |\n"));
}

TEST(TablesOfMachines, EveryVerdict_HasAMeaning) {
  const std::string text = render_machines(ResultMatrix({}, {}));
  for (size_t i = 0; i < kVerdictCount; ++i) {
    EXPECT_THAT(text, HasSubstr(fmt::format("\n| {} | ", to_string(static_cast<Verdict>(i)))));
  }
}

}  // namespace
}  // namespace recapture
