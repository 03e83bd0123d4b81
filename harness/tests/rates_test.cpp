// Rates of races: the run is the unit, and too few runs are neither green nor red.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <map>
#include <random>
#include <sstream>
#include <tuple>

#include "harness/store/rate_pools.h"
#include "harness/tests/fake_run.h"
#include "harness/tests/namespaces.h"
#include "harness/tests/shell.h"
#include "harness/verdict/duration.h"
#include "harness/verdict/judge.h"
#include "harness/verdict/race_rule.h"
#include "harness/verdict/rate.h"
#include "harness/words/measurement.h"
#include "harness/words/observation.h"

namespace recapture {
namespace {

using ::testing::HasSubstr;

std::vector<RateRun> runs(const std::vector<std::pair<int, int>>& all, Stopping stopping = Stopping::Tries) {
  std::vector<RateRun> made;
  for (const auto& [hits, tries] : all) made.push_back({hits, tries, stopping});
  return made;
}

TEST(Quantile, DegreesOfFreedom_MatchStudentsTable) {
  EXPECT_NEAR(t_quantile(4), 2.776, 0.001);
  EXPECT_NEAR(t_quantile(5), 2.571, 0.001);
  EXPECT_NEAR(t_quantile(10), 2.228, 0.001);
  EXPECT_NEAR(t_quantile(30), 2.042, 0.001);
  EXPECT_NEAR(t_quantile(100000), 1.960, 0.001);
}

// tools/prices measures where the program may not be built, so it has the quantile as well.
TEST(Quantile, ThatOfThePricesOfBlame_IsTheSameFromNineDegreesOn) {
  const ShellResult said =
      shell("python3 -B -c 'import importlib.machinery as m; prices = m.SourceFileLoader(\"prices\", \"" RECAPTURE_ROOT
            "/tools/prices\").load_module(); print(*[prices.student(n) for n in (9, 20, 59)])'");
  ASSERT_EQ(said.code, 0) << said.out;
  std::istringstream numbers(said.out);
  for (const size_t degrees : {9, 20, 59}) {
    double quantile = 0;
    ASSERT_TRUE(numbers >> quantile) << said.out;
    EXPECT_NEAR(t_quantile(degrees), quantile, 0.001) << degrees;
  }
}

TEST(HigherRate, FewRuns_AreDecidedOnlyBeyondTheirSpread) {
  EXPECT_TRUE(is_surely_higher(runs({{0, 4000}}), runs({{1000, 1000}})));
  EXPECT_TRUE(is_surely_higher(runs({{1, 1000}}), runs({{1000, 1000}})));
  EXPECT_TRUE(is_surely_higher(runs({{0, 4000}}), runs({{1, 1}})));
  EXPECT_FALSE(is_surely_higher(runs({{0, 4000}}), runs({{0, 0}}))) << "no tries";
  EXPECT_FALSE(is_surely_higher(runs({{1000, 1000}}), runs({{1, 1000}}))) << "lower";
  EXPECT_FALSE(is_surely_higher(runs({{10, 1000}}), runs({{12, 1000}})));
  EXPECT_FALSE(is_surely_higher(runs({{1, 400}}), runs({{78, 400}}))) << "two runs on record, both of one race";
  EXPECT_FALSE(is_surely_higher(runs({{0, 4000}, {900, 1000}}), runs({{1000, 1000}}))) << "one earlier run is as high";
  EXPECT_FALSE(is_surely_higher(runs({{6, 20000}}, Stopping::Hits), runs({{6, 12}}, Stopping::Hits)));
  EXPECT_FALSE(is_surely_higher({}, runs({{1000, 1000}})));
}

TEST(HigherRate, EnoughRuns_AreDecidedByTheirRanks) {
  const auto low = runs({{2, 100}, {3, 100}, {4, 100}, {5, 100}, {6, 100}});
  const auto high = runs({{12, 100}, {13, 100}, {14, 100}, {15, 100}, {16, 100}});
  EXPECT_TRUE(is_surely_higher(low, high));
  EXPECT_FALSE(is_surely_higher(high, low));
}

TEST(RateOfRuns, FixedTries_GiveATIntervalOfLogits) {
  const auto rate = rate_of(runs({{102, 300}, {220, 300}, {216, 300}, {234, 300}, {205, 300}}));
  ASSERT_TRUE(rate);
  EXPECT_NEAR(rate->share, 0.6599, 0.001);
  EXPECT_NEAR(rate->low, 0.4300, 0.001);
  EXPECT_NEAR(rate->high, 0.8331, 0.001);
}

TEST(RateOfRuns, TriesUntilTheHits_GiveATIntervalOfLogarithms) {
  const auto rate = rate_of(runs({{6, 282}, {6, 11491}, {6, 4381}, {6, 14520}, {6, 28338}}, Stopping::Hits));
  ASSERT_TRUE(rate);
  EXPECT_NEAR(rate->share, 0.000972, 1e-5);
  EXPECT_NEAR(rate->low, 0.000103, 1e-5);
  EXPECT_NEAR(rate->high, 0.00915, 1e-5);
  const auto first = rate_of(runs({{1, 9}, {1, 1}, {1, 4}, {1, 2}, {1, 7}}, Stopping::Hits));
  ASSERT_TRUE(first);
  EXPECT_LT(first->low, 0.1) << "five first hits are little evidence";
  EXPECT_LE(first->high, 1);
}

TEST(RateOfRuns, RunsThatAgree_AreNoSurerThanChance) {
  const auto all = rate_of(runs({{10, 10}, {10, 10}, {10, 10}, {10, 10}, {10, 10}}));
  ASSERT_TRUE(all);
  EXPECT_LT(all->low, 0.87);
  const auto half = rate_of(runs({{50, 100}, {50, 100}, {50, 100}, {50, 100}, {50, 100}}));
  ASSERT_TRUE(half);
  EXPECT_NEAR(half->share, 0.5, 1e-9);
  EXPECT_GT(half->high - half->low, 0.09);
}

TEST(RateOfRuns, RunsThatDiffer_WidenTheInterval) {
  const auto rate = rate_of(runs({{50, 1000}, {400, 1000}, {150, 1000}, {90, 1000}, {300, 1000}}));
  ASSERT_TRUE(rate);
  EXPECT_GT(rate->high - rate->low, 0.3) << "5000 tries, but five observations";
}

// The interval must cover the true rate about as often as it claims, with and without differences between runs.
TEST(RateOfRuns, AnySpreadOfRuns_IntervalCoversTheTrueRate) {
  std::mt19937_64 random(20261122);
  const auto coverage = [&](double between, Stopping stopping) {
    constexpr int kTrials = 2000;
    int covered = 0;
    for (int trial = 0; trial < kTrials; ++trial) {
      const double centre = stopping == Stopping::Tries ? 0.3 : 0.01;
      std::normal_distribution<double> mood(0, between);
      std::vector<RateRun> made;
      for (int i = 0; i < 5; ++i) {
        const double odds = centre / (1 - centre) * std::exp(mood(random)), share = odds / (1 + odds);
        RateRun run{0, 0, stopping};
        if (stopping == Stopping::Tries) {
          run = {std::binomial_distribution<int>(200, share)(random), 200, stopping};
        } else {
          run = {6, 6 + std::negative_binomial_distribution<int>(6, share)(random), stopping};
        }
        made.push_back(run);
      }
      const auto rate = rate_of(made);
      covered += rate && rate->low <= centre && centre <= rate->high ? 1 : 0;
    }
    return static_cast<double>(covered) / kTrials;
  };
  for (const Stopping stopping : {Stopping::Tries, Stopping::Hits}) {
    for (const double between : {0.0, 0.5, 1.0}) {
      const double share = coverage(between, stopping);
      EXPECT_GE(share, 0.93) << between;
      EXPECT_LE(share, 0.999) << between;
    }
  }
}

TEST(RateOfRuns, FewerThanFiveRuns_GivesNothing) {
  EXPECT_FALSE(rate_of(runs({{1, 2}, {1, 2}, {1, 2}, {1, 2}})));
  EXPECT_EQ(describe(runs({{102, 300}})), "seen in 1 of 1 run; insufficient data for a rate: 4 more runs are needed");
  EXPECT_THAT(describe(runs({{0, 9}, {1, 2}, {1, 2}, {1, 2}})), HasSubstr("seen in 3 of 4 runs; insufficient"));
  EXPECT_THAT(describe(runs({{0, 9}, {1, 2}, {1, 2}, {1, 2}})), HasSubstr("1 more run is needed"));
  EXPECT_THAT(describe(runs({{50, 100}, {50, 100}, {50, 100}, {50, 100}, {50, 100}})),
              HasSubstr("50 % of the tries, "));
  const auto censored = runs({{0, 90}, {1, 2}, {1, 2}, {1, 2}, {1, 2}}, Stopping::Hits);
  EXPECT_FALSE(rate_of(censored));
  EXPECT_EQ(describe(censored),
            "seen in 4 of 5 runs; insufficient data for a rate: 1 run reached its limit before the first hit");
  auto mixed = runs({{1, 2}, {1, 2}, {1, 2}, {1, 2}, {1, 2}});
  mixed.back().stopping = Stopping::Hits;
  EXPECT_FALSE(rate_of(mixed));
  EXPECT_THAT(describe(mixed), HasSubstr("different rules ended the tries of these runs"));
}

TEST(RateOfRuns, RunWithAnUnknownRule_IsLeftOut) {
  auto all = runs({{50, 100}, {50, 100}, {50, 100}, {50, 100}});
  all.insert(all.begin(), {1, 900, Stopping::Unknown});
  EXPECT_FALSE(rate_of(all));
  EXPECT_EQ(describe(all),
            "seen in 5 of 5 runs; insufficient data for a rate: 1 more run is needed; what ended the "
            "tries of 1 run is not recorded");
  all.push_back({50, 100, Stopping::Tries});
  ASSERT_TRUE(rate_of(all));
  EXPECT_NEAR(rate_of(all)->share, 0.5, 1e-9);
  EXPECT_FALSE(rate_of(runs({{1, 2}, {1, 2}, {1, 2}, {1, 2}, {1, 2}}, Stopping::Unknown)));
}

TEST(RateChange, RankSumOfTheRuns_DecidesAlone) {
  const auto low = runs({{10, 100}, {12, 100}, {14, 100}, {16, 100}, {18, 100}});
  const auto high = runs({{20, 100}, {22, 100}, {24, 100}, {26, 100}, {28, 100}});
  EXPECT_EQ(changed(low, high), true) << "p = 2/252";
  EXPECT_EQ(changed(high, low), true);
  const auto overlapping = runs({{17, 100}, {22, 100}, {24, 100}, {26, 100}, {28, 100}});
  EXPECT_EQ(changed(low, overlapping), false) << "p = 4/252: one run out of order is too much";
  EXPECT_EQ(changed(low, low), false);
  EXPECT_EQ(changed(runs({{1, 1000}, {2, 1000}, {900, 1000}, {5, 1000}, {3, 1000}}),
                    runs({{800, 1000}, {2, 1000}, {1, 1000}, {7, 1000}, {4, 1000}})),
            false)
      << "thousands of tries, and the same runs";
  EXPECT_EQ(changed(runs({{10, 100}}), high), std::nullopt);
  auto of_two_designs = low;
  of_two_designs.back().stopping = Stopping::Hits;
  EXPECT_EQ(changed(of_two_designs, high), std::nullopt);
  EXPECT_EQ(changed(high, of_two_designs), std::nullopt);
  const std::vector<RateRun> year(400, RateRun{10, 100, Stopping::Tries});
  EXPECT_EQ(changed(year, std::vector<RateRun>(400, RateRun{90, 100, Stopping::Tries})), true);
}

// A race that a release mostly ended: its runs reach their limit.
TEST(RateChange, RunThatReachedItsLimit_IsBelowAHitInAsManyTries) {
  const auto seen = runs({{1, 3}, {1, 9}, {1, 1}, {1, 4}, {1, 90}}, Stopping::Hits);
  const auto unseen = runs({{0, 500}, {0, 400}, {0, 90}, {0, 300}, {0, 450}}, Stopping::Hits);
  EXPECT_EQ(changed(seen, unseen), true) << "p = 2/252";
  EXPECT_EQ(changed(unseen, seen), true);
  EXPECT_EQ(changed(seen, runs({{0, 500}, {0, 400}, {0, 89}, {0, 300}, {0, 450}}, Stopping::Hits)), false)
      << "of 89 tries without a hit and a first hit at the 90th neither is known to be the rarer";
  EXPECT_EQ(changed(unseen, unseen), false);
  EXPECT_EQ(changed(seen, runs({{0, 500}, {0, 400}, {0, 90}, {0, 300}}, Stopping::Hits)), std::nullopt);
}

// With equal rates, runs of any limits may differ in at most one of a hundred comparisons.
TEST(RateChange, EqualRates_SeldomDifferWhateverTheLimits) {
  std::mt19937_64 random(20261128);
  std::geometric_distribution<int> misses(0.01);
  int wrong = 0;
  constexpr int kTrials = 4000;
  for (int trial = 0; trial < kTrials; ++trial) {
    const auto five = [&](int limit) {
      std::vector<RateRun> made;
      for (int i = 0; i < 5; ++i) {
        const int tries = misses(random) + 1;
        made.push_back(tries <= limit ? RateRun{1, tries, Stopping::Hits} : RateRun{0, limit, Stopping::Hits});
      }
      return made;
    };
    wrong += changed(five(30 + trial % 300), five(60)) == true ? 1 : 0;
  }
  EXPECT_LE(wrong, kTrials / 100);
}

TEST(RateChange, Pool_IsComparedWithTheOlderReleaseOnItsMachineAndWithOtherMachinesOfItsRelease) {
  std::vector<RatePool> pools;
  const auto add = [&](const std::string& release, const std::string& gpu, int hits, size_t count) {
    MachineId id;
    id.gpu = gpu;
    pools.push_back({"c.Reproduces", Release(release), release + ", " + gpu, id, {}});
    for (size_t i = 0; i < count; ++i) pools.back().runs.push_back({hits + static_cast<int>(i), 100});
  };
  add("2.5.1", "G", 10, 5);
  add("2.6.0", "G", 80, 5);
  add("2.6.0", "H", 80, 5);
  add("2.7.1", "G", 80, 4);
  add("2.8.0", "H", 10, 5);
  add("2.8.0", "I", 80, 5);
  add("2.9.1", "G", 10, 5);
  const auto compared = [&](size_t pool) {
    std::vector<std::pair<std::string, bool>> all;
    for (const auto& [other, differs] : comparisons_of(pools[pool], pools)) all.emplace_back(other->machine, differs);
    return all;
  };
  using All = std::vector<std::pair<std::string, bool>>;
  EXPECT_EQ(compared(0), All{});
  EXPECT_EQ(compared(1), (All{{"2.5.1, G", true}}));
  EXPECT_EQ(compared(2), (All{{"2.6.0, G", false}})) << "no older release has runs on H";
  EXPECT_EQ(compared(3), All{}) << "too few runs";
  EXPECT_EQ(compared(5), (All{{"2.8.0, H", true}}));
  EXPECT_EQ(compared(6), (All{{"2.6.0, G", true}})) << "past other machines and a release with too few runs";
  add("2.9.1", "G", 80, 5);
  pools.back().id.overrides["cuda_runtime"] = "12.9";
  add("2.10.0", "G", 10, 5);
  EXPECT_EQ(compared(8), (All{{"2.9.1, G", false}})) << "with its own runtime";
  add("cuda13", "G", 10, 5);
  EXPECT_EQ(compared(9), All{}) << "no release";
}

// --- Tries that end by the rule
// ---------------------------------------------------------------------------------------

// In processes of `at_once` tries each; the rates of runs differ by `between` on the scale of logits.
class RaceRule : public ::testing::Test {
 protected:
  int hits_in(int tries, double rate) { return std::binomial_distribution<int>(tries, rate)(random_); }
  double rate_of_a_run(double centre, double between) {
    const double mood = between == 0 ? 0 : std::normal_distribution<double>(0, between)(random_);
    const double odds = centre / (1 - centre) * std::exp(mood);
    return odds / (1 + odds);
  }
  RateRun by_rule(double rate, int at_once) {
    RateRun run{0, 0, Stopping::Rule};
    while (stopped_by(run.hits, run.tries).empty()) run.hits += hits_in(at_once, rate), run.tries += at_once;
    return run;
  }
  std::vector<RateRun> five(double centre, double between, int at_once, size_t by_fixed_tries = 0, int fixed = 60) {
    std::vector<RateRun> made;
    for (size_t i = 0; i < 5; ++i) {
      const double rate = rate_of_a_run(centre, between);
      made.push_back(i < by_fixed_tries ? RateRun{hits_in(fixed, rate), fixed} : by_rule(rate, at_once));
    }
    return made;
  }

  static constexpr std::array kRates = {0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 0.5, 0.7, 0.9};

 private:
  std::mt19937_64 random_{20261130};
};

TEST_F(RaceRule, EnoughOfEither_EndsTheTries) {
  EXPECT_EQ(stopped_by(9, 59), "");
  EXPECT_EQ(stopped_by(10, 10), "hits");
  EXPECT_EQ(stopped_by(0, 60), "tries");
  EXPECT_EQ(stopped_by(16, 64), "hits");
}

// verdicts.md states this error: for any rate, at most seven in a hundred intervals do not contain it.
TEST_F(RaceRule, AnyRate_IntervalMissesItAsSeldomAsThePageStates) {
  constexpr int kTrials = 600;
  for (const double rate : kRates) {
    for (const int at_once : {1, 8}) {
      for (const double between : {0.0, 0.5, 1.0}) {
        int missed = 0, tries = 0;
        for (int trial = 0; trial < kTrials; ++trial) {
          const std::vector<RateRun> made = five(rate, between, at_once);
          for (const RateRun& run : made) tries += run.tries;
          const auto found = rate_of(made);
          missed += found && (rate < found->low || found->high < rate) ? 1 : 0;
        }
        EXPECT_LE(missed, kTrials * 7 / 100) << rate << ", " << at_once << " at once, spread " << between;
        const double mean = tries / 5.0 / kTrials;
        EXPECT_LE(mean, rate >= 0.7 ? 22 : rate >= 0.5 ? 30 : rate >= 0.3 ? 41 : 64) << rate << ", " << at_once;
      }
    }
  }
}

// Of both kinds, and of both kinds in one set. It states that as well: at most one in a hundred comparisons.
TEST_F(RaceRule, EqualRates_SeldomDifferFromFixedTries) {
  constexpr int kTrials = 600;
  for (const double rate : kRates) {
    for (const double between : {0.0, 1.0}) {
      for (const auto& [fixed_before, fixed_after, tries] :
           {std::tuple(0, 0, 60), {5, 0, 60}, {0, 5, 60}, {5, 0, 300}, {3, 0, 60}, {2, 3, 60}}) {
        int wrong = 0;
        for (int trial = 0; trial < kTrials; ++trial) {
          const auto before = five(rate, between, trial % 2 == 0 ? 1 : 8, fixed_before, tries);
          wrong += changed(before, five(rate, between, trial % 2 == 0 ? 1 : 8, fixed_after, tries)) == true ? 1 : 0;
        }
        EXPECT_LE(wrong, kTrials * 2 / 100) << rate << ", spread " << between << ", " << fixed_before << " and "
                                            << fixed_after << " by " << tries << " tries";
      }
    }
  }
}

TEST_F(RaceRule, RatesFarApart_DifferWhateverTheKind) {
  for (const auto& [fixed_before, fixed_after] : {std::pair(0, 0), {5, 0}, {0, 5}}) {
    int found = 0;
    constexpr int kTrials = 100;
    for (int trial = 0; trial < kTrials; ++trial) {
      found += changed(five(0.9, 0.3, 8, fixed_before), five(0.02, 0.3, 8, fixed_after)) == true ? 1 : 0;
    }
    EXPECT_GE(found, kTrials * 95 / 100) << fixed_before << " and " << fixed_after;
  }
  EXPECT_TRUE(is_surely_higher(runs({{0, 1000}}), runs({{16, 16}}, Stopping::Rule)));
  EXPECT_FALSE(is_surely_higher(runs({{0, 64}}, Stopping::Rule), runs({{16, 40}}, Stopping::Rule)));
}

TEST_F(RaceRule, HitThatEndedTheTries_IsNoneOfTheirRate) {
  const auto rate_of_five = [](int hits, int tries) {
    return rate_of(std::vector<RateRun>(5, RateRun{hits, tries, Stopping::Rule})).value().share;
  };
  EXPECT_NEAR(rate_of_five(kEnoughHits, 20), 9.5 / 20, 1e-9) << "9 of 19";
  EXPECT_NEAR(rate_of_five(kEnoughHits - 1, 60), 9.5 / 61, 1e-9) << "the limit ended them";
}

TEST_F(RaceRule, RunsWithoutAHit_HaveNoRate) {
  const auto all = runs({{10, 20}, {12, 16}, {10, 30}, {11, 40}, {0, 60}}, Stopping::Rule);
  EXPECT_FALSE(rate_of(all));
  EXPECT_THAT(describe(all), HasSubstr("1 run reached its limit before the first hit"));
  EXPECT_TRUE(rate_of(runs({{10, 20}, {12, 16}, {10, 30}, {11, 40}, {1, 60}}, Stopping::Rule)));
}

TEST_F(RaceRule, FixedTriesBesideThose_GiveOneRate) {
  auto all = runs({{10, 20}, {12, 24}, {10, 20}}, Stopping::Rule);
  all.push_back({30, 60});
  all.push_back({31, 60});
  ASSERT_TRUE(rate_of(all));
  EXPECT_NEAR(rate_of(all)->share, 0.49, 0.02);
}

Stopping stopping_by(std::string_view rule, int hits) {
  return stopping_of(TestRecord{{{"stopping", rule}, {"hits", hits}}});
}

TEST(StoppingRule, KnownName_GivesWhatEndedTheTries) {
  EXPECT_EQ(stopping_by("300 captures", 7), Stopping::Tries);
  EXPECT_EQ(stopping_by("six processes, each until it crashes or has begun 20,000 captures", 6), Stopping::Hits);
  EXPECT_EQ(stopping_by("the first capture that fails, or 20 seconds", 1), Stopping::Hits);
  const char* on = "a number of calls, and where none showed it on to the first that does, up to twenty times as many";
  EXPECT_EQ(stopping_by(on, 97), Stopping::Tries);
  EXPECT_EQ(stopping_by(on, 2), Stopping::Tries);
  EXPECT_EQ(stopping_by(on, 1), Stopping::Hits);
  EXPECT_EQ(stopping_by(kRaceRule, 10), Stopping::Rule);
}

TEST(StoppingRule, EachOfACase_HasItsDesign) {
  for (const std::string_view rule : kStoppingRules) {
    EXPECT_EQ(stopping_by(rule, 1) == Stopping::Unknown, rule.empty()) << rule;
  }
}

TEST(StoppingRule, AnyOtherText_IsUnknown) {
  for (const char* text : {"", "301 captures", "300 captures until one fails"}) {
    EXPECT_EQ(stopping_by(text, 1), Stopping::Unknown) << text;
  }
}

Record night(const std::string& started, int hits, const std::string& driver = "1", const std::string& shard = "1/1") {
  Record record;
  record.environment = {{"recapture", 2},   {"release", "2.15.0"}, {"gpu", "G"},
                        {"driver", driver}, {"shard", shard},      {"volatile", {{"started", started}}}};
  record.cases["c"].id = "c";
  record.add({{{"test", "c.Reproduces"},
               {"ending", "exited"},
               {"code", hits > 0 ? 0 : 1},
               {"hits", hits},
               {"tries", 100},
               {"ended", hits > 0 ? "passed" : "failed"},
               {"stopping", "300 captures"}}});
  return record;
}

TEST(RatePools, RunsOfOneMachineAndCode_ShareAPool) {
  Record broken = night("5", 0), stale = night("6", 3), mad = night("7", 3);
  broken.environment = broken.environment.with("break", "trigger");
  stale.cases["c"].hash = "old";
  edit_line(mad.tests[0])["hits"] = 101;
  Rules rules;
  rules.tree["c"] = {"f", "", "", ""};
  const auto pools = rate_pools({night("2", 12), night("1", 11), night("3", 0), night("4", 9, "2"),
                                 night("8", 5, "1", "1/2"), broken, stale, mad},
                                rules);
  ASSERT_EQ(pools.size(), 2U) << "another driver is another kind of machine";
  ASSERT_EQ(pools[0].runs.size(), 3U) << "runs broken on purpose, stale, contradictory or of a shard do not count";
  EXPECT_EQ(pools[0].runs[0].hits, 11) << "in the order of time";
  EXPECT_EQ(pools[0].runs[2].hits, 0) << "a run that did not see it counts as well";
  EXPECT_EQ(pools[1].runs.size(), 1U);
}

TEST(RatePools, ChosenRuntime_MakesAnotherMachineForComparisons) {
  Record own = night("1", 3), chosen = night("2", 3);
  own.environment = own.environment.with("cuda_runtime", "13.0");
  chosen.environment = chosen.environment.with("cuda_runtime", "13.5").with("cuda_runtime_by", "preload");
  const auto pools = rate_pools({own, chosen}, {});
  ASSERT_EQ(pools.size(), 2U);
  EXPECT_NE(pools[0].id.with_overrides(), pools[1].id.with_overrides());
}

TEST(RatePools, RunsThatSomebodySent_AreNotHeldAgainstThoseOfTheProject) {
  std::vector<Record> records;
  for (int i = 0; i < 6; ++i) {
    records.push_back(night(fmt::format("1{}", i), 2 + i, "1"));
    records.push_back(night(fmt::format("2{}", i), 80 + i, "2"));
  }
  const auto compared = [&] {
    std::map<std::string, size_t> found;
    const auto pools = rate_pools(records, {});
    for (const RatePool& pool : pools) found[pool.id.driver] = comparisons_of(pool, pools).size();
    return found;
  };
  EXPECT_EQ(compared(), (std::map<std::string, size_t>{{"1", 0}, {"2", 1}}));
  for (Record& record : records) {
    if (record.env("driver") == "1") record.environment = record.environment.with("origin", "somebody");
  }
  EXPECT_EQ(compared(), (std::map<std::string, size_t>{{"1", 0}, {"2", 0}}));
}

TEST(RatePools, CopiesOfARun_CountOnce) {
  const auto of_run = [](const char* run, int hits, const Json& more = Json::object()) {
    Record record = night("1", hits);
    Json changing = record.environment.json().at("volatile");
    changing["run"] = run;
    changing.update(more);
    record.environment = record.environment.with("volatile", changing);
    return record;
  };
  const Json shards = {{"shards", {{{"run", "two"}}, {{"run", "three"}}}}};
  const auto pools = rate_pools({of_run("one", 7), of_run("one", 7), of_run("merged", 8, shards), of_run("three", 9),
                                 of_run("four", 9), night("1", 3), night("1", 3)},
                                {});
  ASSERT_EQ(pools.size(), 1U);
  EXPECT_EQ(pools[0].runs.size(), 5U) << "unknown without an id";
}

// One run shows that a race occurs, or nothing.
TEST(UnseenRace, OneRun_IsInsufficientDataEvenIfExpected) {
  const TestVerdict row = judge_record(night("1", 0), {}).front();
  EXPECT_EQ(row.result, Result::Unseen);
  EXPECT_EQ(to_string(row.verdict), "insufficient data");
  EXPECT_EQ(severity_of(row.verdict), Severity::Skip);
  EXPECT_EQ(exit_for({row.verdict}), Exit::Inconclusive);
  EXPECT_EQ(to_string(row.observed), "0 of 100 tries");
  Rules rules;
  Expectation e;
  e.test = "c.Reproduces";
  e.result = Result::Unseen;
  rules.expectations = {e};
  EXPECT_EQ(judge_record(night("1", 0), rules).front().verdict, Verdict::Insufficient)
      << "zero hits cannot be expected";
  EXPECT_EQ(judge_record(night("1", 1), {}).front().verdict, Verdict::AsDocumented);
}

TEST(Duration, ThreeTimesTheMedianOfFiveRunsAndFiveSecondsMore_IsNews) {
  const auto last = [](const std::vector<double>& seconds) {
    Durations durations;
    std::optional<double> median;
    for (const double each : seconds) median = durations.add(each);
    return median;
  };
  EXPECT_EQ(last({2, 2, 2, 2, 50}), std::nullopt) << "four runs are too few";
  EXPECT_EQ(last({2, 3, 2, 1, 2, 50}), 2);
  EXPECT_EQ(last({2, 2, 2, 2, 2, 6.9}), std::nullopt) << "not 5 s more";
  EXPECT_EQ(last({2, 2, 2, 2, 2, 7}), 2);
  EXPECT_EQ(last({20, 20, 20, 20, 20, 59}), std::nullopt) << "not three times as long";
  EXPECT_EQ(last({20, 20, 20, 20, 20, 60}), 20);
  EXPECT_EQ(last({90, 2, 2, 2, 2, 2, 50}), 2) << "the last five alone";
  EXPECT_EQ(last({2, 2, 2, 2, 2, 50, 50, 50}), 2);
  EXPECT_EQ(last({2, 2, 2, 2, 2, 50, 50, 50, 50}), std::nullopt) << "it usually takes that long now";
}

TEST(Duration, Words_HaveTwoDigitsAndWhatRanBeside) {
  EXPECT_EQ(render_seconds(0.04), "0.04 s");
  EXPECT_EQ(render_seconds(0.94), "0.94 s");
  EXPECT_EQ(render_seconds(0.95), "0.9 s") << "a double is a little less";
  EXPECT_EQ(render_seconds(0.96), "1.0 s");
  EXPECT_EQ(at_once(0), "");
  EXPECT_EQ(at_once(2), ", 2 at once");
}

TEST(Duration, Width_IsThatOfTheRunOrOneForARace) {
  FakeRun run;
  Record record = run.saw("D").judged().record;
  EXPECT_EQ(width_of(record, "c"), 0) << "not on record";
  const auto with = [&](const Json& changing) {
    record.environment = record.environment.with("volatile", changing);
    return width_of(record, "c");
  };
  record.plan = {"c.A", "c.B", "c.C"};
  EXPECT_EQ(with({{"jobs", 2}}), 2);
  EXPECT_EQ(with({{"jobs", 14}}), 3) << "no more than there are tests";
  EXPECT_EQ(with({{"shards", {{{"jobs", 2}}, {{"jobs", 2}}}}}), 2);
  EXPECT_EQ(with({{"shards", {{{"jobs", 2}}, {{"jobs", 3}}}}}), 0);
  EXPECT_EQ(with({{"shards", Json::array()}}), 0);
  EXPECT_EQ(with({{"shards", {{"one", {{"jobs", 2}}}}}}), 0) << "no list";
  EXPECT_EQ(with("2"), 0);
  record.cases.at("c").nature = Nature::Race;
  EXPECT_EQ(with({{"jobs", 2}}), 1);
}

}  // namespace
}  // namespace recapture
