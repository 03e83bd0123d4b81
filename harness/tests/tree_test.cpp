// Consistency of the tree: cases are complete and follow the naming rules, every line of the documents names the tests
// that cover it, expectations are all used, and the committed records still have the verdicts stored beside them.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <tuple>

#include "harness/base/exit.h"
#include "harness/base/regex.h"
#include "harness/base/xz.h"
#include "harness/case/cuda_errors.h"
#include "harness/case/events.h"
#include "harness/case/pattern.h"
#include "harness/case/signature.h"
#include "harness/case/source_hash.h"
#include "harness/compare/pairs.h"
#include "harness/explain/explain.h"
#include "harness/lint/documents.h"
#include "harness/lint/expectations.h"
#include "harness/model/catalogue.h"
#include "harness/model/record_files.h"
#include "harness/model/release.h"
#include "harness/model/scope.h"
#include "harness/store/copies.h"
#include "harness/store/rate_pools.h"
#include "harness/store/result_matrix.h"
#include "harness/store/select.h"
#include "harness/tests/lint/english.h"
#include "harness/tests/lint/signatures.h"
#include "harness/tests/lint/sources.h"
#include "harness/tests/namespaces.h"
#include "harness/tests/shell.h"
#include "harness/tests/this_tree.h"
#include "harness/verdict/judge.h"
#include "harness/verdict/rate.h"
#include "harness/words/observation.h"

namespace recapture {
namespace {

namespace fs = std::filesystem;
using namespace std::string_literals;
using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::Ge;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::Pair;

std::vector<fs::path> case_files() {
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(kRoot + "/cases")) {
    if (entry.path().extension() == ".cpp") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

std::string camel_case(const std::string& stem) {
  std::string name;
  bool upper = true;
  for (char c : stem) {
    if (c == '_') {
      upper = true;
      continue;
    }
    name += upper ? static_cast<char>(toupper(c)) : c;
    upper = false;
  }
  return name;
}

struct Tests {
  std::set<std::string> suites;
  std::vector<std::string> names;
};

Tests tests_in(const std::string& source) {
  static const RE2 kTest(R"((?:^|\n)TEST(?:_F)?\(\s*(\w+),\s*(\w+)\s*\))");
  Tests tests;
  for (const Match& test : all_matches(source, kTest)) {
    tests.suites.emplace(test[1]);
    tests.names.emplace_back(test[2]);
  }
  return tests;
}

// They have no failure.
const std::set<std::string> kWithoutFailure = {"capture_leaves_load_intact"};
// The opening comment of each has the reason.
const std::set<std::string> kWithoutFix = {
    "allocation_in_capture", "empty_cache_after_failed_capture",  "load_without_dynamo",
    "operators_later",       "private_pool_after_failed_capture", "queries_by_mode_and_stream",
    "unsafe_calls_by_mode"};

TEST(Cases, EveryCase_IsCompleteAndNamedByTheRules) {
  std::set<std::string> stems;
  for (const fs::path& file : case_files()) {
    const std::string stem = file.stem(), source = contents(file);
    const std::string path = "cases/" + file.parent_path().filename().string() + "/" + stem + ".cpp";
    SCOPED_TRACE(path);
    EXPECT_TRUE(stems.insert(stem).second) << "the name is taken";
    EXPECT_EQ(source.rfind("// ", 0), 0U) << "a case opens with a sentence about what fails";
    const std::string alone = "// Alone:  g++ " + path + " $(tools/libtorch --flags) -o " + stem + "\n";
    EXPECT_THAT(source, HasSubstr(alone));
    if (stem == kOperatorsCase) continue;  // Its tests are a list.
    const Tests tests = tests_in(source);
    const bool has_program = fs::exists(fs::path(file).replace_extension(".py"));
    if (tests.names.empty() && has_program) continue;  // ProgramOfACase.* has the rules of its program.
    for (const std::string& suite : tests.suites) EXPECT_EQ(suite, camel_case(stem));
    std::set<Kind> kinds;
    for (const std::string& name : tests.names) {
      const auto kind = kind_of(name);
      EXPECT_TRUE(kind.has_value()) << name << " is neither Control…, Reproduces… nor Fix…";
      if (kind) kinds.insert(*kind);
    }
    EXPECT_TRUE(kinds.count(Kind::Control)) << "no Control";
    EXPECT_EQ(kinds.count(Kind::Reproduces), kWithoutFailure.count(stem) == 0 ? 1U : 0U);
    if (kWithoutFailure.count(stem) != 0) continue;
    EXPECT_EQ(kinds.count(Kind::Fix), kWithoutFix.count(stem) == 0 ? 1U : 0U)
        << "kWithoutFix must list exactly the cases without a fix";
    EXPECT_TRUE(source.find("TRIGGER(") != std::string::npos || source.find("trigger_on()") != std::string::npos)
        << "no TRIGGER, so it is untested that the case can be healthy";
    EXPECT_EQ(source.find("sleep_for"), std::string::npos);
  }
  EXPECT_GE(stems.size(), 5U);
}

// Texts for users: the effect of each failure on a program, and the advice of each fix.
TEST(Catalogue, EveryTest_HasItsEffectOrItsSentence) {
  std::set<std::string> sentences;
  size_t fixes = 0;
  for (const CatalogueCase& one : read_catalogue(kRoot)) {
    const std::string source = contents(kRoot + "/cases/" + one.family + "/" + one.id + ".cpp");
    const bool has_rate = source.find("REPRODUCES_AT_RATE(") != std::string::npos;
    EXPECT_EQ(has_rate, source.find(".stopping = ") != std::string::npos) << one.id << ": .stopping is missing";
    for (const CatalogueTest& test : one.tests) {
      SCOPED_TRACE(one.id + "." + test.name);
      if (test.kind == Kind::Reproduces) {
        EXPECT_TRUE(test.effect.has_value());
      }
      if (test.kind != Kind::Fix || is_of_program(test.name)) continue;  // A program's fix is that of the case.
      ++fixes;
      EXPECT_TRUE(sentences.insert(one.id + test.fix).second) << "twice: " << test.fix;
      EXPECT_TRUE(test.fix.size() >= 30 && test.fix.size() <= 150 && test.fix.back() == '.') << test.fix;
    }
  }
  EXPECT_GE(fixes, 200U);
}

TEST(CaseTags, EveryCase_HasTagsOfTheVocabularyOnce) {
  for (const CatalogueCase& one : read_catalogue(kRoot)) {
    SCOPED_TRACE(one.id);
    EXPECT_THAT(one.tags, Not(IsEmpty()));
    const std::set<std::string> different(one.tags.begin(), one.tags.end());
    EXPECT_EQ(different.size(), one.tags.size()) << "a tag twice";
    for (const std::string& name : one.tags) {
      const Tag* tag = tag_of(name);
      EXPECT_TRUE(tag != nullptr && tag->name == name) << name;
    }
  }
}

TEST(CaseTags, EveryTag_HasCases) {
  for (const auto& [tag, count] : tags_with_counts(read_catalogue(kRoot))) EXPECT_GE(count, 1U) << tag->name;
}

// So that a word selects at least the same cases if tags take precedence over families.
TEST(CaseTags, AFamilyNamedAsATag_HasThatTagInEachCase) {
  std::set<std::string> families;
  for (const CatalogueCase& one : read_catalogue(kRoot)) {
    const Tag* tag = tag_of(one.family);
    if (tag == nullptr) continue;
    families.insert(one.family);
    EXPECT_TRUE(has_tag(one, *tag)) << one.id << " lacks " << tag->name;
  }
  EXPECT_THAT(families, ElementsAre("aftermath", "autograd", "checkpoint", "compile", "libraries", "pinned", "rng",
                                    "streams", "sync", "threads"));
}

// A list that is too long lets damage pass a gate: each feature is a tag of the case, and a case of any program has
// none.
TEST(CaseFeatures, EachList_IsPartOfTheTags) {
  // These need something that no tag names, or one of several features.
  const std::set<std::string> without_a_list = {
      "attention_planned_at_capture",
      "current_device_not_the_tensors",
      "device_setting_in_capture",
      "e900_unsupported",
      "e901_invalidated",
      "e905_isolation",
      "e906_implicit",
      "fft_plan_dropped",
      "gloo_collective_in_capture",
      "launcher_keeps_stream",
      "library_that_synchronises_in_capture",
      "library_work_outside_graph",
      "nothing_captured",
      "operators",
      "pointer_array_from_host_array",
      "symmetric_memory_in_capture",
      "workspace_grown_after_capture",
  };
  for (const CatalogueCase& one : read_catalogue(kRoot)) {
    const bool is_of_any = std::ranges::find(one.tags, kAnyProgram) != one.tags.end();
    EXPECT_TRUE(!is_of_any || one.features.empty()) << one.id;
    EXPECT_TRUE(is_of_any || one.features.empty() == (without_a_list.count(one.id) != 0)) << one.id;
    for (const std::string& feature : one.features) {
      EXPECT_NE(std::ranges::find(one.tags, feature), one.tags.end()) << one.id << ": " << feature;
    }
  }
}

TEST(CaseTags, AnyProgram_IsInEveryScope) {
  const Catalogue catalogue = read_catalogue(kRoot);
  for (const Tag& tag : kTags) {
    const std::set<std::string> scope = cases_in_scope({std::string(tag.name)}, catalogue);
    for (const CatalogueCase& one : catalogue) {
      const bool is_meant = has_tag(one, tag) || has_tag(one, *tag_of(kAnyProgram));
      EXPECT_EQ(scope.count(one.id), is_meant ? 1U : 0U) << one.id << " in " << tag.name;
    }
  }
  EXPECT_TRUE(cases_in_scope({"DDP"}, catalogue).count("cublas_workspace_freed_by_reset"));
}

TEST(Catalogue, ReleasesOfFixes_AreBoundedRangesOfReleasesOnRecord) {
  const std::vector<std::string> matrix = read_matrix(kRoot);
  size_t bounds = 0;
  for (const CatalogueCase& one : read_catalogue(kRoot)) {
    for (const CatalogueTest& test : one.tests) {
      if (test.releases.empty()) continue;
      ++bounds;
      SCOPED_TRACE(one.id + "." + test.name);
      EXPECT_EQ(test.kind, Kind::Fix);
      const auto is_in = [&](const std::string& release) { return in_range(release, test.releases); };
      EXPECT_TRUE(std::any_of(matrix.begin(), matrix.end(), is_in)) << "for no release on record";
      EXPECT_FALSE(is_in("2.0.0") && is_in("2.99.0")) << "no bound";
    }
  }
  EXPECT_GE(bounds, 10U);
}

// A change of any code that a record depends on must make the record stale.
TEST(CodeHash, FixtureToken_ChangesItAndACommentDoesNot) {
  std::map<std::string, std::string> fixtures;
  for (const auto& entry : fs::recursive_directory_iterator(kRoot + "/fixtures")) {
    const fs::path& path = entry.path();
    // The first is a program of its own, the second answers --environment; neither is part of a test.
    const bool is_in_no_test = path.parent_path().filename() == "tests" || path.filename() == "environment.cpp";
    if ((path.extension() != ".cpp" && path.extension() != ".h") || is_in_no_test) continue;
    fixtures[path.lexically_relative(kRoot)] = contents(path);
  }
  ASSERT_GE(fixtures.size(), 20U);
  const auto hashes = [&](const std::string& changed, const std::string& text) {
    std::map<std::string, std::string> all;
    for (const fs::path& file : case_files()) {
      all[file.stem()] = code_hash(contents(file), [&](const std::string& path) -> std::optional<std::string> {
        if (path == changed) return text;
        const auto known = fixtures.find(path);
        return known == fixtures.end() ? std::nullopt : std::optional(known->second);
      });
    }
    return all;
  };
  const auto now = hashes("", "");
  for (const auto& [path, text] : fixtures) {
    EXPECT_EQ(hashes(path, "// Another sentence.\n" + text + "\n/* and one more */\n"), now) << path;
    const size_t token = text.find("namespace recapture");
    ASSERT_NE(token, std::string::npos) << path;
    std::string changed = text;
    changed.insert(token, "constexpr int another_token = 1;\n");
    EXPECT_NE(hashes(path, changed), now) << path << " may change without making any record stale";
  }
}

TEST(Documents, EveryClaim_NamesTestsThatExist) {
  std::map<std::string, int> claims;
  for (const DocumentLine& line : read_documents(kRoot)) ++claims[line.document];
  EXPECT_THAT(claims, ElementsAre(Pair("CUDA graph guide", Ge(60)), Pair("CUDA graph nodes", Ge(15)),
                                  Pair("CUDA semantics: graphs", Ge(5)), Pair("CUDAGraph Trees", Ge(25)),
                                  Pair("capture failures", Ge(200)), Pair("freeze race", Ge(60)),
                                  Pair("gradient aliasing", Ge(60)), Pair("load corruption", Ge(40)),
                                  Pair("make_graphed_callables", Ge(8))));
  EXPECT_THAT(document_errors(kRoot), IsEmpty());
}

// What a command prints, both outputs together.
std::string output_of(const std::string& command) {
  FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  std::string out;
  std::array<char, 4096> buffer{};
  for (size_t got = 0; (got = fread(buffer.data(), 1, buffer.size(), pipe)) > 0;) out.append(buffer.data(), got);
  pclose(pipe);
  return out;
}

class Reports : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { records = new std::vector<Record>(all_records(kRoot + "/reports").records); }
  static void TearDownTestSuite() { delete records; }
  static std::vector<Record>* records;
};
std::vector<Record>* Reports::records = nullptr;

TEST_F(Reports, EveryRecord_LiesWhereItsEnvironmentPutsIt) {
  EXPECT_GE(records->size(), 10U);
  for (const Record& record : *records) {
    const std::string path = fs::path(record.path).lexically_relative(kRoot + "/reports");
    EXPECT_TRUE(is_report_path(path, record.environment)) << path << " is not " << report_path(record.environment);
  }
}

// As packed by `recapture dev place` and `gzip -9n`: packing a record again gives the same bytes.
TEST_F(Reports, EverySingleRecord_HasNeitherNameNorTime) {
  for (const Record& record : *records) {
    if (fs::path(record.path).extension() != ".gz" || !fs::exists(record.path)) continue;
    EXPECT_EQ(contents(record.path).substr(3, 5), std::string(5, '\0')) << record.path << ": pack it by gzip -9n";
  }
}

// Packing what is in an archive again gives the same bytes, but for the version of liblzma.
TEST_F(Reports, EveryArchive_IsAsDevPackMakesIt) {
  constexpr size_t kMost = size_t{1} << 30;
  size_t archives = 0;
  for (const auto& entry : fs::recursive_directory_iterator(kRoot + "/reports")) {
    if (!is_record_archive(entry.path())) continue;
    ++archives;
    const std::string path = entry.path().string(), tar = unpacked_by_xz(contents(path), path, kMost);
    EXPECT_TRUE(tar == tar_of_records(texts_in(path))) << path << ": `recapture dev pack` makes it";
  }
  EXPECT_GE(archives, 10U);
}

// A record without a GPU defines what such a machine must have; a new release needs one too.
TEST_F(Reports, NewestRelease_HasARecordWithoutAGpu) {
  EXPECT_TRUE(is_record_there(kRoot + "/reports/" + read_matrix(kRoot).back() + "/host.jsonl.gz"));
}

// A release's own text about a case's failure, or the driver's log, names that case among the first three or beside one
// of them. A bare 900 or 901 names no case, nor does an error that is not a capture's.
TEST_F(Reports, MessageOfEachRelease_NamesItsCase) {
  static const RE2 kOfGraphs(R"((?i)captur|graph|generator|legacy stream)"),
      kAdvice(R"((?i)search for .*|cuda kernel errors .*)");
  const Catalogue catalogue = read_catalogue(kRoot);
  const auto causes = explain::read_causes(kRoot, catalogue);
  std::set<std::tuple<std::string, std::string>> read;
  for (const Record& record : *records) {
    if (record.broken() != Break::Nothing) continue;
    for (const TestRecord& test : record.tests) {
      const std::string message = replace_all(test.text(key::message), RE2(R"( \(cudaError\.\?\?\?\)$)"), "");
      const auto one = std::find_if(catalogue.begin(), catalogue.end(),
                                    [&](const CatalogueCase& each) { return each.id == test.case_id(); });
      if (message.empty() || one == catalogue.end() || test.text("ended") != "passed" ||
          kind_of_id(test.id()) != Kind::Reproduces) {
        continue;
      }
      const int error = cuda_error_in("CUDA error: " + message.substr(message.rfind("CUDA error: ", 0) == 0 ? 12 : 0));
      const bool is_invalidated = message.find("cudaStreamCaptureStatusInvalidated") != message.npos;  // 901, asserted.
      const bool is_bare =
          (error == 900 || error == 901 || is_invalidated) && message.find("Returning ") == message.npos;
      const bool is_foreign = error != 0 && !is_capture_error(error);
      if (is_bare || is_foreign || !RE2::PartialMatch(replace_all(message, kAdvice, ""), kOfGraphs)) continue;
      if (!read.emplace(test.case_id(), replace_all(message, RE2("[0-9]+"), "#")).second) continue;
      const explain::Explanation explanation = explain::find_causes(explain::parse_error_text(message), causes);
      bool is_named = false;
      for (size_t i = 0; i < std::min<size_t>(3, explanation.causes.size()); ++i) {
        const explain::Found& found = explanation.causes[i];
        is_named = is_named || found.id == test.case_id() ||
                   std::find(found.also.begin(), found.also.end(), test.case_id()) != found.also.end();
      }
      EXPECT_TRUE(is_named) << record.path << " " << test.id() << ": " << message << "\n" << explanation.summary;
    }
  }
  EXPECT_GT(read.size(), 100U);
}

TEST_F(Reports, DemandedCall_IsNamed) {
  const ResultMatrix board(*records, rules_of(kRoot, {.recorder = true}));
  const NewestRows newest(board);
  for (const std::string& machine : board.machines()) {
    for (const auto& [id, info] : board.cases()) {
      for (const TestVerdict& row : newest.of(id, machine)) {
        EXPECT_NE(row.verdict, Verdict::Missing)
            << machine << ": " << row.test << " was reproduced, but its culprit is unknown";
      }
    }
  }
  size_t named = 0;
  for (const Record& record : *records) {
    for (const TestRecord& test : record.tests) named += test.has("culprit") ? 1 : 0;
  }
  EXPECT_GE(named, 100U);
}

// Stale results are left out, and inconclusive ones have a reason.
TEST_F(Reports, EveryResultOfToday_IsDocumentedOrExpected) {
  const ResultMatrix board(*records, rules_of(kRoot));
  const NewestRows newest(board);
  size_t judged = 0;
  for (const std::string& machine : board.machines()) {
    for (const auto& [id, info] : board.cases()) {
      for (const TestVerdict& row : newest.of(id, machine)) {
        if (row.verdict == Verdict::Stale || row.verdict == Verdict::Inconclusive) continue;
        ++judged;
        EXPECT_FALSE(is_surprise(row.verdict)) << machine << ": " << row.test << ": " << to_string(row.verdict) << ": "
                                               << render_observed(row) << "; `recapture dev propose RECORD`";
      }
    }
  }
  EXPECT_GE(judged, 10'000U);
}

// What a test showed. The last words of a crash have addresses, and an expected failure may have one of several texts:
// there the verdict stands for them.
std::pair<Result, std::string> shown_by(const TestVerdict& row) {
  const bool is_expected = row.result == Result::Broken && row.verdict == Verdict::AsExpected;
  if (row.result == Result::Crashed || is_expected) return {row.result, std::string(to_string(row.verdict))};
  return {row.result, compare::without_places(to_string(row.observed))};
}

// Stated in docs/findings.md: neither that GPU nor the CUDA runtime makes a difference.
// Each test and operator that both ran. Another record adds to them, so the numbers are the least.
TEST_F(Reports, H100AndH200_ShowTheSame) {
  std::vector<Record> of_one_driver;
  std::copy_if(records->begin(), records->end(), std::back_inserter(of_one_driver),
               [](const Record& record) { return record.env("driver") == "580.159.04"; });
  const ResultMatrix board(std::move(of_one_driver), rules_of(kRoot, {.recorder = true}));
  const NewestRows newest(board);
  struct Shared {
    size_t tests = 0, operators = 0;
  };
  std::map<std::string, Shared> shared;  // By release and chosen runtime.
  const std::string h100 = ", NVIDIA H100 80GB HBM3";
  for (const std::string& machine : board.machines()) {
    const size_t at = machine.find(h100);
    if (at == std::string::npos) continue;
    const std::string release = machine.substr(0, at), runtime = machine.substr(at + h100.size());
    for (const auto& [id, info] : board.cases()) {
      if (info.nature == Nature::Race || info.needs.gpus == 0) continue;
      for (const TestVerdict& row : newest.of(id, machine)) {
        for (const TestVerdict& other : newest.of(id, release + ", NVIDIA H200")) {
          if (other.test != row.test || row.result == Result::Unavailable) continue;
          if (row.kind == Kind::Operator) {  // Results of an operator; undefined values differ between runs.
            EXPECT_EQ(row.effect, other.effect) << machine << ": " << row.test;
            ++shared[release + runtime].operators;
            continue;
          }
          EXPECT_EQ(shown_by(row), shown_by(other)) << machine << ": " << row.test;
          ++shared[release + runtime].tests;
        }
      }
    }
  }
  const std::map<std::string, Shared> least = {{"2.1.2", {847}},
                                               {"2.2.2", {1087}},
                                               {"2.3.1", {1111, 114}},
                                               {"2.4.1", {1114, 248}},
                                               {"2.5.1", {1095, 39}},
                                               {"2.6.0", {1111, 706}},
                                               {"2.7.1", {1095}},
                                               {"2.8.0", {1095, 706}},
                                               {"2.9.1", {1095, 706}},
                                               {"2.10.0", {1095, 706}},
                                               {"2.11.0", {1114, 706}},
                                               {"2.12.1", {1095}},
                                               {"2.13.0", {1111, 706}},
                                               {"2.14.1", {1111, 706}},
                                               {"2.15.0", {1114, 706}},
                                               {"2.6.0, CUDA runtime 12.0", {841}},
                                               {"2.6.0, CUDA runtime 12.1", {319}},
                                               {"2.6.0, CUDA runtime 12.2", {319}},
                                               {"2.6.0, CUDA runtime 12.3", {319}},
                                               {"2.6.0, CUDA runtime 12.5", {319}},
                                               {"2.6.0, CUDA runtime 12.6", {319}},
                                               {"2.6.0, CUDA runtime 12.9", {847}},
                                               {"2.15.0, CUDA runtime 13.0", {847}},
                                               {"2.15.0, CUDA runtime 13.1", {319}},
                                               {"2.15.0, CUDA runtime 13.3", {319}},
                                               {"2.15.0, CUDA runtime 13.4", {319}},
                                               {"2.15.0, CUDA runtime 13.5", {847}}};
  // Of a release that is newer than these, what its records have: if both ran it, they share most tests.
  for (const std::string& release : read_matrix(kRoot)) {
    const bool ran_on_both = shared.count(release) != 0;
    if (ran_on_both && least.count(release) == 0) {
      EXPECT_GE(shared[release].tests, 847U) << release;
    }
  }
  for (const auto& [name, numbers] : least) {
    EXPECT_GE(shared[name].tests, numbers.tests) << name;
    EXPECT_GE(shared[name].operators, numbers.operators) << name;
  }
}

TEST_F(Reports, EverySignature_IsReadBackUnchanged) {
  size_t read = 0;
  for (const Record& record : *records) {
    for (const TestRecord& test : record.tests) {
      const auto signature = Signature::read(test.text("seen"));
      if (!signature) continue;
      EXPECT_EQ(signature->text(), test.text("seen")) << record.path << ": " << test.id();
      ++read;
    }
  }
  EXPECT_GE(read, 500U);
}

TEST_F(Reports, EveryExpectation_IsNeededAndHidesNoOther) {
  EXPECT_THAT(
      expectation_errors(expectations_of(read_deviations(kRoot)), read_matrix(kRoot), *records, kRoot + "/reports"),
      IsEmpty());
}

// `show CASE` reads them this way.
TEST_F(Reports, ReadingRatesAlone_FindsAllRates) {
  const Rules rules = rules_of(kRoot);
  const auto words = [&](const std::vector<Record>& read) {
    std::vector<std::string> pools;
    for (const RatePool& pool : rate_pools(read, rules)) {
      pools.push_back(pool.test + ", " + pool.machine);
      for (const RateRun& run : pool.runs) {
        pools.back() += ", " + std::to_string(run.hits) + " of " + std::to_string(run.tries);
      }
    }
    return pools;
  };
  const auto alone = words(read_rates_below(kRoot + "/reports"));
  EXPECT_THAT(alone, Not(IsEmpty()));
  EXPECT_EQ(alone, words(*records));
}

TEST_F(Reports, EverySignature_TakesNoForeignFailure) {
  EXPECT_THAT(loose_signatures(*records, rules_of(kRoot)), IsEmpty());
}

// The hashes in old records are of sources in the git history, which a shallow clone lacks. One by README's command
// fetches each that it is asked for.
TEST(Hashes, OldRecord_HasTheHashOfItsSource) {
  std::istringstream table(contents(kRoot + "/reports/hashes.tsv"));
  std::string line;
  std::getline(table, line);
  size_t checked = 0;
  while (std::getline(table, line)) {
    std::istringstream cells(line);
    std::string id, recorded, now, commit;
    ASSERT_TRUE(cells >> id >> recorded >> now >> commit) << line;
    const std::string git = "git -C '" + kRoot + "' ";
    std::istringstream files(output_of(git + "ls-tree -r --name-only " + commit + " -- cases"));
    for (std::string path; std::getline(files, path);) {
      if (fs::path(path).filename() != id + ".cpp") continue;
      const std::string source = output_of("(" + git + "show " + commit + ":" + path + " 2>/dev/null)");
      if (source.empty()) GTEST_SKIP() << "this clone has no older versions of files, and cannot fetch them";
      EXPECT_EQ(hash_of(code_only(source)), recorded) << id;
      EXPECT_EQ(source_hash(source), now) << id;
      ++checked;
    }
  }
  if (checked == 0) GTEST_SKIP() << "this clone has no history";
  EXPECT_GE(checked, 100U);
}

TEST(Sources, EverySource_IsKnownAndCited) { EXPECT_THAT(source_errors(kRoot), IsEmpty()); }
TEST(Sources, EverySource_IsOlderThanTheReleaseItExplains) { EXPECT_THAT(date_errors(kRoot), IsEmpty()); }

TEST(ShowLeft, RecordsWithoutAGpu_GetOneLineAndTheirExitCode) {
  const std::string empty = ::testing::TempDir() + "recapture-no-gpu-" + std::to_string(getpid());
  std::filesystem::create_directories(empty);
  const ShellResult said = shell(kRecapture + " show --left --records '" + empty + "'");
  EXPECT_EQ(said.code, 4);
  EXPECT_EQ(said.out, "recapture: no record names a GPU, so nothing can be left to run\n");
  std::filesystem::remove_all(empty);
}

TEST(ReportsReadme, Tables_AreUpToDateAndShort) {
  const std::string readme = contents(kRoot + "/reports/README.md");
  EXPECT_EQ(readme, output_of(kRecapture + " dev tables machines")) << "run `tools/tables`";
  EXPECT_LE(readme.size(), 30'000U);
}

// A command and its output, in a session of a document: a line with "…" alone stands for any lines; after a text it
// stands for the rest of the line.
struct Session {
  std::string question;
  std::vector<std::string> answer;
};

std::vector<Session> sessions_in(const std::string& text) {
  static const RE2 kAsks(
      R"(\$ (?:build/)?recapture ((?:list|show|compare|history|bisect|operators)(?: .*)?|gate [\d.]+ [\d.]+))");
  std::vector<Session> sessions;
  std::istringstream lines(text);
  bool is_asked = false;
  std::string asked;
  for (std::string line; std::getline(lines, line);) {
    if (RE2::FullMatch(line, kAsks, &asked)) {
      sessions.push_back({asked, {}});
      is_asked = true;
    } else if (line == "```" || line.rfind("$ ", 0) == 0) {
      is_asked = false;
    } else if (is_asked) {
      sessions.back().answer.push_back(line);
    }
  }
  return sessions;
}

// The recipes, and the place of each concept: paths in tables of contributing.md and of architecture.md. Only the table
// of moved paths names files that no longer exist.
TEST(Documents, FilesThatContributorsAreToldOf_Exist) {
  static const RE2 kPath(
      R"re(`((?:benchmarks|cases|ci|docs|examples|fixtures|harness|python|reports|tools)/[\w./{},-]*)`)re");
  static const RE2 kAlternatives(R"re((.*)\{(.*)\}(.*))re");
  size_t files = 0;
  for (const char* page : {"docs/contributing.md", "docs/architecture.md"}) {
    std::string text = contents(kRoot + "/" + page);
    text.resize(std::min(text.size(), text.find("\n## Moved paths")));
    for (const Match& path : all_matches(text, kPath)) {
      std::string before(path[1]), between, after;
      const bool is_list = RE2::FullMatch(std::string(path[1]), kAlternatives, &before, &between, &after);
      std::istringstream all(is_list ? between : "");
      std::string one;
      do {
        if (is_list && !std::getline(all, one, ',')) break;
        const std::string file = before + one + after;
        EXPECT_TRUE(fs::exists(kRoot + "/" + file)) << file << " in " << page;
        ++files;
      } while (is_list);
    }
  }
  EXPECT_GE(files, 80U);
}

TEST(Documents, CommandLine_IsThatOfTheProgram) {
  EXPECT_EQ(contents(kRoot + "/docs/reference/cli.md"), output_of(kRecapture + " dev tables cli"))
      << "run `build/recapture dev tables cli > docs/reference/cli.md`";
}

// A line break in a help text would end the table.
TEST(CliReference, EachLineOfATable_IsARow) {
  std::istringstream lines(contents(kRoot + "/docs/reference/cli.md"));
  bool is_in_table = false;
  size_t rows = 0;
  for (std::string line; std::getline(lines, line);) {
    const bool is_row = line.starts_with("| ") && line.ends_with(" |");
    if (is_in_table && !line.empty()) {
      EXPECT_TRUE(is_row) << line;
      ++rows;
    }
    is_in_table = is_row;
  }
  EXPECT_GE(rows, 100U);
}

TEST(Documents, Session_ShowsWhatIsPrinted) {
  const std::string kRest = "…";
  const auto is_shown = [&](const std::string& shown, const std::string& line) {
    const size_t begun = shown.rfind(kRest);
    return shown == line || (begun != shown.npos && begun + kRest.size() == shown.size() &&
                             line.compare(0, begun, shown, 0, begun) == 0);
  };
  std::vector<Session> sessions = sessions_in(contents(kRoot + "/README.md"));
  EXPECT_FALSE(sessions.empty());
  for (const auto& entry : fs::recursive_directory_iterator(kRoot + "/docs")) {
    if (entry.path().extension() != ".md") continue;
    const std::vector<Session> more = sessions_in(contents(entry.path()));
    sessions.insert(sessions.end(), more.begin(), more.end());
  }
  for (const auto& [question, answer] : sessions) {
    std::istringstream said(output_of(kRecapture + " " + question));
    std::vector<std::string> printed;
    for (std::string line; std::getline(said, line);) printed.push_back(line);
    auto next = printed.begin();
    bool after_some = false;
    for (const std::string& shown : answer) {
      if (shown == kRest) {
        after_some = true;
        continue;
      }
      const auto last = after_some || next == printed.end() ? printed.end() : next + 1;
      const auto found = std::find_if(next, last, [&](const std::string& line) { return is_shown(shown, line); });
      if (found == last) {
        ADD_FAILURE() << "a session of README.md or docs/: " << question << " does not print\n"
                      << shown << "\nat that place; update the session";
        after_some = true;
        break;
      }
      next = found + 1;
      after_some = false;
    }
    EXPECT_TRUE(after_some || next == printed.end())
        << "a session of README.md or docs/: " << question << " continues with\n"
        << (next == printed.end() ? "" : *next);
  }
}

// The page's own tests use few records; this one uses all.
TEST_F(Reports, EveryRecord_IsOnThePage) {
  std::vector<const Environment*> environments;
  for (const Record& record : *records) environments.push_back(&record.environment);
  size_t runs = 0, broken = 0;
  for (const size_t place : each_once(environments)) ++(environments[place]->broken == Break::Nothing ? runs : broken);
  const std::string path = ::testing::TempDir() + "recapture-all-" + std::to_string(getpid()) + ".html";
  EXPECT_EQ(output_of(kRecapture + " page --output '" + path + "'"), "wrote " + path + "\n");
  const std::string page = contents(path), begin = R"(<script type="application/json" id="data">)";
  fs::remove(path);
  const size_t at = page.find(begin) + begin.size();
  const Json data = parse_json(page.substr(at, page.find("</script>", at) - at));
  EXPECT_EQ(data.at("runs").size(), runs);
  EXPECT_EQ(data.at("made").at("records"), runs);
  EXPECT_EQ(data.at("made").at("broken"), broken);
  EXPECT_EQ(data.at("made").at("unreadable"), 0);
  EXPECT_GE(data.at("columns").size(), 50U);
  EXPECT_LT(page.size(), 104U * 1000 * data.at("columns").size());
  size_t pairs = 0;
  for (const Json& machine : data.at("compared")) {
    for (const Json& row : machine.at("pairs")) {
      EXPECT_EQ(row.size(), machine.at("releases").size());
      pairs +=
          static_cast<size_t>(std::count_if(row.begin(), row.end(), [](const Json& pair) { return !pair.is_null(); }));
    }
  }
  EXPECT_GE(pairs, 450U);
}

// The text of a job in ci/github.yml or a GitLab file, up to the next job.
std::string job(const std::string& workflow, const std::string& name, const std::string& indentation) {
  const size_t at = workflow.rfind("\n" + indentation + name + ":\n");
  if (at == std::string::npos) return "";
  const std::string rest = workflow.substr(at + 1);
  for (size_t end = 0; (end = rest.find("\n" + indentation, end + 1)) != std::string::npos;) {
    if (rest[end + 1 + indentation.size()] != ' ' && rest[end + 1 + indentation.size()] != '\n')
      return rest.substr(0, end + 1);
  }
  return rest;
}

class Workflows : public ::testing::Test {
 protected:
  void SetUp() override {
    fs::create_directories(folder + "/build");
    std::ofstream(folder + "/build/recapture") << "#!/bin/sh\nexec " << kRecapture << " \"$@\"\n";  // Of this tree.
    fs::permissions(folder + "/build/recapture", fs::perms::owner_all);
    for (const char* scripts : {"/ci", "/tools"}) fs::create_directory_symlink(kRoot + scripts, folder + scripts);
  }
  void TearDown() override { fs::remove_all(folder); }

  // Runs a job's script from this line on, as far as the indentation is the same.
  ShellResult run(const std::string& job, const std::string& first, const std::string& variables = "") const {
    const size_t at = job.find(first), begin = job.rfind('\n', at) + 1;
    if (at == std::string::npos) return {1, "no line " + first};
    std::istringstream lines(job.substr(begin));
    std::ofstream script(folder + "/step");
    for (std::string line; std::getline(lines, line) && line.rfind(std::string(at - begin, ' '), 0) == 0;)
      script << line.substr(at - begin) << "\n";
    script.close();
    return shell("cd '" + folder + "' && NIGHT=1 FIRST= TIER=night GITHUB_OUTPUT=output GITHUB_STEP_SUMMARY=summary " +
                 variables + " bash -eo pipefail step");
  }

  const Json plan = parse_json(output_of(kRecapture + " nightly plan"));
  const std::string folder = ::testing::TempDir() + "recapture-workflows-" + std::to_string(getpid());
};

TEST_F(Workflows, GitHub_MatrixIsThePlan) {
  const std::string github = contents(kRoot + "/ci/github.yml");
  const ShellResult said = run(job(github, "plan", "  "), "build/recapture nightly plan");
  ASSERT_EQ(said.code, 0) << said.out;
  std::map<std::string, std::string> outputs;
  std::istringstream lines(contents(folder + "/output"));
  for (std::string line; std::getline(lines, line);)
    outputs[line.substr(0, line.find('='))] = line.substr(line.find('=') + 1);
  EXPECT_EQ(parse_json(outputs["tasks"]), plan);
  std::set<std::string> releases;
  for (const Json& task : plan) releases.insert(task.at("release"));
  EXPECT_EQ(parse_json(outputs["releases"]).get<std::set<std::string>>(), releases);
  EXPECT_EQ(outputs["code"], "sm_90");
  const std::string of_run = job(github, "run", "  ");
  const RE2 uses(R"(matrix\.(\w+))");
  ASSERT_NE(of_run.find("matrix."), std::string::npos);
  for (const Match& use : all_matches(of_run, uses)) EXPECT_TRUE(plan[0].contains(std::string(use[1]))) << use[0];
}

TEST_F(Workflows, GitLab_TasksAreThePlan) {
  const ShellResult said = run(job(contents(kRoot + "/ci/gitlab.yml"), "plan", ""), "build/recapture nightly plan");
  ASSERT_EQ(said.code, 0) << said.out;
  const std::string common = contents(kRoot + "/ci/gitlab-tasks.yml"), tasks = contents(folder + "/tasks.yml");
  ASSERT_EQ(tasks.rfind(common, 0), 0U);
  Json jobs = Json::object();
  std::istringstream lines(tasks.substr(common.size()));
  for (std::string line; std::getline(lines, line);) jobs.update(parse_json("{" + line + "}"));
  for (const Json& task : plan) {
    const Json of_run = jobs.at("run:" + text_at(task, "record"));
    EXPECT_EQ(of_run.at("tags"), Json({"gpu", task.at("label")}));
    EXPECT_TRUE(jobs.contains(of_run.at("needs").at(0).get<std::string>())) << of_run;
  }
  EXPECT_EQ(jobs.at("collect").at("dependencies").size(), plan.size());
  for (const auto& [name, of_job] : jobs.items()) {
    EXPECT_NE(job(common, of_job.at("extends"), ""), "") << name;
  }
}

// A machine may have run another job before: none of its files may be uploaded for this one, even after a failure.
TEST_F(Workflows, Runs_BeginWithNothingOfAnEarlierJob) {
  const std::string github = job(contents(kRoot + "/ci/github.yml"), "run", "  ");
  const size_t cleared = github.find("rm -rf pack program record");
  ASSERT_NE(cleared, std::string::npos) << github;
  EXPECT_LT(cleared, github.find("uses:")) << "before the first step that may fail";
  EXPECT_THAT(job(contents(kRoot + "/ci/gitlab-tasks.yml"), ".run", ""), HasSubstr("GIT_STRATEGY: empty"));
}

// A night is collected even if a release's build failed, and without any record, as here.
TEST_F(Workflows, NightWithoutASingleRecord_IsCollected) {
  const std::string gitlab = job(contents(kRoot + "/ci/gitlab-tasks.yml"), ".collect", "");
  EXPECT_LT(gitlab.find("mkdir -p record"), gitlab.find("recapture nightly collect"));
  const std::string github = job(contents(kRoot + "/ci/github.yml"), "collect", "  ");
  EXPECT_EQ(github.find("pack"), std::string::npos);
  std::ofstream(folder + "/build/plan.json") << plan;
  const ShellResult said = run(github, "code=0");
  EXPECT_EQ(said.code, 6) << said.out;
  EXPECT_THAT(said.out, HasSubstr("2.6.0-h200-1of1 is missing"));
  EXPECT_TRUE(fs::exists(folder + "/tonight/night.json"));
  EXPECT_THAT(contents(folder + "/summary"), HasSubstr("2.6.0-h200-1of1"));
}

// What one night uploads is what the next one downloads.
TEST_F(Workflows, StateOfANight_IsReadByTheNextOne) {
  const std::string github = job(contents(kRoot + "/ci/github.yml"), "collect", "  ");
  constexpr const char* kNoState = "no state of an earlier night";
  std::ofstream(folder + "/build/plan.json") << plan;
  const auto night = [&](const std::string& name, const std::string& first) {
    fs::remove(folder + "/summary");
    EXPECT_EQ(run(github, "code=0", "NIGHT=" + name + " FIRST=" + first).code, 6);
    const bool has_state = fs::exists(folder + "/tonight/state.json");
    fs::create_directories(folder + "/nights");
    fs::rename(folder + "/tonight", folder + "/nights/" + name);
    return has_state;
  };
  EXPECT_FALSE(night("2026-01-01-7", ""));
  EXPECT_THAT(contents(folder + "/summary"), HasSubstr(kNoState));
  EXPECT_TRUE(night("2026-01-02-8", "true"));
  EXPECT_THAT(contents(folder + "/summary"), Not(HasSubstr(kNoState)));
  EXPECT_TRUE(night("2026-01-03-9", "false"));
  EXPECT_THAT(contents(folder + "/summary"), AllOf(Not(HasSubstr(kNoState)), HasSubstr("still since 2026-01-02-8")));
  const std::string gitlab = job(contents(kRoot + "/ci/gitlab-tasks.yml"), ".collect", "");
  EXPECT_THAT(gitlab, AllOf(HasSubstr("cache:\n    key: recapture-nights\n    paths: [nights]\n    when: always\n"),
                            HasSubstr("resource_group: recapture-nights")));
}

// With a fake sbatch that runs each task of an array at once.
TEST_F(Workflows, Slurm_RunsEachTaskOfThePlan) {
  const std::string tree = folder + "/tree", night = folder + "/nights/1";
  fs::create_directories(tree + "/ci");
  fs::create_directories(tree + "/build");
  fs::copy(kRoot + "/ci/slurm.sh", tree + "/ci/slurm.sh");
  std::ofstream(folder + "/sbatch")
      << "#!/usr/bin/env bash\nlast=\nfor word; do\n"
         "  case $word in --array=0-*) last=${word##*-} ;; --array=*) exit 1 ;; ci/slurm.sh) break ;; esac; "
         "shift\ndone\n"
         "export SLURM_JOB_ID=7 SLURMD_NODENAME=n1\necho 7\n"
         "for SLURM_ARRAY_TASK_ID in $(seq 0 ${last:-0}); do export SLURM_ARRAY_TASK_ID; \"$@\" >&2; done\n";
  std::ofstream(tree + "/build/recapture") << "#!/bin/sh\nif [ $2 = plan ]; then exec " << kRecapture
                                           << " \"$@\"; fi\necho \"$@\" >>'" << folder << "/log'\n";
  for (const std::string& file : {folder + "/sbatch", tree + "/build/recapture"})
    fs::permissions(file, fs::perms::owner_all);
  const ShellResult said = shell("PATH='" + folder + "':\"$PATH\" '" + tree + "/ci/slurm.sh' '" + night + "'");
  EXPECT_EQ(said.code, 0) << said.out;
  EXPECT_THAT(said.out, HasSubstr("tasks: 7; gathered by: 7"));
  const std::string log = contents(folder + "/log");
  for (const Json& task : plan) {
    std::string command;
    for (const Json& word : task.at("command")) command += word.get<std::string>() + " ";
    const std::string options =
        command.substr(command.find(' ') + 1, command.rfind("--record") - command.find(' ') - 1);
    const std::string record = text_at(task, "record");
    EXPECT_THAT(log, HasSubstr(options + "--record " + night + "/records/" + record.substr(0, record.size() - 6) +
                               ".n1.jsonl\n"));
  }
  EXPECT_THAT(
      log, HasSubstr("nightly collect " + night + "/gathered " + night + "/records --plan " + night + "/plan.json\n"));
}

// Scripts of ci/ and tools/, as far as they can be tested without a network and without a build.
class Scripts : public ::testing::Test {
 protected:
  void SetUp() override {
    fs::create_directories(folder + "/tree/ci");
    fs::create_directories(folder + "/tree/tools");
  }
  void TearDown() override { fs::remove_all(folder); }

  // An executable file, in `folder`.
  void script(const std::string& path, const std::string& text) const {
    fs::create_directories(fs::path(folder + "/" + path).parent_path());
    std::ofstream(folder + "/" + path) << text;
    fs::permissions(folder + "/" + path, fs::perms::owner_all);
  }

  // The result of these lines of Python, which use a script as `it`.
  ShellResult with(const std::string& name, const std::string& lines) const {
    std::ofstream(folder + "/with.py")
        << "import importlib.machinery as m, importlib.util as u, pathlib\nl = m.SourceFileLoader('it', '" + kRoot +
               "/" + name + "')\nit = u.module_from_spec(u.spec_from_loader('it', l))\nl.exec_module(it)\n" + lines;
    return shell("cd '" + folder + "' && python3 -B with.py");
  }

  const std::string folder = ::testing::TempDir() + "recapture-scripts-" + std::to_string(getpid());
};

TEST_F(Scripts, MissingFileOrTool_GetsOneLineAndItsExitCode) {
  std::ofstream(folder + "/zero.prices")
      << "{\"prices\":1,\"release\":\"1\",\"gpu\":\"G\",\"driver\":\"1\",\"cuda_runtime\":\"12\",\"revision\":\"r\"}\n"
         "{\"price\":[\"c.FixIt\"],\"what\":\"w\",\"without\":[0,1],\"with\":[1,1]}\n";
  // Google Benchmark leaves an empty report if the filter matches nothing.
  script("remedies", "#!/bin/sh\nfor w; do case $w in --benchmark_out=*) : >\"${w#*=}\" ;; esac; done\n");
  fs::copy(kRoot + "/tools/tables", folder + "/tree/tools/tables");
  const std::string root = "'" + kRoot + "/tools/", here = "'" + folder + "/";
  for (const auto& [line, code, words] :
       {std::tuple(root + "prices' --blame --recapture /none", 7, "prices: /none is not there"),
        {root + "prices' --blame --recapture /bin/true --python nosuch", 7, "prices: there is no nosuch"},
        {"CXX=false " + root + "prices' --blame --recapture /bin/true", 7, "prices: false cannot compile"},
        {root + "prices' --blame --recapture /bin/true --output /proc/x/y", 7, "prices: /proc/x/y cannot be written"},
        {root + "prices' --blame --recapture /bin/true --output /dev/null", 2, "prices: /dev/null is not a file"},
        {root + "prices' --blame --pairs 0 2>&1 | tail -n 1", 0, "prices: error: --pairs must be at least 1"},
        {root + "prices' " + here + "zero.prices' >/dev/null", 2, "is not what --output wrote: division by zero"},
        {root + "prices' --remedies 2.6.0 --program " + here + "remedies' --filter nosuch --output " + here + "new/p'",
         2, "prices: no benchmark is called nosuch"},
        {root + "blame' --recapture /none", 7, "blame: /none is not there"},
        {root + "blame' --recapture /bin/true --python nosuch", 7, "blame: there is no nosuch"},
        {"CXX=false " + root + "blame' --recapture /bin/true", 7, "blame: false cannot compile"},
        {root + "blame' --recapture /bin/true --output /proc/x/y", 7, "blame: /proc/x/y.json cannot be written"},
        {here + "tree/tools/tables'", 7, "tables: there is no build/recapture"}}) {
    const ShellResult said = shell(line);
    EXPECT_EQ(said.code, code) << line << "\n" << said.out;
    EXPECT_EQ(std::count(said.out.begin(), said.out.end(), '\n'), 1) << line << "\n" << said.out;
    EXPECT_THAT(said.out, HasSubstr(words)) << line;
  }
  for (const char* name : {"libtorch", "page"}) {
    const ShellResult old = shell(std::string("python3 -B -c \"import sys; sys.version_info = (3, 9, 2); exec(open('") +
                                  kRoot + "/tools/" + name + "').read())\"");
    EXPECT_EQ(old.code, 7) << old.out;
    EXPECT_THAT(old.out, HasSubstr(std::string(name) + ": this needs Python 3.11 or newer")) << old.out;
    EXPECT_EQ(std::count(old.out.begin(), old.out.end(), '\n'), 1) << old.out;
  }
}

TEST_F(Scripts, PathWithBlanksOrAnotherPython_GetsAdvice) {
  const std::string flags =
      "facts = dict(std=17, abi=1, cuda_only=1, include_dirs=[], libraries=[])\n"
      "def advice():\n  try: it.flags(facts)\n  except it.Problem as problem: print(problem)\n";
  const ShellResult blanks = with("tools/libtorch", flags +
                                                        "facts['include_dirs'] = [str(it.CACHE / 'a b')]; advice()\n"
                                                        "facts['include_dirs'] = ['/a b']; advice()\n"
                                                        "it.ROOT = pathlib.Path('/a tree'); advice()\n");
  EXPECT_THAT(blanks.out, ContainsRegex("set RECAPTURE_CACHE to .*\n.*move what lies there to .*\n.*stand in "
                                        "this tree, or move it to a path without blanks\n"));
  fs::create_directories(folder + "/site/torch");
  std::ofstream(folder + "/site/torch/_C.cpython-312-x86_64-linux-gnu.so");
  const std::string check =
      "class args: release, libtorch = '2.6.0', None\n"
      "try: it.check_python_of(pathlib.Path('site'), args); print('good')\n"
      "except it.Problem as problem: print(problem.code, problem)\n";
  EXPECT_THAT(with("tools/pack", check).out, ContainsRegex("7 site is for another Python than 3.11, which is packed: "
                                                           "it has _C.cpython-312-.*run tools/libtorch 2.6.0 where"));
  std::ofstream(folder + "/site/torch/_C.cpython-311-x86_64-linux-gnu.so");
  EXPECT_EQ(with("tools/pack", check).out, "good\n");
}

// In a tree that lacks only what the parameters name.
TEST_F(Scripts, Suite_EndsWithTheFirstFailureAndRunsInTheUsersFolder) {
  for (const char* name : {"suite", "build"}) fs::copy(kRoot + "/ci/" + name, folder + "/tree/ci/" + name);
  std::ofstream(folder + "/tree/ci/packages") << "set -euo pipefail; SUITE_PACKAGES=(); need_packages() { :; }\n";
  script("tree/tools/libtorch",
         "#!/bin/bash\ncase $1 in --list) echo 2.6.0; exit ;; --cache) echo /none; exit ;; esac\n"
         "case $2 in\n--version) basename \"$1\" ;;\n--cmake) case $1 in nonet) exit 7 ;; stopped) exit "
         "130 ;; "
         "esac; mkdir -p \"${3%/*}\"; touch \"${3%/*}/build.ninja\" ;;\nesac\n");
  script("tree/ci/nemo", "#!/bin/sh\n");
  script("bin/cmake",
         "#!/bin/sh\ncase $* in --version) echo cmake version 3.25.1 ;; *broken*) echo no; exit 1 ;; esac\n");
  script("tree/build/recapture", "#!/bin/sh\necho \"$*, in ${PWD##*/}\"; case $* in *changed*) exit 1 ;; esac\n");
  std::ofstream(folder + "/tree/build/build.ninja");
  fs::create_directories(folder + "/user/site/torch");
  fs::create_directories(folder + "/user/2.6.0");
  const auto suite = [&](const std::string& words) {
    ShellResult said =
        shell("cd '" + folder + "/user' && PATH='" + folder + "/bin':$PATH ../tree/ci/suite " + words + " 2>/dev/null");
    return std::pair(said.code, said.out);
  };
  EXPECT_EQ(suite("changed nonet 2.6.0"),
            std::pair(1, "run --release changed, in user\nrun --release 2.6.0, in user\n"s));
  script("bin/python3", "#!/bin/sh\necho 'torch (2.15.0)'\necho 'Available versions: 2.15.0, 2.6.0'\n");
  EXPECT_EQ(suite("2.15.0"), std::pair(0, "run --release 2.15.0, in user\n"s));
  EXPECT_EQ(suite("2.6.0 9.9.9"), std::pair(2, ""s)) << "before anything is built";
  EXPECT_EQ(suite("--hlep"), std::pair(2, ""s));
  EXPECT_EQ(suite("broken changed"), std::pair(7, "run --release changed, in user\n"s));
  EXPECT_EQ(suite("stopped changed"), std::pair(130, ""s));
  EXPECT_EQ(suite("--build nonet changed"), std::pair(7, ""s));
  EXPECT_EQ(
      suite("site 2.6.0 -- --record x.jsonl"),
      std::pair(0, "run --release site --record x.jsonl, in user\nrun --release 2.6.0 --record x.jsonl, in user\n"s));
}

TEST_F(Scripts, OldCMakeOrCLibrary_IsNamedInOneLineBeforeTheBuild) {
  script("bin/cmake", "#!/bin/sh\necho cmake version $CMAKE\n");
  script("bin/getconf", "#!/bin/sh\necho $LIBC\n");
  script("check", "#!/bin/bash\nsource '" + kRoot + "/ci/build'\nrequire_cmake && require_glibc\necho $?\n");
  const auto check = [&](const std::string& with) {
    return shell(with + " PATH='" + folder + "/bin':$PATH '" + folder + "/check'").out;
  };
  EXPECT_EQ(check("CMAKE=3.25.1 LIBC='glibc 2.36'"), "0\n");
  EXPECT_THAT(check("CMAKE=3.18.4 LIBC='glibc 2.36'"), HasSubstr("needs CMake 3.25 or newer, and PATH has 3.18.4"));
  EXPECT_EQ(check("CMAKE=3.25.1 LIBC='glibc 2.28'"),
            "build: the cases need glibc 2.34 or newer, and this system has 2.28; build in a container; "
            "see ci/Containerfile\n7\n");
}

// With a fake Python, whose pip prints its settings.
TEST_F(Scripts, Nemo_IsFetchedOnceUnderAnyPipSettings) {
  script(
      "python",
      "#!/bin/bash\ncase \"$*\" in\n'-c '*) echo 3.11 ;;\n*--version) ;;\n"
      "*download*) echo \"$PIP_USER $PIP_REQUIRE_VIRTUALENV\" >>downloads; while [ \"$1\" != --dest ]; do shift; done; "
      "sleep 0.5; [ ! -e broken ] || exit 1; python3 -c 'import sys, zipfile; "
      "zipfile.ZipFile(sys.argv[1], \"w\").close()' \"$2/nemo_toolkit-1.whl\" ;;\n"
      "*install*) while [ \"$1\" != --target ]; do shift; done; mkdir -p \"$2\" ;;\n*) exec python3 \"$@\" ;;\nesac\n");
  fs::create_directories(folder + "/cache/nemo/partial.killed");
  const std::string fetch = "'" + kRoot + "/ci/nemo' 2.0.0 ./python";
  const ShellResult said =
      shell("cd '" + folder + "' && export RECAPTURE_CACHE=$PWD/cache PIP_USER=1 PIP_REQUIRE_VIRTUALENV=1; (" + fetch +
            " & " + fetch + " & wait) 2>/dev/null; cat downloads; ls cache/nemo; touch broken; '" + kRoot +
            "/ci/nemo' 3.0.0 ./python; echo $?; ls cache/nemo");
  const std::string fetched = folder + "/cache/nemo/2.0.0-python3.11\n";
  EXPECT_EQ(said.out, fetched + fetched +
                          "0 0\n2.0.0-python3.11\nci/nemo: pip download failed; its reason is above\n7\n" +
                          "2.0.0-python3.11\n");
}

TEST_F(Scripts, TransformerEngine_IsFetchedOnceAndEveryFailureIsSeven) {
  script(
      "python",
      "#!/bin/bash\ncase \"$*\" in\n'-c '*) echo 3.11 ;;\n*--version) ;;\n"
      "*download*) echo \"$PIP_USER\" >>downloads; while [ \"$1\" != --dest ]; do shift; done; [ ! -e broken ] || exit "
      "1; "
      "python3 -c 'import sys, zipfile\nwith zipfile.ZipFile(sys.argv[1], \"w\") as wheel:\n for name in "
      "sys.argv[2:]: wheel.writestr(\"transformer_engine/pytorch/\" + name, \"\")' "
      "\"$2/transformer_engine-1.whl\" $(cat files) ;;\n"
      "*install*) while [ \"$1\" != --target ]; do shift; done; mkdir -p \"$2\" ;;\n*) exec python3 \"$@\" ;;\nesac\n");
  std::ofstream(folder + "/files") << "graph.py utils.py";
  const std::string tool = "'" + kRoot + "/tools/transformer_engine' ";
  const ShellResult said = shell(
      "cd '" + folder + "' && export RECAPTURE_CACHE=$PWD/cache PIP_USER=1; " + tool + "2.18.0 ./python; " + tool +
      "2.18.0 ./python; cat downloads; cd cache/transformer_engine/2.18.0-python3.11 && find . -type f | sort; cd '" +
      folder + "'; echo graph.py >files; " + tool + "1.0 ./python; echo $?; touch broken; " + tool +
      "2.20.2 ./python; echo $?; ls cache/transformer_engine; " + tool + "2>/dev/null; echo $?");
  const std::string fetched = folder + "/cache/transformer_engine/2.18.0-python3.11\n";
  EXPECT_EQ(said.out,
            fetched + fetched +
                "0\n./complete\n./transformer_engine/pytorch/graph.py\n./transformer_engine/pytorch/utils.py\n"
                "transformer_engine: transformer_engine 1.0 has no pytorch/graph.py and utils.py\n7\n"
                "transformer_engine: pip download failed; its output is above\n7\n2.18.0-python3.11\n2\n");
}

// With all releases in the cache, so that nothing is fetched.
TEST_F(Scripts, PackForAnotherMachine_IsWrittenWholeOrNotAtAll) {
  std::string version;  // Of a folder of NeMo's.
  ASSERT_TRUE(RE2::PartialMatch(contents(kRoot + "/ci/nemo"), "\nfiles=(\\d+) ", &version));
  for (const char* one : {"nemo/2.0.0", "nemo/2.3.0", "nemo/2.6.0", "nemo/2.7.0", "nemo/3.0.0",
                          "transformer_engine/2.18.0", "transformer_engine/2.20.2"}) {
    const std::string there = folder + "/cache/" + one + "-python3.11";
    fs::create_directories(there);
    std::ofstream(there + "/complete") << version;
    std::ofstream(there + "/graph.py") << one;
  }
  const auto pack = [&](const std::string& tool, const std::string& file) {
    return shell("cd '" + folder + "' && export RECAPTURE_CACHE=$PWD/cache PIP_NO_INDEX=1; '" + kRoot + "/" + tool +
                 "' --pack " + file +
                 " 3.11; echo $?; mkdir -p packs; ls packs; tar -tf packs/a.tar.xz 2>/dev/null | grep -c graph.py")
        .out;
  };
  EXPECT_EQ(pack("ci/nemo", "packs/a.tar.xz"), "ci/nemo: packs/a.tar.xz cannot be written\n7\n0\n");
  EXPECT_EQ(pack("ci/nemo", "packs/a.tar.xz"), "0\na.tar.xz\n5\n");
  EXPECT_EQ(pack("tools/transformer_engine", "packs/a.tar.xz"), "0\na.tar.xz\n2\n");
  EXPECT_EQ(pack("tools/transformer_engine", "none/a.tar.xz"),
            "transformer_engine: none/a.tar.xz cannot be written\n7\na.tar.xz\n2\n");
  EXPECT_EQ(pack("tools/transformer_engine", "packs"), "transformer_engine: packs cannot be written\n7\na.tar.xz\n2\n");
  EXPECT_EQ(pack("ci/nemo", "packs"), "ci/nemo: packs cannot be written\n7\na.tar.xz\n2\n");
}

TEST_F(Scripts, TransformerEngine_ExtensionIsBuiltForOneLibTorch) {
  script("python",
         "#!/bin/bash\ncase \"$*\" in\n*torch.version*) [ ! -e other ] && echo 13 ;;\n'-c '*) echo 3.11 "
         ";;\n*--version) ;;\n"
         "*venv*) mkdir -p \"$3/bin\"; cp \"$PWD/python\" \"$3/bin/\" ;;\n"
         "*install*) echo \"$PYTHONPATH: $*\" | sed 's/--target [^ ]*//' >>installs; [ ! -e broken ] || { echo "
         "'a.h:23:50: error: too old'; exit 1; }; while "
         "[ $# -gt 0 ] "
         "&& [ \"$1\" != --target ]; do shift; done; [ $# = 0 ] || mkdir -p \"$2\" ;;\nesac\n");
  const std::string tool = "'" + kRoot + "/tools/transformer_engine' --extension ";
  const ShellResult said =
      shell("cd '" + folder +
            "' && export RECAPTURE_CACHE=$PWD/cache && unset PYTHONPATH; mkdir -p site/torch/lib; "
            "echo \"__version__ = '2.11.0+cu130'\" >site/torch/version.py; " +
            tool + "site 2.20.2 ./python; " + tool +
            "site 2.20.2 ./python; grep -c . installs; grep -o 'site: .*transformer_engine==.*' installs; "
            "ls cache/transformer_engine cache/transformer_engine/*; touch broken; " +
            tool + "site 2.19.0 ./python; echo $?; touch other; " + tool +
            "site 2.19.0 ./python; echo $?; ls cache/transformer_engine; " + tool + "2>/dev/null; echo $?; " + tool +
            "site 2>/dev/null; echo $?");
  const std::string built = folder + "/cache/transformer_engine/2.20.2-python3.11-torch2.11.0\n";
  EXPECT_EQ(said.out, built + built +
                          "3\nsite: -m pip install -q --no-deps --no-build-isolation  transformer_engine==2.20.2 "
                          "transformer_engine_cu13==2.20.2 transformer_engine_torch==2.20.2\n"
                          "cache/transformer_engine:\n2.20.2-python3.11-torch2.11.0\n\n"
                          "cache/transformer_engine/2.20.2-python3.11-torch2.11.0:\ncomplete\n"
                          "a.h:23:50: error: too old\n"
                          "transformer_engine: pip install failed: too old; its output is above\n7\n"
                          "transformer_engine: ./python cannot import the torch of " +
                          folder +
                          "/site; name the Python that it was built for\n7\n2.20.2-python3.11-torch2.11.0\n2\n2\n");
}

// One list of packages: a new package, or a new list of them, must be added to the container.
TEST(Container, Containerfile_HasEveryListOfPackagesAndNoOther) {
  const std::string lists = contents(kRoot + "/ci/packages"), recipe = contents(kRoot + "/ci/Containerfile");
  static const RE2 kList(R"((?:^|\n)([A-Z]+_PACKAGES)=\()"), kNeeds(R"(need_packages (.*) &&)");
  std::string needs, expected;
  ASSERT_TRUE(RE2::PartialMatch(recipe, kNeeds, &needs));
  for (const Match& list : all_matches(lists, kList)) expected += fmt::format("\"${{{}[@]}}\" ", list[1]);
  EXPECT_EQ(needs, expected + "git");
  EXPECT_EQ(recipe.find("apt-get"), std::string::npos) << "packages are installed by ci/packages";
}

// The sizes of all files in git, by path; none if this is no clone.
std::map<std::string, uintmax_t> tracked_sizes() {
  std::map<std::string, uintmax_t> sizes;
  const ShellResult files = shell("cd '" + kRoot + "' && git ls-files -z | xargs -0 stat --printf='%s %n\\n'");
  std::istringstream lines(files.code == 0 ? files.out : "");
  uintmax_t size = 0;
  for (std::string name; lines >> size >> std::ws && std::getline(lines, name);) sizes[name] = size;
  return sizes;
}

uintmax_t sum_of(const std::map<std::string, uintmax_t>& sizes, const std::string& begin) {
  uintmax_t sum = 0;
  for (const auto& [name, size] : sizes) sum += name.starts_with(begin) ? size : 0;
  return sum;
}

// Every clone fetches all files, and so does every machine that the tree is copied to.
TEST(Tree, TrackedFiles_StayBelow12MiB) {
  const auto sizes = tracked_sizes();
  if (sizes.empty()) GTEST_SKIP() << "no git, or no clone";
  const uintmax_t all = sum_of(sizes, "");
  EXPECT_GT(all, 1U << 20);
  EXPECT_LT(all, 12U << 20);
}

// "void add_once(vector&, string&)": what distinguishes functions, without parameter names.
std::string signature_of(const std::string& line) {
  static const RE2 kParameter(R"(\s*\b\w+(?:\s*=[^,)]*)?([,)]))");
  return replace_all(line, kParameter, "\\1");
}

// If a header defines a function inline and a source file defines it too, there are two functions with one name, which
// the linker does not report.
TEST(Harness, InlineFunctions_AreDefinedInTheirHeaderAlone) {
  static const RE2 kFunction(R"(^(inline )?([\w:<>,&*]+(?: [\w:<>,&*]+)* \w+\(.*\)) \{.*$)");
  std::map<std::string, std::vector<std::string>> inlines, defined;
  for (const auto& entry : fs::recursive_directory_iterator(kRoot + "/harness")) {
    const std::string path = entry.path().lexically_relative(kRoot), extension = entry.path().extension();
    if ((extension != ".h" && extension != ".cpp") || path.find("/tests/") != std::string::npos) continue;
    std::istringstream lines(contents(entry.path()));
    for (std::string line; std::getline(lines, line);) {
      std::string is_inline, head;
      if (!RE2::FullMatch(line, kFunction, &is_inline, &head)) continue;
      (is_inline.empty() ? defined : inlines)[signature_of(head)].push_back(path);
    }
  }
  EXPECT_GT(inlines.size(), 20U);
  EXPECT_GT(defined.size(), 500U);
  for (const auto& [signature, files] : inlines) {
    EXPECT_EQ(files.size(), 1U) << signature << " of " << files.front();
    if (defined.count(signature) != 0)
      ADD_FAILURE() << signature << " of " << files.front() << " and " << defined[signature].front();
  }
}

// A folder may include those of lower layers, and none beside or above it.
TEST(Harness, EveryFolder_UsesNothingAboveItself) {
  const std::map<std::string, int> layers = {
      {"case", 0},    {"base", 1},     {"recorder", 1}, {"model", 2},     {"record", 3}, {"verdict", 4}, {"store", 5},
      {"words", 5},   {"compare", 6},  {"lint", 6},     {"explain", 6},   {"triage", 6}, {"blame", 7},   {"run", 8},
      {"nightly", 9}, {"timeline", 9}, {"report", 10},  {"commands", 11}, {"tests", 12}};
  static const RE2 kInclude(R"re(#include "harness/(\w+)/)re");
  size_t files = 0;
  for (const auto& [folder, layer] : layers) {
    if (folder == "tests") continue;
    for (const auto& entry : fs::directory_iterator(kRoot + "/harness/" + folder)) {
      if (!entry.is_regular_file()) continue;  // The sources of a bundle belong to no layer.
      const std::string source = contents(entry.path());
      ++files;
      EXPECT_EQ(source.find("#include \"fixtures/"), std::string::npos) << entry.path();
      for (const Match& include : all_matches(source, kInclude)) {
        const std::string used(include[1]);
        const bool below = used == folder || layers.at(used) < layer;
        EXPECT_TRUE(below) << entry.path() << " includes " << used << "/";
      }
    }
  }
  EXPECT_GE(files, 40U);
}

// Folders that decide hold kinds and facts: no decision can read a sentence that is not there. report/ has the words.
TEST(Harness, FoldersThatDecide_HoldNoSentences) {
  // Names that a user writes in a policy or an option, that a record or --json has, or a machine has.
  const std::set<std::string> names = {
      "no longer captured",
      "damage raises now",
      "error text or type changed",
      "no longer needed",
      "perhaps no longer needed",
      "the cases' own",
      "a machine without a GPU",
      "nothing to compare",
      "depends on the sample",
      ":-1: C++ exception with description \\\"",
      "CUDNN_STATUS_SUBLIBRARY_LOADING_FAILED",
      "new_empty_strided",
      "all of them together",
      "60 starts of a loader, each in a process of its own",
      "a fixed number of calls",
      "a number of calls, and where none showed it on to the first that does, up to twenty times as many",
      "six processes, each until it crashes or has begun 20,000 captures",
      "the first capture that fails, or 20 seconds",
      "the first capture that fails, or 50",
      "ten hits, or sixty tries"};
  size_t files = 0;
  for (const std::string folder : {"compare", "store", "verdict"}) {
    for (const auto& entry : fs::directory_iterator(kRoot + "/harness/" + folder)) {
      ++files;
      for (const std::string& literal : english_in(contents(entry.path()))) {
        EXPECT_EQ(names.count(literal), 1U) << entry.path() << ": \"" << literal << '"';
      }
    }
  }
  EXPECT_GE(files, 15U);
}

// A clock compared elsewhere is a second answer to the question which run counts.
TEST(Harness, FoldersAboveTheStore_CompareNoStartsAndDropNoCopies) {
  static const RE2 kOrder(
      R"re((?:environment|record)\.started [<>]|started\(\) [<>]|\b(?:tie|tuple|pair)\([^;]*environment\.started)re"
      R"re(|(?:each_once|are_of_one_run|run_ids)\b)re");
  const std::map<std::string, std::string> others = {
      {"commands/dev_place.cpp", "whether a file is of the run whose place it takes"},
      {"commands/page.cpp", "each_once() of the store"},
      {"nightly/collect.cpp", "which file of a task bears its name; the others count as well"},
      {"nightly/report.cpp", "the night that had a run first"},
      {"timeline/history.cpp", "the day from which a reader asks"},
  };
  std::set<std::string> found;
  for (const std::string folder :
       {"commands", "compare", "explain", "nightly", "report", "timeline", "triage", "words"}) {
    for (const auto& entry : fs::directory_iterator(kRoot + "/harness/" + folder)) {
      if (!entry.is_regular_file()) continue;
      const std::string name = folder + "/" + entry.path().filename().string();
      for (const Match& match : all_matches(contents(entry.path()), kOrder)) {
        EXPECT_EQ(others.count(name), 1U) << name << ": " << match[0] << ": ask store/";
        found.insert(name);
      }
    }
  }
  for (const auto& [name, reason] : others) EXPECT_EQ(found.count(name), 1U) << name << " needs no exception";
}

// clang-format holds C++ to it.
TEST(Harness, ScriptsOfThePage_HaveNoLongLines) {
  size_t files = 0;
  for (const auto& entry : fs::directory_iterator(kRoot + "/harness/report")) {
    if (entry.path().extension() != ".js") continue;
    ++files;
    std::istringstream lines(contents(entry.path()));
    constexpr int kMost = 120;
    std::string line;
    for (int number = 1; std::getline(lines, line); ++number) {
      const auto width = std::ranges::count_if(line, [](char c) { return (c & 0xC0) != 0x80; });  // Of UTF-8.
      EXPECT_LE(width, kMost) << entry.path() << ":" << number;
    }
  }
  EXPECT_GE(files, 3U);
}

TEST(Harness, SentencesInSource_AreFound) {
  EXPECT_THAT(english_in(R"(x = "it has changed"; y = f("two words", "one");)"), ElementsAre("it has changed"));
  EXPECT_THAT(english_in("x = \"a sentence \"\n    \"in two parts\";"), ElementsAre("a sentence in two parts"));
  EXPECT_THAT(english_in(R"(fmt::format("{} of {} in {}", a, b); fmt::format("{}: it's {} of {}", a, b, c))"),
              IsEmpty())
      << "two words";
  EXPECT_THAT(english_in("// it is \"in a comment\"\nx = 'y'; /* \"and in this one\" */"), IsEmpty());
  EXPECT_THAT(english_in("throw ExitError(Exit::Usage, \"it is no record\"); return {Exit::Usage, \"nor is this\"};"),
              IsEmpty());
  EXPECT_THAT(english_in(R"(if (c == '"') return "a text after it";)"), ElementsAre("a text after it"));
  EXPECT_THAT(english_in("RE2 k(R\"(a pattern of words)\");\n#include \"a/b c d.h\"\n"), IsEmpty());
}

// GUARANTEES.md, "What can go wrong around a test": each row names the tests that hold it.
TEST(Guarantees, EveryRow_NamesTestsThatExist) {
  std::vector<std::string> tests;
  static const RE2 kTest(R"(TEST(?:_[FP])?\((\w+), *(\w+)\))"), kName(R"(`(\w+\.[\w…*]+)`)");
  for (const auto& entry : fs::directory_iterator(kRoot + "/harness/tests")) {
    if (entry.path().extension() != ".cpp") continue;
    const std::string source = contents(entry.path());
    for (const Match& test : all_matches(source, kTest)) tests.push_back(fmt::format("{}.{}", test[1], test[2]));
  }
  const std::string page = contents(kRoot + "/harness/tests/GUARANTEES.md");
  const size_t from = page.find("## What can go wrong around a test"), to = page.find("\n## ", from + 1);
  ASSERT_NE(to, std::string::npos);
  std::istringstream lines(page.substr(from, to - from));
  size_t rows = 0;
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind("| ", 0) != 0 || line.rfind("| what", 0) == 0 || line.rfind("| ---", 0) == 0) continue;
    ++rows;
    const std::string cell = line.substr(line.rfind(" | ", line.size() - 3));
    EXPECT_TRUE(cell.find('`') != std::string::npos) << "no test: " << line;
    for (const Match& name : all_matches(cell, kName)) {
      const std::string pattern = replace_all(std::string(name[1]), RE2("…"), "*");
      const auto is_it = [&](const std::string& test) { return matches(pattern, test); };
      EXPECT_TRUE(std::any_of(tests.begin(), tests.end(), is_it)) << name[1] << " in " << line;
    }
  }
  EXPECT_GE(rows, 60U);
}

}  // namespace
}  // namespace recapture
