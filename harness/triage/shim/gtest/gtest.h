// What the cases use of GoogleTest, in its place: a test runs by name and its failed expectations are kept as text.
#pragma once
#include <cstdio>
#include <functional>
#include <iostream>
#include <sstream>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace testing {

struct Message {
  std::string text;
  template <class T>
  Message& operator<<(const T& value) {
    std::ostringstream out;
    out << value;
    text += out.str();
    return *this;
  }
};

struct Outcome {
  std::vector<std::string> failures;
  std::string skipped;
  bool skips = false;
};
inline Outcome outcome;  // Of the one test that a process runs.

class TestInfo {
 public:
  TestInfo(std::string name) : name_(std::move(name)) {}
  const char* name() const { return name_.c_str(); }

 private:
  std::string name_;
};

class UnitTest {
 public:
  static UnitTest* GetInstance() {
    static UnitTest one;
    return &one;
  }
  const TestInfo* current_test_info() const { return &current; }
  TestInfo current{""};
};

class Test {
 public:
  virtual ~Test() = default;
  virtual void SetUp() {}
  virtual void TearDown() {}
  virtual void TestBody() = 0;
  static bool IsSkipped() { return outcome.skips; }
  static bool HasFailure() { return !outcome.failures.empty(); }
};

struct Registered {
  std::string name;
  std::function<Test*()> make;
};
inline std::vector<Registered>& tests() {
  static std::vector<Registered> all;
  return all;
}
inline int add_test(const char* name, std::function<Test*()> make) {
  tests().push_back({name, std::move(make)});
  return 0;
}

namespace internal {
template <class T, class = void>
struct Streams : std::false_type {};
template <class T>
struct Streams<T, std::void_t<decltype(std::declval<std::ostream&>() << std::declval<const T&>())>> : std::true_type {};
template <class T, class = void>
struct Iterates : std::false_type {};
template <class T>
struct Iterates<T, std::void_t<decltype(std::declval<const T&>().begin(), std::declval<const T&>().end())>>
    : std::true_type {};
}  // namespace internal

template <class T>
std::string PrintToString(const T& value);
template <class A, class B>
std::string PrintToString(const std::pair<A, B>& pair) {
  return "(" + PrintToString(pair.first) + ", " + PrintToString(pair.second) + ")";
}
template <class T>
std::string PrintToString(const T& value) {
  if constexpr (std::is_convertible_v<const T&, std::string>) {
    return '"' + std::string(value) + '"';
  } else if constexpr (std::is_same_v<T, bool>) {
    return value ? "true" : "false";
  } else if constexpr (std::is_same_v<T, std::nullptr_t>) {
    return "(nullptr)";
  } else if constexpr (std::is_enum_v<T>) {
    return std::to_string(static_cast<long long>(value));
  } else if constexpr (internal::Streams<T>::value) {
    std::ostringstream out;
    out << value;
    return out.str();
  } else if constexpr (internal::Iterates<T>::value) {
    std::string all;
    for (const auto& one : value) all += (all.empty() ? " " : ", ") + PrintToString(one);
    return all.empty() ? "{}" : "{" + all + " }";
  } else {
    return "(" + std::to_string(sizeof value) + " bytes)";
  }
}

// What a check says: "" if it holds.
struct Checked {
  std::string words;
  explicit operator bool() const { return words.empty(); }
};

// A test of Python programs that is only written down has no texts to compare yet: it says whether it took care of it.
bool traced(const std::string& a, const std::string& b) __attribute__((weak));

template <class A, class B, class Compare>
Checked check(const char* words, const A& a, const B& b, Compare compare) {
  if constexpr (std::is_convertible_v<const A&, std::string> && std::is_convertible_v<const B&, std::string>) {
    if (&traced != nullptr && traced(a, b)) return {};
  }
  if (compare(a, b)) return {};
  return {std::string(words) + ": " + PrintToString(a) + " and " + PrintToString(b)};
}
inline Checked check(const char* words, bool holds) { return {holds ? "" : std::string(words) + " does not hold"}; }

struct Failed {
  const char* file;
  int line;
  std::string words;
  void operator=(const Message& message) const {
    outcome.failures.push_back(std::string(file) + ":" + std::to_string(line) + ": " + words +
                               (message.text.empty() ? "" : " (" + message.text + ")"));
  }
};
struct Skipped {
  void operator=(const Message& message) const {
    outcome.skips = true;
    outcome.skipped = message.text;
  }
};

template <class T>
struct Matcher {
  std::string words;
  std::function<bool(const T&)> matches;
  Matcher(std::string words, std::function<bool(const T&)> matches)
      : words(std::move(words)), matches(std::move(matches)) {}
  Matcher(const char* text) : words(text), matches([words = words](const T& value) { return value == words; }) {}
};
using Text = Matcher<std::string>;
inline Text HasSubstr(const std::string& part) {
  return {"has " + part, [part](const std::string& s) { return s.find(part) != std::string::npos; }};
}
inline Text StartsWith(const std::string& part) {
  return {"starts with " + part, [part](const std::string& s) { return s.rfind(part, 0) == 0; }};
}
inline Text EndsWith(const std::string& part) {
  return {"ends with " + part, [part](const std::string& s) {
            return s.size() >= part.size() && s.compare(s.size() - part.size(), part.size(), part) == 0;
          }};
}
template <class... T>
Text AnyOf(const T&... one) {
  const std::vector<Text> all{Text(one)...};
  std::string words = "one of";
  for (const Text& each : all) words += " '" + each.words + "'";
  return {words, [all](const std::string& s) {
            for (const Text& each : all) {
              if (each.matches(s)) return true;
            }
            return false;
          }};
}
inline Checked check_that(const char* words, const std::string& value, const Text& matcher) {
  if (matcher.matches(value)) return {};
  return {std::string(words) + ": " + value + ", not: " + matcher.words};
}

}  // namespace testing

#define SHIM_CHECK(checked, leave)                   \
  if (const ::testing::Checked shim_check = checked) \
    ;                                                \
  else                                               \
    leave ::testing::Failed{__FILE__, __LINE__, shim_check.words} = ::testing::Message()
#define SHIM_COMPARE(a, b, op, leave) \
  SHIM_CHECK(::testing::check(#a " " #op " " #b, a, b, [](const auto& x, const auto& y) { return x op y; }), leave)

#define EXPECT_EQ(a, b) SHIM_COMPARE(a, b, ==, )
#define EXPECT_NE(a, b) SHIM_COMPARE(a, b, !=, )
#define EXPECT_GT(a, b) SHIM_COMPARE(a, b, >, )
#define EXPECT_GE(a, b) SHIM_COMPARE(a, b, >=, )
#define EXPECT_LT(a, b) SHIM_COMPARE(a, b, <, )
#define EXPECT_LE(a, b) SHIM_COMPARE(a, b, <=, )
#define EXPECT_TRUE(a) SHIM_CHECK(::testing::check(#a, static_cast<bool>(a)), )
#define EXPECT_FALSE(a) SHIM_CHECK(::testing::check("not " #a, !static_cast<bool>(a)), )
#define EXPECT_THAT(a, matcher) SHIM_CHECK(::testing::check_that(#a, a, matcher), )
#define EXPECT_ANY_THROW(statement)                       \
  SHIM_CHECK(::testing::check(#statement " throws", [&] { \
               try {                                      \
                 statement;                               \
                 return false;                            \
               } catch (...) {                            \
                 return true;                             \
               }                                          \
             }()), )
#define ASSERT_EQ(a, b) SHIM_COMPARE(a, b, ==, return )
#define ASSERT_NE(a, b) SHIM_COMPARE(a, b, !=, return )
#define ASSERT_GT(a, b) SHIM_COMPARE(a, b, >, return )
#define ASSERT_TRUE(a) SHIM_CHECK(::testing::check(#a, static_cast<bool>(a)), return )
#define ASSERT_FALSE(a) SHIM_CHECK(::testing::check("not " #a, !static_cast<bool>(a)), return )
#define ASSERT_THAT(a, matcher) SHIM_CHECK(::testing::check_that(#a, a, matcher), return )
#define ADD_FAILURE_AT(file, line) ::testing::Failed{file, line, ""} = ::testing::Message()
#define ADD_FAILURE() ADD_FAILURE_AT(__FILE__, __LINE__)
#define GTEST_SKIP() return ::testing::Skipped{} = ::testing::Message()

#define SHIM_TEST(fixture, suite, name)                                                             \
  struct suite##_##name : fixture {                                                                 \
    void TestBody() override;                                                                       \
  };                                                                                                \
  static const int suite##_##name##_added =                                                         \
      ::testing::add_test(#name, [] { return static_cast<::testing::Test*>(new suite##_##name); }); \
  void suite##_##name::TestBody()
#define TEST_F(suite, name) SHIM_TEST(suite, suite, name)
#define TEST(suite, name) SHIM_TEST(::testing::Test, suite, name)
