#include "harness/explain/words.h"

#include <fmt/format.h>

#include <cctype>

namespace recapture {

std::string in_words(const RemedyFor& remedy, const std::string& release) {
  const std::string holds = remedy.useless  ? "does not help: "
                            : !remedy.holds ? "try: "
                            : *remedy.holds ? fmt::format("holds in {}: ", release)
                                            : fmt::format("does not hold in {}: ", release);
  return holds + remedy.text;
}

std::string in_words(const Explanation& explanation, const std::string& release) {
  std::string words = explanation.summary + ".\n";
  words[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(words[0])));
  for (const Found& one : explanation.causes) {
    words += fmt::format("\n{}: {}\n  {}\n  {}\n", one.role, one.id, one.title, one.evidence);
    if (one.healthy_here) words += fmt::format("  does not occur in {}, by its record\n", release);
    for (const RemedyFor& remedy : explanation.remedies) {
      if (remedy.cause == one.id) words += fmt::format("  {}\n", in_words(remedy, release));
    }
  }
  return words;
}

Json as_json(const Explanation& explanation) {
  Json causes = Json::array(), remedies = Json::array();
  for (const Found& one : explanation.causes) {
    causes.push_back({{"id", one.id}, {"role", one.role}, {"evidence", one.evidence}, {"title", one.title}});
  }
  for (const RemedyFor& remedy : explanation.remedies) {
    remedies.push_back({{"text", remedy.text},
                        {"holds", remedy.holds ? Json(*remedy.holds) : Json()},
                        {"price", Json()},
                        {"cause", remedy.cause},
                        {"useless", remedy.useless}});
  }
  return {{"answer", word(explanation.answer)},
          {"summary", explanation.summary},
          {"causes", causes},
          {"remedies", remedies}};
}

}  // namespace recapture
