#include "harness/pattern.h"

#include <gtest/gtest.h>

#include "harness/events.h"
#include "harness/source_hash.h"

namespace recapture {
namespace {

TEST(Pattern, StarStandsForAnyText) {
  EXPECT_TRUE(matches("900 > invalidated > 901", "900 > invalidated > 901"));
  EXPECT_TRUE(matches("check \"*offset*\" > active > ok", "check \"increase offset now\" > active > ok"));
  EXPECT_TRUE(matches("*", ""));
  EXPECT_TRUE(matches("a*b*c", "aXbXbc"));
  EXPECT_FALSE(matches("900", "9001"));
  EXPECT_FALSE(matches("a*b", "ab "));
  EXPECT_FALSE(matches("", "x"));
}

TEST(Pattern, OutcomeIsThreeWayAndTellsAmbiguity) {
  EXPECT_STREQ(outcome("900", "900", "ok"), "reproduced");
  EXPECT_STREQ(outcome("ok", "900", "ok"), "healthy");
  EXPECT_STREQ(outcome("901", "900", "ok"), "different");
  EXPECT_STREQ(outcome("ok", "*", "ok"), "ambiguous");
}

TEST(Events, ALineComesBackAsItWasSaid) {
  const std::string value = "two\nlines, a \\ and an = sign";
  const std::string line = event_line("seen", value);
  EXPECT_EQ(line.find('\n'), line.size() - 1);
  EXPECT_EQ(parse_event(line.substr(0, line.size() - 1)), std::make_pair(std::string("seen"), value));
  EXPECT_EQ(parse_event("no equals sign").first, "");
  EXPECT_LE(event_line("k", std::string(100000, 'x')).size(), kLongestValue);
}

TEST(SourceHash, CountsCodeAndNotProse) {
  const std::string code = "int f() { return 1; }";
  EXPECT_EQ(source_hash(code), source_hash("// why\nint  f()\n{ /* what */ return 1; }"));
  EXPECT_NE(source_hash(code), source_hash("int f() { return 2; }"));
  EXPECT_NE(source_hash("f(\"a // b\")"), source_hash("f(\"a\")")) << "a comment sign in a literal is text";
  EXPECT_NE(source_hash("R\"py(# a\n  b)py\""), source_hash("R\"py(# a\nb)py\"")) << "space in a raw string counts";
  EXPECT_EQ(source_hash("x = 1'000; // c\ny"), source_hash("x = 1'000; y")) << "a digit separator opens nothing";
}

}  // namespace
}  // namespace recapture
