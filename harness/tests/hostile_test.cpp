// Input may be damaged or malicious: it is refused in one line, and output can neither control a terminal nor imitate
// one of our lines.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <ctime>
#include <filesystem>
#include <fstream>
#include <pugixml.hpp>
#include <sstream>

#include "harness/base/escape.h"
#include "harness/lint/expectations.h"
#include "harness/model/release.h"
#include "harness/record/writer.h"
#include "harness/report/json.h"
#include "harness/report/junit.h"
#include "harness/report/markdown.h"
#include "harness/report/overview.h"
#include "harness/report/text.h"
#include "harness/run/line.h"
#include "harness/run/machine.h"
#include "harness/store/result_matrix.h"
#include "harness/store/select.h"
#include "harness/tests/fake_record.h"
#include "harness/tests/namespaces.h"

namespace recapture {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

class Hostile : public ::testing::Test {
 protected:
  void SetUp() override { fs::create_directories(root + "/cases"); }
  void TearDown() override { fs::remove_all(root); }

  // A reader's error for a file with this text; "" if it accepts it.
  std::string refusal(const std::string& text) {
    std::ofstream(root + "/r.jsonl", std::ios::binary) << text;
    return refusal_of([this] { read_record(root + "/r.jsonl"); });
  }
  template <class Read>
  static std::string refusal_of(Read&& read) {
    try {
      read();
      return "";
    } catch (const ExitError& stop) {
      EXPECT_EQ(stop.code, Exit::Usage);
      EXPECT_EQ(std::string(stop.what()).find('\n'), std::string::npos) << stop.what();
      return stop.what();
    }
  }
  std::string change(const std::string& text) {
    std::ofstream(root + "/cases/expectations.toml") << text;
    return refusal_of([this] { read_deviations(root); });
  }

  const std::string root = ::testing::TempDir() + "recapture-hostile-" + std::to_string(getpid());
  const std::string head = R"({"recapture":2,"release":"2.15.0","gpu":"G"})"
                           "\n";
  const std::string known =
      head + R"({"case":"c","hash":"h","title":"t","documented":"d","nature":"race","fidelity":"modelled",)"
             R"("needs":"gpu","sources":[],"deadline_s":60,"tests":["Control"]})"
             "\n";
  const std::string test = R"({"test":"c.Control","ending":"exited","code":0,"ended":"passed"})"
                           "\n";
};

TEST_F(Hostile, MalformedRecord_IsRefusedWithItsLine) {
  ASSERT_EQ(refusal(known + test), "");
  const std::vector<std::pair<std::string, std::string>> table = {
      {head + head, ":2: not a line of a record: a second environment"},
      {R"({"recapture":2,"break":"luck"})"
       "\n",
       ":1: not a line of a record: nothing can be broken by 'luck'"},
      {R"({"recapture":2,"recapture":1})"
       "\n",
       "it has 'recapture' twice"},
      {known + R"({"test":"c.Control","ending":"exited","ending":"signal"})"
               "\n",
       ":3: not a line of a record: it has"},
      {known + R"({"test":"c.Control","ending":"exited","confirms":1})"
               "\n",
       "a confirmation before its test"},
      {known + R"({"test":"c.Control","ending":"exited","code":"0"})"
               "\n",
       "'code' is not a whole number"},
      {known + R"({"test":"c.Control","ending":"exited","tries":99999999999})"
               "\n",
       "'tries' is not a whole number"},
      {known + R"({"test":"c.Control","ending":7})"
               "\n",
       "'ending' is not text"},
      {known + R"({"test":"c.Control","ending":"exited","culprit":"c"})"
               "\n",
       "'culprit' is not an object"},
      {known + R"({"test":"c.Control","ending":"exited","assertions":"c"})"
               "\n",
       "'assertions' is not a list"},
      {known + R"({"test":"c.Con\u001btrol","ending":"exited"})"
               "\n",
       "control characters in its name"},
      {known + R"({"test":"Control","ending":"exited"})"
               "\n",
       "a test without a case"},
      {head + R"({"plan":["c.A","c.A"]})"
              "\n",
       "a plan with c.A twice"},
      {head + R"({"plan":["c.A"]})"
              "\n"
              R"({"plan":["c.B"]})"
              "\n",
       "a second plan"},
      {known +
           R"({"end":"complete"})"
           "\n" +
           test,
       ":4: not a line of a record: a line after the end"},
      {known + R"({"end":""})"
               "\n",
       "an end without a word"},
      {head + std::string(100000, '[') + "\n", "nested too deep"},
      {known + R"({"test":"c.Control","ending":"exited","facts":{"a":)" + std::string(100000, '[') +
           std::string(100000, ']') + "}}\n",
       "nested too deep"},
      {head + "[]\n", "it is not an object"},
      {head + "\xff\n", ":2: not a line of a record"},
      {std::string("\0\n", 2), ":1: not a line of a record"},
  };
  for (const auto& [text, words] : table) EXPECT_THAT(refusal(text), HasSubstr(words)) << text.substr(0, 400);
}

// Each member is lacking once, and has each kind of value once. A library's text is no reason for a user.
TEST_F(Hostile, MemberOfAnotherKind_IsShownOrRefusedInWords) {
  Json race = fake_failure("c.Reproduces", "900 > invalidated > 901", "900 > invalidated > 901");
  race.update({{"tries", 9},
               {"hits", 1},
               {"message", "m"},
               {"exception", "E"},
               {"error", 900},
               {"assertions", {"a"}},
               {"probes", {{"sticky", "ok"}}},
               {"facts", {{"table.a", "b"}}},
               {"culprit", {{"api", "cuX"}, {"code", 900}, {"frames", {"f"}}}},
               {"volatile", {{"seconds", 1.5}}}});
  const std::vector<Json> lines = FakeRecord{
      fake_environment({{"env", {{"A", "b"}}}, {"shard", "1/1"}}),
      {fake_test("c.Control"), race, fake_test("c.FixIt")},
      {{"effects", {{"Reproduces", "raises"}}},
       {"fixes", {{"FixIt", "Do."}}}}}.lines();
  const auto refusal_with = [&](size_t place, const Json& line) {
    std::string text;
    for (size_t i = 0; i < lines.size(); ++i) text += (i == place ? line : lines[i]).dump() + "\n";
    std::string words = refusal(text);
    if (words.empty()) {
      const ResultMatrix board({read_record(root + "/r.jsonl")}, {});
      render_json(board.records().front());
      render_junit(board.records().front());
      EXPECT_THAT(render_markdown(board), Not(HasSubstr("json.exception"))) << line;
    }
    return words;
  };
  ASSERT_EQ(refusal_with(lines.size(), {}), "");
  size_t refused = 0;
  for (size_t place = 0; place < lines.size(); ++place) {
    const Json flat = lines[place].flatten();
    for (const auto& [path, kept] : flat.items()) {
      for (Json::json_pointer at(path); !at.empty(); at = at.parent_pointer()) {
        for (const char* value : {"null", "true", "-7", "1e300", "\"x\"", "[]", "[null]", "{}", "{\"a\":[]}", ""}) {
          Json line = lines[place];
          if (std::string_view(value).empty()) {
            Json& parent = line.at(at.parent_pointer());
            if (parent.is_array()) continue;
            parent.erase(at.back());
          } else {
            line.at(at) = Json::parse(value);
          }
          const std::string words = refusal_with(place, line);
          EXPECT_THAT(words, Not(HasSubstr("json.exception"))) << line;
          if (!words.empty()) ++refused;
        }
      }
    }
  }
  EXPECT_GT(refused, 200U);
}

// Of a zero with a large exponent RapidJSON 1.1 makes any power of two.
TEST(Numbers, AreReadAsNlohmannReadsThem) {
  std::istringstream numbers(
      "0 -0 7 -7 0.0 -0.0 0e120 0E120 -0e184 0.0e-300 [0e308] 0.1 2.5e-3 1e22 1e23 9007199254740993.0 2147483648 "
      "-2147483649 4294967296 9223372036854775808 -9223372036854775808 -9223372036854775809 18446744073709551615 "
      "18446744073709551616 2.2250738585072011e-308 4.9e-324 1e-400 -1e-400 1.7976931348623157e308");
  for (std::string text; numbers >> text;) {
    const Json read = parse_json(text), expected = Json::parse(text);
    EXPECT_EQ(read.type(), expected.type()) << text;
    EXPECT_EQ(read.dump(), expected.dump()) << text;
  }
  std::istringstream others("1e309 -1e309 1.8e308 1e999999999999 01 1. .5 +1 1e - 0x1 NaN Infinity -inf");
  for (std::string text; others >> text;) {
    EXPECT_ANY_THROW(parse_json(text)) << text;
    EXPECT_FALSE(Json::accept(text)) << text;
  }
}

TEST(Objects, KeptAsTextHaveTheMembersThatParsingFinds) {
  size_t read = 0, refused = 0;
  const auto check = [&](const std::string& text) {
    const auto object = JsonObject::read(text);
    if (!object) return ++refused;
    const auto json = try_parse_json(text);
    EXPECT_TRUE(json && json->is_object()) << text;
    if (!json || !json->is_object()) return ++read;
    const std::string usual = to_text(*json);
    for (const JsonObject& its : {*object, JsonObject::known(usual)}) {
      Json found = Json::object();
      for (const auto& member : its.members()) found[member.name()] = its.part(member.key);
      EXPECT_EQ(found, *json) << text;
    }
    return ++read;
  };
  const std::string line =
      R"({"test":"c.A","n":-12.5,"l":[1,{"a":null,"b":"x\"\\\n, 12345678"}],"t":true,"f":false,"o":{"a":{},"b":[[]]},"e":""})";
  check(line);
  ASSERT_EQ(read, 1U);
  for (size_t at = 0; at < line.size(); ++at) {
    for (const char c : std::string_view(" \"\\{}[],:019-+eE.abtrufnl/\x1f\x80")) {
      check(std::string(line).replace(at, 1, 1, c));
      check(std::string(line).insert(at, 1, c));
    }
    check(std::string(line).erase(at, 1));
    check(line.substr(0, at));
  }
  for (const size_t depth : {30, 31, 32, 33}) {
    check("{\"a\":" + std::string(depth, '[') + std::string(depth, ']') + "}");
  }
  for (const char* text : {"{\"a\":1e999}", "{\"a\":\"\\ud800\"}", "{\"\\u0061\":1,\"a\":2}", "[]", "1", ""})
    check(text);
  EXPECT_GT(read, 500U);
  EXPECT_GT(refused, 2000U);
}

TEST(Objects, WithManyMembers_IsReadAtOnceAndHasEachKeyOnce) {
  const auto members = [](int count, const std::string& more) {
    std::string text = "{";
    for (int i = 0; i < count; ++i) text += fmt::format("\"{}\":{{\"{}\":0}},", i, i);
    return text + more + "}";
  };
  for (const int count : {2, 63, 64, 65, 300}) {
    const Json read = parse_json(members(count, "\"last\":[{\"0\":1},{\"0\":2}]"));
    EXPECT_EQ(read.size(), count + 1) << count;
    EXPECT_EQ(read.at("last").dump(), R"([{"0":1},{"0":2}])");
    for (const int twice : {0, 1, count - 1}) {
      const std::string key = fmt::format("\"{}\"", twice);
      EXPECT_ANY_THROW(parse_json(members(count, key + ":0"))) << count << ", " << key;
      EXPECT_ANY_THROW(parse_json("{\"a\":" + members(count, key + ":0") + "}")) << count << ", " << key;
    }
    EXPECT_NO_THROW(parse_json("[" + members(count, "\"x\":0") + "," + members(count, "\"x\":0") + "]")) << count;
  }
  const auto seconds_of = [&](int count) {
    const std::string text = members(count, "\"last\":0");
    const std::clock_t start = std::clock();
    EXPECT_EQ(parse_json(text).size(), count + 1);
    return static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  };
  constexpr int kFew = 2'500, kMany = 8 * kFew;
  EXPECT_LT(seconds_of(kMany), 20 * seconds_of(kFew)) << "eight times as many members";
}

// For any events of a test, the line that the runner writes can be read.
TEST_F(Hostile, MalformedEventsOfATest_GiveAReadableLine) {
  Observation seen;
  seen.ending = Observation::Ending::Exited;
  const std::string deep(3000, '[');
  seen.events = {{"a\xff", "1"},         {"a\xfe", "2"},    {"probe.\xff", "1"},
                 {"probe.\xfe", "\xff"}, {"culprit", deep}, {"culprit", "{\"api\":{\"api\":1}}"},
                 {"tries", "x"},         {"hits", ""}};
  const Json line = line_of({"c.Control", "fork", "", ""}, seen, Anonymous());
  EXPECT_EQ(refusal(known + line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n"), "");

  for (const size_t depth : {30U, 31U, 32U}) {  // In its line a culprit is one level deeper.
    const std::string culprit = "{\"a\":" + std::string(depth - 1, '[') + std::string(depth - 1, ']') + "}";
    seen.events = {{"culprit", culprit}};
    const Json deeper = line_of({"c.Control", "fork", "", ""}, seen, Anonymous());
    EXPECT_EQ(refusal(known + deeper.dump() + "\n"), "") << depth;
    EXPECT_EQ(deeper.contains("culprit"), depth < 32) << depth;
  }
  for (const char* two : {"{},{}", "{}],[{}", ""}) {
    seen.events = {{"culprit", two}};
    EXPECT_FALSE(line_of({"c.Control", "fork", "", ""}, seen, Anonymous()).contains("culprit")) << two;
  }

  for (const char* at : {"5", "{\"a\":-1}", "[18446744073709551615,\"x\",1.5]", "null"}) {
    seen.events = {{"culprit", std::string("{\"api\":\"cuX\",\"at\":") + at + "}"}, {"culprit_log", "cuX"}};
    const Json culprit = line_of({"c.Control", "fork", "", "/none"}, seen, Anonymous()).at("culprit");
    EXPECT_EQ(culprit, Json({{"api", "cuX"}})) << at;
  }
}

// The driver's text comes after the call, and is part of the call that it names.
TEST_F(Hostile, TextOfTheDriver_IsPartOfItsCallAlone) {
  Observation seen;
  seen.ending = Observation::Ending::Exited;
  for (const auto& [log, text] : {std::pair("cuX: it: waits", "it: waits"), {"cuX: ", ""}}) {
    seen.events = {{"culprit", R"({"api":"cuX"})"}, {"culprit_log", log}};
    const Json line = line_of({"c.Control", "fork", "", ""}, seen, Anonymous());
    EXPECT_EQ(line.at("culprit"), Json({{"api", "cuX"}, {"log", text}}));
    EXPECT_FALSE(line.contains("facts"));
  }
  for (const char* log : {"cuY: it waits", "cuX", ""}) {
    seen.events = {{"culprit", R"({"api":"cuX"})"}, {"culprit_log", log}};
    EXPECT_EQ(line_of({"c.Control", "fork", "", ""}, seen, Anonymous()).at("culprit"), Json({{"api", "cuX"}})) << log;
  }
  seen.events = {{"culprit_log", "cuX: it waits"}};
  const Json line = line_of({"c.Control", "fork", "", ""}, seen, Anonymous());
  EXPECT_FALSE(line.contains("culprit") || line.contains("facts"));
}

// A probe examines the state after a failure, and some of its calls fail because of that.
TEST_F(Hostile, FailedCallOfAProbe_IsNotTheCulprit) {
  const std::string call = R"({"api":"cuCtxSynchronize","code":900})";
  Observation seen;
  seen.ending = Observation::Ending::Exited;
  seen.events = {{"probing", "sticky"}, {"culprit", call}, {"probe.sticky", "0, 900"}};
  EXPECT_FALSE(line_of({"c.Control", "fork", "", ""}, seen, Anonymous()).contains("culprit"));
  seen.events = {{"culprit", call}, {"probing", "sticky"}, {"probe.sticky", "0, 900"}};
  EXPECT_TRUE(line_of({"c.Control", "fork", "", ""}, seen, Anonymous()).contains("culprit"));
  const std::string elsewhere = R"({"api":"cuEventQuery","code":900,"thread":"other"})";
  seen.events = {{"probing", "sticky"}, {"culprit", elsewhere}, {"probe.sticky", "0, 900"}};
  EXPECT_TRUE(line_of({"c.Control", "fork", "", ""}, seen, Anonymous()).contains("culprit"))
      << "a late report of another thread";

  Json culprit = Json::parse(call);  // As in old records.
  for (const char* frame :
       {"recapture::run_probes(std::vector<recapture::Probe> const&)", "C_Control_Test::TestBody()"}) {
    culprit["frames"] = {"recapture::sticky_error()", frame};
    Record record;
    record.add({{{"test", "c.Control"}, {"ending", "exited"}, {"culprit", culprit}}});
    EXPECT_EQ(record.tests.front().has("culprit"), std::string_view(frame).front() == 'C') << frame;
  }
}

TEST_F(Hostile, OverlongText_IsCutWhenWrittenAndRefusedWhenRead) {
  {
    RecordWriter writer = RecordWriter::create(root + "/long.jsonl");
    std::istringstream lines(known);
    for (std::string line; std::getline(lines, line);) writer.write(parse_json(line));
    const std::string text(100'000, '\xff');  // Each byte of it is written as three.
    writer.write({{"test", "c.Control"}, {"ending", "exited"}, {"seen", text}, {"culprit", {{"frames", {text}}}}});
  }
  const Record record = read_record(root + "/long.jsonl");
  EXPECT_THAT(record.tests.front().text("seen").size(), testing::AllOf(testing::Gt(5000U), testing::Le(kLongestText)));
  const Json longer = {{"test", "c.Control"}, {"ending", "exited"}, {"seen", std::string(kLongestText + 1, 'a')}};
  EXPECT_THAT(refusal(known + longer.dump() + "\n"), HasSubstr("a text of it has more than 16384 bytes"));
}

TEST(Machines, TooFewGpus_AreNamedAsLacking) {
  Machine machine;
  machine.gpus = 1;
  Needs needs;
  for (const auto& [gpus, words] : {std::pair(0, ""), {1, ""}, {2, "needs 2 GPUs, 1 here"}}) {
    needs.gpus = gpus;
    EXPECT_EQ(machine.lacks(needs), words);
  }
}

TEST_F(Hostile, OutputOfGoogleTest_IsLeftOutOfTheLastWords) {
  Observation seen;
  seen.ending = Observation::Ending::Signal;
  seen.last_words =
      "Running main() from gtest_main.cc\nNote: Google Test filter = *.Control\n[==========] Running 1 test\n"
      "[ RUN      ] C.Control\n[rank 0] is here\n\n\nabort\n[  FAILED  ] C.Control (3 ms)\n\n 1 FAILED TEST\n";
  EXPECT_EQ(line_of({"c.Control", "fork", "", ""}, seen, Anonymous()).value("last_words", ""),
            "[rank 0] is here\n\nabort\n");
  seen.ending = Observation::Ending::Exited;
  seen.last_words = "why it failed\n";
  for (const auto& [ended, kept] : {std::pair("failed", true), {"passed", false}}) {
    seen.events = {{"ended", ended}};
    EXPECT_EQ(line_of({"c.Control", "fork", "", ""}, seen, Anonymous()).contains("last_words"), kept) << ended;
  }
}

TEST_F(Hostile, PipeDeviceOrFolder_IsRefusedWithoutWaiting) {
  mkfifo((root + "/r.jsonl").c_str(), 0600);
  EXPECT_THAT(refusal_of([this] { read_record(root + "/r.jsonl"); }), HasSubstr("it is not a regular file"));
  EXPECT_THAT(refusal_of([this] { newest_records(root); }), HasSubstr("it is not a regular file"));
  EXPECT_THAT(refusal_of([] { read_record("/dev/zero"); }), HasSubstr("it is not a regular file"));
  fs::create_directories(root + "/cases/expectations.toml");
  EXPECT_THAT(refusal_of([this] { read_deviations(root); }), HasSubstr("Is a directory"));
}

// A record in which every text is an attack.
Record deceiver() {
  const std::string evil = "\x1b]52;c;cm0=\x07\r\n  c.Control   holds   as documented\xe2\x80\xae<b>|x|&\x01";
  Record record;
  record.path = "r.jsonl";
  record.environment = {{"recapture", 2}, {"release", "2.15.0"}, {"gpu", evil}, {"driver", evil}, {"break", "nothing"}};
  record.environment = record.environment.with("env", {{"A", evil}});
  CaseInfo info;
  info.id = "c";
  info.family = "f";
  info.title = info.documented = evil;
  record.cases["c"] = info;
  record.plan = {"c.Control", "c.Reproduces", "c.FixIt"};
  record.add({fake_test("c.Control")});
  record.add({{{"test", "c.Reproduces"},
               {"ending", "exited"},
               {"code", 1},
               {"ended", "failed"},
               {"seen", evil},
               {"documented", "900"},
               {"healthy", "ok"},
               {"facts", {{"table." + evil, evil}}},
               {"culprit", {{"api", 7}, {"frames", {1, evil}}}}}});
  record.add({{{"test", "c.FixIt"}, {"ending", "exited"}, {"code", 77}, {"ended", "skipped"}, {"skipped", evil}}});
  record.end = evil;
  return record;
}

TEST_F(Hostile, ControlCharactersInARecord_AreNotShown) {
  const ResultMatrix board({deceiver()}, {});
  const JudgedRun& judged = board.records().front();
  std::string all = heading(judged.record) + summary(judged.rows) + observed_tables(judged.record, judged.rows) +
                    machines_text(latest(board)) + surprises(latest(board)) + last_line(latest(board)) +
                    render_markdown(board);
  for (const TestVerdict& row : judged.rows) {
    EXPECT_EQ(render_line(row).find('\n'), std::string::npos);
    all += render_line(row) + "\n";
  }
  std::istringstream lines(all);
  for (std::string line; std::getline(lines, line);) {
    EXPECT_EQ(escape_control(line), line);
    EXPECT_NE(line.rfind("  c.Control   holds", 0), 0U) << "a forged line";
  }
  EXPECT_THAT(render_markdown(board), Not(HasSubstr("<b>")));
  EXPECT_THAT(render_markdown(board), HasSubstr("&lt;b&gt;\\|x\\|&amp;\\x01"));
}

TEST_F(Hostile, JUnitOfADeceivingRecord_IsWellFormedWithItsCutRunAsAnError) {
  const ResultMatrix board({deceiver()}, {});
  const std::string xml = render_junit(board.records().front());
  for (const char c : xml) EXPECT_TRUE(c == '\n' || c == '\t' || static_cast<unsigned char>(c) >= 0x20);
  EXPECT_THAT(xml, Not(HasSubstr("&#"))) << "XML 1.0 has no way to write a control character";
  pugi::xml_document document;
  ASSERT_TRUE(document.load_string(xml.c_str()));
  const auto run = document.child("testsuites").find_child_by_attribute("testsuite", "name", "run");
  EXPECT_EQ(run.attribute("errors").as_int(), 1);
  EXPECT_THAT(run.child("testcase").child("error").attribute("message").value(), HasSubstr("the run ended: "));
}

TEST(Visible, ControlCharactersAndBadUtf8_AreEscaped) {
  EXPECT_EQ(escape_control("Grüße, × 2 — “ok” 漢字 😀"), "Grüße, × 2 — “ok” 漢字 😀");
  for (const char* edge : {"\u0080", "\u009f"}) EXPECT_NE(escape_control(edge), edge) << "a control character";
  for (const char* edge : {"\u00a0", "\u07ff", "\u0800", "\ud7ff", "\ue000", "\uffff", "\U00010000", "\U0010ffff"}) {
    EXPECT_EQ(escape_control(edge), edge) << "the first and the last of each length, and beside the surrogates";
  }
  EXPECT_EQ(escape_control("\xe0\x9f\xbf\xf0\x8f\xbf\xbf\xf4\x90\x80\x80"),
            "\\xe0\\x9f\\xbf\\xf0\\x8f\\xbf\\xbf\\xf4\\x90\\x80\\x80");
  EXPECT_EQ(escape_control("a\x1b[31mb\x7f\x9b"), "a\\x1b[31mb\\x7f\\x9b");
  EXPECT_EQ(escape_control("a\xc2\x9b\xe2\x80\xae\xe2\x81\xa6"), "a\\x9b\\u202e\\u2066");
  EXPECT_EQ(escape_control("a\nb\tc\r"), "a\\nb\\tc\\x0d");
  EXPECT_EQ(escape_control("\xc0\xaf\xed\xa0\x80\xf5\xe2\x82"), "\\xc0\\xaf\\xed\\xa0\\x80\\xf5\\xe2\\x82");
}

TEST(Ranges, MalformedRange_IsRefused) {
  for (const char* range : {">=2.3 <2.13", ">=2.6 or so", "==2.15.0abc", "==2.15.0.7", ">=2.3,", ",<2", "", " ", "2.6",
                            "=>2.6", ">= ", "<99999999999", ">=2..3", ">=2.", "~=2.6", "!=2.6", ">=-1"}) {
    EXPECT_THROW(satisfies("2.6.0", range), ExitError) << range;
  }
  EXPECT_TRUE(satisfies("2.6.0", " >= 2.6 , < 2.13 "));
  EXPECT_TRUE(satisfies("2.16.0.dev20260101+cu130", ">2.15"));
  EXPECT_TRUE(in_range("cuda13", ""));
  EXPECT_FALSE(in_range("cuda13", ">=2"));
  EXPECT_THROW(require_version("2.8x"), ExitError);
  EXPECT_TRUE(can_meet(">=2.8", "<2.9"));
  EXPECT_TRUE(can_meet("", "<2.9"));
  EXPECT_FALSE(can_meet(">=2.8", "<2.8"));
  EXPECT_FALSE(can_meet("==2.8.1", ">2.8.1"));
  EXPECT_TRUE(can_meet(">2.8", "<2.8.2"));
}

TEST_F(Hostile, BadVersionOrEmptyMatrix_IsRefused) {
  EXPECT_THAT(refusal_of([] { require_version("main"); }), HasSubstr("'main' is not a version such as 2.11.0"));
  EXPECT_THAT(refusal_of([this] { read_matrix(root); }), HasSubstr("ci/matrix.toml is not there"));
  fs::create_directories(root + "/ci");
  std::ofstream(root + "/ci/matrix.toml") << "release = []\n";
  EXPECT_THAT(refusal_of([this] { read_matrix(root); }), HasSubstr("lists no release"));
}

TEST_F(Hostile, ChangeWithAnUnknownKeyOrBadValue_IsRefused) {
  const std::string change_head = "[[change]]\nwhat='w'\nnumber='n#1'\n";
  const std::string expect = "[[change.expect]]\ntests=['c.R']\nwhere={release='>=2.8'}\nrecords=['r']\n";
  ASSERT_EQ(change(change_head + expect + "result='healthy'\n"), "");
  const std::vector<std::pair<std::string, std::string>> table = {
      {"[change]\nwhat='w'\n", "write [[change]]"},
      {"change = 5\n", "write [[change]]"},
      {"[&", "it cannot be read as TOML"},
      {"\u00fc = 5\n", "expectations.toml"},
      {change_head + "expect = 5\n", "write [[change.expect]]"},
      {change_head + "[change.expect]\ntests=['c.R']\n", "write [[change.expect]]"},
      {change_head + "expects = []\n" + expect + "result='healthy'\n", "unknown key 'expects'"},
      {change_head + expect + "result='healthy'\nseen=5\n", "'seen' is not a string"},
      {change_head + expect + "result='healthy'\nseen=''\n", "'seen' is empty"},
      {change_head + "[[change.expect]]\ntests=['c.R']\nwhere={}\nresult='healthy'\n", "needs 'records'"},
      {change_head + "[[change.expect]]\nrecords=['r']\nwhere={}\nresult='healthy'\n", "needs 'tests'"},
      {change_head + expect + "result='unseen'\n", "'unseen' cannot be expected"},
      {change_head + expect + "result='invalid'\n", "'invalid' cannot be expected"},
      {change_head + "[[change.expect]]\ntests='c.R'\nwhere={}\nrecords=['r']\nresult='healthy'\n",
       "not a list of strings"},
      {change_head + "[[change.expect]]\ntests=[5]\nwhere={}\nrecords=['r']\nresult='healthy'\n",
       "not a list of strings"},
      {change_head + "[[change.expect]]\ntests=['c.R']\nwhere={gpu=5}\nrecords=['r']\nresult='healthy'\n",
       "'gpu' is not a string"},
      {change_head +
           "[[change.expect]]\ntests=['c.R']\nwhere={release='>=2.3 <2.13'}\nrecords=['r']\nresult='healthy'\n",
       "is not a range"},
      {"[[change]]\nwhat='w'\nnumber='n#1'\nsince='2.8x'\n" + expect + "result='healthy'\n", "is not a version"},
  };
  for (const auto& [text, words] : table) EXPECT_THAT(change(text), HasSubstr(words)) << text;
}

TEST_F(Hostile, OverlappingExpectations_AreRefused) {
  Expectation h200, nvidia;
  h200.test = nvidia.test = "c.Control";
  h200.where.gpu = "H200";
  nvidia.where.gpu = "NVIDIA";
  h200.result = Result::Healthy;
  nvidia.result = Result::Broken;
  Record record = deceiver();
  record.environment = record.environment.with("gpu", "NVIDIA H200");
  EXPECT_THAT(refusal_of([&] { find_expectation({h200, nvidia}, "c.Control", record); }), HasSubstr("shadowed by"));
  const auto shadowed = [&](const Expectation& a, const Expectation& b) {
    for (const std::string& error : expectation_errors({a, b}, {"2.15.0"}, {record}, "reports")) {
      if (error.find("shadowed by") != std::string::npos) return true;
    }
    return false;
  };
  EXPECT_TRUE(shadowed(h200, nvidia));
  Expectation h100 = nvidia;
  h100.where.gpu = "H100";
  EXPECT_FALSE(shadowed(h200, h100));
  h200.where.driver = ">=580";
  nvidia.where.driver = "<580";
  EXPECT_FALSE(shadowed(h200, nvidia));
  nvidia.where.driver = "<581";
  EXPECT_TRUE(shadowed(h200, nvidia));
}

// Two drivers on one kind of GPU are two columns; so are two axes.
TEST_F(Hostile, OtherDriverOrVariable_IsAColumnOfItsOwn) {
  const auto on = [](const std::string& driver, const Json& env, const std::string& started) {
    Record record = deceiver();
    record.environment = {
        {"recapture", 2},         {"release", "2.15.0"}, {"gpu", "G"},         {"driver", driver},
        {"cuda_runtime", "13.0"}, {"env", env},          {"break", "nothing"}, {"volatile", {{"started", started}}}};
    return record;
  };
  const Json none = Json::object(), axis = {{"PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True"}};
  EXPECT_THAT(ResultMatrix({on("1", none, "1"), on("1", none, "2")}, {}).machines(), ElementsAre("2.15.0, G"));
  const ResultMatrix board({on("1", none, "1"), on("2", none, "2"), on("1", axis, "3")}, {});
  EXPECT_THAT(board.machines(), ElementsAre("2.15.0, G, driver 1", "2.15.0, G, driver 2",
                                            "2.15.0, G, PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"));
  EXPECT_EQ(latest(board).size(), 3U);
}

TEST_F(Hostile, SeveralRecordsOfOneMachine_HaveNumberedPaths) {
  Environment environment = {{"release", "2.15.0"}, {"gpu", "NVIDIA H200"}, {"break", "nothing"}};
  EXPECT_TRUE(is_report_path("2.15.0/nvidia-h200.jsonl", environment));
  EXPECT_TRUE(is_report_path("2.15.0/nvidia-h200.run-2.jsonl", environment));
  EXPECT_TRUE(is_report_path("2.15.0/nvidia-h200.run-12.jsonl", environment));
  for (const char* path :
       {"2.15.0/nvidia-h200.run-1.jsonl", "2.15.0/nvidia-h200.run-02.jsonl", "2.15.0/nvidia-h200.run-2x.jsonl",
        "2.15.0/nvidia-h200.run-.jsonl", "2.15.0/nvidia-h200.trigger.jsonl", "2.11.0/nvidia-h200.run-2.jsonl"}) {
    EXPECT_FALSE(is_report_path(path, environment)) << path;
  }
  environment = environment.with("gpu", "../../evil/G");
  EXPECT_EQ(report_path(environment), "2.15.0/------evil-g.jsonl");
}

}  // namespace
}  // namespace recapture
