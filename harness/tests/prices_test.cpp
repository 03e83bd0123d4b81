// The cost of remedies, from the benchmarks' repetitions to the output of `show`, `explain` and `compare`.
#include "harness/tests/lint/prices.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "harness/compare/compare.h"
#include "harness/report/explanation.h"
#include "harness/tests/fake_record.h"
#include "harness/tests/fake_tree.h"
#include "harness/tests/namespaces.h"
#include "harness/verdict/price.h"
#include "harness/words/measurement.h"

namespace recapture {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

constexpr const char* kWork = "a replay of 20 kernels";

// Pairs of 10 µs without and `ratio` times as much with the remedy, half of them higher and half lower by the spread.
// The control is equal.
Json priced(double ratio, double spread, size_t pairs = 12, const char* what = kWork) {
  Json line = {{"price", Json::array({"c.FixIt"})}, {"what", what},          {"clock", "gpu"},
               {"without", Json::array()},          {"with", Json::array()}, {"control", Json::array()}};
  for (size_t i = 0; i < pairs; ++i) {
    line["without"].push_back(10);
    line["control"].push_back(10);
    line["with"].push_back(10 * ratio * (i % 2 == 0 ? 1 + spread : 1 / (1 + spread)));
  }
  return line;
}

Json machine_of(const std::string& release, const Json& more = Json::object()) {
  Json environment = {{"prices", 2},
                      {"release", release},
                      {"gpu", "G"},
                      {"driver", "1"},
                      {"cuda_runtime", "12.4"},
                      {"hash", "h"},
                      {"volatile", {{"started", "2026-01-01T00:00:00Z"}}}};
  environment.update(more);
  return environment;
}

void write(const std::string& path, const std::vector<Json>& lines) {
  fs::create_directories(fs::path(path).parent_path());
  std::ofstream file(path);
  for (const Json& line : lines) file << line.dump() << "\n";
}

class PricesOfRemedies : public FakeTree {
 protected:
  void SetUp() override {
    FakeTree::SetUp();
    for (const char* release : {"2.6.0", "2.15.0"}) {
      write(reports + release + "/g.jsonl",
            {fake_environment({{"release", release}, {"volatile", {{"started", "2026-01-01T00:00:00Z"}}}}),
             {{"plan", Json::array({"c.Control"})}},
             fake_case(Json::array({"Control"})),
             {{"test", "c.Control"}, {"ending", "exited"}, {"code", 0}, {"ended", "passed"}},
             {{"end", "complete"}}});
    }
  }
  void prices(const std::string& release, const std::vector<Json>& lines, const Json& more = Json::object()) const {
    std::vector<Json> all = {machine_of(release, more)};
    all.insert(all.end(), lines.begin(), lines.end());
    write(reports + release + "/g.prices", all);
  }
  ShellResult compare_sides(const std::string& more = "") const {
    return recapture("compare --all 2.6.0 2.15.0 " + more);
  }
  PriceLine read(const Json& line) const {
    write(folder + "/p.prices", {machine_of("2.6.0"), line});
    return read_prices(folder + "/p.prices").lines.at(0);
  }

  const std::string reports = folder + "/reports/";
};

TEST_F(PricesOfRemedies, Pairs_GiveRatioIntervalAndSpread) {
  const Price price = price_of(read(priced(2, 0.1)));
  // 12 logarithms, six up and six down by log 1.1: their mean, and 2.201 standard errors.
  const double half = 2.201 * std::log(1.1) * std::sqrt(12.0 / 11) / std::sqrt(12.0);
  EXPECT_NEAR(price.ratio.mean, 2, 1e-9);
  EXPECT_NEAR(price.ratio.low, 2 * std::exp(-half), 1e-3);
  EXPECT_NEAR(price.ratio.high, 2 * std::exp(half), 1e-3);
  EXPECT_NEAR(price.smallest, 2 / 1.1, 1e-9);
  EXPECT_NEAR(price.largest, 2 * 1.1, 1e-9);
  EXPECT_NEAR(price.without, 10, 1e-9);
  EXPECT_NEAR(price.with, (20 * 1.1 + 20 / 1.1) / 2, 1e-9) << "the median of an even number";
  EXPECT_NEAR(price.cost, price.with - 10, 1e-9);
  EXPECT_NEAR(price.least_cost, 20 / 1.1 - 10, 1e-9);
  EXPECT_NEAR(price.greatest_cost, 20 * 1.1 - 10, 1e-9);
}

TEST_F(PricesOfRemedies, PriceLine_IsPutIntoWords) {
  EXPECT_EQ(describe(read(priced(2, 0.001))),
            "20.0 µs instead of 10.0 µs (10.0 µs more), 2.00 times as long (2.00 to 2.00)");
  EXPECT_EQ(describe(read(priced(0.05, 0.001))),
            "0.50 µs instead of 10.0 µs (9.50 µs less), 0.05 times as long (0.05 to 0.05)");
  EXPECT_EQ(describe(read(priced(1.001, 0.01))),
            "10.0 µs instead of 10.0 µs, no measurable difference, 1.00 times as long (0.99 to 1.01)");
  EXPECT_THAT(describe(read(priced(250, 0.001))), HasSubstr("2.50 ms instead of 10.0 µs"));
  EXPECT_EQ(describe(read({{"price", Json::array({"c.FixIt"})}, {"what", kWork}, {"why_not", "no such member"}})),
            "not measured: no such member");
}

TEST_F(PricesOfRemedies, SpreadsThatDoNotMeet_AreAChange) {
  const auto differ = [&](const Json& before, const Json& now) {
    const bool to = changed(read(before), read(now)), back = changed(read(now), read(before));
    EXPECT_EQ(to, back);
    return to;
  };
  EXPECT_TRUE(differ(priced(1.0, 0.02), priced(1.2, 0.02)));
  EXPECT_FALSE(differ(priced(1.0, 0.12), priced(1.2, 0.12))) << "the spreads meet";
  EXPECT_FALSE(differ(priced(2.0, 0.001), priced(2.04, 0.001))) << "too little of the cost";
  EXPECT_TRUE(differ(priced(2.0, 0.001), priced(2.06, 0.001)));
  EXPECT_FALSE(differ(priced(1.0, 0.0001), priced(1.009, 0.0001))) << "too little of the work";
  EXPECT_TRUE(differ(priced(1.0, 0.0001), priced(1.011, 0.0001)));
  EXPECT_FALSE(differ(priced(1.0, 0.02, 7), priced(2.0, 0.02))) << "too few";
  EXPECT_TRUE(differ(priced(1.0, 0.02, 8), priced(2.0, 0.02)));
  const auto after = [](double without) {  // The same cost, of work that takes another time.
    Json line = priced(1, 0);
    for (Json& time : line["without"]) time = without;
    for (Json& time : line["control"]) time = without;
    for (Json& time : line["with"]) time = without + 6.8;
    return line;
  };
  EXPECT_FALSE(differ(after(10.8), after(2.4))) << "other ratios, and the same cost";
  EXPECT_FALSE(
      differ({{"price", Json::array({"c.FixIt"})}, {"what", kWork}, {"why_not", "no GPU"}}, priced(2.0, 0.02)));
}

TEST(PriceChange, Limits_AreThemselvesAChange) {
  // Pairs of 100 without, of which half cost the least and half the most.
  const auto costing = [](double least, double most) {
    PriceLine line{{"c.FixIt"}, kWork, "gpu", std::vector<double>(8, 100), {}, "", std::vector<double>(8, 100)};
    for (size_t i = 0; i < 8; ++i) line.with.push_back(100 + (i % 2 == 0 ? least : most));
    return line;
  };
  EXPECT_TRUE(changed(costing(0, 0), costing(1, 1))) << "a hundredth of the work";
  EXPECT_TRUE(changed(costing(19, 19), costing(20, 20))) << "a twentieth of the cost";
  EXPECT_FALSE(changed(costing(10, 20), costing(20, 30))) << "the spreads meet";
  EXPECT_FALSE(changed(costing(20, 30), costing(10, 20)));
}

TEST(PriceOfALine, OneThatWasNotMeasured_IsNotPublished) {
  const std::vector<double> same(8, 10);
  EXPECT_TRUE(is_published({{"c.FixIt"}, kWork, "gpu", same, same, "", same}));
  EXPECT_FALSE(is_published({{"c.FixIt"}, kWork, "gpu", same, same, "no room", same}));
  EXPECT_FALSE(is_published({{"c.FixIt"}, kWork, "gpu", same, same, "", {}}));
}

// A systematic error: the second of two equal works takes 3 % longer than the first.
TEST_F(PricesOfRemedies, ControlThatDiffers_KeepsAPriceFromPublication) {
  Json off = priced(2, 0.1), spread = priced(2, 0.1), old = priced(2, 0.1);
  for (size_t i = 0; i < 12; ++i) off["control"][i] = i % 2 == 0 ? 10.2 : 10.4;
  for (size_t i = 0; i < 12; ++i) spread["control"][i] = i % 2 == 0 ? 9.8 : 10.4;
  EXPECT_TRUE(is_published(read(priced(2, 0.1))));
  EXPECT_FALSE(is_published(read(off)));
  EXPECT_TRUE(is_published(read(spread)));
  EXPECT_FALSE(changed(read(off), read(priced(4, 0.1))));
  EXPECT_TRUE(changed(read(spread), read(priced(4, 0.1))));
  write(folder + "/p.prices", {machine_of("2.6.0"), off, spread});
  EXPECT_THAT(prices_of(read_prices(folder + "/p.prices"), "c.FixIt"), SizeIs(1));
  prices("2.6.0", {off});
  prices("2.15.0", {priced(4, 0.1)});
  EXPECT_EQ(compare_sides().code, 0);
  EXPECT_THAT(compare_sides().out, HasSubstr("prices: 0 of 1 compared, 0 changed beyond their spread\n"));

  old.erase("control");
  write(folder + "/p.prices", {machine_of("2.6.0", {{"prices", 1}}), old});
  const Prices without_control = read_prices(folder + "/p.prices");
  EXPECT_FALSE(is_published(without_control.lines.at(0)));
  EXPECT_THAT(prices_of(without_control, "c.FixIt"), IsEmpty());
}

TEST_F(PricesOfRemedies, ChangedPrice_EndsCompareWithThree) {
  EXPECT_EQ(compare_sides().code, 0);
  EXPECT_THAT(compare_sides().out, Not(HasSubstr("prices")));
  prices("2.6.0", {priced(1.0, 0.02), priced(3.0, 0.02, 12, "a capture")});
  EXPECT_EQ(compare_sides().code, 0);
  EXPECT_THAT(compare_sides().out, HasSubstr("prices: none on record of 2.15.0\n"));
  prices("2.15.0", {priced(1.2, 0.02), priced(3.0, 0.02, 12, "a capture"), priced(9.0, 0.02, 12, "more work")});
  const ShellResult said = compare_sides();
  EXPECT_EQ(said.code, 3) << said.out;
  EXPECT_THAT(said.out, HasSubstr("prices: 2 of 3 compared, 1 changed beyond their spread\n"));
  EXPECT_THAT(said.out, HasSubstr("\n  dearer, a replay of 20 kernels\n    in 2.6.0 10.0 µs instead of 10.0 µs"));
  EXPECT_THAT(said.out, HasSubstr("in 2.15.0 12.0 µs instead of 10.0 µs (2.00 µs more), 1.20 times as long"));
  EXPECT_THAT(said.out, HasSubstr("times as long (1.18 to 1.22), pairs from 1.76 to 2.24 µs more\n    c.FixIt\n"));
  EXPECT_THAT(recapture("compare --all 2.15.0 2.6.0").out,
              HasSubstr("\n  cheaper, a replay of 20 kernels\n    in 2.15.0 "));
  EXPECT_EQ(recapture("compare 2.15.0 2.6.0").code, 3);
  EXPECT_EQ(recapture("compare 2.6.0 2.6.0").code, 2) << "both sides are the same";
  EXPECT_EQ(recapture("gate 2.6.0 2.15.0").code, 0) << "no policy blocks a price";
  EXPECT_THAT(compare_sides("--markdown").out,
              HasSubstr("<summary>1 prices of remedies changed</summary>\n\n| fixes | what changes |\n"));
  const Json json = parse_json(compare_sides("--json").out);
  ASSERT_THAT(json.at("prices"), SizeIs(1));
  EXPECT_NEAR(json.at("prices")[0].at("now").at("ratio").get<double>(), 1.2, 1e-9);
  EXPECT_EQ(json.at("prices")[0].at("before").at("fixes"), Json::array({"c.FixIt"}));
  compare_sides("--junit '" + folder + "/c.xml'");
  EXPECT_THAT(text_of(folder + "/c.xml"), HasSubstr(R"(<testsuite name="prices of remedies" tests="1" failures="1" )"));
}

TEST_F(PricesOfRemedies, ChangedPrice_RanksBetweenBetterAndUnknown) {
  Comparison comparison;
  comparison.tests.emplace_back();
  comparison.tests[0].test = "c.Reproduces";
  comparison.tests[0].consequence = Consequence::Healed;
  comparison.changes.emplace_back();
  comparison.changes[0].consequence = Consequence::Healed;
  EXPECT_EQ(exit_for(comparison), Exit::Harmless);
  comparison.prices.push_back({read(priced(1.0, 0.02)), read(priced(2.0, 0.02))});
  EXPECT_EQ(exit_for(comparison), Exit::PriceChanged);
  EXPECT_THAT(filter_cases(comparison, {"d"}).prices, IsEmpty());
  EXPECT_THAT(filter_cases(comparison, {"c"}).prices, SizeIs(1));
  comparison.tests[0].consequence = Consequence::Unknown;
  EXPECT_EQ(exit_for(comparison), Exit::Inconclusive);
  comparison.changes[0].consequence = Consequence::NewErrors;
  EXPECT_EQ(exit_for(comparison), Exit::Changed);
}

TEST_F(PricesOfRemedies, AnotherMachineOrCode_IsNotCompared) {
  prices("2.6.0", {priced(1.0, 0.02)});
  prices("2.15.0", {priced(2.0, 0.02)}, {{"hash", "another"}});
  EXPECT_EQ(compare_sides().code, 0);
  EXPECT_THAT(compare_sides().out,
              HasSubstr("prices: not comparable, the two were measured by different benchmarks\n"));
  for (const char* key : {"release", "gpu", "driver", "cuda_runtime"}) {
    prices("2.15.0", {priced(2.0, 0.02)}, {{key, "another"}});
    EXPECT_EQ(compare_sides().code, 0) << key;
    EXPECT_THAT(compare_sides().out, HasSubstr("prices: none on record of 2.15.0\n")) << key;
  }
  prices("2.15.0", {priced(2.0, 0.02)});
  EXPECT_EQ(compare_sides().code, 3);
  std::ofstream(reports + "2.15.0/later.prices")
      << machine_of("2.15.0", {{"volatile", {{"started", "2026-01-02T00:00:00Z"}}}}) << "\n"
      << priced(1.0, 0.02) << "\n";
  EXPECT_EQ(compare_sides().code, 0) << "one of two runs there is within their spread";
}

TEST_F(PricesOfRemedies, BadFile_GetsALineWithItsPlace) {
  prices("2.6.0", {priced(1.0, 0.02)});
  const std::string path = reports + "2.15.0/g.prices";
  Json no_pairs = priced(1, 0.1), no_time = priced(1, 0.1), no_clock = priced(1, 0.1), nobody = priced(1, 0.1);
  Json no_control = priced(1, 0.1);
  no_control["control"].erase(0);
  no_pairs["with"].erase(0);
  no_time["with"][0] = -1;
  no_clock["clock"] = "sun";
  nobody["price"] = Json::array();
  const std::string head = machine_of("2.15.0").dump() + "\n";
  for (const auto& [text, words] : std::vector<std::pair<std::string, std::string>>{
           {"", ": has no prices"},
           {head, ": has no prices"},
           {"{\"recapture\":2}\n", ":1: not prices: it does not begin with them"},
           {"{\"prices\":3}\n", ":1: not prices: it does not begin with them"},
           {"no JSON\n", ":1: not prices: "},
           {head + priced(1, 0.1).dump(), ":2: not prices: it is cut"},
           {head + "[]\n", ":2: not prices: "},
           {head + "{\"price\":3,\"what\":\"w\"}\n", ":2: not prices: "},
           {head + no_pairs.dump() + "\n", ":2: not prices: its times are not pairs, or are fewer than two"},
           {head + priced(1, 0.1, 1).dump() + "\n", ":2: not prices: its times are not pairs, or are fewer than two"},
           {head + no_time.dump() + "\n", ":2: not prices: 'with' has a value that is not a time"},
           {head + no_control.dump() + "\n", ":2: not prices: it has another number of controls than of pairs"},
           {head + R"({"stage":"capture","nodes":10,"times":[1,0]})" + "\n",
            ":2: not prices: 'times' has a value that is not a time"},
           {head + R"({"stage":"capture","nodes":10,"times":[1,2]})" + "\n", ": has no prices"},
           {head + no_clock.dump() + "\n", ":2: not prices: its clock is neither gpu nor host"},
           {head + nobody.dump() + "\n", ":2: not prices: a price without a remedy or without its work"}}) {
    std::ofstream(path) << text;
    const ShellResult said = compare_sides();
    EXPECT_EQ(said.code, 2) << text;
    EXPECT_TRUE(said.is_one_line()) << said.out;
    EXPECT_THAT(said.out, HasSubstr("g.prices" + words)) << text;
  }
}

TEST_F(PricesOfRemedies, PriceOfAFix_IsInShowAndExplain) {
  const Catalogue catalogue = read_catalogue(RECAPTURE_ROOT);
  const std::string id = "unregistered_generator", name = "FixRegisterBeforeCapture";
  Json line = priced(2, 0.001);
  line["price"] = Json::array({id + "." + name});
  prices("2.15.0", {line});
  const std::string price = "a replay of 20 kernels: 20.0 µs instead of 10.0 µs (10.0 µs more), 2.00 times";
  const auto real = [&](const std::string& words) { return shell("'" RECAPTURE_BUILD "/recapture' " + words); };
  const ShellResult shown = real("show " + id + " --all --records '" + reports + "'");
  std::string words;  // Long lines are wrapped.
  std::istringstream all(shown.out);
  for (std::string word; all >> word;) words += (words.empty() ? "" : " ") + word;
  EXPECT_THAT(words, HasSubstr(" price on 2.15.0, G " + price));
  const Json json = parse_json(real("show " + id + " --json --records '" + reports + "'").out);
  ASSERT_THAT(json[0].at("prices"), SizeIs(1));
  EXPECT_EQ(json[0].at("prices")[0].at("machine"), "2.15.0, G");
  std::ofstream(reports + "2.6.0/bad.prices") << "bad\n";
  const ShellResult beside = real("show " + id + " --all --records '" + reports + "'");
  EXPECT_EQ(beside.code, 2);
  EXPECT_THAT(beside.out, HasSubstr(shown.out)) << "the rest is shown";
  EXPECT_THAT(beside.out, HasSubstr("bad.prices:1: not prices: "));

  const auto causes = read_causes(RECAPTURE_ROOT, catalogue);
  const ErrorText text =
      parse_error_text("RuntimeError: Attempt to increase offset for a CUDA generator not in capture mode.");
  const Explanation explanation = diagnose(text, causes, catalogue, {}, {read_prices(reports + "2.15.0/g.prices")});
  EXPECT_THAT(render_text(explanation, "2.15.0"), HasSubstr("\n    price on G: " + price));
  int priced_remedies = 0;
  const Json json_explained = render_json(explanation);
  for (const Json& remedy : json_explained.at("remedies")) {
    if (remedy.at("price").is_null()) continue;
    ++priced_remedies;
    EXPECT_EQ(remedy.at("cause"), id);
    EXPECT_NEAR(remedy.at("price")[0].at("ratio").get<double>(), 2, 1e-9);
  }
  EXPECT_EQ(priced_remedies, 1);
}

TEST_F(PricesOfRemedies, UnknownFixOrWrongPlace_IsAnError) {
  const Catalogue catalogue = read_catalogue(RECAPTURE_ROOT);
  EXPECT_THAT(price_errors(RECAPTURE_ROOT, catalogue), IsEmpty());
  fs::create_directories(folder + "/benchmarks");
  std::ofstream(folder + "/benchmarks/b.cpp") << "price({\"unregistered_generator.FixRegisterBeforeCapture\",\n"
                                                 "       \"unregistered_generator.Control\", \"item.FixGone\"});\n";
  prices("2.6.0", {priced(1, 0.1)});
  write(reports + "2.15.0/h.prices", {machine_of("2.15.0"), priced(1, 0.1)});
  write(reports + "2.15.0/g.run-2.prices", {machine_of("2.15.0"), priced(1, 0.1)});
  EXPECT_THAT(price_errors(folder, catalogue),
              ElementsAre("benchmarks/b.cpp:2: item.FixGone is not a fix of the catalogue",
                          "reports/2.15.0/g.run-2.prices: no benchmark prices c.FixIt",
                          "reports/2.15.0/h.prices: belongs at reports/2.15.0/g.prices",
                          "reports/2.15.0/h.prices: no benchmark prices c.FixIt",
                          "reports/2.6.0/g.prices: no benchmark prices c.FixIt"));
}

// A fake benchmark program, which writes the given results where Google Benchmark would.
TEST_F(PricesOfRemedies, BenchmarkRun_WritesPricesOnlyIfItSucceeds) {
  const auto repetition = [](const char* work, double without, double with) -> Json {
    return {{"name", work},      {"run_name", fmt::format("c.FixIt d.FixIt/{}/iterations:1/manual_time", work)},
            {"label", "gpu"},    {"run_type", "iteration"},
            {"real_time", with}, {"without", without},
            {"control", without}};
  };
  Json refused = repetition("other work", 0, 0), mean = repetition("a replay", 9, 9);
  refused["error_occurred"] = true;
  refused["error_message"] = "no such member";
  mean["run_type"] = "aggregate";
  Json refused_once = refused;
  refused_once["run_name"] = repetition("at times", 0, 0)["run_name"];
  const auto stage = [](const char* nodes, double time) -> Json {
    return {{"name", "a"},
            {"run_name", fmt::format("stage/capture/{}/iterations:1/manual_time", nodes)},
            {"label", "host"},
            {"run_type", "iteration"},
            {"real_time", time}};
  };
  Json report = {
      {"context",
       {{"libtorch", "2.6.0"}, {"gpu", "NVIDIA G1"}, {"driver", "1"}, {"cuda_runtime", "12.4"}, {"hash", "h"}}},
      {"benchmarks",
       {repetition("a replay", 10, 20), refused, repetition("a replay", 11, 22), mean, repetition("at times", 10, 20),
        refused_once, stage("100", 7), stage("10", 2), stage("100", 9)}}};
  const std::string program = folder + "/remedies", out = folder + "/out.prices";
  const auto measure = [&](const std::string& shell_lines) {
    std::ofstream(folder + "/report.json") << report;
    std::ofstream(program) << "#!/bin/sh\n" << shell_lines << "\n";
    fs::permissions(program, fs::perms::owner_all);
    return shell("'" RECAPTURE_ROOT "/tools/prices' --remedies 2.6.0 --revision r --program '" + program +
                 "' --output '" + out + "'");
  };
  const std::string writes =
      "for word; do case $word in --benchmark_out=*) cp '" + folder + "/report.json' \"${word#*=}\";; esac; done";
  const ShellResult said = measure(writes);
  ASSERT_EQ(said.code, 0) << said.out;
  EXPECT_THAT(said.out,
              HasSubstr("| a replay | 10.50 | 21.00 | 2.000 [2.000, 2.000] | 2.000 to 2.000 | 1.000 [1.000, 1.000] | "
                        "yes | c.FixIt, d.FixIt |\n"));
  EXPECT_THAT(said.out, HasSubstr("| other work | not measured: no such member | | | | | | c.FixIt, d.FixIt |\n"));
  EXPECT_THAT(said.out, HasSubstr("| at times | not measured: no such member (in 1 of 2 repetitions) | "));
  EXPECT_THAT(said.out, HasSubstr("| capture | 10 | 2.00 (2.00 to 2.00) |\n| capture | 100 | 8.00 (7.00 to 9.00) |\n"));
  const Prices prices = read_prices(out);
  EXPECT_EQ(prices.machine(), "2.6.0, NVIDIA G1");
  EXPECT_EQ(prices.env("revision"), "r");
  ASSERT_THAT(prices.lines, SizeIs(3));
  EXPECT_THAT(prices.lines[0].fixes, ElementsAre("c.FixIt", "d.FixIt"));
  EXPECT_THAT(prices.lines[0].without, ElementsAre(10, 11));
  EXPECT_THAT(prices.lines[0].with, ElementsAre(20, 22));
  EXPECT_EQ(prices.lines[1].why_not, "no such member");
  EXPECT_EQ(shell("'" RECAPTURE_ROOT "/tools/prices' '" + out + "'").out, said.out) << "the table of a file";
  std::ofstream(out, std::ios::app) << priced(2, 0.1, 12, "100 kernels") << "\n"
                                    << priced(2, 0.1, 12, "2 kernels") << "\n";
  const std::string table = shell("'" RECAPTURE_ROOT "/tools/prices' '" + out + "'").out;
  const ShellResult full = shell("'" RECAPTURE_ROOT "/tools/prices' '" + out + "' 2>&1 >/dev/full");
  EXPECT_NE(full.code, 0) << "an output that cannot be written";
  EXPECT_THAT(full.out, Not(HasSubstr("is not what --output wrote")));
  ASSERT_THAT(table, HasSubstr("| 100 kernels |"));
  EXPECT_LT(table.find("| 2 kernels |"), table.find("| 100 kernels |")) << "in the order of their numbers";

  // In another tree each run writes there, each to a file of its own.
  fs::create_directories(folder + "/tools");
  fs::copy_file(RECAPTURE_ROOT "/tools/prices", folder + "/tools/prices");
  for (const char* place : {"nvidia-g1.prices", "nvidia-g1.run-2.prices", "nvidia-g1.run-3.prices"}) {
    EXPECT_EQ(shell("'" + folder + "/tools/prices' --remedies 2.6.0 --revision r --program '" + program + "'").code, 0);
    EXPECT_EQ(text_of(reports + "2.6.0/" + place).substr(0, 12), "{\"prices\":2,") << place;
  }

  fs::remove(out);
  const auto refuses = [&](const std::string& lines, const std::string& words) {
    const ShellResult refusal = measure(lines);
    EXPECT_EQ(refusal.code, 7) << refusal.out;
    EXPECT_EQ(std::count(refusal.out.begin(), refusal.out.end(), '\n'), 1) << refusal.out;
    EXPECT_THAT(refusal.out, HasSubstr(words));
    EXPECT_FALSE(fs::exists(out)) << words;
  };
  refuses("echo hm >&2; echo it broke >&2; exit 3", "failed: it broke");
  refuses("exit 3", "failed: exit status 3");
  report["context"]["libtorch"] = "2.7.0";
  refuses(writes, "it ran with LibTorch 2.7.0, not 2.6.0");
  report["context"]["gpu"] = "";
  refuses(writes, "no GPU");
  EXPECT_EQ(shell("'" RECAPTURE_ROOT "/tools/prices' --remedies 2.6.0 --program /none").code, 7);
  EXPECT_EQ(shell("'" RECAPTURE_ROOT "/tools/prices' --remedies 2.6.0 --blame").code, 2);
}

std::vector<Prices> runs_of(const std::vector<std::array<const char*, 4>>& all) {
  std::vector<Prices> runs;
  for (const auto& [release, gpu, started, hash] : all) {
    const Json machine = {
        {"release", release}, {"gpu", gpu}, {"driver", "1"}, {"hash", hash}, {"volatile", {{"started", started}}}};
    runs.push_back({std::to_string(runs.size()), machine, {}});
  }
  return runs;
}

TEST(PricesByMachine, SeveralRunsOfAMachine_AreOneNamedAfterTheNewest) {
  std::vector<std::string> paths;
  for (const Prices& prices : prices_by_machine(runs_of({{"2.11.0", "G", "1", "h"},
                                                         {"2.11.0", "G", "2", "h"},
                                                         {"2.11.0", "H", "1", "h"},
                                                         {"2.6.0", "G", "1", "h"}}))) {
    paths.push_back(prices.path);
  }
  EXPECT_THAT(paths, ElementsAre("3", "1", "2"));
}

TEST(PricesByMachine, Lines_AreInTheOrderOfTheirNumbers) {
  auto runs = runs_of({{"2.11.0", "G", "1", "h"}});
  for (const char* what : {"100 kernels", "a copy", "2 kernels", "1000 kernels"}) {
    runs[0].lines.push_back({{"c.Fix"}, what, "gpu", {1}, {2}, ""});
  }
  const auto machines = prices_by_machine(runs);
  std::vector<std::string> order;
  for (const PriceLine& line : machines.at(0).lines) order.push_back(line.what);
  EXPECT_THAT(order, ElementsAre("2 kernels", "100 kernels", "1000 kernels", "a copy"));
}

TEST(PricesByMachine, LinesOfOneWork_AreInTheOrderOfTheirFixes) {
  for (const auto& [first, second] : {std::pair("c.Fix", "d.Fix"), std::pair("d.Fix", "c.Fix")}) {
    auto runs = runs_of({{"2.11.0", "G", "1", "h"}});
    for (const char* fix : {first, second}) runs[0].lines.push_back({{fix}, kWork, "gpu", {1}, {2}, ""});
    const auto machines = prices_by_machine(runs);
    EXPECT_THAT(machines.at(0).lines.at(0).fixes, ElementsAre("c.Fix")) << first;
  }
}

TEST(PricesByMachine, CopyOfARun_AddsNoPairs) {
  auto runs = runs_of({{"2.11.0", "G", "1", "h"}, {"2.11.0", "G", "1", "h"}});
  for (Prices& run : runs) run.lines = {{{"c.Fix"}, kWork, "gpu", {1}, {2}, ""}};
  EXPECT_THAT(prices_by_machine(runs).at(0).lines.at(0).with, ElementsAre(2));
}

TEST(PricesByMachine, RunsOfTheNewestBenchmarks_AreMerged) {
  auto runs = runs_of({{"2.11.0", "G", "1", "old"}, {"2.11.0", "G", "2", "new"}, {"2.11.0", "G", "3", "new"}});
  runs[0].lines = {{{"c.Fix"}, "work", "gpu", {1}, {9}, ""}};
  runs[1].lines = {{{"c.Fix"}, "work", "gpu", {1}, {2}, "", {3}},
                   {{"d.Fix"}, "work", "gpu", {1}, {3}, ""},
                   {{"e.Fix"}, "work", "gpu", {1}, {4}, ""},
                   {{"f.Fix"}, "work", "gpu", {}, {}, "no room"}};
  runs[2].lines = {{{"c.Fix"}, "work", "gpu", {10}, {20}, "", {11}},
                   {{"e.Fix"}, "work", "gpu", {}, {}, "no such member"},
                   {{"f.Fix"}, "work", "gpu", {5}, {6}, ""}};
  runs.push_back(runs[1]);
  runs.back().path = "a copy";
  const auto merged = prices_by_machine(runs);
  ASSERT_THAT(merged, SizeIs(1));
  ASSERT_THAT(merged[0].lines, SizeIs(4));
  const auto line_of = [&](const std::string& test) {
    return *std::find_if(merged[0].lines.begin(), merged[0].lines.end(),
                         [&](const PriceLine& line) { return line.fixes.front() == test; });
  };
  const auto with = [&](const std::string& test) { return line_of(test).with; };
  EXPECT_THAT(with("c.Fix"), ElementsAre(20, 2)) << "not of the old benchmarks";
  EXPECT_THAT(line_of("c.Fix").without, ElementsAre(10, 1));
  EXPECT_THAT(line_of("c.Fix").control, ElementsAre(11, 3)) << "a control stays with its pair";
  EXPECT_THAT(with("d.Fix"), ElementsAre(3)) << "the newest run did not try it";
  EXPECT_THAT(with("e.Fix"), ElementsAre(4)) << "the newest run could not";
  EXPECT_THAT(with("f.Fix"), ElementsAre(6)) << "the older run could not";
  for (const PriceLine& line : merged[0].lines) EXPECT_EQ(line.why_not, "");
}

}  // namespace
}  // namespace recapture
