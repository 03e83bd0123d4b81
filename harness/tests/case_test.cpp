// What is linked into a case: patterns, events, words, signatures, CUDA's errors, the source hash.
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <set>

#include "harness/case/cuda_errors.h"
#include "harness/case/events.h"
#include "harness/case/pattern.h"
#include "harness/case/signature.h"
#include "harness/case/source_hash.h"
#include "harness/case/types.h"
#include "harness/model/record.h"
#include "harness/tests/namespaces.h"

namespace recapture {
namespace {

TEST(Pattern, Star_MatchesAnyText) {
  EXPECT_TRUE(matches("900 > invalidated > 901", "900 > invalidated > 901"));
  EXPECT_TRUE(matches("check \"*offset*\" > active > ok", "check \"increase offset now\" > active > ok"));
  EXPECT_TRUE(matches("*", ""));
  EXPECT_TRUE(matches("a*b*c", "aXbXbc"));
  EXPECT_FALSE(matches("900", "9001"));
  EXPECT_FALSE(matches("a*b", "ab "));
  EXPECT_FALSE(matches("", "x"));
}

TEST(Pattern, Outcome_IsReproducedHealthyDifferentOrAmbiguous) {
  EXPECT_STREQ(outcome("900", "900", "ok"), "reproduced");
  EXPECT_STREQ(outcome("ok", "900", "ok"), "healthy");
  EXPECT_STREQ(outcome("901", "900", "ok"), "different");
  EXPECT_STREQ(outcome("ok", "*", "ok"), "ambiguous");
}

TEST(Events, WrittenLine_ReadsBackAsTheSameEvent) {
  const std::string value = "two\nlines, a \\ and an = sign";
  const std::string line = event_line("seen", value);
  EXPECT_EQ(line.find('\n'), line.size() - 1);
  EXPECT_EQ(parse_event(line.substr(0, line.size() - 1)), std::make_pair(std::string("seen"), value));
  EXPECT_EQ(parse_event("no equals sign").first, "");
  EXPECT_LE(event_line("k", std::string(100000, 'x')).size(), kLongestValue);
}

TEST(Events, KnownKeys_HaveOneRuleAndOtherKeysAreFacts) {
  EXPECT_EQ(rule_of("seen").keep, Keep::Last);
  EXPECT_EQ(rule_of("code").record, "error");
  EXPECT_EQ(rule_of("probe.trim").record, "probes");
  EXPECT_EQ(rule_of("probe.trim").event, "probe.");
  EXPECT_EQ(rule_of("probing").keep, Keep::ProbeBegins);
  EXPECT_EQ(rule_of("table.33").keep, Keep::Fact);
  EXPECT_EQ(rule_of("address").record, "facts");
  std::set<std::string_view> known;
  for (const KeyRule& rule : kKeyRules) EXPECT_TRUE(known.insert(rule.event).second) << rule.event;
}

TEST(Words, WrittenWord_ReadsBackAndAnUnknownOneGivesNothing) {
  for (const Break broken : {Break::Nothing, Break::Trigger, Break::Value, Break::Remedy}) {
    EXPECT_EQ(break_of(to_string(broken)), broken);
  }
  EXPECT_EQ(break_of("luck"), std::nullopt);
  for (const Nature nature : {Nature::Constraint, Nature::Defect, Nature::Race}) {
    EXPECT_EQ(nature_of(to_string(nature)), nature);
  }
  EXPECT_EQ(nature_of("luck"), std::nullopt);
  EXPECT_EQ(to_string(Nature::Race), "race");
  EXPECT_EQ(to_string(Fidelity::Modelled), "modelled");
  EXPECT_EQ(to_string(Fidelity::Simulated), "simulated");
  EXPECT_EQ(kind_of("FixByLuck"), Kind::Fix);
  EXPECT_EQ(kind_of("Luck"), std::nullopt);
}

TEST(Needs, KnownWords_AreReadAndUnknownOnesRefused) {
  EXPECT_EQ(Needs::read("host")->gpus, 0);
  EXPECT_EQ(Needs::read("gpu python")->gpus, 1);
  EXPECT_TRUE(Needs::read("gpu python")->python);
  EXPECT_TRUE(Needs::read("host python nemo")->nemo);
  EXPECT_TRUE(Needs::read("gpu python transformer_engine")->transformer_engine);
  EXPECT_EQ(Needs::read("ranks")->gpus, 1);
  EXPECT_TRUE(Needs::read("ranks")->ranks);
  EXPECT_FALSE(Needs::read("gpu")->ranks);
  EXPECT_FALSE(Needs::read("gpus").has_value());
}

TEST(Signature, WrittenSignature_ReadsBackAndMalformedTextIsRefused) {
  for (const char* text : {"900 > invalidated > 901", "ok > active > ok, cache kept",
                           "check \"a > b\" > error 906 > oom", "std::invalid_argument \"x\" > none > 908"}) {
    const auto signature = Signature::read(text);
    ASSERT_TRUE(signature.has_value()) << text;
    EXPECT_EQ(signature->text(), text);
  }
  EXPECT_EQ(Signature::read("check \"a > b\" > active > ok")->first, "check \"a > b\"");
  for (const char* text : {"", "ok", "0 > 906 > invalidated > 901", "22 > 44 > 66", "900 > invalidated"}) {
    EXPECT_FALSE(Signature::read(text).has_value()) << text;
  }
  EXPECT_EQ(code_of_failure("900"), 900);
  EXPECT_EQ(code_of_failure("9001 bytes"), 0);
  EXPECT_EQ(code_of_failure("ok"), 0);
}

TEST(CudaErrors, TextOfAnError_GivesItsCode) {
  EXPECT_EQ(cuda_error_of("operation not permitted when stream is capturing"), 900);
  EXPECT_EQ(cuda_error_of("device kernel image is invalid"), 200) << "the first of the two";
  EXPECT_EQ(cuda_error_of("no such text"), 0);
  EXPECT_EQ(cuda_error_in("CUDA error: capturing stream has unjoined work\nFor debugging …"), 904);
  EXPECT_EQ(cuda_error_in("capturing stream has unjoined work"), 0);
  EXPECT_TRUE(is_capture_error(910));
  EXPECT_FALSE(is_capture_error(911));
}

TEST(SourceHash, CommentsAndSpacing_DoNotChangeIt) {
  const std::string code = "int f() { return 1; }";
  EXPECT_EQ(source_hash(code), source_hash("// why\nint  f()\n{ /* what */ return 1; }"));
  EXPECT_NE(source_hash(code), source_hash("int f() { return 2; }"));
  EXPECT_NE(source_hash("f(\"a // b\")"), source_hash("f(\"a\")")) << "a comment sign in a literal is text";
  EXPECT_NE(source_hash("R\"py(# a\n  b)py\""), source_hash("R\"py(# a\nb)py\"")) << "space in a raw string counts";
  EXPECT_EQ(source_hash("x = 1'000; // c\ny"), source_hash("x = 1'000; y")) << "a digit separator is no quote";
}

TEST(SourceHash, OwnIncludesAndTheDescription_DoNotChangeIt) {
  const std::string code = "#include <thread>\nint f() { return 1; }\n";
  EXPECT_EQ(source_hash(code), source_hash("#include \"fixtures/cuda/runtime.h\"\n" + code));
  EXPECT_EQ(source_hash(code), source_hash(code + "RECAPTURE_CASE = {\n    .title = \"A\",\n};\n"));
  EXPECT_EQ(source_hash(code + "int g();"),
            source_hash(code + "RECAPTURE_CASE = {\n    .title = \"A\",\n};\nint g();"));
  EXPECT_EQ(source_hash(code),
            source_hash("#ifdef RECAPTURE_HAS_LIBTORCH\n" + code + "#endif  // RECAPTURE_HAS_LIBTORCH\n"));
  EXPECT_NE(source_hash(code), source_hash("#ifdef X\n" + code + "#endif\n"));
  EXPECT_NE(source_hash(code), source_hash("int f() { return 1; }\n")) << "includes of others count";
}

TEST(CodeHash, ChangedFixture_CountsOnlyIfIncludedOrLinked) {
  std::map<std::string, std::string> files = {{"fixtures/a/x.h", "#include \"fixtures/a/y.h\"\nint x();\n"},
                                              {"fixtures/a/x.cpp", "int x() { return 1; }\n"},
                                              {"fixtures/a/y.h", "int y();\n"},
                                              {"fixtures/a/z.h", "int z();\n"}};
  const auto read = [&](const std::string& path) {
    const auto at = files.find(path);
    return at == files.end() ? std::nullopt : std::optional(at->second);
  };
  const std::string source = "#include \"fixtures/a/x.h\"\nint main() { return x(); }\n";
  const std::string before = code_hash(source, read);
  files["fixtures/a/z.h"] += "int other();\n";
  EXPECT_EQ(code_hash(source, read), before) << "it is not included";
  for (const char* path : {"fixtures/a/x.h", "fixtures/a/x.cpp", "fixtures/a/y.h"}) {
    const std::string text = files[path];
    files[path] = "// why\n" + text;
    EXPECT_EQ(code_hash(source, read), before) << path << ": a comment";
    files[path] = text + "int other();\n";
    EXPECT_NE(code_hash(source, read), before) << path;
    files[path] = text;
  }
  EXPECT_NE(code_hash(source + "int other();", read), before);
  files["fixtures/b/x.h"] = files["fixtures/a/x.h"];
  files["fixtures/b/x.cpp"] = files["fixtures/a/x.cpp"];
  const std::string elsewhere = "#include \"fixtures/b/x.h\"\nint main() { return x(); }\n";
  EXPECT_EQ(code_hash(elsewhere, read), before) << "another folder";
}

}  // namespace
}  // namespace recapture
