#include "harness/report/explanation.h"

#include <fmt/format.h>

#include <cctype>

namespace recapture::report {

std::string render_text(const explain::FixAdvice& remedy, const std::string& release, size_t indent) {
  const std::string holds = remedy.useless  ? "does not help: "
                            : !remedy.holds ? "try: "
                            : *remedy.holds ? fmt::format("holds in {}: ", release)
                                            : fmt::format("does not hold in {}: ", release);
  const std::string space(indent, ' ');
  std::string words = space + holds + remedy.text + "\n";
  for (const auto& [gpu, price] : remedy.prices) {
    words += fmt::format("{}  price on {}: {}: {}\n", space, gpu, price.what, describe(price));
  }
  return words;
}

std::string render_text(const explain::Explanation& explanation, const std::string& release) {
  std::string words = explanation.summary + ".\n";
  words[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(words[0])));
  for (const explain::Found& one : explanation.causes) {
    words += fmt::format("\n{}: {}\n  {}\n  {}\n", to_string(one.role), one.id, one.title, one.evidence);
    if (one.healthy_here) words += fmt::format("  does not occur in {}, by its record\n", release);
    std::string remedies;
    bool some = false, recorded = false;  // Whether a record says that one of them holds, or that it does not.
    for (const explain::FixAdvice& remedy : explanation.remedies) {
      if (remedy.cause != one.id) continue;
      some = some || !remedy.useless;
      recorded = recorded || (!remedy.useless && remedy.holds.has_value());
      remedies += render_text(remedy, release, 2);
    }
    if (some && !recorded && !release.empty()) words += fmt::format("  no record of {} has these remedies\n", release);
    words += remedies;
  }
  return words;
}

Json render_json(const explain::Explanation& explanation) {
  Json causes = Json::array(), remedies = Json::array();
  for (const explain::Found& one : explanation.causes) {
    causes.push_back({{"id", one.id}, {"role", to_string(one.role)}, {"evidence", one.evidence}, {"title", one.title}});
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
  return {{"answer", to_string(explanation.answer)},
          {"summary", explanation.summary},
          {"causes", causes},
          {"remedies", remedies}};
}

}  // namespace recapture::report
