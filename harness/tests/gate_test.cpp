// `gate` in each world of data/gate_worlds.toml, by the program and on records made here.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <optional>
#include <set>

#include "harness/base/toml.h"
#include "harness/model/catalogue.h"
#include "harness/tests/fake_record.h"
#include "harness/tests/fake_tree.h"
#include "harness/tests/this_tree.h"

namespace recapture {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

const std::string kHealthy = "ok > active > ok", kRaised = "900 > invalidated > 901";

// The cases, and which effect their failures have.
struct FakeCase {
  std::string id, effect;
  std::vector<std::string> tags, features, tests;
};
const std::vector<FakeCase> kCases = {
    {"silent", "silently wrong", {"side streams"}, {}, {"Control", "Reproduces"}},
    {"raising", "raises", {"host reads"}, {}, {"Control", "Reproduces"}},
    {"race", "silently wrong", {"threads"}, {}, {"Control", "ReproducesAtRate"}},
    {"compiled", "silently wrong", {"torch.compile"}, {"torch.compile"}, {"Control", "Reproduces"}},
    {"leaking", "leaks", {"side streams"}, {}, {"Control", "Reproduces", "FixIt"}},
    {"hanging", "hangs", {"side streams"}, {}, {"Control", "Reproduces", "FixIt"}},
    {"steady",
     "raises",
     {"DDP"},
     {},
     {"Control", "ControlA", "ControlB", "ControlC", "ControlD", "ControlE", "ControlF", "ControlG", "ControlH",
      "ControlI", "ControlJ", "ControlK"}}};

Json seen(const std::string& test, const std::string& what) { return fake_failure(test, what, "D", kHealthy); }
Json crash(const std::string& test) { return {{"test", test}, {"ending", "signal"}, {"code", 11}}; }
Json hang(const std::string& test) { return {{"test", test}, {"ending", "deadline"}}; }
Json skipped(const std::string& test) {
  return fake_test(test, {{"code", 77}, {"ended", "skipped"}, {"skipped", "why not"}});
}
Json absent(const std::string& test) {
  return fake_test(test, {{"code", 77}, {"ended", "skipped"}, {"inapplicable", "no such API"}});
}
Json rate(int hits, int tries) {
  return fake_test(
      "race.ReproducesAtRate",
      {{"hits", hits}, {"tries", tries}, {"code", hits > 0 ? 0 : 1}, {"ended", hits > 0 ? "passed" : "failed"}});
}

// A run of all cases in which every test works.
struct GateRun {
  std::string release = "2.15.0";
  Json environment = Json::object();
  std::map<std::string, std::vector<Json>> lines =
      {};  // By test: its line and its repetitions; none if it did not run.
  std::set<std::string> unplanned = {};
  std::map<std::string, std::string> hashes = {};
  std::string end = "complete";
  bool has_plan = true;

  GateRun& with(Json line) {
    const std::string test = line.at("test");
    lines[test] = {std::move(line)};
    return *this;
  }
  GateRun& repeated(Json line) {
    const std::string test = line.at("test");
    line["confirms"] = lines[test].size();
    lines[test].push_back(std::move(line));
    return *this;
  }
  GateRun& on(const std::string& gpu, const std::string& driver = "1") {
    environment.update({{"gpu", gpu}, {"driver", driver}});
    return *this;
  }
  GateRun& started(const std::string& when) {
    environment["volatile"] = {{"started", when}};
    return *this;
  }

  void write(const std::string& path) const {
    Json plan = Json::array();
    std::vector<Json> all;
    for (const FakeCase& one : kCases) {
      Json names = Json::array();
      std::vector<Json> its;
      for (const std::string& name : one.tests) {
        const std::string test = one.id + "." + name;
        names.push_back(name);
        if (unplanned.count(test) != 0) continue;
        plan.push_back(test);
        const auto given = lines.find(test);
        if (given != lines.end()) {
          its.insert(its.end(), given->second.begin(), given->second.end());
        } else if (name == "ReproducesAtRate") {
          its.push_back(rate(10, 1000));
        } else {
          its.push_back(name.starts_with("Reproduces") ? seen(test, kHealthy) : fake_test(test));
        }
      }
      const auto hash = hashes.find(one.id);
      all.push_back(fake_case(names, {{"case", one.id},
                                      {"family", "f"},
                                      {"effect", one.effect},
                                      {"hash", hash == hashes.end() ? "h" : hash->second}}));
      all.insert(all.end(), its.begin(), its.end());
    }
    Json first = fake_environment({{"release", release}, {"volatile", {{"started", "2026-01-01T00:00:00Z"}}}});
    first.update(environment);
    fs::create_directories(fs::path(path).parent_path());
    std::ofstream file(path);
    file << first.dump() << "\n";
    if (has_plan) file << Json({{"plan", plan}}).dump() << "\n";
    for (const Json& line : all) file << line.dump() << "\n";
    if (!end.empty()) file << Json({{"end", end}}).dump() << "\n";
  }
};

// The runs of a world, and what the user asks.
struct GateWorld {
  GateRun from{.release = "2.6.0"}, to = {};
  std::vector<GateRun> more = {};
  std::string policy = {}, options = {}, program = {};
};

const std::string kTest = "silent.Reproduces";

GateWorld with_newer(const std::function<void(GateRun&)>& change) {
  GateWorld world;
  change(world.to);
  return world;
}
GateWorld cut_off() {
  return with_newer([](GateRun& run) {
    run.lines[kTest] = {};
    run.end = "";
  });
}
// A second run of the newer release, which is silently wrong and older than the good one, or seems to be.
GateWorld disagreeing(const std::string& wrong_one, const std::string& good_one) {
  GateWorld world;
  world.to.started(good_one);
  world.more.push_back(GateRun().with(seen(kTest, "D")).started(wrong_one));
  return world;
}
GateWorld damaged_on(const std::string& gpu, const std::string& driver, const std::string& options = "",
                     const std::string& policy = "") {
  GateWorld world{.policy = policy, .options = options};
  world.more.push_back(GateRun().with(seen(kTest, "D")).on(gpu, driver));
  return world;
}
// Between two observations of the test, out of a scope that has other cases.
GateWorld out_of_scope(Json before, Json now) {
  GateWorld world{.policy = "scope = ['DDP']\n"};
  world.from.with(std::move(before));
  world.to.with(std::move(now));
  return world;
}
GateWorld with_compiled(Json now, const std::string& policy = "") {
  GateWorld world{.policy = policy};
  world.to.with(std::move(now));
  return world;
}
GateWorld raced(Json before, Json now) {
  GateWorld world;
  world.from.with(std::move(before));
  world.to.with(std::move(now));
  return world;
}
// The failure leaks on both sides, and the fix does not hold on one of them.
GateWorld leaking(bool before) {
  GateWorld world;
  for (GateRun* run : {&world.from, &world.to}) run->with(seen("leaking.Reproduces", "D"));
  (before ? world.from : world.to)
      .with(fake_test("leaking.FixIt",
                      {{"code", 1}, {"ended", "failed"}, {"assertions", {"c.cpp:7: 512 bytes are still there"}}}));
  return world;
}
// The fix of a hang fails if one of its ranks still waits.
Json failing_fix() {
  return fake_test("hanging.FixIt",
                   {{"code", 1}, {"ended", "failed"}, {"assertions", {"c.cpp:7: rank 0: still waits"}}});
}
// The failure hangs on both sides, and so does the newer side's fix: a rank of its own still waits.
GateWorld hanging() {
  GateWorld world{.policy = "scope = ['DDP']\n"};
  for (GateRun* run : {&world.from, &world.to}) run->with(seen("hanging.Reproduces", "D"));
  world.to.with(failing_fix());
  return world;
}
GateWorld only_newer(Json now) {
  GateWorld world;
  world.from.unplanned = {now.at("test")};
  world.to.with(std::move(now));
  return world;
}
GateWorld with_one_crash() {
  return with_newer(
      [](GateRun& run) { run.with(crash(kTest)).repeated(seen(kTest, kHealthy)).repeated(seen(kTest, kHealthy)); });
}
GateWorld only_newer_with_one_crash() {
  GateWorld world = with_one_crash();
  world.from.unplanned = {kTest};
  return world;
}
// An earlier run, of the form that a case had before.
GateRun in_older_form(const std::string& release, const std::string& case_id) {
  GateRun run{.release = release};
  run.hashes[case_id] = "i";
  return run.started("2025-12-31T00:00:00Z");
}
// The older release ran two forms of a case, and the newer one only the older form.
GateWorld edited_after(const std::string& case_id, const std::function<void(GateRun& older, GateRun& newer)>& change) {
  GateWorld world{.to = in_older_form("2.15.0", case_id), .more = {in_older_form("2.6.0", case_id)}};
  change(world.more[0], world.to);
  return world;
}
Json with_probes(const std::string& random) {
  Json line = seen("raising.Reproduces", kRaised);
  line["probes"] = {{"random", random}};
  return line;
}

const std::string kWithout = "without = ['torch.compile']\n";

const std::map<std::string, std::function<GateWorld()>>& gate_worlds() {
  static const std::map<std::string, std::function<GateWorld()>> kWorlds = {
      {"newer run cut off before the test", cut_off},
      {"newer run left the test out of its plan",
       [] { return with_newer([](GateRun& run) { run.unplanned = {kTest}; }); }},
      {"newer run has another hash", [] { return with_newer([](GateRun& run) { run.hashes["silent"] = "i"; }); }},
      {"newer result contradicts itself",
       [] {
         Json line = seen(kTest, kHealthy);
         line["code"] = 0;
         return with_newer([&](GateRun& run) { run.with(line); });
       }},
      {"newer run skipped the test", [] { return with_newer([](GateRun& run) { run.with(skipped(kTest)); }); }},
      {"newer run cut off before the test, outside the scope",
       [] {
         GateWorld world = cut_off();
         world.policy = "scope = ['DDP']\n";
         return world;
       }},
      {"newer run cut off before the test, which no percentage forbids",
       [] {
         GateWorld world = cut_off();
         world.policy = "unknown = 100\nnot_measured = 100\n";
         return world;
       }},
      {"a case that raises by its description has crashed on record",
       [] {
         GateWorld world = with_newer([](GateRun& run) { run.unplanned = {"raising.Reproduces"}; });
         world.more.push_back(GateRun{.release = "2.9.1"}.with(crash("raising.Reproduces")));
         return world;
       }},
      {"a case that can only raise has no newer result",
       [] { return with_newer([](GateRun& run) { run.unplanned = {"raising.Reproduces"}; }); }},
      {"neither side has a result",
       [] {
         GateWorld world;
         for (GateRun* run : {&world.from, &world.to}) run->unplanned = {kTest};
         return world;
       }},
      {"the newer release has no such API", [] { return with_newer([](GateRun& run) { run.with(absent(kTest)); }); }},
      {"another GPU has the result of both sides",
       [] {
         GateWorld world = with_newer([](GateRun& run) { run.unplanned = {kTest}; });
         for (const char* release : {"2.6.0", "2.15.0"}) {
           GateRun other{.release = release};
           other.unplanned = {"steady.ControlK", "steady.ControlJ"};
           world.more.push_back(other.on("G2"));
         }
         return world;
       }},
      {"works, then crashes in 1 of 3 tries", with_one_crash},
      {"a case that only the newer release ran crashes in 1 of 3 tries", only_newer_with_one_crash},
      {"a case that only the newer release ran crashes in 1 of 3 tries, as in a release older than both",
       [] {
         GateWorld world = only_newer_with_one_crash();
         world.more.push_back(GateRun{.release = "2.5.1"}.with(crash(kTest)).on("G3"));
         return world;
       }},
      {"works, then hangs in 1 of 2 tries",
       [] { return with_newer([](GateRun& run) { run.with(hang(kTest)).repeated(seen(kTest, kHealthy)); }); }},
      {"crashes in 1 of 3 tries on both sides",
       [] {
         GateWorld world;
         for (GateRun* run : {&world.from, &world.to}) {
           run->with(crash(kTest)).repeated(seen(kTest, kHealthy)).repeated(seen(kTest, kHealthy));
         }
         return world;
       }},
      {"silently wrong while its control was skipped",
       [] { return with_newer([](GateRun& run) { run.with(seen(kTest, "D")).with(skipped("silent.Control")); }); }},
      {"a race in 0 of 4000 tries, then in 1000 of 1000", [] { return raced(rate(0, 4000), rate(1000, 1000)); }},
      {"a race in 1 of 1000 tries, then in 1000 of 1000", [] { return raced(rate(1, 1000), rate(1000, 1000)); }},
      {"a race in 10 of 1000 tries, then in 12 of 1000", [] { return raced(rate(10, 1000), rate(12, 1000)); }},
      {"a race in 0 of 10 tries, then in 1 of 10", [] { return raced(rate(0, 10), rate(1, 10)); }},
      {"a race in 10 of 1000 tries, then in 0 of 3", [] { return raced(rate(10, 1000), rate(0, 3)); }},
      {"a race in 10 of 1000 tries, then without a number of tries",
       [] { return raced(rate(10, 1000), fake_test("race.ReproducesAtRate")); }},
      {"a race in 0 of 1000 tries, then a crash instead of tries",
       [] { return raced(rate(0, 1000), crash("race.ReproducesAtRate")); }},
      {"a fix that held leaks", [] { return leaking(false); }},
      {"a fix that held leaks, outside the scope",
       [] {
         GateWorld world = leaking(false);
         world.policy = "scope = ['DDP']\n";
         return world;
       }},
      {"a fix that leaked holds", [] { return leaking(true); }},
      {"a fix that held hangs, outside the scope", hanging},
      {"a case that only the newer release ran crashes", [] { return only_newer(crash(kTest)); }},
      {"a case that only the newer release ran crashes, as in a release older than both",
       [] {
         GateWorld world = only_newer(crash(kTest));
         world.more.push_back(GateRun{.release = "2.5.1"}.with(crash(kTest)).on("G3"));
         return world;
       }},
      {"a fix that only the newer release ran hangs in an older form of the case alone",
       [] {
         GateWorld world;
         world.from.unplanned = {"hanging.FixIt"};
         world.more.push_back(in_older_form("2.15.0", "hanging").with(failing_fix()));
         return world;
       }},
      {"a case that only the newer release ran crashes in 1 of 3 tries, and an older form of it does not",
       [] {
         GateWorld world = only_newer_with_one_crash();
         world.more.push_back(in_older_form("2.15.0", "silent"));
         return world;
       }},
      {"the newer release has only an older form of the case, in which a fix hangs in both",
       [] {
         return edited_after("hanging", [](GateRun& older, GateRun& newer) {
           older.with(failing_fix());
           newer.with(failing_fix());
         });
       }},
      {"the newer release has only an older form of the case, in which a fix hung in the older one",
       [] { return edited_after("hanging", [](GateRun& older, GateRun&) { older.with(failing_fix()); }); }},
      {"the newer release has only an older form of the case, of which the older one has no evidence",
       [] {
         return edited_after("silent", [](GateRun& older, GateRun&) {
           older.with(crash(kTest)).repeated(seen(kTest, kHealthy)).repeated(seen(kTest, kHealthy));
         });
       }},
      {"the newer release has only an older form of the case, which works in both",
       [] { return edited_after("silent", [](GateRun&, GateRun&) {}); }},
      {"a case that only the newer release ran raises", [] { return only_newer(seen("raising.Reproduces", "D")); }},
      {"an older run of the newer release is silently wrong",
       [] { return disagreeing("2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"); }},
      {"a run of the same second is silently wrong",
       [] { return disagreeing("2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z"); }},
      {"the good run of the newer release has a clock of 9999",
       [] { return disagreeing("2026-01-01T00:00:00Z", "9999-01-01T00:00:00Z"); }},
      {"damage on another GPU of the newer release only", [] { return damaged_on("G2", "1"); }},
      {"damage on another driver of the newer release only", [] { return damaged_on("G", "2"); }},
      {"damage on another GPU of the newer release only, with --gpu", [] { return damaged_on("G2", "1", "--gpu g"); }},
      {"damage on another GPU of the newer release only, with the policy's machines",
       [] { return damaged_on("G2", "1", "", "machines = ['G, driver 1']\n"); }},
      {"damage on another GPU of the newer release only, in an older form of the case",
       [] {
         GateWorld world = damaged_on("G2", "1");
         world.more[0].hashes["silent"] = "i";
         return world;
       }},
      {"damage in 1 of 3 tries on another GPU of the newer release only, and none in an older form of the case",
       [] {
         GateWorld world;
         world.more = {with_one_crash().to.on("G2"), in_older_form("2.15.0", "silent").on("G2")};
         return world;
       }},
      {"damage on another GPU of both releases",
       [] {
         GateWorld world = damaged_on("G2", "1");
         world.more.push_back(GateRun{.release = "2.6.0"}.with(seen(kTest, "D")).on("G2"));
         return world;
       }},
      {"raised, then silently wrong, outside the scope",
       [] { return out_of_scope(seen(kTest, kRaised), seen(kTest, "D")); }},
      {"raised, then crashes, outside the scope",
       [] { return out_of_scope(seen("raising.Reproduces", kRaised), crash("raising.Reproduces")); }},
      {"raised, then leaves its process worse, outside the scope",
       [] { return out_of_scope(with_probes("ok"), with_probes("refused")); }},
      {"damage that only a program with torch.compile meets",
       [] { return with_compiled(seen("compiled.Reproduces", "D")); }},
      {"damage that only a program with torch.compile meets, and the policy has none",
       [] { return with_compiled(seen("compiled.Reproduces", "D"), kWithout); }},
      {"a hole in a case that only a program with torch.compile meets, and the policy has none",
       [] { return with_compiled(skipped("compiled.Reproduces"), kWithout); }},
      {"damage that any program meets, and the policy has no torch.compile",
       [] { return with_compiled(seen(kTest, "D"), kWithout); }},
      {"a record below 2.15.0 is of release 9.9.9", [] { return GateWorld{.more = {GateRun{.release = "9.9.9"}}}; }},
      {"a record below 2.15.0 is of release ../../x",
       [] { return GateWorld{.more = {GateRun{.release = "../../x"}}}; }},
      {"the newer run has no plan", [] { return with_newer([](GateRun& run) { run.has_plan = false; }); }},
      {"the newer run has no end", [] { return with_newer([](GateRun& run) { run.end = ""; }); }},
      {"the newer run is one shard of two",
       [] {
         GateWorld world;
         for (GateRun* run : {&world.from, &world.to})
           run->unplanned = {"race.ReproducesAtRate"};  // A shard has no rate.
         world.to.environment["shard"] = "1/2";
         return world;
       }},
      {"the newer run was interrupted after its last test",
       [] { return with_newer([](GateRun& run) { run.end = "interrupted"; }); }},
      {"the program does not start", [] { return GateWorld{.program = "/nowhere/program"}; }},
      {"the program ends without CUDA", [] { return GateWorld{.program = "true"}; }}};
  return kWorlds;
}

struct GateAnswer {
  int exit = 0;
  std::string line;
};
std::map<std::string, GateAnswer> read_answers() {
  const std::string path = kRoot + "/harness/tests/data/gate_worlds.toml";
  std::map<std::string, GateAnswer> answers;
  const toml::table file = parse_toml(path);
  for (const auto& node : *tables_in(file, "world", path, "[[world]]")) {
    const toml::table& world = *node.as_table();
    answers[text_in(world, "name", path)] = {world["exit"].value<int>().value(), text_in(world, "line", path)};
  }
  return answers;
}

class GateWorlds : public FakeTree, public ::testing::WithParamInterface<std::string> {
 protected:
  void SetUp() override {
    FakeTree::SetUp();
    Catalogue catalogue;
    for (const FakeCase& fake : kCases) {
      CatalogueCase one;
      one.id = fake.id;
      one.family = "f";
      one.title = "A title";
      one.documented = "D";
      one.tags = fake.tags;
      one.features = fake.features;
      one.needs = {.gpus = 1};
      one.deadline_s = 60;
      one.effect = *effect_of(fake.effect);
      for (const std::string& name : fake.tests) {
        const bool fails = name.starts_with("Reproduces");
        one.tests.push_back({name, *kind_of(fake.id, name), fails ? std::optional(one.effect) : std::nullopt, ""});
      }
      catalogue.push_back(one);
    }
    std::ranges::sort(catalogue, {}, &CatalogueCase::id);
    fs::create_directories(folder + "/cases");
    std::ofstream(folder + "/cases/catalogue.json") << render_text(catalogue);
    fs::copy(RECAPTURE_BUILD "/librecorder.so", folder + "/build/librecorder.so");
    fs::create_directory_symlink(kRoot + "/python", folder + "/python");
  }

  ShellResult answer(const GateWorld& world) const {
    world.from.write(folder + "/reports/2.6.0/a.jsonl");
    world.to.write(folder + "/reports/2.15.0/a.jsonl");
    for (size_t i = 0; i < world.more.size(); ++i) {
      const std::string& release = world.more[i].release;
      const bool is_release = release.starts_with("2.");
      world.more[i].write(fmt::format("{}/reports/{}/{}.jsonl", folder, is_release ? release : "2.15.0", i));
    }
    std::ofstream(folder + "/p.toml") << world.policy;
    return recapture(fmt::format("gate 2.6.0 2.15.0 --policy '{}/p.toml' {}{}{}", folder, world.options,
                                 world.program.empty() ? "" : " -- ", world.program));
  }
};

TEST_P(GateWorlds, IsAnsweredAsWrittenDown) {
  const GateAnswer expected = read_answers().at(GetParam());
  const ShellResult got = answer(gate_worlds().at(GetParam())());
  EXPECT_EQ(got.code, expected.exit) << got.out;
  EXPECT_THAT(got.out, HasSubstr(expected.line));
}

std::vector<std::string> world_names() {
  std::vector<std::string> names;
  for (const auto& [name, world] : gate_worlds()) names.push_back(name);
  return names;
}
INSTANTIATE_TEST_SUITE_P(All, GateWorlds, ::testing::ValuesIn(world_names()), [](const auto& info) {
  std::string name;
  for (const char c : info.param) name += std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  return name;
});

TEST(GateAnswers, EachWorldWithAnAnswer_IsMade) {
  std::set<std::string> answered, made;
  for (const auto& [name, answer] : read_answers()) answered.insert(name);
  for (const auto& [name, world] : gate_worlds()) made.insert(name);
  EXPECT_EQ(made, answered);
}

}  // namespace
}  // namespace recapture
