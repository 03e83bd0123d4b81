#include "harness/model/catalogue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <set>

#include "harness/base/exit.h"
#include "harness/base/regex.h"
#include "harness/base/xz.h"
#include "harness/model/release.h"
#include "harness/model/tree.h"
#include "harness/tests/namespaces.h"
#include "harness/tests/shell.h"
#include "harness/tests/this_tree.h"

namespace recapture {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kSource[] =
    "// What fails.\n"
    "//\n"
    "// Why it fails, in a sentence\n"
    "// of two lines.\n"
    "//\n"
    "// Alone:  g++ cases/sync/item_in_capture.cpp\n"
    "\n"
    "// Not part of it.\n";

Json described() {
  return {{"case", "item_in_capture"},
          {"family", "sync"},
          {"title", "item() fails"},
          {"sources", {{{"document", "guide"}, {"heading", "Page"}}}},
          {"documented", "900"},
          {"nature", "constraint"},
          {"fidelity", "translated"},
          {"tags", {"host reads", "pinned memory"}},
          {"features", Json::array({"host reads"})},
          {"needs", "gpu"},
          {"deadline_s", 60},
          {"effect", "raises"},
          {"effects", {{"ReproducesCold", "warns"}}},
          {"fixes", {{"FixLater", "Call item() later."}}},
          {"fix_releases", {{"FixLater", "<2.7"}}},
          {"tests", {"Control", "Reproduces", "ReproducesCold", "FixLater"}}};
}

void put(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  std::ofstream(path) << text;
}

std::string stopped_by(const std::function<void()>& work) {
  try {
    work();
  } catch (const ExitError& stop) {
    EXPECT_EQ(stop.code, Exit::Usage);
    EXPECT_EQ(std::string(stop.what()).find('\n'), std::string::npos) << "one line";
    return stop.what();
  }
  return "";
}

TEST(Catalogue, CaseSourceAndTest_AreFoundByName) {
  Catalogue catalogue(2);
  catalogue[0].id = "a";
  catalogue[1].id = "b";
  EXPECT_EQ(find_case(catalogue, "b"), &catalogue[1]);
  EXPECT_EQ(find_case(catalogue, "c"), nullptr);
  const std::vector<CitedSource> sources = {{"pytorch#1", "t", "u"}};
  EXPECT_EQ(find_source(sources, "pytorch#1"), sources.data());
  EXPECT_EQ(find_source(sources, "pytorch#11"), nullptr);
  const std::string source = "TEST(A, Reproduces) {\n  x();\n}\n\nTEST(A, FixIt) {\n  y();\n}\n";
  EXPECT_EQ(test_in(source, "FixIt"), "TEST(A, FixIt) {\n  y();\n}\n");
  EXPECT_EQ(test_in(source, "Fix"), "");
  EXPECT_EQ(test_in("TEST(A, FixIt) {\n  y();\n", "FixIt"), "") << "without an end";
}

class Folder : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = ::testing::TempDir() + "catalogue_XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder = name;
  }
  void TearDown() override { fs::remove_all(folder); }
  std::string folder;
};

TEST(CatalogueCaseOf, DescribedCase_HasEffectsOfReproducesAndSentencesOfFixes) {
  const CatalogueCase one = catalogue_case(described(), kSource);
  EXPECT_EQ(one.id, "item_in_capture");
  EXPECT_EQ(one.why, "What fails.\n\nWhy it fails, in a sentence of two lines.");
  ASSERT_EQ(one.tests.size(), 4U);
  EXPECT_EQ(one.tests[0].kind, Kind::Control);
  EXPECT_EQ(one.tests[0].effect, std::nullopt);
  EXPECT_EQ(one.tests[1].effect, Effect::Raises);
  EXPECT_EQ(one.tests[2].effect, Effect::Warns);
  EXPECT_EQ(one.tests[3].effect, std::nullopt);
  EXPECT_EQ(one.tests[3].fix, "Call item() later.");
  Json old = described();
  old["effect"] = "";
  EXPECT_THAT(stopped_by([&] { catalogue_case(old, kSource); }), HasSubstr("item_in_capture names no effect"));
}

TEST(CatalogueCaseOf, UnknownWord_NamesThePlaceAndTheWordsThatAreKnown) {
  const auto refused = [](const char* key, const Json& value) {
    Json wrong = described();
    wrong[key] = value;
    return stopped_by([&] { catalogue_case(wrong, kSource); });
  };
  EXPECT_EQ(refused("nature", "flaw"),
            "item_in_capture: 'flaw' is not a known nature; known are constraint, defect, race");
  EXPECT_EQ(refused("fidelity", "alike"),
            "item_in_capture: 'alike' is not a known fidelity; known are verbatim, translated, modelled, simulated");
  EXPECT_EQ(refused("needs", "gpu luck"),
            "item_in_capture: a word of the needs 'gpu luck' is not known; harness/case/types.h has them");
  EXPECT_THAT(refused("effect", "burns"),
              HasSubstr("item_in_capture: 'burns' is not a known effect; known are works, "));
  EXPECT_THAT(refused("effects", {{"ReproducesCold", "burns"}}),
              HasSubstr("item_in_capture.ReproducesCold: 'burns' is not a known effect"));
  EXPECT_THAT(refused("tests", {"Shows"}), HasSubstr("item_in_capture.Shows: the name of a test begins with Control"));
}

TEST(CatalogueCaseOf, ABinaryWithTags_GivesThemAndTheReleasesOfFixes) {
  const CatalogueCase one = catalogue_case(described(), kSource);
  EXPECT_THAT(one.tags, ElementsAre("host reads", "pinned memory"));
  EXPECT_EQ(one.tests[3].releases, "<2.7");
  const Json json = render_json(one);
  EXPECT_EQ(json.at("tags"), Json({"host reads", "pinned memory"}));
  EXPECT_EQ(json.at("features"), Json::array({"host reads"}));
  EXPECT_EQ(json.at("tests")[3].at("releases"), "<2.7");
  EXPECT_FALSE(json.at("tests")[1].contains("releases")) << "a range is only stored if it is not all releases";
}

TEST(CatalogueCaseOf, AnOldBinaryWithoutTags_IsRefused) {
  Json old = described();
  old.erase("tags");
  EXPECT_THAT(stopped_by([&] { catalogue_case(old, kSource); }), HasSubstr("item_in_capture names no tags; build it"));
  old = described();
  old.erase("features");
  EXPECT_THAT(stopped_by([&] { catalogue_case(old, kSource); }),
              HasSubstr("item_in_capture names no features; build it"));
}

class CatalogueFile : public Folder {
 protected:
  void SetUp() override {
    Folder::SetUp();
    path = folder + "/cases/catalogue.json";
  }
  std::string path;
};

TEST_F(CatalogueFile, UnknownWord_NamesTheFileTheCaseAndTheWordsThatAreKnown) {
  const Json known = Json::parse(render_text({catalogue_case(described(), kSource)}));
  const auto refused = [&](const Json& catalogue) {
    put(path, catalogue.dump());
    return stopped_by([&] { read_catalogue(folder); });
  };
  Json wrong = known;
  wrong[0]["nature"] = "flaw";
  EXPECT_EQ(refused(wrong), path +
                                ": not a catalogue: case 1: item_in_capture: 'flaw' is not a known nature; known are "
                                "constraint, defect, race");
  wrong = known;
  wrong[0]["needs"] = "luck";
  EXPECT_THAT(refused(wrong), HasSubstr("case 1: item_in_capture: a word of the needs 'luck' is not known"));
  wrong = known;
  wrong[0]["tests"][1]["kind"] = "shows";
  EXPECT_THAT(refused(wrong),
              HasSubstr("item_in_capture.Reproduces: 'shows' is not a known kind; known are control, reproduces, fix"));
  wrong = known;
  wrong[0]["tests"][1]["effect"] = "burns";
  EXPECT_THAT(refused(wrong), HasSubstr("item_in_capture.Reproduces: 'burns' is not a known effect"));
}

TEST_F(CatalogueFile, WrittenCatalogue_ReadsBackUnchanged) {
  const Catalogue catalogue = {catalogue_case(described(), kSource)};
  put(path, render_text(catalogue));
  EXPECT_EQ(render_text(read_catalogue(folder)), render_text(catalogue));
  EXPECT_EQ(first_difference(read_catalogue(folder), catalogue), "");
}

TEST_F(CatalogueFile, PackedCatalogue_IsReadWhereThereIsNoOther) {
  const Catalogue packed = {catalogue_case(described(), kSource)};
  put(path + ".xz", packed_by_xz(render_text(packed)));
  EXPECT_EQ(first_difference(read_catalogue(folder), packed), "");
  put(path, "[]");
  EXPECT_EQ(read_catalogue(folder).size(), 0);
  fs::remove(path);
  put(path + ".xz", render_text(packed));
  EXPECT_EQ(stopped_by([&] { read_catalogue(folder); }).rfind(path + ".xz", 0), 0) << "it is not packed";
}

TEST_F(CatalogueFile, MissingOrMalformedFile_IsRefusedInOneLine) {
  EXPECT_THAT(stopped_by([&] { read_catalogue(folder); }), HasSubstr("is not there"));
  for (const char* bad : {"", "{", "{}", "[{\"id\": 3}]", "[{\"id\": \"c\"}]", "[[]]"}) {
    put(path, bad);
    EXPECT_THAT(stopped_by([&] { read_catalogue(folder); }), HasSubstr("not a catalogue")) << bad;
  }
  for (const char* cell : {"document", "heading"}) {
    Json all = {render_json(catalogue_case(described(), kSource))};
    all[0]["sources"][0][cell] = 3;
    put(path, all.dump());
    EXPECT_THAT(stopped_by([&] { read_catalogue(folder); }), HasSubstr("not a catalogue")) << cell;
  }
}

TEST(CatalogueDifference, DifferingCatalogues_NameTheFirstCaseAndItsKey) {
  Catalogue committed = {catalogue_case(described(), kSource)};
  Catalogue built = committed;
  built[0].tests[3].fix = "Another sentence.";
  EXPECT_EQ(first_difference(committed, built), "item_in_capture differs from the catalogue in 'tests'");
  built = committed;
  built[0].tests[3].releases = ">=2.13";
  EXPECT_EQ(first_difference(committed, built), "item_in_capture differs from the catalogue in 'tests'");
  built = committed;
  built[0].tags.pop_back();
  EXPECT_EQ(first_difference(committed, built), "item_in_capture differs from the catalogue in 'tags'");
  built.clear();
  EXPECT_EQ(first_difference(committed, built), "item_in_capture is in the catalogue and is not built");
  EXPECT_EQ(first_difference(built, committed), "item_in_capture is not in the catalogue");
}

TEST(CatalogueSelection, FamilyCaseTestOrPattern_SelectsWhatMatches) {
  CatalogueCase other = catalogue_case(described(), kSource);
  other.id = "item_in_python";
  other.family = "python";
  const Catalogue all = {catalogue_case(described(), kSource), other};
  const auto ids = [&](const std::vector<std::string>& words) {
    std::vector<std::string> ids;
    for (const CatalogueCase& one : selected(all, words)) ids.push_back(one.id);
    return ids;
  };
  EXPECT_THAT(ids({}), ElementsAre("item_in_capture", "item_in_python"));
  EXPECT_THAT(ids({"python"}), ElementsAre("item_in_python"));
  EXPECT_THAT(ids({"item*"}), ElementsAre("item_in_capture", "item_in_python"));
  EXPECT_THAT(ids({"cases/sync/item_in_capture.cpp"}), ElementsAre("item_in_capture"));
  EXPECT_THAT(ids({"cases/sync/"}), ElementsAre("item_in_capture"));
  const Catalogue tests = selected(all, {"item_in_capture.Fix*"});
  ASSERT_EQ(tests.size(), 1U);
  ASSERT_EQ(tests[0].tests.size(), 1U);
  EXPECT_EQ(tests[0].tests[0].name, "FixLater");
  EXPECT_THAT(stopped_by([&] { selected(all, {"nothing*"}); }), HasSubstr("there is no family or case 'nothing*'"));
}

TEST(Suggest, MisspelledName_OffersTheNearestOfItsKind) {
  const Names names = {{"sync", "python"},
                       {"item_in_capture", "tolist_in_capture"},
                       {"item_in_capture.Control", "item_in_capture.FixLater"}};
  const auto said = [&](const std::string& word) { return stopped_by([&] { named(word, names); }); };
  EXPECT_EQ(said("itm_in_capture"), "there is no case 'itm_in_capture'; did you mean item_in_capture?");
  EXPECT_EQ(said("ItemInCapture"), "there is no case 'ItemInCapture'; did you mean item_in_capture?");
  EXPECT_EQ(said("cases/sync/itm_in_capture.cpp"), "there is no case 'itm_in_capture'; did you mean item_in_capture?");
  EXPECT_EQ(said("itm*in_capture"), "there is no case 'itm*in_capture'; did you mean item_in_capture?");
  EXPECT_EQ(said("snyc"), "there is no family 'snyc'; did you mean sync?");
  EXPECT_EQ(said("item_in_capture.Contrl"),
            "there is no test 'item_in_capture.Contrl'; did you mean item_in_capture.Control?");
  EXPECT_EQ(said("ItemInCapture.FixLater"),
            "there is no test 'ItemInCapture.FixLater'; did you mean item_in_capture.FixLater?");
  EXPECT_EQ(said("quite_another"), "there is no family or case 'quite_another'; `recapture list` names all");
  EXPECT_THAT(near("2.11", {"2.1.2", "2.10.0", "2.11.0"}), ElementsAre("2.11.0"));
  EXPECT_THAT(near("2.9.0", {"2.1.0", "2.8.0", "2.9.1", "2.19.0"}), ElementsAre("2.9.1")) << "of the same line";
  EXPECT_THAT(near("in_capture", {"item_in_capture", "tolist_in_capture"}),
              ElementsAre("item_in_capture", "tolist_in_capture"));
  EXPECT_THAT(near("", {"a"}), IsEmpty());
  EXPECT_EQ(unknown_name("verb", "xs", {"a", "b"}), "there is no verb 'xs'");
  EXPECT_EQ(unknown_name("verb", "in_capture", {"a_in_capture", "b_in_capture", "c_in_capture"}),
            "there is no verb 'in_capture'; did you mean a_in_capture, b_in_capture or c_in_capture?");
  EXPECT_THAT(stopped_by([] { known_release(RECAPTURE_ROOT, "30.99"); }),
              HasSubstr("there is no release '30.99'; the newest are 2.13.0, 2.14.1 and 2.15.0"));
  EXPECT_EQ(known_release(RECAPTURE_ROOT, "2.1.0"), "2.1.0") << "with records, but not in the matrix";
}

TEST(MeantRelease, LineOrBuild_GivesTheKnownRelease) {
  const std::vector<std::string> known = {"2.1.2", "2.10.0", "2.11.0", "2.11.0rc1", "2.6.0+cu118", "cuda13"};
  EXPECT_EQ(resolve_release("2.11", known), "2.11.0");
  EXPECT_EQ(resolve_release("2.10.0+cu128", known), "2.10.0");
  EXPECT_EQ(resolve_release("2.1", known), "2.1.2");
  for (const char* same : {"2.11.0rc1", "2.6.0+cu118", "cuda13", "2.9", "x"})
    EXPECT_EQ(resolve_release(same, known), same);
  EXPECT_EQ(known_release(RECAPTURE_ROOT, "2.11.0+cu130"), "2.11.0");
}

TEST(MeantRelease, NightWithoutItsCuda_IsThatNightsBuild) {
  const std::vector<std::string> known = {"2.16.0.dev20261123+cu132", "2.16.0.dev20261124+cu132",
                                          "2.16.0a0+gitdeadbee"};
  EXPECT_EQ(resolve_release("2.16.0.dev20261124", known), "2.16.0.dev20261124+cu132");
  EXPECT_EQ(resolve_release("2.16.0a0", known), "2.16.0a0+gitdeadbee");
  EXPECT_EQ(resolve_release("2.16", known), "2.16.0a0+gitdeadbee") << "the newest, as PyPI orders them";
  EXPECT_EQ(resolve_release("2.16.0.dev20261125", known), "2.16.0.dev20261125");
}

TEST(MeantRelease, ReleaseThatYields_IsNamedOnlyIfNoOtherIs) {
  const std::vector<std::string> known = {"2.7.0", "2.7.1", "2.7.2", "2.8.0", "2.8.1"};
  const Yields yields = [](const std::string& release) { return release != "2.7.0"; };
  EXPECT_EQ(resolve_release("2.7", known, yields), "2.7.0");
  EXPECT_EQ(resolve_release("2.7.2", known, yields), "2.7.2") << "its own name";
  EXPECT_EQ(resolve_release("2.8", known, yields), "2.8.1") << "the newest if all yield";
  EXPECT_EQ(resolve_release("2.9", known, yields), "2.9");
}

TEST(MeantRelease, ForkOrCandidate_StandsInForNoRelease) {
  const std::vector<std::string> known = {"2.11.0", "2.11.0+acme", "2.11.1rc1"};
  EXPECT_EQ(resolve_release("2.11", known), "2.11.0");
  EXPECT_EQ(resolve_release("2.11.0", known), "2.11.0");
  EXPECT_EQ(resolve_release("2.11.0+acme", known), "2.11.0+acme");
  EXPECT_EQ(resolve_release("2.11.0+other", known), "2.11.0+other") << "not 2.11.0: it is another's build";
  EXPECT_EQ(resolve_release("2.11.0", {"2.11.0+acme"}), "2.11.0");
}

// The committed file against the sources: detects, without a build, a case that was edited without renewing the
// catalogue. `recapture dev catalogue --check` compares everything with the built cases.
TEST(Catalogue, CommittedFile_MatchesTheSourcesOfTheCases) {
  const std::string root = RECAPTURE_ROOT;
  ASSERT_TRUE(fs::exists(catalogue_path(root)))
      << "`build/recapture dev catalogue | xz -9e > cases/catalogue.json.xz` makes it";
  const Catalogue catalogue = read_catalogue(root);
  const auto tree = cases_in_tree(root);
  std::set<std::string> known;
  static const RE2 kTest(R"((?:^|\n)TEST(?:_F)?\(\s*\w+,\s*(\w+)\s*\))"), kJoint(R"re(([^\\])"\s*")re"),
      kComma(R"(",\s*")");
  for (const CatalogueCase& one : catalogue) {
    SCOPED_TRACE(one.id + ": `recapture dev catalogue | xz -9e > cases/catalogue.json.xz` makes it again");
    known.insert(one.id);
    const auto now = tree.find(one.id);
    if (now == tree.end()) {
      ADD_FAILURE() << "is no longer there";
      continue;
    }
    EXPECT_EQ(one.family, now->second.family);
    const std::string source = contents(now->second.path);
    EXPECT_EQ(one.why, why_of(source));
    std::vector<std::string> tests, named;
    for (const Match& test : all_matches(source, kTest)) tests.emplace_back(test[1]);
    for (const CatalogueTest& test : one.tests) {
      if (!is_of_program(test.name) && test.kind != Kind::Operator) named.push_back(test.name);  // Lines of a table.
    }
    EXPECT_EQ(named, tests);
    // Sentences are literals in the source, which may be split.
    const std::string joined = replace_all(replace_all(source, kJoint, "\\1"), kComma, "\", \"");
    const auto literal = [](const std::string& text) { return Json(text).dump(); };
    EXPECT_THAT(joined, HasSubstr(literal(one.title)));
    EXPECT_THAT(joined, HasSubstr(literal(one.documented)));
    std::string tags;
    for (const std::string& tag : one.tags) tags += (tags.empty() ? "" : ", ") + literal(tag);
    EXPECT_THAT(joined, HasSubstr(".tags = {" + tags + "},"));
    for (const CatalogueTest& test : one.tests) {
      if (test.kind != Kind::Fix || is_of_program(test.name)) continue;
      const std::string releases = test.releases.empty() ? "" : ", " + literal(test.releases);
      EXPECT_THAT(joined, HasSubstr("{" + literal(test.name) + ", " + literal(test.fix) + releases + "}"));
    }
  }
  for (const auto& [id, tree_case] : tree) EXPECT_TRUE(known.count(id)) << id << " is not in the catalogue";
}

// The program on a tree with one case, whose binary is a script, and one record of it.
class Verbs : public Folder {
 protected:
  void SetUp() override {
    Folder::SetUp();
    put(folder + "/ci/matrix.toml", "[[release]]\nversion = \"2.11.0\"\n[[release]]\nversion = \"2.15.0\"\n");
    put(folder + "/cases/sync/item_in_capture.cpp", kSource);
    put(folder + "/cases/sources.toml",
        "[[source]]\nid = \"guide\"\nkind = \"document\"\ntitle = \"The guide\"\nurl = \"https://guide/\"\n"
        "[[source]]\nid = \"pytorch#12\"\nkind = \"upstream\"\ntitle = \"It fails\"\nurl = \"https://pytorch/12\"\n");
    fs::create_directories(folder + "/build");
    fs::copy(RECAPTURE_BUILD "/recapture", folder + "/build/recapture");
    binary(described());
  }

  void binary(Json says) {
    says["hash"] = "h";
    for (Json& test : says["tests"]) test = "ItemInCapture." + test.get<std::string>();
    const fs::path path = folder + "/build/2.15.0/cases/sync/item_in_capture";
    put(path, "#!/bin/sh\ncat <<'END'\n" + says.dump() + "\nEND\n");
    fs::permissions(path, fs::perms::owner_all);
  }

  // A record of the four tests, of a day.
  void record(const std::string& path, const std::string& day, const std::string& seen = "900",
              std::vector<std::string> tests = {"Control", "Reproduces", "ReproducesCold", "FixLater"}) {
    Json plan = Json::array();
    for (const std::string& test : tests) plan.push_back("item_in_capture." + test);
    Json info = described();
    info["hash"] = cases_in_tree(folder).at("item_in_capture").hash;
    std::string text = Json{{"recapture", 1},       {"release", "2.15.0"},
                            {"gpu", "G"},           {"driver", "1"},
                            {"cuda_runtime", "13"}, {"packed", false},
                            {"break", "nothing"},   {"volatile", {{"started", day + "T00:00:00Z"}}}}
                           .dump() +
                       "\n" + Json{{"plan", plan}}.dump() + "\n" + info.dump() + "\n";
    for (const std::string& test : tests) {
      Json line = {{"test", "item_in_capture." + test}, {"ending", "exited"}, {"code", 0}, {"ended", "passed"}};
      if (test.rfind("Reproduces", 0) == 0) {
        line["culprit"] = {{"api", "cuStreamSynchronize"},
                           {"code", 900},
                           {"thread", "capturing"},
                           {"mode", "global"},
                           {"frames", {"at::item", "libtorch.so+0x1"}}};
        line["exception"] = "c10::Error";
        line["message"] = "CUDA error: not permitted\nmore";
        line["seen"] = seen;
        line["documented"] = "900";
        line["healthy"] = "ok";
        line["ended"] = seen == "900" ? "passed" : "failed";
        line["code"] = seen == "900" ? 0 : 1;
      }
      text += line.dump() + "\n";
    }
    put(folder + "/reports/" + path, text + Json{{"end", "complete"}}.dump() + "\n");
  }

  ShellResult shell(const std::string& line) const { return recapture::shell("cd '" + folder + "'; " + line); }
  ShellResult recapture(const std::string& arguments) const { return shell("build/recapture " + arguments); }
  void commit_catalogue() const { ASSERT_EQ(shell("build/recapture dev catalogue > cases/catalogue.json").code, 0); }
};

TEST_F(Verbs, Catalogue_CaseDiffersFromTheFile_CheckFails) {
  EXPECT_EQ(recapture("dev catalogue --check").code, 2);
  commit_catalogue();
  EXPECT_EQ(contents(folder + "/cases/catalogue.json"), render_text({catalogue_case(described(), kSource)}));
  EXPECT_EQ(recapture("dev catalogue --check").code, 0);
  Json other = described();
  other["title"] = "Another";
  binary(other);
  const ShellResult said = recapture("dev catalogue --check");
  EXPECT_EQ(said.code, 1);
  EXPECT_THAT(said.out, HasSubstr("item_in_capture differs from the catalogue in 'title'"));
}

TEST_F(Verbs, List_WithoutABuild_ReadsTheCatalogue) {
  commit_catalogue();
  const ShellResult built = recapture("list --built");
  EXPECT_THAT(built.out, HasSubstr("1 case, 4 tests, built for LibTorch 2.15.0\n"));
  fs::remove_all(folder + "/build/2.15.0");
  const ShellResult said = recapture("list");
  EXPECT_EQ(said.code, 0);
  EXPECT_THAT(said.out, HasSubstr("item() fails\n1 case, 4 tests\n"));
  EXPECT_THAT(recapture("list --tests sync").out, HasSubstr("item_in_capture.FixLater: Call item() later.\n"));
  const Json cases = Json::parse(recapture("list --json").out);
  ASSERT_EQ(cases.size(), 1U);
  for (const char* key : {"id", "family", "title", "sources", "nature", "fidelity", "needs", "effect", "tests"}) {
    EXPECT_TRUE(cases[0].contains(key)) << key;
  }
  EXPECT_EQ(cases[0]["tests"][1]["kind"], "reproduces");
  EXPECT_EQ(cases[0]["tests"][3]["fix"], "Call item() later.");
  EXPECT_EQ(recapture("list --built").code, 7);
  EXPECT_EQ(recapture("list itm_in_capture").out,
            "recapture: there is no case 'itm_in_capture'; did you mean item_in_capture?\n");
}

TEST_F(Verbs, List_OfATag_NamesItsCases) {
  commit_catalogue();
  EXPECT_THAT(recapture("list Host-Read").out, HasSubstr("item() fails\n1 case, 4 tests\n"));
  EXPECT_EQ(recapture("list DDP").out, "0 cases, 0 tests\n");
  EXPECT_THAT(recapture("list sync").out, HasSubstr("1 case, 4 tests\n")) << "a family, and an alias of a tag";
  EXPECT_EQ(Json::parse(recapture("list --json item_in_capture").out)[0].at("tags"), described().at("tags"));
}

TEST_F(Verbs, List_OfAThread_NamesTheCasesThatCiteIt) {
  Json citing = described();
  citing["sources"].push_back({{"document", "upstream"}, {"heading", "pytorch#168912"}});
  binary(citing);
  commit_catalogue();
  for (const char* thread : {"pytorch#168912", "PyTorch#168912", "https://github.com/pytorch/pytorch/pull/168912",
                             "'https://github.com/pytorch/pytorch/issues/168912#issuecomment-1'"}) {
    EXPECT_THAT(recapture(std::string("list ") + thread).out, HasSubstr("item() fails\n1 case, 4 tests\n")) << thread;
  }
  const ShellResult said = recapture("list pytorch#16891");
  EXPECT_EQ(said.code, 2);
  EXPECT_EQ(said.out, "recapture: no case cites pytorch#16891; `recapture explain` reads what its thread shows\n");
}

TEST_F(Verbs, List_OfAnUnknownWord_NamesTheNearestTag) {
  commit_catalogue();
  const ShellResult said = recapture("list DPD");
  EXPECT_EQ(said.code, 2);
  EXPECT_TRUE(said.is_one_line()) << said.out;
  EXPECT_THAT(said.out,
              HasSubstr("no feature, family or case is called 'DPD'; did you mean DDP? features: any program, DDP, "));
}

TEST_F(Verbs, List_WithFeatures_CountsTheCasesOfEach) {
  commit_catalogue();
  const ShellResult said = recapture("list --features");
  EXPECT_EQ(said.code, 0);
  EXPECT_THAT(said.out, HasSubstr("\nhost reads             1  item(), nonzero(),"));
  EXPECT_THAT(said.out, HasSubstr("\nDDP                    0  DistributedDataParallel,"));
  EXPECT_THAT(said.out, HasSubstr("; also DistributedDataParallel\n"));
  EXPECT_EQ(recapture("list --tags").out, said.out) << "its older name";
  EXPECT_EQ(recapture("list --features sync").code, 2);
}

TEST_F(Verbs, Show_NewestRecords_EndInTheNumberOfSurprises) {
  record("2.15.0/g.jsonl", "2026-01-01", "906");
  record("nightly/new.jsonl", "2026-01-02");
  const ShellResult newest = recapture("show");
  EXPECT_EQ(newest.code, 0) << newest.out;
  EXPECT_EQ(newest.out,
            "LibTorch 2.15.0, G, driver 1, CUDA runtime 13, 2026-01-02\n  4 as documented\n\n"
            "1 older record left out; --all shows all\n\n4 results on 1 machine, no surprises\n");
  record("nightly/newer.jsonl", "2026-01-03", "906");
  const ShellResult surprised = recapture("show");
  EXPECT_EQ(surprised.code, 1);
  EXPECT_THAT(surprised.out, HasSubstr("surprises\nLibTorch 2.15.0, G\n  item_in_capture.Reproduces "));
  EXPECT_THAT(surprised.out, HasSubstr("changed        906 by cuStreamSynchronize on the capturing thread\n"));
  EXPECT_THAT(surprised.out, ::testing::EndsWith("\n4 results on 1 machine, 2 surprises: 2 changed\n"));
  const ShellResult all = recapture("show --all");
  EXPECT_THAT(all.out, HasSubstr("nightly/newer.jsonl\nLibTorch 2.15.0"));
  EXPECT_THAT(all.out, ::testing::EndsWith("\n4 results on 1 machine, 2 surprises: 2 changed\n"));
  EXPECT_EQ(recapture("show reports/").out, surprised.out);
  EXPECT_THAT(recapture("show 2.15.0").out, HasSubstr("item_in_capture.Control")) << "its only record, test by test";
  EXPECT_THAT(recapture("show 'nightly/*.jsonl'").out, HasSubstr("reports/nightly/new.jsonl\nLibTorch"));
}

// Folders may be named after nights.
TEST_F(Verbs, Show_ReleaseInAFolderOfAnotherName_FindsItsRecord) {
  commit_catalogue();
  record("2026-01-01/g.jsonl", "2026-01-01");
  const std::string path = folder + "/reports/2026-01-01/g.jsonl";
  std::string of_runtime = contents(path);
  const std::string release = R"("release":"2.15.0")";
  of_runtime.replace(of_runtime.find(release), release.size(), R"("release":"cuda12")");
  put(folder + "/reports/2026-01-01/c.jsonl", of_runtime);
  for (const auto& [word, heading] : {std::pair("cuda12", "cuda12 without LibTorch, CUDA runtime 13, G"),
                                      {"2.15.0", "LibTorch 2.15.0, CUDA runtime 13, G"},
                                      {"2.15", "LibTorch 2.15.0, CUDA runtime 13, G"}}) {
    const ShellResult said = recapture(std::string("show ") + word);
    EXPECT_EQ(said.code, 0) << said.out;
    EXPECT_THAT(said.out, ::testing::StartsWith(heading)) << word;
    EXPECT_THAT(said.out, HasSubstr("4 as documented\n")) << "the other release is not shown";
  }
}

TEST_F(Verbs, Show_OfACase_HasDescriptionResultsFixesAndExpectations) {
  commit_catalogue();
  put(folder + "/cases/expectations.toml",
      "[[change]]\nwhat = \"it differs\"\nnumber = \"pytorch#12\"\nsince = \"2.13\"\n[[change.expect]]\n"
      "tests = [\"item_in_capture.ReproducesCold\"]\nwhere = { release = \"<2.0\" }\nresult = \"healthy\"\n"
      "records = [\"2.15.0/g.jsonl\"]\n");
  record("2.15.0/g.jsonl", "2026-01-01");
  const ShellResult said = recapture("show item_in_capture --all");
  EXPECT_EQ(said.code, 0) << said.out;
  for (const char* part :
       {"item_in_capture: item() fails\n\nWhat fails.\n\nWhy it fails, in a sentence of two lines.\n",
        "signature   Reproduces: 900; healthy: ok\n", "effect      raises\n            ReproducesCold: warns\n",
        "sources     guide, Page\n            The guide\n            https://guide/\n",
        "LibTorch 2.15.0, G, driver 1, CUDA runtime 13, 2026-01-01\n",
        "call     cuStreamSynchronize returned 900, capturing thread, capture mode global\n",
        "stack    at::item\n               libtorch.so+0x1\n", "message  CUDA error: not permitted (c10::Error)\n",
        "FixLater: Call item() later.\n    holds on G: 2.15.0\n",
        "ReproducesCold, LibTorch <2.0: healthy\n    it differs\n    pytorch#12, since 2.13: It fails\n",
        "https://pytorch/12\n"}) {
    EXPECT_THAT(said.out, HasSubstr(part));
  }
  const Json json = Json::parse(recapture("show item_in_capture --json").out);
  ASSERT_EQ(json.size(), 1U);
  EXPECT_EQ(json[0]["results"][0]["tests"][1]["culprit"]["frames"][0], "at::item");
  EXPECT_EQ(json[0]["expectations"][0]["links"][0], "https://pytorch/12");
  EXPECT_EQ(json[0]["sources"][0]["url"], "https://guide/");
  for (const char* same : {"'item*'", "sync", "cases/sync/item_in_capture.cpp", "cases/sync"}) {
    EXPECT_EQ(recapture(std::string("show --all ") + same).out, said.out) << same;
  }
}

TEST(NoRecordsOf, ReleasesOfTheSameLine_AreOfferedFirst) {
  const std::set<std::string> matrix = {"2.1.0",  "2.1.2",  "2.2.2",  "2.3.1",  "2.4.1",  "2.5.1",
                                        "2.6.0",  "2.7.1",  "2.8.0",  "2.9.1",  "2.10.0", "2.11.0",
                                        "2.12.1", "2.13.0", "2.14.1", "2.15.0", "cuda12", "cuda13"};
  const auto said = [&](const char* release) { return no_records_of(release, "reports", matrix); };
  const std::string newest = "; the newest are 2.13.0, 2.14.1 and 2.15.0";
  EXPECT_EQ(said("2.9.0"), "there are no records of 2.9.0; did you mean 2.9.1?");
  EXPECT_EQ(said("2.1.1"), "there are no records of 2.1.1; did you mean 2.1.0 or 2.1.2?");
  EXPECT_EQ(said("2.16.0"), "there are no records of 2.16.0" + newest);
  EXPECT_EQ(said("cuda14"), "there are no records of cuda14; did you mean cuda12 or cuda13?");
  EXPECT_EQ(no_records_of("2.9.0", "mine", matrix), "there are no records of 2.9.0 below mine; did you mean 2.9.1?");
  EXPECT_EQ(no_records_of("2.9.0", "reports", {}), "there are no records of 2.9.0; there are none at all");
}

TEST_F(Verbs, WrongWord_IsRefusedInOneLine) {
  commit_catalogue();
  record("2.15.0/g.jsonl", "2026-01-01");
  const std::pair<const char*, const char*> words[] = {
      {"shwo", "there is no verb 'shwo'; did you mean show?"},
      {"help lst", "there is no verb 'lst'; did you mean list?"},
      {"show ItemInCapture", "there is no case 'ItemInCapture'; did you mean item_in_capture?"},
      {"show 2.16", "there are no records of 2.16; the newest is 2.15.0"},
      {"show cuda12", "there are no records of cuda12; the newest is 2.15.0"},
      {"show cuda14", "there is no family or case 'cuda14'; `recapture list` names all"},
      {"show 2.15.0/h.jsonl", "there is no record '2.15.0/h.jsonl'; did you mean 2.15.0/g.jsonl?"},
      {"list --built --release 2.155", "there is no release '2.155'; the newest are 2.11.0 and 2.15.0"},
      {"show item_in_capture --markdown", "a case is shown as text or by --json"},
      {"show sync reports", "show takes cases, or records, or one folder, not some of each"},
  };
  for (const auto& [arguments, line] : words) {
    const ShellResult said = recapture(arguments);
    EXPECT_EQ(said.code, 2) << arguments;
    EXPECT_EQ(said.out, std::string("recapture: ") + line + "\n") << arguments;
  }
}

TEST_F(Verbs, HelpAndVersion_ExitWithZero) {
  EXPECT_THAT(recapture("help").out, HasSubstr("catalogue"));
  EXPECT_THAT(recapture("help show").out, HasSubstr("--all"));
  for (const char* verb : {"help", "help show", "--help", "--version", "dev tables"})
    EXPECT_EQ(recapture(verb).code, 0);
  EXPECT_EQ(recapture("--version").out, "recapture 1.1 (unknown), newest record none\n");
  record("2.15.0/g.jsonl", "2026-01-01");
  put(folder + "/revision", "abc1234\n");
  for (const char* option : {"--version", "-V"}) {
    EXPECT_EQ(recapture(option).out, "recapture 1.1 (abc1234), newest record 2026-01-01\n");
  }
  EXPECT_THAT(contents(RECAPTURE_ROOT "/CMakeLists.txt"), HasSubstr("project(recapture VERSION 1.1 "));
}

TEST_F(Verbs, ClosedPipe_IsSilentAndAFullDeviceIsAnError) {
  commit_catalogue();
  record("2.15.0/g.jsonl", "2026-01-01");
  // The reader closes the pipe before the first output; a full device is another error.
  EXPECT_EQ(shell("mkfifo pipe; exec 3<>pipe 4>pipe 3<&-; build/recapture show 2.15.0 >&4; echo $?").out, "0\n");
  const ShellResult full = recapture("show >/dev/full");
  EXPECT_EQ(full.code, 7);
  EXPECT_THAT(full.out, HasSubstr("No space left on device\n"));
  EXPECT_THAT(full.out, ::testing::Not(HasSubstr("please report")));
}

}  // namespace
}  // namespace recapture
