#include "harness/model/record.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>

#include "harness/base/exit.h"
#include "harness/base/file.h"
#include "harness/base/regex.h"
#include "harness/case/events.h"
#include "harness/record/merge.h"
#include "harness/record/writer.h"
#include "harness/store/select.h"
#include "harness/tests/namespaces.h"

namespace recapture {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;

class RecordFile : public ::testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(folder); }
  void TearDown() override { std::filesystem::remove_all(folder); }

  std::string path(const std::string& name = "r.jsonl") const { return folder + "/" + name; }
  static Json environment(const std::string& shard = "1/1") {
    return {{"recapture", 1}, {"release", "2.15.0"}, {"gpu", ""}, {"shard", shard}, {"volatile", {{"started", shard}}}};
  }
  static CaseInfo info(const std::string& id) {
    CaseInfo i;
    i.id = id;
    i.family = "f";
    i.hash = "h";
    i.tests = {"Control", "Reproduces"};
    return i;
  }
  static Json test(const std::string& id) {
    return {{"test", id}, {"ending", "exited"}, {"code", 0}, {"ended", "passed"}, {"volatile", {{"seconds", 0.1}}}};
  }
  void write(const std::string& name, const std::vector<std::string>& cases, const std::string& shard = "1/1") {
    RecordWriter writer = RecordWriter::create(path(name));
    writer.write(environment(shard));
    Json plan = Json::array();
    for (const auto& id : cases) {
      for (const char* t : {".Control", ".Reproduces"}) plan.push_back(id + t);
    }
    writer.write({{"plan", plan}});
    for (const auto& id : cases) {
      writer.write(info(id).to_json());
      for (const char* t : {".Control", ".Reproduces"}) writer.write(test(id + t));
    }
    writer.write({{"end", "complete"}});
  }
  std::string error_of(const std::string& text) {
    std::ofstream(path()) << text;
    try {
      read_record(path());
      return "";
    } catch (const ExitError& stop) {
      EXPECT_EQ(stop.code, Exit::Usage);
      return stop.what();
    }
  }
  std::string folder = ::testing::TempDir() + "recapture-record-" + std::to_string(getpid());
};

TEST_F(RecordFile, WrittenRecord_IsReadBackUnchanged) {
  write("r.jsonl", {"a", "b"});
  const Record record = read_record(path());
  EXPECT_EQ(record.env("release"), "2.15.0");
  EXPECT_THAT(record.plan, ElementsAre("a.Control", "a.Reproduces", "b.Control", "b.Reproduces"));
  ASSERT_EQ(record.tests.size(), 4U);
  EXPECT_EQ(record.tests[3].json(), test("b.Reproduces"));
  EXPECT_EQ(record.cases.at("a").hash, "h");
  EXPECT_EQ(record.end, "complete");
  EXPECT_TRUE(record.notes.empty());
}

// A race's test that broke is repeated, and the repetitions may have the rate that it lacks.
TEST_F(RecordFile, RateOfAConfirmationAlone_IsRead) {
  {
    RecordWriter writer = RecordWriter::create(path());
    writer.write(environment());
    writer.write({{"plan", {"a.Control", "a.Reproduces"}}});
    writer.write(info("a").to_json());
    writer.write(test("a.Control"));
    writer.write(test("a.Reproduces"));
    Json confirmation = test("a.Reproduces");
    confirmation.update({{"hits", 3}, {"tries", 50}, {"confirms", 1}});
    writer.write(confirmation);
    writer.write({{"end", "complete"}});
  }
  const auto read = read_rates_below(folder);
  ASSERT_EQ(read.size(), 1U);
  ASSERT_EQ(read[0].tests.size(), 1U) << "a.Control has no rate";
  EXPECT_EQ(read[0].tests[0].id(), "a.Reproduces");
  EXPECT_EQ(read[0].confirmations.at("a.Reproduces").size(), 1U);
  write_file(path(), replace_all(contents_of(path()), "\":", "\": "));
  EXPECT_EQ(read_rates_below(folder).at(0).confirmations.count("a.Reproduces"), 1U) << "rewritten with spaces";
}

TEST(TestRecord, ImpossibleSeconds_CountAsZero) {
  const auto read = [](const char* seconds) {
    return TestRecord{Json{{"volatile", {{"seconds", Json::parse(seconds)}}}}}.seconds();
  };
  EXPECT_EQ(read("2.5"), 2.5);
  for (const char* wrong : {"-1", "1e300", "\"2\"", "null"}) EXPECT_EQ(read(wrong), 0) << wrong;
}

TEST_F(RecordFile, CutRecord_KeepsItsLinesAndNotesTheCut) {
  write("r.jsonl", {"a", "b"});
  const auto size = std::filesystem::file_size(path());
  std::string text(size, ' ');
  std::ifstream(path(), std::ios::binary).read(text.data(), static_cast<std::streamsize>(size));
  const size_t last_test = text.find("{\"test\":\"b.Reproduces\"");
  std::filesystem::resize_file(path(), last_test + 20);
  const Record record = read_record(path());
  EXPECT_EQ(record.tests.size(), 3U);
  ASSERT_EQ(record.notes.size(), 2U);
  EXPECT_THAT(record.notes[0], HasSubstr("is cut"));
  EXPECT_THAT(record.notes[1], HasSubstr("from b.Reproduces on"));
  {
    RecordWriter writer = RecordWriter::append(path());
    writer.write(test("b.Reproduces"));
    writer.write({{"end", "complete"}});
  }
  EXPECT_TRUE(read_record(path()).notes.empty());
}

TEST_F(RecordFile, GzippedRecord_IsReadLikeAPlainOne) {
  write("r.jsonl", {"a", "b"});
  ASSERT_EQ(std::system(("gzip -9nk '" + path() + "'").c_str()), 0);
  const Record plain = read_record(path()), packed = read_record(path("r.jsonl.gz"));
  EXPECT_EQ(packed.plan, plain.plan);
  EXPECT_EQ(packed.tests.size(), plain.tests.size());
  EXPECT_EQ(packed.end, "complete");
  EXPECT_EQ(environment_of(path("r.jsonl.gz")).json(), environment());
  EXPECT_THAT(records_below(folder), ElementsAre(path("r.jsonl"), path("r.jsonl.gz")));
  std::filesystem::remove(path());
  EXPECT_EQ(newest_records(folder).records.size(), 1U);

  std::filesystem::resize_file(path("r.jsonl.gz"), std::filesystem::file_size(path("r.jsonl.gz")) - 9);
  for (const auto& read : {std::function<void(std::string)>([](const std::string& p) { read_record(p); }),
                           std::function<void(std::string)>([](const std::string& p) { RecordWriter::append(p); })}) {
    try {
      read(path("r.jsonl.gz"));
      ADD_FAILURE() << "nothing is wrong with it";
    } catch (const ExitError& stop) {
      EXPECT_EQ(stop.code, Exit::Usage);
      EXPECT_THAT(stop.what(), ::testing::AnyOf(HasSubstr("it is damaged or cut"), HasSubstr("is packed")));
    }
  }
}

TEST_F(RecordFile, FileThatUnpacksWithoutEnd_IsRefused) {
  write("r.jsonl", {"a"});
  std::string packed = packed_by_gzip(contents_of(path()));
  const std::string mebibyte = packed_by_gzip(std::string(1 << 20, ' '));
  for (int i = 0; i < 257; ++i) packed += mebibyte;
  EXPECT_LT(packed.size(), 1'000'000U);
  std::ofstream(path(), std::ios::binary) << packed;
  for (const auto& read : {std::function([&] { read_record(path()); }), std::function([&] { read_tests(path(), {}); }),
                           std::function([&] { read_rates_below(folder); })}) {
    try {
      read();
      ADD_FAILURE() << "it was read";
    } catch (const ExitError& stop) {
      EXPECT_EQ(stop.code, Exit::Usage);
      EXPECT_THAT(stop.what(), HasSubstr("it unpacks to more than 256 MiB"));
    }
  }
}

// As written by `gzip >>`, bgzip and pigz.
TEST_F(RecordFile, SeveralGzipPieces_AreReadToTheEnd) {
  write("r.jsonl", {"a", "b"});
  const std::string packed = path("r.jsonl.gz");
  const auto run = [](const std::string& line) { ASSERT_EQ(std::system(line.c_str()), 0) << line; };
  run("head -n 4 '" + path() + "' | gzip >'" + packed + "'; tail -n +5 '" + path() + "' | gzip >>'" + packed + "'");
  const Record record = read_record(packed);
  EXPECT_EQ(record.tests.size(), 4U);
  EXPECT_EQ(record.end, "complete");
  std::filesystem::resize_file(packed, std::filesystem::file_size(packed) - 9);
  EXPECT_THROW(read_record(packed), ExitError) << "the last piece is cut";
  run("head -n 4 '" + path() + "' | gzip >'" + packed + "'; tail -n +5 '" + path() + "' >>'" + packed + "'");
  EXPECT_THROW(read_record(packed), ExitError) << "the rest is not gzip";
}

// Every prefix of a record is a record, or is refused with file and line; no prefix is read as more than it contains.
TEST_F(RecordFile, EveryPrefix_IsNotedAsCutOrRefused) {
  write("whole.jsonl", {"a"});
  std::ifstream in(path("whole.jsonl"), std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  for (size_t length = 0; length < text.size(); ++length) {
    std::ofstream(path(), std::ios::binary) << text.substr(0, length);
    try {
      const Record record = read_record(path());
      EXPECT_FALSE(record.notes.empty()) << length;
    } catch (const ExitError& stop) {
      EXPECT_EQ(stop.code, Exit::Usage) << length;
    }
  }
}

TEST_F(RecordFile, CorruptLine_IsRefusedWithFileAndLine) {
  const std::string head = environment().dump() + "\n";
  EXPECT_THAT(error_of(""), HasSubstr("it is empty"));
  EXPECT_THAT(error_of("not json\n"), HasSubstr("r.jsonl:1: not a line of a record"));
  EXPECT_THAT(error_of("{\"plan\":[]}\n"), HasSubstr("the first line is not an environment"));
  EXPECT_THAT(error_of(head + "{\"what\":1}\n"),
              HasSubstr("r.jsonl:2: not a line of a record: a line of no known kind"));
  EXPECT_THAT(error_of(head + "{\"test\":\"a.Control\"}\n"), HasSubstr("a test before its case"));
  const std::string known = head + info("a").to_json().dump() + "\n" + test("a.Control").dump() + "\n";
  EXPECT_THAT(error_of(known + test("a.Control").dump() + "\n"), HasSubstr("the same test twice"));
  CaseInfo other = info("a");
  other.hash = "today's";
  EXPECT_THAT(error_of(known + other.to_json().dump() + "\n"),
              HasSubstr("r.jsonl:4: not a line of a record: it has case 'a' twice, of different code"));
  EXPECT_EQ(error_of(known + info("a").to_json().dump() + "\n"), "");
  EXPECT_THAT(error_of(head + "[1,2]\n"), HasSubstr("r.jsonl:2"));
  EXPECT_THAT(error_of("{\"recapture\":3}\n"),
              HasSubstr("r.jsonl:1: not a line of a record: its format is 3, and this program reads 1 to 2; a newer"));
  for (const std::string format : {"0", "\"2\"", "\"x\"", "1.5"}) {
    EXPECT_THAT(
        error_of("{\"recapture\":" + format + "}\n"),
        HasSubstr("r.jsonl:1: not a line of a record: 'recapture' is " + format + ", not the number of a format"));
  }
  EXPECT_THROW(read_record(path("absent")), ExitError);
}

TEST_F(RecordFile, MemberOfAnotherKindThanItsEventGives_IsRefused) {
  const std::string known = environment().dump() + "\n" + info("a").to_json().dump() + "\n";
  for (const KeyRule& rule : kKeyRules) {
    Json line = test("a.Control");
    line[std::string(rule.record)] = nullptr;
    EXPECT_THAT(error_of(known + line.dump() + "\n"), HasSubstr(fmt::format("'{}' is not ", rule.record)));
  }
}

TEST(RecordFormatPage, EachMemberOfAnEvent_IsListed) {
  std::ifstream file(RECAPTURE_ROOT "/docs/reference/record-format.md");
  const std::string page{std::istreambuf_iterator<char>(file), {}};
  for (const KeyRule& rule : kKeyRules) EXPECT_THAT(page, HasSubstr(fmt::format("`{}`", rule.record)));
}

TEST_F(RecordFile, Shards_MergeIntoOneCompleteRecord) {
  write("1.jsonl", {"a", "c"}, "1/2");
  write("2.jsonl", {"b"}, "2/2");
  merge_records({path("1.jsonl"), path("2.jsonl")}, path());
  const Record record = read_record(path());
  EXPECT_THAT(record.plan,
              ElementsAre("a.Control", "a.Reproduces", "b.Control", "b.Reproduces", "c.Control", "c.Reproduces"));
  EXPECT_EQ(record.tests.size(), 6U);
  EXPECT_EQ(record.end, "complete");
  EXPECT_THROW(merge_records({path("1.jsonl"), path("1.jsonl")}, path("twice.jsonl")), ExitError);
}

TEST_F(RecordFile, ShardOfAnotherMachine_IsNotMerged) {
  write("1.jsonl", {"a"}, "1/2");
  {
    RecordWriter other = RecordWriter::create(path("2.jsonl"));
    Json elsewhere = environment("2/2");
    elsewhere["gpu"] = "another";
    other.write(elsewhere);
  }
  try {
    merge_records({path("1.jsonl"), path("2.jsonl")}, path());
    FAIL();
  } catch (const ExitError& stop) {
    EXPECT_THAT(stop.what(), HasSubstr("its environment is not that of"));
    EXPECT_THAT(stop.what(), HasSubstr(": it differs in gpu; "));
  }
}

TEST_F(RecordFile, ExistingRecord_IsNotOverwritten) {
  write("r.jsonl", {"a"});
  try {
    RecordWriter::create(path());
    FAIL();
  } catch (const ExitError& stop) {
    EXPECT_EQ(stop.code, Exit::Usage);
    EXPECT_THAT(stop.what(), HasSubstr("r.jsonl exists already; name another"));
  }
}

TEST(Differences, TwoEnvironments_DifferVariableByVariable) {
  const Json one = {{"driver", "1"}, {"variables", {{"LANG", "C"}, {"TZ", "x"}}}, {"volatile", {{"jobs", 1}}}};
  const Json other = {
      {"driver", "2"}, {"variables", {{"TZ", "x"}, {"LANG", "D"}, {"LC_ALL", "C"}}}, {"env", {{"A", "1"}}}};
  EXPECT_THAT(differences(one, other), ElementsAre("--env A", "LANG", "LC_ALL", "driver"));
  EXPECT_EQ(differences(other, one), differences(one, other));
  EXPECT_TRUE(differences(other, other).empty());
}

TEST(LackingIn, UndefinedSymbol_NamesTheLibraryThatLacksIt) {
  EXPECT_EQ(missing_symbol("a: symbol lookup error: l.so: undefined symbol: cudaNew_v2, version libcudart.so.13\n"),
            "the CUDA runtime has no cudaNew_v2");
  EXPECT_EQ(missing_symbol("undefined symbol: a b, version libcudart.so.13"), "") << "no name";
  EXPECT_EQ(missing_symbol("undefined symbol: ncclNew, version libnccl.so.2"), "") << "of another library";
  EXPECT_EQ(missing_symbol(", version libcudart.so.13"), "");
  EXPECT_EQ(missing_symbol("undefined symbol: other\na: undefined symbol: ncclNew\n"), "NCCL has no ncclNew");
}

Json on_a_gpu() {
  return {{"release", "2.15.0"},     {"gpu", "NVIDIA H200"}, {"driver", "580.1"}, {"cuda_runtime", "12.9"},
          {"cuda_runtime_by", "1a"}, {"nccl", "2.30.7"},     {"packed", true},    {"env", {{"A", "1"}, {"B", 2}}}};
}

TEST(MachineId, Environment_GivesWhatTheRunChoseAndItsVariables) {
  const MachineId machine = Environment(on_a_gpu()).machine;
  EXPECT_EQ(machine.variables, "A=1, B=2");
  EXPECT_EQ(machine.overrides, (std::map<std::string, std::string>{{"cuda_runtime", "12.9"}}));
  EXPECT_FALSE(machine.is_plain());
  EXPECT_TRUE(Environment({{"gpu", "G"}, {"cuda_runtime", "13.0"}, {"nccl", "2.30.7"}}).machine.is_plain());
}

TEST(MachineId, Label_HasTheDetailsThatAreAskedFor) {
  const MachineId machine = Environment(on_a_gpu()).machine,
                  host = Environment({{"driver", "580.1"}, {"env", {{"A", "\x1b"}}}}).machine;
  EXPECT_EQ(label(machine, {}), "NVIDIA H200");
  EXPECT_EQ(label(machine, {.driver = true, .runtime = true, .packed = true}),
            "NVIDIA H200, driver 580.1, CUDA runtime 12.9 (packed)");
  EXPECT_EQ(label(machine, {.variables = true, .overrides = true}), "NVIDIA H200, A=1, B=2, CUDA runtime 12.9");
  EXPECT_EQ(label(host, {.driver = true, .variables = true}), "no GPU, A=\\x1b");
  EXPECT_EQ(label(host, {.no_gpu = "without a GPU"}), "without a GPU");
}

TEST(MachineId, Levels_DifferByWhatMayChange) {
  Json updated = on_a_gpu(), plain = on_a_gpu();
  updated["driver"] = "590.1";
  plain.erase("cuda_runtime_by");
  const MachineId machine = Environment(on_a_gpu()).machine, other = Environment(plain).machine;
  EXPECT_EQ(machine.comparable(), other.comparable());
  EXPECT_NE(machine.with_overrides(), other.with_overrides());
  EXPECT_NE(machine.comparable(), Environment(updated).machine.comparable());
  EXPECT_EQ(machine.place(), Environment(updated).machine.place());
  EXPECT_NE(machine.place(), other.place());
  EXPECT_EQ(Environment(on_a_gpu()).kind, Environment(plain).kind) << "a chosen runtime counts by its version";
  EXPECT_NE(Environment(on_a_gpu()).kind, Environment(updated).kind);
}

TEST(MachineId, Order_PutsNoGpuLast) {
  std::set<MachineId> machines;
  for (const char* gpu : {"", "NVIDIA H200", "NVIDIA H100", "NVIDIA H200 NVL"}) {
    machines.insert(Environment({{"gpu", gpu}, {"driver", "1"}}).machine);
  }
  std::vector<std::string> gpus;
  for (const MachineId& machine : machines) gpus.push_back(machine.gpu);
  EXPECT_THAT(gpus, ElementsAre("NVIDIA H100", "NVIDIA H200 NVL", "NVIDIA H200", ""));
}

TEST(MachineId, FileName_HasVariablesAndWhatTheRunChose) {
  EXPECT_THAT(file_name(Environment(on_a_gpu()).machine),
              MatchesRegex("nvidia-h200\\.A-1--B-2-[0-9a-f]{4}\\.cuda-12\\.9"));
  EXPECT_EQ(file_name(Environment({{"release", "2.15.0"}}).machine), "host");
}

}  // namespace
}  // namespace recapture
