// Failures by release, and the static pages that show them. tools/page tests them in a browser.
#include "harness/report/site.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "harness/base/file.h"
#include "harness/base/lines.h"
#include "harness/base/text.h"
#include "harness/tests/fake_record.h"
#include "harness/tests/namespaces.h"
#include "harness/timeline/failures.h"

namespace recapture {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using timeline::failure_table;
using timeline::FailureOutcome;
using timeline::FailureTable;

Record record_of_release(const std::string& release, const std::vector<Json>& tests,
                         const Json& environment = Json::object(), const std::string& effect = "raises",
                         const std::string& nature = "defect") {
  Record record;
  record.path = "reports/" + release + "/g.jsonl";
  Json all = fake_environment({{"release", release}});
  all.update(environment);
  record.environment = Environment(all);
  Json names = Json::array();
  for (const Json& test : tests) names.push_back(name_of(test.at("test")));
  record.cases["c"] = CaseInfo::from(fake_case(names, {{"effect", effect}, {"nature", nature}}));
  for (const Json& test : tests) {
    record.plan.push_back(test.at("test"));
    record.add(TestRecord{test});
  }
  record.end = "complete";
  return record;
}

Catalogue catalogue_of(const std::vector<std::string>& tests) {
  CatalogueCase one;
  one.id = "c";
  one.family = "f";
  one.title = "A title";
  one.why = "Why.\n\nMore.";
  one.documented = "D";
  for (const std::string& test : tests) {
    one.tests.push_back({test, test.rfind("Fix", 0) == 0 ? Kind::Fix : Kind::Reproduces, std::nullopt, ""});
  }
  return {one};
}

Json seen(const std::string& what, const std::string& test = "Reproduces") { return fake_failure("c." + test, what); }

FailureOutcome outcome_of(const Record& record) {
  const Catalogue catalogue = catalogue_of({"Reproduces"});
  const ResultMatrix matrix({record}, Rules());
  const FailureTable table = failure_table(matrix, catalogue);
  return table.columns.empty() ? FailureOutcome::NotRun : table.rows.at(0).releases.at(0).worst;
}

TEST(FailureTable, OutcomeOfARun_IsWhatTheProgramMeets) {
  EXPECT_EQ(outcome_of(record_of_release("2.11.0", {seen("D")})), FailureOutcome::Raises);
  EXPECT_EQ(outcome_of(record_of_release("2.11.0", {seen("D")}, Json::object(), "silently wrong")),
            FailureOutcome::SilentlyWrong);
  EXPECT_EQ(outcome_of(record_of_release("2.11.0", {seen("D")}, Json::object(), "leaks")), FailureOutcome::Leaks);
  EXPECT_EQ(outcome_of(record_of_release("2.11.0", {seen("ok")})), FailureOutcome::Works);
  Json hung = seen("D");
  hung["ending"] = "deadline";
  hung.erase("ended");
  EXPECT_EQ(outcome_of(record_of_release("2.11.0", {hung})), FailureOutcome::Hangs);
}

TEST(FailureTable, RunsBrokenOnPurposeOrWithOtherLibraries_DoNotCount) {
  EXPECT_EQ(outcome_of(record_of_release("2.11.0", {seen("D")}, {{"break", "trigger"}})), FailureOutcome::NotRun);
  EXPECT_EQ(outcome_of(record_of_release("2.11.0", {seen("D")}, {{"cuda_runtime_by", "run"}})), FailureOutcome::NotRun);
  EXPECT_EQ(outcome_of(record_of_release("cuda13", {seen("D")})), FailureOutcome::NotRun);
}

TEST(FailureTable, ReleaseWithoutARun_IsNotRun) {
  const Catalogue catalogue = catalogue_of({"Reproduces", "ReproducesOther"});
  const ResultMatrix matrix(
      {record_of_release("2.6.0", {seen("D")}), record_of_release("2.11.0", {seen("ok", "ReproducesOther")})}, Rules());
  const FailureTable table = failure_table(matrix, catalogue);
  ASSERT_EQ(table.columns.size(), 2U);
  EXPECT_EQ(table.columns[0].release, "2.11.0");  // The newest first.
  const auto& releases = table.rows.at(0).releases;
  EXPECT_EQ(releases.at(0).worst, FailureOutcome::Works);
  EXPECT_EQ(releases.at(1).worst, FailureOutcome::Raises);
  EXPECT_EQ(releases.at(1).known, 1U);
}

TEST(FailureTable, OfSeveralFormsAndMachines_TheWorstCounts) {
  const Catalogue catalogue = catalogue_of({"Reproduces", "ReproducesOther", "FixA"});
  const ResultMatrix matrix({record_of_release("2.6.0", {seen("ok"), seen("ok", "ReproducesOther")}),
                             record_of_release("2.6.0", {seen("D")}, {{"gpu", "H"}})},
                            Rules());
  const auto on = failure_table(matrix, catalogue).rows.at(0).releases.at(0);
  EXPECT_EQ(on.worst, FailureOutcome::Raises);
  EXPECT_EQ(on.failing, 1U);  // Tests, not runs.
  EXPECT_EQ(on.known, 2U);
  EXPECT_EQ(on.forms.size(), 3U);
}

TEST(FailureTable, RunThatSomebodySent_ChangesNoColumnOfTheProjects) {
  const Catalogue catalogue = catalogue_of({"Reproduces", "FixA"});
  const auto run = [](const std::string& release, const char* what, const Json& environment) {
    Json fix = fake_test("c.FixA");
    fix.update(fake_ending(what == std::string("ok")));
    return record_of_release(release, {seen(what), fix}, environment);
  };
  using timeline::FailureColumns;
  const auto worst = [&](const std::vector<Record>& records, FailureColumns kind) {
    const ResultMatrix matrix(records, Rules());
    const FailureTable table = failure_table(matrix, catalogue, kind);
    std::vector<std::string> all;
    for (const auto& on : table.rows.at(0).releases) {
      all.push_back(fmt::format("{} {}: {}", on.column.release, on.column.detail, to_string(on.worst)));
    }
    for (const timeline::FixCourse& fix : table.rows.at(0).fixes) all.push_back("broken " + join(fix.broken));
    return all;
  };
  const Record own = run("2.11.0", "ok", Json::object());
  for (const char* origin : {"", "somebody"}) {
    const std::vector<Record> records = {own, run("2.11.0", "D", {{"driver", "2"}, {"origin", origin}}),
                                         run("2.11.0", "D", {{"gpu", "H"}, {"origin", origin}}),
                                         run("2.15.0", "D", {{"gpu", "H"}, {"origin", origin}})};
    const bool counts = *origin == '\0';
    EXPECT_EQ(worst(records, FailureColumns::Releases) != worst({own}, FailureColumns::Releases), counts);
    const std::vector<std::string> gpus = worst(records, FailureColumns::Gpus);
    EXPECT_THAT(gpus, Contains(counts ? "2.11.0 G: raises" : "2.11.0 G: works"));
    EXPECT_THAT(gpus, Contains("2.11.0 H: raises")) << "a GPU of its own";
    EXPECT_THAT(worst({records[3]}, FailureColumns::Releases), Contains(HasSubstr("raises"))) << "it is all there is";
  }
}

TEST(FailureTable, UnknownOutcome_IsNeverAPass) {
  for (const auto outcome :
       {FailureOutcome::NotSeen, FailureOutcome::Absent, FailureOutcome::Unavailable, FailureOutcome::NotRun}) {
    EXPECT_FALSE(is_known(outcome)) << to_string(outcome);
  }
  const Json unavailable = {
      {"test", "c.Reproduces"}, {"ending", "exited"}, {"code", 77}, {"ended", "skipped"}, {"skipped", "no GPU"}};
  EXPECT_EQ(outcome_of(record_of_release("2.11.0", {unavailable})), FailureOutcome::Unavailable);
}

TEST(FailureTable, Fix_IsInsteadWhereItHoldsInTheNewestRelease) {
  const Catalogue catalogue = catalogue_of({"Reproduces", "FixA", "FixB"});
  const auto run = [](const std::string& release, const std::string& held, const std::string& broken) {
    Json failed = fake_test("c." + broken);
    failed.update(fake_ending(false));
    return record_of_release(release, {seen("D"), fake_test("c." + held), failed});
  };
  const ResultMatrix matrix({run("2.6.0", "FixA", "FixB"), run("2.11.0", "FixB", "FixA")}, Rules());
  const timeline::FailureRow row = failure_table(matrix, catalogue).rows.at(0);
  ASSERT_EQ(row.fixes.size(), 2U);
  EXPECT_EQ(row.fixes[0].holds, std::vector<std::string>{"2.6.0"});
  EXPECT_EQ(row.fixes[0].broken, std::vector<std::string>{"2.11.0"});
  ASSERT_NE(row.instead(), nullptr);
  EXPECT_EQ(row.instead()->name, "FixB");
}

TEST(FailureTable, FixThatFailsOnOneOfTwoMachines_DoesNotHold) {
  const Catalogue catalogue = catalogue_of({"Reproduces", "FixA"});
  Json failed = fake_test("c.FixA");
  failed.update(fake_ending(false));
  const ResultMatrix matrix(
      {record_of_release("2.11.0", {fake_test("c.FixA")}), record_of_release("2.11.0", {failed}, {{"gpu", "H"}})},
      Rules());
  const timeline::FailureRow row = failure_table(matrix, catalogue).rows.at(0);
  EXPECT_THAT(row.fixes.at(0).holds, IsEmpty());
  EXPECT_THAT(row.fixes.at(0).broken, ElementsAre("2.11.0"));
  EXPECT_EQ(row.instead(), nullptr);
}

TEST(FailureTable, Columns_AreReleasesGpusOrLibraries) {
  const Catalogue catalogue = catalogue_of({"Reproduces"});
  const ResultMatrix matrix(
      {record_of_release("2.11.0", {seen("D")}), record_of_release("2.11.0", {seen("D")}, {{"gpu", "H"}}),
       record_of_release("2.11.0", {seen("ok")}, {{"cuda_runtime", "13.5"}, {"cuda_runtime_by", "run"}})},
      Rules());
  using timeline::FailureColumns;
  EXPECT_EQ(failure_table(matrix, catalogue, FailureColumns::Releases).columns.size(), 1U);
  EXPECT_EQ(failure_table(matrix, catalogue, FailureColumns::Gpus).columns.size(), 2U);
  const FailureTable libraries = failure_table(matrix, catalogue, FailureColumns::Libraries);
  ASSERT_EQ(libraries.columns.size(), 1U);
  EXPECT_EQ(libraries.columns[0], (timeline::FailureColumn{"2.11.0", "CUDA 13.5"}));
  EXPECT_EQ(libraries.rows.at(0).releases.at(0).worst, FailureOutcome::Works);
}

TEST(Site, HostileText_StaysText) {
  Catalogue catalogue = catalogue_of({"Reproduces"});
  catalogue[0].title = "<script>alert(1)</script>";
  Json line = seen("D");
  line["message"] = "\"><img src=x onerror=alert(1)>";
  const ResultMatrix matrix({record_of_release("2.11.0", {line})}, Rules());
  auto pages = report::render_site({"/nowhere", "reports", matrix, catalogue});
  pages["single"] = report::render_single_file({"/nowhere", "reports", matrix, catalogue});
  for (const auto& [path, page] : pages) {
    EXPECT_THAT(page, Not(HasSubstr("<script>alert"))) << path;
    EXPECT_THAT(page, Not(HasSubstr("<img"))) << path;
  }
  for (const char* path : {"failures/c.html", "single"}) {
    EXPECT_THAT(pages.at(path), HasSubstr("&lt;script&gt;alert(1)&lt;/script&gt;")) << path;
  }
}

TEST(Site, SingleFile_HasEveryPageAndLeadsNowhereElse) {
  const Catalogue catalogue = catalogue_of({"Reproduces"});
  const ResultMatrix matrix({record_of_release("2.11.0", {seen("D")})}, Rules());
  const std::string page = report::render_single_file({"/nowhere", "reports", matrix, catalogue});
  EXPECT_THAT(page, HasSubstr("href=\"#failure-c\""));
  EXPECT_THAT(page, HasSubstr("<article id=\"failure-c\""));
  EXPECT_THAT(page, Not(HasSubstr(".html\"")));
}

TEST(Site, MachineOfARunThatWorks_IsNotAmongThoseSeenOn) {
  const Catalogue catalogue = catalogue_of({"Reproduces"});
  const ResultMatrix matrix(
      {record_of_release("2.11.0", {seen("D")}), record_of_release("2.15.0", {seen("ok")}, {{"gpu", "Other"}})},
      Rules());
  const std::string page = report::render_site({"/nowhere", "reports", matrix, catalogue}).at("failures/c.html");
  EXPECT_THAT(page, HasSubstr("<li>G, driver 1: 2.11.0</li>"));
  EXPECT_THAT(page, Not(HasSubstr("<li>Other")));
}

TEST(Site, EveryFailure_HasARowAndAPageWithTheErrorAndTheRuns) {
  const Catalogue catalogue = catalogue_of({"Reproduces"});
  Json line = seen("D");
  line["message"] = "CUDA error: operation not permitted";
  line["volatile"] = {{"seconds", 2.6}};
  const ResultMatrix matrix({record_of_release("2.11.0", {line})}, Rules());
  const auto pages = report::render_site({"/nowhere", "reports", matrix, catalogue});
  EXPECT_THAT(pages.at("index.html"), HasSubstr(R"(<a href="failures/c.html">A title</a>)"));
  EXPECT_THAT(pages.at("index.html"), HasSubstr("cuda error: operation not permitted"));  // Searched in lower case.
  const std::string& page = pages.at("failures/c.html");
  for (const char* text : {"Why.", "CUDA error: operation not permitted", "Raises in 2.11.0", "Seen on", "driver 1",
                           "2.6 s", "2.11.0/g.jsonl"}) {
    EXPECT_THAT(page, HasSubstr(text));
  }
}

// The list of ranges in the first row.
std::string ranges_of_row(const std::string& index) {
  const size_t begin = index.find("<ul class=\"ranges\">");
  return index.substr(begin, index.find("</ul>", begin) - begin);
}

TEST(Site, EqualNeighbours_AreOneRange_AndAReleaseWithoutARunIsInNone) {
  const Catalogue catalogue = catalogue_of({"Reproduces", "ReproducesOther"});
  const ResultMatrix matrix({record_of_release("2.6.0", {seen("D")}), record_of_release("2.7.0", {seen("D")}),
                             record_of_release("2.8.0", {}), record_of_release("2.9.0", {seen("ok")}),
                             record_of_release("2.10.0", {seen("ok"), seen("D", "ReproducesOther")})},
                            Rules());
  const auto pages = report::render_site({"/nowhere", "reports", matrix, catalogue});
  const std::string ranges = ranges_of_row(pages.at("index.html"));
  EXPECT_THAT(
      ranges,
      HasSubstr(
          R"(<li data-from="0" data-to="0"><span class="o raises">raises</span> <span class="when">2.10.0</span> <span class="note part">in 1 of 2 tests; else works</span></li>)"));
  EXPECT_THAT(ranges, HasSubstr(R"(<span class="o works">works</span> <span class="when">2.9.0</span>)"));
  EXPECT_THAT(ranges, HasSubstr(R"(<span class="o raises">raises</span> <span class="when">2.6.0 to 2.7.0</span>)"));
  EXPECT_THAT(ranges, Not(HasSubstr("2.8.0")));
}

explain::Cause cause_of(const std::string& id, const std::string& says) {
  explain::Cause cause;
  cause.id = id;
  cause.title = "A title of " + id;
  cause.says = {says};
  cause.fixes = {"Do something else."};
  return cause;
}

TEST(Site, WhatPeopleMeetMost_ComesFirst) {
  Catalogue catalogue = catalogue_of({"Reproduces"});
  catalogue.push_back(catalogue.front());
  catalogue.back().id = "d";
  catalogue.back().title = "Another title";
  const ResultMatrix matrix({record_of_release("2.11.0", {seen("D")})}, Rules());
  const report::Met met = {{{"d", 3}, {"only_words", 5}}, 10, 8};
  const auto pages = report::render_site({"/nowhere",
                                          "reports",
                                          matrix,
                                          catalogue,
                                          {},
                                          {},
                                          {},
                                          {},
                                          "",
                                          {cause_of("only_words", "a text that only it prints")},
                                          met});
  const std::string& index = pages.at("index.html");
  EXPECT_THAT(index, HasSubstr(R"(<li><a href="failures/only_words.html" title="A title of only_words">)"));
  EXPECT_THAT(index, HasSubstr("in 8 threads"));
  EXPECT_THAT(pages.at("failures/only_words.html"), HasSubstr("5 of the 8 threads with a known cause were about it."));
  EXPECT_THAT(pages.at("failures/only_words.html"), HasSubstr("a text that only it prints"));
  EXPECT_THAT(pages.at("met.html"), HasSubstr("<td class=\"n\">5</td>"));
}

TEST(Site, SearchData_HasExplainsAnswersAndNoTag) {
  const Catalogue catalogue = catalogue_of({"Reproduces"});
  const ResultMatrix matrix({record_of_release("2.11.0", {seen("D")})}, Rules());
  const auto pages = report::render_site(
      {"/nowhere", "reports", matrix, catalogue, {}, {}, {}, {}, "", {cause_of("x", "</script><b>a text</b>")}});
  const std::string& index = pages.at("index.html");
  const size_t begin = index.find("id=\"data\">") + 10, end = index.find("</script>", begin);
  const Json data = parse_json(index.substr(begin, end - begin));
  EXPECT_EQ(data.at("causes").at(0).at("says").at(0), "</script><b>a text</b>");
  EXPECT_EQ(data.at("causes").at(0).at("fix"), "Do something else.");
  const Json& error = data.at("errors").at(1);
  EXPECT_EQ(error.at(0), 901);
  EXPECT_THAT(error.at(3).get<std::string>(), HasSubstr("901 only says that an earlier call broke the capture"));
  EXPECT_TRUE(error.at(6).get<bool>());
}

// A made-up record.
TEST(Site, WhetherAnOperatorStaysRight_HasAColumnOnceARecordSaysSo) {
  const Catalogue catalogue = catalogue_of({"Reproduces"});
  const ResultMatrix matrix({record_of_release("2.11.0", {seen("D")})}, Rules());
  timeline::OperatorTable table{{}, {"2.6.0", "2.11.0"}};
  for (const char* name : {"fft.fft", "abs"}) {
    timeline::OperatorRow row{{name, std::string("torch.") + name}, {}, {}, {}, {}};
    for (const std::string& release : table.releases) row.releases.push_back({release, "r", false, {}, false, {}});
    table.rows.push_back(row);
  }
  table.rows[0].known_later = {"fft.fft", "after a drop", "c"};
  const auto page = [&] {
    return report::render_site({"/nowhere", "reports", matrix, catalogue, {}, {}, table}).at("operators.html");
  };
  std::string html = page();
  EXPECT_THAT(html, Not(HasSubstr("<th scope=\"col\">Stays right afterwards</th>")));
  EXPECT_THAT(html, HasSubstr("after other work between its replays is not measured"));
  EXPECT_THAT(html, HasSubstr(R"(Known: <a href="failures/c.html">A title</a> (1 operator).)"));
  EXPECT_THAT(html, HasSubstr(R"(<strong>Not right later</strong>: after a drop (<a href="failures/c.html">)"));
  table.rows[0].releases[0].later = {{"other work"}, {}};
  table.rows[0].releases[1].later = {{"other work", "<b>a drop</b>"}, {"<b>a drop</b>"}};
  html = page();
  EXPECT_THAT(html, HasSubstr("<th scope=\"col\">Stays right afterwards</th>"));
  EXPECT_THAT(html, HasSubstr(R"(<span class="o wrong-later">wrong later</span> <span class="when">2.11.0</span>)"));
  EXPECT_THAT(html, HasSubstr("after &lt;b&gt;a drop&lt;/b&gt;"));
  EXPECT_THAT(html, HasSubstr(R"(<span class="o stays-right">stays right</span> <span class="when">2.6.0</span>)"));
  EXPECT_THAT(html, HasSubstr("<td data-side=\"later\">not measured</td>"));
  EXPECT_THAT(html, Not(HasSubstr("is not measured.")));
}

// Titles of threads, and every other text from outside, are data.
TEST(Site, TitleOfAThread_StaysText) {
  Catalogue catalogue = catalogue_of({"Reproduces"});
  catalogue[0].sources = {{{"document", "upstream"}, {"heading", "a#1"}}};
  const ResultMatrix matrix({record_of_release("2.11.0", {seen("D")})}, Rules());
  const std::string title = "a < b && <img src=x onerror=alert(1)> \"c\"";
  CitedSource thread;
  thread.id = "a#1";
  thread.url = "https://example.invalid/1?a=\"b\"";
  thread.title = title;
  explain::Cause cause = cause_of("x", title);
  cause.title = title;
  const report::Met met = {{{"x", 3}}, 5, 3};
  const report::SiteInput input = {"/nowhere", "reports", matrix, catalogue, {thread}, {}, {}, {}, "", {cause}, met};
  auto pages = report::render_site(input);
  pages["single"] = report::render_single_file(input);
  const std::string escaped = "a &lt; b &amp;&amp; &lt;img src=x onerror=alert(1)&gt;";
  for (const auto& [path, page] : pages) EXPECT_THAT(page, Not(HasSubstr("<img"))) << path;
  for (const char* path : {"failures/c.html", "failures/x.html", "index.html", "met.html", "single"}) {
    EXPECT_THAT(pages.at(path), HasSubstr(escaped)) << path;
  }
  EXPECT_THAT(pages.at("failures/c.html"), Not(HasSubstr("?a=\"b\"")));
}

TEST(Site, FirstSight_LeadsToTheProject_OrToAPageInItsPlace) {
  const Catalogue catalogue = catalogue_of({"Reproduces"});
  const ResultMatrix matrix({record_of_release("2.11.0", {seen("D")}), record_of_release("2.6.0", {seen("D")})},
                            Rules());
  report::SiteInput input = {"/nowhere", "reports", matrix, catalogue};
  auto pages = report::render_site(input);
  for (const char* path : {"index.html", "operators.html", "met.html"}) {
    EXPECT_THAT(pages.at(path), HasSubstr("<a href=\"about.html#wrong\">report a wrong answer</a>")) << path;
  }
  EXPECT_THAT(pages.at("failures/c.html"), HasSubstr("<a href=\"../about.html#install\">Install</a>"));
  EXPECT_THAT(report::render_site_header().project, HasSubstr("about.html#source"));
  for (const char* id : {"install", "documents", "source", "wrong"}) {
    EXPECT_THAT(pages.at("about.html"), HasSubstr(std::string("<h2 id=\"") + id + "\">"));
  }
  EXPECT_THAT(pages.at("index.html"), HasSubstr("<a href=\"upgrade.html#compare/2.6.0/2.11.0\">"));
  EXPECT_THAT(pages.at("index.html"), HasSubstr("Newest record: 2."));
  input.address = "https://example.invalid/p";
  pages = report::render_site(input);
  EXPECT_EQ(pages.count("about.html"), 0U);
  for (const auto& [path, page] : pages) EXPECT_THAT(page, Not(HasSubstr("about.html"))) << path;
  EXPECT_THAT(pages.at("failures/c.html"), HasSubstr("https://example.invalid/p/issues/new?template=wrong-answer.yml"));
}

TEST(Site, DescriptionOfAnError_IsNotItsText) {
  Catalogue catalogue = catalogue_of({"Reproduces"});
  catalogue[0].documented = "the panic leaks the open capture";
  const ResultMatrix matrix({record_of_release("2.11.0", {seen("the panic leaks the open capture")})}, Rules());
  const std::string page = report::render_site({"/nowhere", "reports", matrix, catalogue}).at("failures/c.html");
  EXPECT_THAT(page, HasSubstr("<p>No record keeps its text.</p>"));
  EXPECT_THAT(page, Not(HasSubstr("<pre class=\"wraps\">the panic")));
}

TEST(Site, ChangeOfSomeTests_NamesThem) {
  const Catalogue catalogue = catalogue_of({"Reproduces", "ReproducesOther"});
  const ResultMatrix matrix({record_of_release("2.11.0", {seen("D")})}, Rules());
  Deviation change;
  change.what = "Something";
  change.number = "a#1";
  const auto page = [&] {
    return report::render_site({"/nowhere", "reports", matrix, catalogue, {}, {change}}).at("failures/c.html");
  };
  const auto works = [&](const std::string& test) {
    Expectation one;
    one.test = "c." + test;
    one.where.release = "<2.10";
    one.result = Result::Healthy;
    change.expectations.push_back(one);
  };
  works("ReproducesOther");
  EXPECT_THAT(page(), HasSubstr("works in &lt;2.10 (ReproducesOther)."));
  works("Reproduces");
  EXPECT_THAT(page(), HasSubstr("works in &lt;2.10."));
}

// What a browser fetches or sends by itself. A reader may follow a link; the policy of the page forbids the rest.
TEST(Site, NoPage_NamesAForeignHostButInALink) {
  const Catalogue catalogue = catalogue_of({"Reproduces"});
  const ResultMatrix matrix({record_of_release("2.11.0", {seen("D")})}, Rules());
  const report::SiteInput input = {
      "/nowhere", "reports", matrix, catalogue, {}, {}, {}, {}, "https://example.invalid/p"};
  auto pages = report::render_site(input);
  pages["single"] = report::render_single_file(input);
  pages["upgrade"] = report::page_of({{"x", "y"}}, report::render_site_header());
  for (const auto& [path, page] : pages) {
    EXPECT_THAT(page, HasSubstr("content=\"default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
                                "base-uri 'none'; form-action 'none'\""))
        << path;
    for (const char* fetched : {" src=", "<link", "<iframe", "<form", "@import", "url(", "fetch(", "XMLHttpRequest",
                                "sendBeacon", "WebSocket", "EventSource", "import(", "http-equiv=\"refresh\""}) {
      EXPECT_THAT(page, Not(HasSubstr(fetched))) << path;
    }
    for (size_t at = 0; (at = page.find("://", at)) != std::string::npos; ++at) {
      EXPECT_EQ(page.substr(page.rfind('"', at) - 5, 6), "href=\"") << path << ": " << page.substr(at - 20, 60);
    }
  }
}

// Each rule once: what both kinds of pages have is in every_page.css.
TEST(Site, NoRuleOfStyle_StandsTwice) {
  const auto rules_of = [](const std::string& name) {
    std::set<std::string> rules;
    std::string where;  // The @media that it is in.
    for (std::string line : lines_in(contents_of(std::string(RECAPTURE_ROOT) + "/harness/report/" + name))) {
      if (line.starts_with("@media")) where = line.ends_with("{") ? line : "";
      if (line == "}") where.clear();
      if (line.empty() || line.starts_with("@") || line.starts_with("/*") || line == "}") continue;
      EXPECT_TRUE(rules.insert(where + line).second) << name << ": " << line;
    }
    return rules;
  };
  std::map<std::string, std::string> seen;
  for (const char* name : {"every_page.css", "site.css", "page.css"}) {
    for (const std::string& rule : rules_of(name)) {
      EXPECT_TRUE(seen.emplace(rule, name).second) << rule << " is in " << seen[rule] << " and in " << name;
    }
  }
}

TEST(Site, RowOfAFailure_IsFoundByTheThreadsThatItCites) {
  Catalogue catalogue = catalogue_of({"Reproduces"});
  catalogue[0].sources = Json::array(
      {{{"document", "guide"}, {"heading", "A page"}}, {{"document", "upstream"}, {"heading", "PyTorch#168912"}}});
  const ResultMatrix matrix({record_of_release("2.11.0", {seen("D")})}, Rules());
  const std::string page = report::render_site({"/nowhere", "reports", matrix, catalogue}).at("index.html");
  const size_t begin = page.find("data-text=\"");
  const std::string text = page.substr(begin, page.find("\" data-name", begin) - begin);
  EXPECT_THAT(text, HasSubstr(" pytorch#168912 "));
  EXPECT_THAT(text, Not(HasSubstr("a page")));
}

TEST(Site, Counts_ComeFromTheirFile) {
  const std::string root = ::testing::TempDir() + "recapture-met-" + std::to_string(getpid());
  EXPECT_EQ(report::read_met(root).with_cause, 0U);
  std::filesystem::create_directories(root + "/cases");
  write_file(root + "/cases/met.tsv", "# A comment.\nall threads\t7\nwith a cause\t5\nc\t4\n");
  const report::Met met = report::read_met(root);
  EXPECT_EQ(met.threads, 7U);
  EXPECT_EQ(met.with_cause, 5U);
  EXPECT_EQ(met.of("c"), 4U);
  EXPECT_EQ(met.of("d"), 0U);
  for (const char* line : {"c\n", "c\tmany\n", "\t4\n"}) {
    write_file(root + "/cases/met.tsv", line);
    EXPECT_THROW(report::read_met(root), ExitError) << line;
  }
  std::filesystem::remove_all(root);
}

}  // namespace
}  // namespace recapture
