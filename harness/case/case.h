// All that a case may say about itself and about what it saw. A case is one file:
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

// Where a failure is documented: an id of cases/sources.toml and a heading below it. The headings of the four documents
// are spelt as in cases/coverage.tsv; below "upstream" stands the number, itself an id.
struct Source {
  const char* document;
  const char* heading;
};

// What a test's documented outcome does to a program, where it is another effect than the case's.
struct EffectOf {
  const char* test;  // "ReproducesMemoryKept"
  Effect effect;
};

// One sentence for a Fix test that a user can act on, with the call or the setting that it means.
struct Remedy {
  const char* test;  // "FixReadAfterReplay"
  const char* sentence;
  // The releases that the fix is for, by its own words, as a range such as "<2.7"; empty: all.
  const char* releases = "";
};

struct Case {
  const char* title;  // One sentence in the present tense.
  std::vector<Source> sources;
  const char* documented;  // The failure's signature in the document's own words.
  Nature nature;
  Fidelity fidelity;
  std::vector<const char*> tags;   // Names of harness/case/tags.h: features of the programs that meet it.
  const char* needs = "gpu";       // As Needs reads it: "host", "gpu", "gpu python", "ranks".
  int deadline_s = 60;             // A test that takes longer has hung, in seconds.
  Effect effect = Effect::Raises;  // Of the documented failure, where no record shows it by itself.
  std::vector<EffectOf> effects = {};
  std::vector<Remedy> fixes = {};
  const char* stopping = "";  // Of a case with rates: what ends the tries of a test.
};

extern const Case this_case;
extern const char this_source[];  // The case's own source text, carried by the binary.

// The texts of all fixtures as they were when the binary was built, for the hash of the code that runs. The build puts
// them in; a case compiled by itself has none. The last entry is empty.
struct FixtureSource {
  const char* path;
  const char* text;
};
extern const FixtureSource fixture_sources[] __attribute__((weak));

// What a case may do once, before its server forks tests: work that each test would repeat. It must start no thread and
// not touch CUDA. A case that has nothing to prepare does not define it; without a server it is not called.
void prepare_to_serve() __attribute__((weak));

// Tells the runner a fact about the running test; `value` may have several lines and is cut at 4 KiB. Without a runner
// it does nothing.
void record(const std::string& key, const std::string& value);

// True under the runner, where record() is heard.
bool recording();

// What a seen value reads as in a record: text as it is, all else as GoogleTest prints it.
template <class T>
std::string text_of(const T& value) {
  if constexpr (std::is_convertible_v<const T&, std::string_view>) {
    return std::string(std::string_view(value));
  } else {
    return ::testing::PrintToString(value);
  }
}

// Judges three ways and tells the runner: documented passes; healthy and anything else fail and say which of both it
// was.
void reproduces(const std::string& seen, std::string documented, const std::string& healthy, const char* file,
                int line);
void reproduces_at_rate(int hits, int tries, const char* file, int line);

// False where the case is run with its trigger off, to see that it can also not reproduce.
bool trigger_on();

// True where the case is run with a wrong value in place of what it expects.
bool expects_wrong_value();

// False where the case is run with its remedies left out, which it then tells the runner.
bool remedy();

// True there too, and says nothing.
bool breaks_remedies();

}  // namespace recapture

// The case's description. Also puts the source text into the binary: its hash ties a record to what ran.
#define RECAPTURE_CASE                                                                                    \
  __asm__(                                                                                                \
      ".pushsection .rodata\n.global _ZN9recapture11this_sourceE\n_ZN9recapture11this_sourceE:\n.incbin " \
      "\"" __BASE_FILE__ "\"\n.byte 0\n.popsection\n");                                                   \
  const ::recapture::Case recapture::this_case

// The last statement of a Reproduces test. `seen` is what was observed, `documented` what the document says it will be,
// `healthy` what it would be without the failure. Text may hold `*` for any run of characters; other values are
// compared as GoogleTest prints them. Documented passes; "healthy" and "different" fail, each in its own words.
#define REPRODUCES(seen, documented, healthy)                                                                          \
  ::recapture::reproduces(::recapture::text_of(seen), ::recapture::text_of(documented), ::recapture::text_of(healthy), \
                          __FILE__, __LINE__)

// For a race: it was seen in `hits` of `tries` attempts. None is "unseen", which is never healthy.
#define REPRODUCES_AT_RATE(hits, tries) ::recapture::reproduces_at_rate(hits, tries, __FILE__, __LINE__)

// The one statement without which the failure must not occur. `--break=trigger` leaves it out.
#define TRIGGER(...)                 \
  do {                               \
    if (::recapture::trigger_on()) { \
      __VA_ARGS__;                   \
    }                                \
  } while (false)

// Where the trigger is an omission: what a healthy program does at this place.
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

// Where the remedy is an omission: what the program does at this place without it. Runs with `--break=remedy` alone.
#define WITHOUT_REMEDY(...)       \
  do {                            \
    if (!::recapture::remedy()) { \
      __VA_ARGS__;                \
    }                             \
  } while (false)

// Begins a Fix test whose remedy cannot be left out, and says in one sentence why. `--break=remedy` does not run it.
#define REMEDY_STAYS(reason)                                                                      \
  do {                                                                                            \
    if (::recapture::breaks_remedies()) NOT_APPLICABLE("the remedy cannot be left out: " reason); \
  } while (false)

// The CUDA driver call that raises the failure, as the document has it ("cuStreamSynchronize", may hold `*`). Another
// one in the record makes the failure "different".
#define RAISED_BY(api) ::recapture::record(::recapture::key::raised_by, api)

// Ends a test that this LibTorch release has no API for. A result of its own, neither pass nor failure.
#define NOT_APPLICABLE(reason)                                   \
  do {                                                           \
    ::recapture::record(::recapture::key::inapplicable, reason); \
    GTEST_SKIP() << "Not applicable: " << (reason);              \
  } while (false)
