// A change in words, and as a file has it.
#include "harness/report/change.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "harness/base/json.h"
#include "harness/tests/namespaces.h"

namespace recapture {
namespace {

using compare::Change;

struct ChangeCase {
  Change change;
  std::string sentence;  // From 2.6.0 to 2.15.0.
};

std::vector<ChangeCase> change_cases() {
  const Outcome works, raises{.state = State::Raises, .manner = Manner::Raises, .failure = {900}, .invalidates = true};
  Outcome at_end = raises;
  at_end.at_end = true;
  at_end.invalidates = false;
  const Outcome signature{
      .state = State::Raises, .manner = Manner::Raises, .failure = {900}, .status = "invalidated", .end = {901}};
  const Outcome lost{
      .state = State::Raises, .manner = Manner::Raises, .failure = {900}, .status = "none", .end = {0, false, "ok"}};
  Change renamed{ChangeKind::Origin, {.type = "c10::Error", .call = "cudaMalloc"}, {.type = "A", .call = "cuMemAlloc"}};
  Change fix{ChangeKind::Holding, {}, {.state = State::Raises, .text = "no"}, {.kind = Kind::Fix, .fix = "Do it."}};
  Change control = fix;
  control.facts = {.kind = Kind::Control};
  Change absent = fix;
  absent.to = {.state = State::Absent, .text = "no such API"};
  Change healed{ChangeKind::Effect, raises, works};
  healed.notes = {{{Probe::Trim, "keeps the memory"}}, true, "NVIDIA L4"};
  const Facts samples{.kind = Kind::Operator, .form = OperatorForm::Backward, .type = "float32"};
  return {
      {{ChangeKind::Effect, works, raises},
       "worked in 2.6.0; in 2.15.0 it raises CUDA error 900, invalidating the capture"},
      {{ChangeKind::Effect, {.is_harmless = true}, {.state = State::Warns}},
       "raised nothing in 2.6.0; in 2.15.0 it warns"},
      {{ChangeKind::Effect, {.state = State::Hangs}, {.state = State::Crashes}}, "hung in 2.6.0; in 2.15.0 it crashes"},
      {{ChangeKind::Effect, {.state = State::Crashes}, {.state = State::Hangs}},
       "crashed in 2.6.0; in 2.15.0 it hangs"},
      {{ChangeKind::Effect, {.state = State::Leaks}, {.state = State::SilentlyWrong}},
       "leaked in 2.6.0; in 2.15.0 it goes on with wrong results, without an error"},
      {{ChangeKind::Effect, {.state = State::SilentlyWrong}, {.state = State::Leaks}},
       "went on with wrong results in 2.6.0; in 2.15.0 it leaks, without an error"},
      {healed,
       "raised CUDA error 900, invalidating the capture in 2.6.0; in 2.15.0 it works; afterwards emptyCache(): keeps "
       "the memory; other forms of this failure remain; on NVIDIA L4"},
      {{ChangeKind::Error, at_end, {.state = State::Raises, .manner = Manner::EndsEarly}},
       "raised CUDA error 900 at the end of the capture in 2.6.0; in 2.15.0 it ends early with an error"},
      {{ChangeKind::Error, signature, lost},
       "raised CUDA error 900, with the capture invalidated and CUDA error 901 at its end in 2.6.0; in 2.15.0 it "
       "raises "
       "CUDA error 900, with no capture left and ok at its end"},
      {{ChangeKind::Error,
        {.manner = Manner::Warns, .failure = {0, true, "x"}},
        {.manner = Manner::Shows, .failure = {0, false, "raised y"}}},
       "warned of \"x\" in 2.6.0; in 2.15.0 it raises y"},
      {renamed,
       "the same error was a c10::Error and came from cudaMalloc in 2.6.0; in 2.15.0 it is a A and comes from "
       "cuMemAlloc"},
      {{ChangeKind::Observation, {.text = "a"}, {.text = "b"}}, "showed a in 2.6.0; in 2.15.0 it shows b"},
      {{ChangeKind::Damage, {.state = State::Leaks, .text = "a"}, {.state = State::Leaks, .text = "b"}},
       "had another leak (a) in 2.6.0; in 2.15.0 it has b"},
      {{ChangeKind::Damage, {.state = State::SilentlyWrong, .text = "a"}, {.state = State::SilentlyWrong, .text = "b"}},
       "had other wrong results (a) in 2.6.0; in 2.15.0 it has b"},
      {{ChangeKind::Aftermath,
        {.probes = {{Probe::Stream, "a"}, {Probe::Sticky, "b"}}},
        {.probes = {{Probe::Random, "c"}, {Probe::Capture, "d"}}}},
       "left the stream's capture: a, CUDA's error state: b in 2.6.0; in 2.15.0 it leaves random numbers: c, the next "
       "capture: d"},
      {{ChangeKind::Sign, raises, {.state = State::Leaks}},
       "raised CUDA error 900, invalidating the capture in 2.6.0; in 2.15.0 it shows nothing of it, and still leaks, "
       "without an error"},
      {fix, "the fix \"Do it.\" held in 2.6.0; in 2.15.0 it fails: no"},
      {absent, "the fix \"Do it.\" held in 2.6.0; in 2.15.0 it is not available: no such API"},
      {control, "held in 2.6.0; in 2.15.0 it fails: no (a control: the calls without the failure)"},
      {{ChangeKind::Holding, {.state = State::Absent}, works, {.kind = Kind::Fix}},
       "was not available in 2.6.0; in 2.15.0 it holds"},
      {{ChangeKind::Holding, {.state = State::Raises}, works, {.kind = Kind::Control}},
       "failed in 2.6.0; in 2.15.0 it holds"},
      {{ChangeKind::Holding, works, {.state = State::Hangs}, {.kind = Kind::Control}},
       "held in 2.6.0; in 2.15.0 it hangs (a control: the calls without the failure)"},
      {{ChangeKind::Capture, works, {.state = State::Raises}}, "was captured in 2.6.0; in 2.15.0 it is refused"},
      {{ChangeKind::Capture, {.state = State::Hangs}, {.state = State::SilentlyWrong}},
       "was not possible without a hang in 2.6.0; in 2.15.0 it is captured and wrong"},
      {{ChangeKind::Capture, works, {.state = State::Crashes}},
       "was captured in 2.6.0; in 2.15.0 it is not possible without a crash"},
      {{ChangeKind::Samples, {.count = 5, .all = 8}, {.count = 1, .all = 8}, samples},
       "was captured for 5 of 8 samples (backward, float32) in 2.6.0; in 2.15.0 it is captured for 1 of 8 samples"},
      {{ChangeKind::Samples, {.count = 5, .all = 8}, {.state = State::SilentlyWrong, .all = 8}, samples},
       "was captured for 5 of 8 samples (backward, float32) in 2.6.0; in 2.15.0 it is captured for 0 of 8 samples "
       "(wrong)"},
      {{ChangeKind::Tries, {.count = 1, .all = 900}, {.count = 800, .all = 900}},
       "occurred in 1 of 900 tries in 2.6.0; in 2.15.0 it occurs in 800 of 900 tries"},
      {{ChangeKind::Rate, {.count = 0, .all = 5}, {.count = 2, .all = 3}},
       "was a race that occurred in 0 of 5 runs in 2.6.0; in 2.15.0 it occurs in 2 of 3"},
      {{ChangeKind::Result, {.text = "healthy"}, {.text = "unseen"}}, "healthy in 2.6.0; in 2.15.0 it is unseen"},
  };
}

TEST(Change, EachKind_HasASentence) {
  std::vector<bool> has_case(kChangeKindCount);
  for (const auto& [change, sentence] : change_cases()) {
    EXPECT_EQ(render_change(change, "2.6.0", "2.15.0"), sentence);
    has_case.at(static_cast<size_t>(change.kind)) = true;
  }
  for (size_t kind = 0; kind < kChangeKindCount; ++kind) EXPECT_TRUE(has_case.at(kind)) << kind;
}

TEST(Change, WrittenAsJson_IsReadBackEqual) {
  for (const auto& [change, sentence] : change_cases()) {
    const Json json = parse_json(to_json(change).dump());
    EXPECT_EQ(change_from(json), change) << json;
  }
}

TEST(Change, JsonThatIsNoChange_IsRefused) {
  for (const char* text : {"[]", "1", "null", R"({"kind":"another"})", R"({"kind":1})", R"({"more":1})",
                           R"({"from":{"state":"better"}})", R"({"from":{"probes":{}}})", R"({"to":{"count":"1"}})"}) {
    EXPECT_THROW(change_from(parse_json(text)), std::exception) << text;
  }
  EXPECT_EQ(change_from(parse_json(R"({"from":{"text":"a\u001bb"}})")).from.text, "a\\x1bb");
}

TEST(Change, NotesAlone_MakeNoOtherChange) {
  Change one{ChangeKind::Effect, {}, {.state = State::Hangs}}, other = one;
  other.notes.machine = "NVIDIA L4";
  EXPECT_TRUE(is_same(one, other));
  EXPECT_NE(one, other);
  other.to.state = State::Crashes;
  EXPECT_FALSE(is_same(one, other));
}

}  // namespace
}  // namespace recapture
