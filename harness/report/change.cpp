#include "harness/report/change.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <vector>

#include "harness/base/text.h"
#include "harness/verdict/rate.h"

namespace recapture::report {
namespace {

using compare::ChangeKind;
using compare::Manner;
using compare::Outcome;
using compare::State;

enum class Tense { Past, Present };

// A verb in both tenses.
struct Verb {
  std::string_view past, present;
};
std::string conjugate(const Verb& verb, Tense tense) {
  return std::string(tense == Tense::Past ? verb.past : verb.present);
}

constexpr std::array<std::string_view, compare::kProbeCount> kProbeWords = {
    "the stream's capture", "CUDA's error state", "random numbers", "emptyCache()", "the next capture"};

// "random numbers: refused, emptyCache(): keeps the memory"
std::string render_probes(const std::vector<compare::ProbeResult>& probes) {
  std::vector<std::string> parts;
  parts.reserve(probes.size());
  for (const auto& [probe, result] : probes) {
    parts.push_back(fmt::format("{}: {}", kProbeWords.at(static_cast<size_t>(probe)), result));
  }
  return join(parts);
}

std::string render_failure(const compare::Failure& failure) {
  if (failure.code != 0) return fmt::format("CUDA error {}", failure.code);
  return failure.is_check ? fmt::format("\"{}\"", failure.text) : failure.text;
}

// "CUDA error 900, invalidating the capture"
std::string render_error(const Outcome& outcome) {
  const std::string failure = render_failure(outcome.failure);
  if (!outcome.status.empty()) {
    return fmt::format("{}, with {} and {} at its end", failure,
                       outcome.status == "none" ? "no capture left" : "the capture " + outcome.status,
                       render_failure(outcome.end));
  }
  return fmt::format("{}{}{}", failure.empty() ? "an error" : failure,
                     outcome.at_end ? " at the end of the capture" : "",
                     outcome.invalidates ? ", invalidating the capture" : "");
}

// "raised CUDA error 900"
std::string render_failing(const Outcome& outcome, Tense tense) {
  constexpr std::array<Verb, 4> kVerbs = {{{"showed ", "shows "},
                                           {"raised ", "raises "},
                                           {"warned of ", "warns of "},
                                           {"ended early with ", "ends early with "}}};
  std::string error = render_error(outcome);
  Manner manner = outcome.manner;
  constexpr std::string_view kRaised = "raised ";  // The whole text of a few tests.
  const bool has_verb = manner == Manner::Shows || manner == Manner::Raises;
  if (has_verb && error.starts_with(kRaised)) {
    error.erase(0, kRaised.size());
    manner = Manner::Raises;
  }
  return conjugate(kVerbs.at(static_cast<size_t>(manner)), tense) + error;
}

std::string render_effect(const Outcome& outcome, Tense tense) {
  switch (outcome.state) {
    case State::Works:
      return conjugate(outcome.is_harmless ? Verb{"raised nothing", "raises nothing"} : Verb{"worked", "works"}, tense);
    case State::Warns:
      return conjugate({"warned", "warns"}, tense);
    case State::Raises:
      return render_failing(outcome, tense);
    case State::Hangs:
      return conjugate({"hung", "hangs"}, tense);
    case State::Crashes:
      return conjugate({"crashed", "crashes"}, tense);
    case State::Leaks:
      return conjugate({"leaked", "leaks, without an error"}, tense);
    case State::Absent:
      return conjugate({"was not available", "is not available"}, tense);
    case State::SilentlyWrong:
      break;
  }
  return conjugate({"went on with wrong results", "goes on with wrong results, without an error"}, tense);
}

std::string render_origin(const Outcome& outcome, Tense tense) {
  std::vector<std::string> parts;
  if (!outcome.type.empty()) parts.push_back(conjugate({"was a ", "is a "}, tense) + outcome.type);
  if (!outcome.call.empty()) parts.push_back(conjugate({"came from ", "comes from "}, tense) + outcome.call);
  return fmt::format("{}{}", tense == Tense::Past ? "the same error " : "", fmt::join(parts, " and "));
}

std::string render_capture(const Outcome& outcome, Tense tense) {
  const std::string verb = conjugate({"was", "is"}, tense);
  switch (outcome.state) {
    case State::Works:
      return verb + " captured";
    case State::Raises:
      return verb + " refused";
    case State::SilentlyWrong:
      return verb + " captured and wrong";
    default:
      return fmt::format("{} not possible without a {}", verb, outcome.state == State::Hangs ? "hang" : "crash");
  }
}

// Of a Control or a Fix.
std::string render_holding(const Outcome& outcome, Tense tense) {
  switch (outcome.state) {
    case State::Works:
      return conjugate({"held", "holds"}, tense);
    case State::Absent:
      return tense == Tense::Past ? "was not available" : "is not available: " + outcome.text;
    case State::Raises:
      return tense == Tense::Past ? "failed" : "fails: " + outcome.text;
    default:
      return render_effect(outcome, tense);
  }
}

// "was captured for 3 of 4 samples (forward, float32)"
std::string render_samples(const compare::Change& change, Tense tense) {
  const Outcome& outcome = tense == Tense::Past ? change.from : change.to;
  const std::string samples =
      fmt::format("{} captured for {} of {} samples", conjugate({"was", "is"}, tense), outcome.count, outcome.all);
  if (tense == Tense::Past) return fmt::format("{} ({}, {})", samples, to_string(change.facts.form), change.facts.type);
  switch (outcome.state) {
    case State::SilentlyWrong:
      return samples + " (wrong)";
    case State::Hangs:
      return samples + " (hangs)";
    case State::Crashes:
      return samples + " (crashes)";
    default:
      return samples;
  }
}

std::string render_side(const compare::Change& change, Tense tense) {
  const bool is_past = tense == Tense::Past;
  const Outcome& outcome = is_past ? change.from : change.to;
  switch (change.kind) {
    case ChangeKind::Effect:
      break;
    case ChangeKind::Error:
      return render_failing(outcome, tense);
    case ChangeKind::Origin:
      return render_origin(outcome, tense);
    case ChangeKind::Observation:
      return conjugate({"showed ", "shows "}, tense) + outcome.text;
    case ChangeKind::Damage:
      return is_past ? fmt::format("had {} ({})",
                                   outcome.state == State::Leaks ? "another leak" : "other wrong results", outcome.text)
                     : "has " + outcome.text;
    case ChangeKind::Aftermath:
      return conjugate({"left ", "leaves "}, tense) + render_probes(outcome.probes);
    case ChangeKind::Sign:
      return (is_past ? "" : "shows nothing of it, and still ") + render_effect(outcome, tense);
    case ChangeKind::Holding:
      return (is_past && !change.facts.fix.empty() ? fmt::format("the fix \"{}\" ", change.facts.fix) : "") +
             render_holding(outcome, tense);
    case ChangeKind::Capture:
      return render_capture(outcome, tense);
    case ChangeKind::Samples:
      return render_samples(change, tense);
    case ChangeKind::Rate:
      return is_past ? fmt::format("was a race that occurred in {} of {} runs", outcome.count, outcome.all)
                     : fmt::format("occurs in {} of {}", outcome.count, outcome.all);
    case ChangeKind::Tries:
      return fmt::format("{} in {} of {} tries", conjugate({"occurred", "occurs"}, tense), outcome.count, outcome.all);
    case ChangeKind::Result:
      return (is_past ? "" : "is ") + outcome.text;
  }
  return render_effect(outcome, tense);
}

// A Control that does not hold changes nothing for a program by itself.
bool is_failed_control(const compare::Change& change) {
  return change.kind == ChangeKind::Holding && change.facts.kind == Kind::Control && change.to.state != State::Works;
}

std::string fill_in(std::string_view was, std::string_view from, std::string_view to, std::string_view is,
                    std::string_view note) {
  return fmt::format(kChangeSentence, fmt::arg("was", was), fmt::arg("from", from), fmt::arg("to", to),
                     fmt::arg("is", is), fmt::arg("note", note));
}

constexpr std::array<std::string_view, compare::kConsequenceCount> kMeanings = {
    "worked before; now silently wrong, leaks, hangs or crashes",
    "worked before; now raises an error",
    "raised before; now silently wrong, leaks, hangs, crashes, or leaves the process worse",
    "a fix or a control held before; now it does not",
    "an operator could be captured before; now it cannot",
    "fails as before, with another error text, type or call",
    "silently wrong, hung or crashed before; now raises or warns",
    "raises as before, and leaves less damage in the process",
    "failed before; now works",
    "a fix or a control did not hold before; now it does",
    "a fix that was not available before; now it holds",
    "an operator could not be captured before; now it can",
    "no change",
    "one side has no result, or the two cannot be compared",
};
static_assert(!kMeanings.back().empty(), "each consequence has a meaning");

}  // namespace

std::string_view meaning(compare::Consequence consequence) { return kMeanings.at(static_cast<size_t>(consequence)); }

std::string since_words(const compare::UpstreamChange& change) {
  return change.since + (change.contradicted ? ", which these records contradict" : "");
}

std::string render_notes(const compare::Change& change) {
  std::vector<std::string> notes;
  if (!change.notes.afterwards.empty()) notes.push_back("afterwards " + render_probes(change.notes.afterwards));
  if (change.notes.has_other_forms) notes.emplace_back("other forms of this failure remain");
  if (!change.notes.machine.empty()) notes.push_back("on " + change.notes.machine);
  return join(notes, "; ");
}

ChangeWords words_of(const compare::Change& change) {
  const std::string notes = render_notes(change);
  return {render_side(change, Tense::Past), render_side(change, Tense::Present),
          fmt::format("{}{}{}", is_failed_control(change) ? " (a control: the calls without the failure)" : "",
                      notes.empty() ? "" : "; ", notes)};
}

std::string render_change(const compare::Change& change, std::string_view from, std::string_view to) {
  const auto [was, is, note] = words_of(change);
  return fill_in(was, from, to, is, note);
}

std::string render_difference(const compare::Change& change, std::string_view from, std::string_view to) {
  const ChangeWords words = words_of(change);
  return fill_in(words.was, from, to, words.is, "");
}

std::string render_unknown(const compare::Unknown& unknown, std::string_view from, std::string_view to) {
  using compare::UnknownKind;
  const bool has_name = unknown.side != compare::WhichSide::Both;
  const std::string_view name = unknown.side == compare::WhichSide::From ? from : to;
  switch (unknown.kind) {
    case UnknownKind::NotPlanned:
      return "not part of any run of " + (has_name ? std::string(name) : fmt::format("{} or {}", from, to));
    case UnknownKind::ShardMissing:
      return fmt::format("not run in {}: a shard of that run is missing", name);
    case UnknownKind::CutShort:
      return fmt::format("not run in {}, whose run is not complete", name);
    case UnknownKind::CannotRun:
      return has_name ? fmt::format("cannot run in {}: {}", name, unknown.text) : unknown.text;
    case UnknownKind::OtherCode:
      return fmt::format("not comparable: {} and {} ran different code of the case{}", from, to,
                         unknown.releases.empty()
                             ? ""
                             : fmt::format("; `ci/suite {}` runs today's", fmt::join(unknown.releases, " ")));
    case UnknownKind::Unclear:
      return fmt::format("{}{}: {}", to_string(unknown.verdict), has_name ? fmt::format(" in {}", name) : "",
                         unknown.text);
    case UnknownKind::CannotTell:
      return fmt::format("cannot tell in {}: {}", name, unknown.text);
    case UnknownKind::NotApplicable:
      return fmt::format("not applicable in {}: {}", name, unknown.text);
    case UnknownKind::RateOnOneSide:
      return "not comparable: a rate on one side, and none on the other";
    case UnknownKind::TooFewRuns:
      return fmt::format("insufficient data: {}, and {} would be needed",
                         has_name ? fmt::format("not seen in {} of {}", plural(unknown.runs, "run"), name)
                                  : "a race that did not occur in " + plural(unknown.runs, "run"),
                         kFewestRuns);
    case UnknownKind::FormWithoutResult:
      return fmt::format("no result of {} in {}", to_string(unknown.form), name);
    case UnknownKind::NotOnRecord:
      return "not on record";
    case UnknownKind::NotComparable:
      break;
  }
  return "not comparable";
}

std::string render_compared(const compare::ComparedTest& test, std::string_view from, std::string_view to) {
  if (test.has_change()) return render_change(*test.change, from, to);
  return test.consequence == compare::Consequence::Unknown ? render_unknown(*test.unknown, from, to) : "";
}

}  // namespace recapture::report
