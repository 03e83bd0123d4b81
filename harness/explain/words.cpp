#include "harness/explain/words.h"

#include <fmt/format.h>

#include <cctype>

namespace recapture {

std::string in_words(const RemedyFor& remedy, const std::string& release, size_t indent) {
  const std::string holds = remedy.useless  ? "does not help: "
                            : !remedy.holds ? "try: "
                            : *remedy.holds ? fmt::format("holds in {}: ", release)
                                            : fmt::format("does not hold in {}: ", release);
  const std::string space(indent, ' ');
  std::string words = space + holds + remedy.text + "\n";
  for (const auto& [gpu, price] : remedy.prices) {
    words += fmt::format("{}  price on {}: {}: {}\n", space, gpu, price.what, words_of(price));
  }
  return words;
}

std::string in_words(const Explanation& explanation, const std::string& release) {
  std::string words = explanation.summary + ".\n";
  words[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(words[0])));
  for (const Found& one : explanation.causes) {
    words += fmt::format("\n{}: {}\n  {}\n  {}\n", word(one.role), one.id, one.title, one.evidence);
    if (one.healthy_here) words += fmt::format("  does not occur in {}, by its record\n", release);
    std::string remedies;
    bool some = false, recorded = false;  // Whether a record says that one of them holds, or that it does not.
    for (const RemedyFor& remedy : explanation.remedies) {
      if (remedy.cause != one.id) continue;
      some = some || !remedy.useless;
      recorded = recorded || (!remedy.useless && remedy.holds.has_value());
      remedies += in_words(remedy, release, 2);
    }
    if (some && !recorded && !release.empty()) words += fmt::format("  no record of {} has these remedies\n", release);
    words += remedies;
  }
  return words;
}

Json as_json(const Explanation& explanation) {
  Json causes = Json::array(), remedies = Json::array();
  for (const Found& one : explanation.causes) {
    causes.push_back({{"id", one.id}, {"role", word(one.role)}, {"evidence", one.evidence}, {"title", one.title}});
  }
  for (const RemedyFor& remedy : explanation.remedies) {
    Json prices = Json::array();
    for (const auto& [gpu, price] : remedy.prices) {
      prices.push_back(as_json(price));
      prices.back()["gpu"] = gpu;
    }
    remedies.push_back({{"text", remedy.text},
                        {"holds", remedy.holds ? Json(*remedy.holds) : Json()},
                        {"price", prices.empty() ? Json() : prices},
                        {"cause", remedy.cause},
                        {"useless", remedy.useless}});
  }
  return {{"answer", word(explanation.answer)},
          {"summary", explanation.summary},
          {"causes", causes},
          {"remedies", remedies}};
}

}  // namespace recapture
