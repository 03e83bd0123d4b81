#include "harness/compare/format.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>
#include <pugixml.hpp>
#include <sstream>

#include "harness/record/visible.h"

namespace recapture {
namespace {

constexpr size_t kMostBytes = size_t{1000} * 1000;  // GitHub takes 1 MiB.
constexpr size_t kFewCases = 12;                    // More that changed alike are only named.

std::string number_of(const CaseChange& change) {
  std::string numbers;
  for (const UpstreamChange& one : change.upstream) numbers += one.number + " ";
  return numbers;
}

bool is_change(const CaseChange& change) { return !change.upstream.empty() && !change.upstream.front().what.empty(); }

std::string upstream_words(const UpstreamChange& one) {
  return fmt::format("{}{}{}{}", one.number, one.since.empty() ? "" : ", since " + one.since_words(),
                     one.url.empty() ? "" : ", ", one.url);
}

std::string names_of(const CaseChange& change) {
  std::string names;
  for (const std::string& test : change.tests) names += (names.empty() ? "" : ", ") + name_of(test);
  return names;
}

// Why tests are unknown, with how many, the most first.
std::vector<std::pair<std::string, size_t>> reasons_of(const Comparison& comparison) {
  std::map<std::string, size_t> counts;
  for (const ComparedTest& test : comparison.tests) {
    if (test.consequence == Consequence::Unknown) ++counts[test.sentence];
  }
  std::vector<std::pair<std::string, size_t>> reasons(counts.begin(), counts.end());
  std::stable_sort(reasons.begin(), reasons.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  return reasons;
}

std::array<size_t, 8> by_consequence(const Comparison& comparison) {
  std::array<size_t, 8> counts{};
  for (const ComparedTest& test : comparison.tests) ++counts.at(static_cast<size_t>(test.consequence));
  return counts;
}

std::string group_text(const Alike& group) {
  const CaseChange& first = *group.front();
  std::string text = "\n  " + first.sentence + "\n";
  const bool is_long = group.size() > kFewCases;
  if (!is_long) {
    for (const UpstreamChange& one : first.upstream) {
      const std::string what = is_change(first) ? one.what : "see " + one.title;
      text += fmt::format("    {}{}{}\n", what, what.empty() ? "" : ": ", upstream_words(one));
    }
  }
  std::string names;
  for (const CaseChange* change : group) {
    names += (names.empty() ? "" : " ") + change->case_id;
    if (is_long) continue;
    text += fmt::format("    {} ({}): {}\n", change->case_id, names_of(*change), change->title);
    for (const auto& [advice, fix] : change->fixes) text += fmt::format("      {}: {}\n", word(advice), fix);
  }
  if (!is_long) return text + fmt::format("    more: recapture show {}\n", names);
  size_t tests = 0;
  for (const CaseChange* change : group) tests += change->tests.size();
  text += fmt::format("    in {} tests of {} cases:", tests, group.size());
  size_t column = 120;
  for (const CaseChange* change : group) {
    if (column + change->case_id.size() > 114) {
      text += "\n     ";
      column = 5;
    }
    text += " " + change->case_id;
    column += change->case_id.size() + 1;
  }
  return text + fmt::format("\n    more: recapture show {}\n", first.case_id);
}

std::string link(const UpstreamChange& one) {
  const std::string since = one.since.empty() ? "" : ", since " + one.since_words();
  return one.url.empty() ? escaped(one.number) + since : fmt::format("[{}]({}){}", escaped(one.number), one.url, since);
}

std::string joined(const std::vector<std::string>& texts, const char* between) {
  return fmt::format("{}", fmt::join(texts, between));
}

// What became of a price: the work, then either side with its spread.
std::string words_of(const PriceChange& change, const Comparison& comparison, const char* between = "; ") {
  const Price before = price_of(change.before), now = price_of(change.now);
  const auto side = [](const std::string& name, const PriceLine& line, const Price& price) {
    return fmt::format("in {} {}, pairs from {:.2f} to {:.2f}", name, words_of(line), price.smallest, price.largest);
  };
  return joined({(now.ratio > before.ratio ? "dearer, " : "cheaper, ") + change.now.what,
                 side(comparison.from, change.before, before), side(comparison.to, change.now, now)},
                between);
}

}  // namespace

std::vector<Alike> groups_of(const Comparison& comparison) {
  std::vector<Alike> groups;
  for (const CaseChange& change : comparison.changes) {
    auto group = std::find_if(groups.begin(), groups.end(), [&](const Alike& known) {
      const CaseChange& first = *known.front();
      return first.consequence == change.consequence && first.sentence == change.sentence &&
             number_of(first) == number_of(change);
    });
    if (group == groups.end()) group = groups.insert(groups.end(), Alike());
    group->push_back(&change);
  }
  return groups;
}

std::string counts_of(const Comparison& comparison) {
  std::string text = fmt::format("{} judged, {} unknown", comparison.judged(), comparison.unknown());
  const auto counts = by_consequence(comparison);
  for (size_t i = 0; i < static_cast<size_t>(Consequence::Unknown); ++i) {
    if (counts.at(i) == 0) continue;
    text += fmt::format("{} {} {}", text.find(':') == std::string::npos ? ":" : ",", counts.at(i),
                        word(static_cast<Consequence>(i)));
  }
  return text;
}

std::string as_text(const Comparison& comparison) {
  std::string text;
  for (const std::string& line : comparison.head) text += line + "\n";
  text += counts_of(comparison) + "\n";
  Consequence current = Consequence::Same;
  for (const Alike& group : groups_of(comparison)) {
    if (group.front()->consequence != current) {
      current = group.front()->consequence;
      text += fmt::format("\n{}\n", word(current));
    }
    text += group_text(group);
  }
  if (!comparison.prices.empty()) text += "\nprices of remedies\n";
  for (const PriceChange& change : comparison.prices) {
    text += fmt::format("\n  {}\n    {}\n", words_of(change, comparison, "\n    "), joined(change.now.fixes, ", "));
  }
  const auto reasons = reasons_of(comparison);
  if (!reasons.empty()) text += "\nunknown\n";
  for (const auto& [reason, count] : reasons) text += fmt::format("  {}: {}\n", count, reason);
  return text;
}

std::string as_markdown(const Comparison& comparison) {
  std::string text = fmt::format("# {}\n\n", escaped(comparison.head.front()));
  for (size_t i = 1; i < comparison.head.size(); ++i) text += fmt::format("* {}\n", escaped(comparison.head[i]));
  text += "\n" + counts_of(comparison) + "\n\n`recapture show CASE` has everything on record about a case.\n";
  std::string tail;
  for (const auto& [reason, count] : reasons_of(comparison)) {
    if (tail.size() < kMostBytes / 10) tail += fmt::format("| {} | {} |\n", count, escaped(reason));
  }
  if (!tail.empty()) tail = "\n## unknown\n\n| tests | why |\n| --- | --- |\n" + tail;
  if (!comparison.prices.empty()) text += "\n## prices of remedies\n\n| fixes | what changes |\n| --- | --- |\n";
  for (const PriceChange& change : comparison.prices) {
    text +=
        fmt::format("| {} | {} |\n", escaped(joined(change.now.fixes, ", ")), escaped(words_of(change, comparison)));
  }
  size_t left_out = 0;
  Consequence current = Consequence::Same;
  for (const CaseChange& change : comparison.changes) {
    std::string row;
    if (change.consequence != current) {
      row = fmt::format("\n## {}\n\n| case | what changes | {} | upstream |\n| --- | --- | --- | --- |\n",
                        word(change.consequence), change.consequence == Consequence::Gone ? "remedies" : "what to do");
    }
    std::vector<std::string> fixes, links;
    for (const auto& [advice, fix] : change.fixes) {
      fixes.push_back((advice == Advice::Apply ? "" : fmt::format("{}: ", word(advice))) + escaped(fix));
    }
    for (const UpstreamChange& one : change.upstream) links.push_back(link(one));
    row += fmt::format("| {} ({}) | {} | {} | {} |\n", change.case_id, escaped(names_of(change)),
                       escaped(change.sentence), joined(fixes, "<br>"), joined(links, "<br>"));
    if (text.size() + row.size() + tail.size() > kMostBytes - 1000) {
      ++left_out;
      continue;
    }
    current = change.consequence;
    text += row;
  }
  if (left_out > 0) text += fmt::format("\n{} more are left out here; `recapture compare` has them all.\n", left_out);
  return text + tail;
}

Json as_json(const Comparison& comparison) {
  Json changes = Json::array();
  for (const CaseChange& change : comparison.changes) {
    std::vector<std::string> upstream;
    for (const UpstreamChange& one : change.upstream) upstream.push_back(upstream_words(one));
    Json fixes = Json::array();
    for (const auto& [advice, fix] : change.fixes) fixes.push_back({{"advice", word(advice)}, {"fix", fix}});
    changes.push_back({{"consequence", word(change.consequence)},
                       {"case", change.case_id},
                       {"tests", change.tests},
                       {"sentence", change.sentence},
                       {"fixes", fixes},
                       {"upstream", joined(upstream, "; ")}});
  }
  Json json = {{"from", comparison.from},
               {"to", comparison.to},
               {"judged", comparison.judged()},
               {"unknown", comparison.unknown()},
               {"changes", changes}};
  for (const PriceChange& change : comparison.prices) {
    json["prices"].push_back(Json{{"before", as_json(change.before)}, {"now", as_json(change.now)}});
  }
  return json;
}

std::string as_junit(const Comparison& comparison, const Policy& policy) {
  pugi::xml_document document;
  auto suites = document.append_child("testsuites");
  suites.append_attribute("name") = (comparison.from + " -> " + comparison.to).c_str();
  std::map<std::string, pugi::xml_node> by_case;
  std::map<std::string, std::array<int, 4>> counts;  // Tests, failures, errors, skipped.
  for (const ComparedTest& one : comparison.tests) {
    const std::string id = case_of(one.test);
    auto& suite = by_case[id];
    if (!suite) {
      suite = suites.append_child("testsuite");
      suite.append_attribute("name") = id.c_str();
    }
    auto test = suite.append_child("testcase");
    test.append_attribute("classname") = id.c_str();
    test.append_attribute("name") = name_of(one.test).c_str();
    auto& count = counts[id];
    ++count[0];
    const bool is_unknown = one.consequence == Consequence::Unknown;
    const int place = policy.block.count(one.consequence) != 0 ? 1 : is_unknown && one.ran ? 2 : is_unknown ? 3 : 0;
    if (place > 0) {
      constexpr std::array<const char*, 4> kElements = {"", "failure", "error", "skipped"};
      ++count.at(static_cast<size_t>(place));
      const std::string message = fmt::format("{}: {}", word(one.consequence), one.sentence);
      test.append_child(kElements.at(static_cast<size_t>(place))).append_attribute("message") = message.c_str();
    } else if (!one.sentence.empty()) {
      test.append_child("system-out").text() = fmt::format("{}: {}", word(one.consequence), one.sentence).c_str();
    }
  }
  for (auto& [id, suite] : by_case) {
    constexpr std::array<const char*, 4> kNames = {"tests", "failures", "errors", "skipped"};
    for (size_t i = 0; i < kNames.size(); ++i) suite.append_attribute(kNames.at(i)) = counts[id].at(i);
  }
  if (!comparison.prices.empty()) {
    auto suite = suites.append_child("testsuite");
    suite.append_attribute("name") = "prices of remedies";
    suite.append_attribute("tests") = comparison.prices.size();
    suite.append_attribute("failures") = policy.prices ? comparison.prices.size() : 0;
    for (const PriceChange& change : comparison.prices) {
      auto test = suite.append_child("testcase");
      test.append_attribute("classname") = change.now.fixes.front().c_str();
      test.append_attribute("name") = change.now.what.c_str();
      const std::string words = words_of(change, comparison);
      if (policy.prices) {
        test.append_child("failure").append_attribute("message") = words.c_str();
      } else {
        test.append_child("system-out").text() = words.c_str();
      }
    }
  }
  if (too_much_unknown(comparison, policy.unknown)) {  // Skipped tests alone would look green.
    auto suite = suites.append_child("testsuite");
    suite.append_attribute("name") = "comparison";
    suite.append_attribute("tests") = 1;
    suite.append_attribute("errors") = 1;
    auto test = suite.append_child("testcase");
    test.append_attribute("classname") = "comparison";
    test.append_attribute("name") = "SaysEnough";
    const std::string message =
        fmt::format("{} of {} tests are unknown", comparison.unknown(), comparison.tests.size());
    test.append_child("error").append_attribute("message") = message.c_str();
  }
  std::ostringstream out;
  document.save(out, "  ");
  return out.str();
}

}  // namespace recapture
