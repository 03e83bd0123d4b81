#include "harness/report/explanation.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "harness/base/escape.h"
#include "harness/base/text.h"
#include "harness/words/measurement.h"

namespace recapture::report {

std::string render_text(const explain::FixAdvice& remedy, const std::string& release, size_t indent) {
  const std::string holds = remedy.useless  ? "does not help: "
                            : !remedy.holds ? "try: "
                            : *remedy.holds ? fmt::format("works in {}: ", release)
                                            : fmt::format("does not work in {}: ", release);
  const std::string space(indent, ' ');
  std::string words = space + holds + remedy.text + "\n";
  for (const auto& [gpu, price] : remedy.prices) {
    words += fmt::format("{}  price on {}: {}: {}\n", space, gpu, price.what, describe(price));
  }
  return words;
}

namespace {

// Causes as likely as the first are shown in full, the others by name.
bool is_shown_whole(const explain::Explanation& explanation, const explain::Found& one) {
  constexpr int kAsLikely = 2;
  const explain::Found& first = explanation.causes.front();
  return one.role == first.role && one.weight + kAsLikely > first.weight;
}

std::string render_remedies(const explain::Explanation& explanation, const std::string& cause,
                            const std::string& release) {
  std::string remedies;
  bool some = false, recorded = false;  // Whether a record shows that one of them holds, or does not.
  for (const explain::FixAdvice& remedy : explanation.remedies) {
    if (remedy.cause != cause) continue;
    some = some || !remedy.useless;
    recorded = recorded || (!remedy.useless && remedy.holds.has_value());
    remedies += render_text(remedy, release, 2);
  }
  if (!some || recorded || release.empty()) return remedies;
  return (explanation.is_hip ? "  no record is of HIP; these remedies are of CUDA\n"
                             : fmt::format("  no record of {} has these remedies\n", release)) +
         remedies;
}

// Whether a cause above it has it as a case with the same text, and all of its remedies.
bool is_repeated(const explain::Explanation& explanation, const explain::Found& one) {
  const auto has_remedies_of_it = [&](const std::string& cause) {
    return std::ranges::all_of(explanation.remedies, [&](const explain::FixAdvice& remedy) {
      return remedy.cause != one.id || std::ranges::any_of(explanation.remedies, [&](const explain::FixAdvice& other) {
               return other.cause == cause && other.text == remedy.text;
             });
    });
  };
  for (const explain::Found& above : explanation.causes) {
    if (&above == &one) break;
    if (contains(above.also, one.id) && above.evidence == one.evidence && has_remedies_of_it(above.id)) return true;
  }
  return false;
}

// Whose answers tell the usual causes of such a complaint apart.
std::array<std::string, 3> questions_about(explain::Complaint complaint) {
  switch (complaint) {
    case explain::Complaint::Capture:
      return {
          "Which CUDA error comes first, and with what code? Later ones are often only error 901, which follows from "
          "it.",
          "Which call returned it, and on which thread? `recapture blame -- PROGRAM` names both.",
          "Does the same code run outside a capture, after a warm-up? If not, the capture is not the cause."};
    case explain::Complaint::Hang:
      return {
          "Does it hang in a capture, in a replay, or when the program ends? The statement is in `py-spy dump --pid "
          "PID`.",
          "Do all ranks capture the same graphs, and replay them in the same order?",
          "Does it hang with one rank, and with one thread?"};
    case explain::Complaint::Replay:
      break;
  }
  return {
      "Is the first replay right, and a later one wrong? Then something that changes keeps its value from the capture.",
      "Is it right if nothing else runs between the replays? If so, other work uses memory that the graph needs.",
      "At which statement does the graph first differ from eager code? `recapture check MODULE:STEP` names it."};
}

}  // namespace

std::string render_text(const explain::Explanation& explanation, const std::string& release) {
  std::string words = explanation.summary + ".\n";
  words[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(words[0])));
  std::vector<std::string> others;
  for (const explain::Found& one : explanation.causes) {
    if (is_repeated(explanation, one)) continue;
    if (one.role != explain::Role::Victim && !is_shown_whole(explanation, one)) {
      others.push_back(one.id);
      continue;
    }
    words += fmt::format("\n{}: {}\n", to_string(one.role), one.id);
    if (explanation.summary.find(one.title) == std::string::npos) words += fmt::format("  {}\n", one.title);
    words += fmt::format("  {}\n", one.evidence);
    if (!one.why.empty()) words += fmt::format("  why: {}\n", one.why);
    words += render_remedies(explanation, one.id, release);
    std::vector<std::string> more;
    if (one.has_case) {
      more.push_back(fmt::format("recapture show {}{}", one.id,
                                 one.is_simulated ? " (simulated: a model of ours, on record for no release)" : ""));
    }
    if (!one.link.empty()) more.push_back(one.link);
    if (!more.empty()) words += fmt::format("  more: {}\n", fmt::join(more, ", "));
    if (!one.also.empty()) words += fmt::format("  the same text: {}\n", fmt::join(one.also, ", "));
  }
  if (!others.empty()) words += fmt::format("\nless likely: {}\n", fmt::join(others, ", "));
  if (!explanation.operators.empty()) words += "\n";
  for (const OperatorAnswer& one : explanation.operators) words += fmt::format("operator: {}\n", one.line);
  if (explanation.guessed_from) {
    words += "\nThe answers to these would tell:\n";
    int number = 0;
    for (const std::string& question : questions_about(*explanation.guessed_from)) {
      words += fmt::format("  {}. {}\n", ++number, question);
    }
  }
  if (explanation.answer == explain::Answer::CannotTell || explanation.answer == explain::Answer::CaptureFailure) {
    words += fmt::format("\nTo see the call: recapture blame -- {}\n",
                         explanation.script.empty() ? "PROGRAM" : "python " + escape_control(explanation.script));
  }
  return words;
}

Json render_json(const explain::Explanation& explanation, const std::string& release) {
  constexpr int kSchema = 1;  // docs/reference/explain-json.md
  Json causes = Json::array(), remedies = Json::array();
  for (const explain::Found& one : explanation.causes) {
    causes.push_back({{"id", one.id},
                      {"role", to_string(one.role)},
                      {"evidence", one.evidence},
                      {"title", one.title},
                      {"why", one.why},
                      {"link", one.link},
                      {"has_case", one.has_case},
                      {"simulated", one.is_simulated},
                      {"also", one.also}});
  }
  for (const explain::FixAdvice& remedy : explanation.remedies) {
    Json prices = Json::array();
    for (const auto& [gpu, price] : remedy.prices) {
      prices.push_back(render_json(price));
      prices.back()["gpu"] = gpu;
    }
    remedies.push_back({{"text", remedy.text},
                        {"holds", remedy.holds ? Json(*remedy.holds) : Json()},
                        {"price", prices.empty() ? Json() : prices},
                        {"cause", remedy.cause},
                        {"useless", remedy.useless}});
  }
  Json questions = Json::array();
  if (explanation.guessed_from) questions = questions_about(*explanation.guessed_from);
  Json operators = Json::array();
  for (const OperatorAnswer& one : explanation.operators) {
    operators.push_back({{"name", one.name}, {"answer", one.line}, {"instead", one.advice}});
  }
  return {{"schema", kSchema},
          {"answer", to_string(explanation.answer)},
          {"summary", explanation.summary},
          {"platform", explanation.is_hip ? "hip" : "cuda"},
          {"release", release.empty() ? Json() : Json(release)},
          {"guess", explanation.guessed_from.has_value()},
          {"causes", causes},
          {"remedies", remedies},
          {"questions", questions},
          {"operators", operators}};
}

}  // namespace recapture::report
