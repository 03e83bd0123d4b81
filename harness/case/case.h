// The description of a case, and what its tests report. A case is one file:
//
//   RECAPTURE_CASE = { .title = …, .sources = …, .documented = …, .nature = …, .fidelity = …, .tags = … };
//   TEST(Stem, Control…)      the same calls without the trigger; must hold
//   TEST(Stem, Reproduces…)   the documented calls; ends in REPRODUCES(seen, documented, healthy)
//   TEST(Stem, Fix…)          one for each documented remedy; ends in values
//
// The suite's name is the file's stem in CamelCase. The description is a linked object: without it, or with two, the
// program does not link.
#pragma once
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "harness/case/events.h"
#include "harness/case/pattern.h"
#include "harness/case/types.h"

namespace recapture {

// Where a failure is documented: an id of cases/sources.toml and a heading. Headings of the four documents are spelt as
// in cases/coverage.tsv; for "upstream" it is the number, itself an id.
struct Source {
  const char* document;
  const char* heading;
};

// The effect of one test's documented outcome, if it differs from the case's effect.
struct EffectOf {
  const char* test;  // "ReproducesMemoryKept"
  Effect effect;
};

// One actionable sentence for a Fix test, with the call or the setting.
struct Remedy {
  const char* test;  // "FixReadAfterReplay"
  const char* sentence;
  // The releases that the fix claims to apply to, as a range such as "<2.7"; empty: all.
  const char* releases = "";
};

struct Case {
  const char* title;  // One sentence in the present tense.
  std::vector<Source> sources;
  const char* documented;  // The failure's signature in the document's own words.
  Nature nature;
  Fidelity fidelity;
  std::vector<const char*> tags;  // Names of harness/case/tags.h: features of affected programs.
  // Those of the tags that a program must all have to meet the failure; empty if any program can. A gate lets a change
  // pass if the program lacks one of them, so a list that is too long lets damage pass.
  std::vector<const char*> features = {};
  const char* needs = "gpu";       // As Needs reads it: "host", "gpu", "gpu python", "ranks".
  int deadline_s = 60;             // A test that takes longer has hung, in seconds.
  Effect effect = Effect::Raises;  // Of the documented failure, if no record shows it by itself.
  std::vector<EffectOf> effects = {};
  std::vector<Remedy> fixes = {};
  StoppingRule stopping = StoppingRule::None;  // Of a case with rates: when a test stops trying.
  // Hardware connections to the GPU that its processes get. With one a context is created in less than half of the
  // time, but streams share it and run one after the other. Races always have the driver's eight.
  int connections = 1;
};

extern const Case this_case;
extern const char this_source[];  // The case's source text, embedded in the binary.

// The texts of all fixtures at build time, for the hash of the code that runs. The build adds them; a case compiled by
// itself has none. The last entry is empty.
struct FixtureSource {
  const char* path;
  const char* text;
};
extern const FixtureSource fixture_sources[] __attribute__((weak));

// Optional: set-up that a case does once, before its server forks tests, because each test would repeat it. It must
// start no thread and not touch CUDA. Without a server it is not called.
void prepare_to_serve() __attribute__((weak));

// Reports a fact of the running test to the runner; `value` may have several lines and is cut at 4 KiB. Without a
// runner it does nothing.
void record(const std::string& key, const std::string& value);

// Whether a runner receives what record() reports.
bool recording();

// A seen value as text for the record: text unchanged, all else as GoogleTest prints it.
template <class T>
std::string text_of(const T& value) {
  if constexpr (std::is_convertible_v<const T&, std::string_view>) {
    return std::string(std::string_view(value));
  } else {
    return ::testing::PrintToString(value);
  }
}

// Three-way judgement, reported to the runner: documented passes; healthy and different fail, and the message says
// which.
void reproduces(const std::string& seen, std::string documented, const std::string& healthy, const char* file,
                int line);
void reproduces_at_rate(int hits, int tries, const char* file, int line);

// False if the case runs with its trigger off, to check that it can fail to reproduce.
bool trigger_on();

// True if the case runs with a wrong expected value.
bool expects_wrong_value();

// False if the case runs with its remedies left out; reports that to the runner.
bool remedy();

// Whether remedies are left out; reports nothing.
bool breaks_remedies();

}  // namespace recapture

// The case's description. Also embeds the source text: its hash ties a record to the code that ran. A build with CMake
// embeds it by an object of its own, because a compiler cache refuses a file with .incbin.
#ifdef RECAPTURE_SOURCE_APART
#define RECAPTURE_CASE const ::recapture::Case recapture::this_case
#else
#define RECAPTURE_CASE                                                                                    \
  __asm__(                                                                                                \
      ".pushsection .rodata\n.global _ZN9recapture11this_sourceE\n_ZN9recapture11this_sourceE:\n.incbin " \
      "\"" __BASE_FILE__ "\"\n.byte 0\n.popsection\n");                                                   \
  const ::recapture::Case recapture::this_case
#endif

// The last statement of a Reproduces test. `seen` is the observation, `documented` what the document predicts,
// `healthy` the value without the failure. Text may hold `*` for any run of characters; other values are compared as
// GoogleTest prints them. Documented passes; "healthy" and "different" fail with different messages.
#define REPRODUCES(seen, documented, healthy)                                                                          \
  ::recapture::reproduces(::recapture::text_of(seen), ::recapture::text_of(documented), ::recapture::text_of(healthy), \
                          __FILE__, __LINE__)

// For a race that occurred in `hits` of `tries` attempts. Zero hits is "unseen", never healthy.
#define REPRODUCES_AT_RATE(hits, tries) ::recapture::reproduces_at_rate(hits, tries, __FILE__, __LINE__)

// The one statement that causes the failure. `--break=trigger` leaves it out.
#define TRIGGER(...)                 \
  do {                               \
    if (::recapture::trigger_on()) { \
      __VA_ARGS__;                   \
    }                                \
  } while (false)

// If the trigger is an omission: what a healthy program does here.
#define WITHOUT_TRIGGER(...)          \
  do {                                \
    if (!::recapture::trigger_on()) { \
      __VA_ARGS__;                    \
    }                                 \
  } while (false)

// The statement that makes a Fix test healthy. `--break=remedy` leaves it out, and the test must then fail.
#define REMEDY(...)              \
  do {                           \
    if (::recapture::remedy()) { \
      __VA_ARGS__;               \
    }                            \
  } while (false)

// If the remedy is an omission: what the program does here without it. Runs only with `--break=remedy`.
#define WITHOUT_REMEDY(...)       \
  do {                            \
    if (!::recapture::remedy()) { \
      __VA_ARGS__;                \
    }                             \
  } while (false)

// First statement of a Fix test whose remedy cannot be left out, with the reason. `--break=remedy` does not run it.
#define REMEDY_STAYS(reason)                                                                      \
  do {                                                                                            \
    if (::recapture::breaks_remedies()) NOT_APPLICABLE("the remedy cannot be left out: " reason); \
  } while (false)

// The CUDA driver call that raises the failure, as the document names it ("cuStreamSynchronize", may hold `*`). If the
// record has another one, the failure is "different".
#define RAISED_BY(api) ::recapture::record(::recapture::key::raised_by, api)

// Ends a test whose API this LibTorch release lacks. A result of its own, neither pass nor failure.
#define NOT_APPLICABLE(reason)                                   \
  do {                                                           \
    ::recapture::record(::recapture::key::inapplicable, reason); \
    GTEST_SKIP() << "Not applicable: " << (reason);              \
  } while (false)
