#include "harness/explain/terms.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <sstream>

#include "harness/base/escape.h"
#include "harness/base/exit.h"
#include "harness/base/file.h"
#include "harness/base/json.h"
#include "harness/base/letter_case.h"
#include "harness/base/xz.h"
#include "harness/explain/causes.h"
#include "harness/explain/error_text.h"

namespace recapture::explain {
namespace {

bool is_of_word(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_'; }

constexpr std::array<std::string_view, 10> kEndings = {"ations", "ation", "ings", "ing", "ers",
                                                       "ed",     "es",    "er",   "s",   "e"};

std::string_view without_ending(std::string_view word) {
  constexpr size_t kShortest = 4;  // Letters that are left.
  for (const std::string_view ending : kEndings) {
    if (word.size() >= ending.size() + kShortest && word.substr(word.size() - ending.size()) == ending) {
      return word.substr(0, word.size() - ending.size());
    }
  }
  return word;
}

void add_term(std::string_view word, std::set<std::string>& terms) {
  constexpr size_t kShortest = 3;
  while (!word.empty() && word.front() == '_') word.remove_prefix(1);
  while (!word.empty() && word.back() == '_') word.remove_suffix(1);
  if (word.size() < kShortest || (word[0] >= '0' && word[0] <= '9')) return;
  terms.emplace(without_ending(word));
}

// A cause's own texts, without those of users.
std::string description_of(const Cause& cause, const Catalogue& catalogue) {
  std::string text = cause.title + "\n" + cause.why + "\n";
  for (const std::string& fix : cause.fixes) text += fix + "\n";
  const CatalogueCase* one = find_case(catalogue, cause.id);
  if (one == nullptr) return text;
  text += one->title + "\n" + one->why + "\n";
  for (const CatalogueTest& test : one->tests) text += test.fix + "\n";
  return text;
}

std::string path_of(const std::string& root) { return root + "/cases/terms.tsv.xz"; }

}  // namespace

std::span<const std::string_view> word_endings() { return kEndings; }

std::set<std::string> terms_of(std::string_view text) {
  const std::string low = lower_case(text);
  std::set<std::string> terms;
  for (size_t at = 0; at < low.size();) {
    size_t end = at;
    while (end < low.size() && is_of_word(low[end])) ++end;
    const std::string_view word = std::string_view(low).substr(at, end - at);
    add_term(word, terms);
    for (size_t part = 0; word.find('_') != word.npos && part < word.size();) {  // "page_table" also counts as "page".
      const size_t stop = std::min(word.find('_', part), word.size());
      add_term(word.substr(part, stop - part), terms);
      part = stop + 1;
    }
    at = end + 1;
  }
  return terms;
}

Terms weigh_terms(const std::vector<Cause>& causes, const Catalogue& catalogue, const std::vector<Example>& examples) {
  constexpr double kScale = 100, kSecond = 0.3,  // The weight of a thread for further causes that it names.
      kRepeats = 0.85,                           // A term counts more if more texts of a cause have it,
      kLength = 0.7;                             // and somewhat less if a cause has many texts.
  std::map<std::string, std::map<std::string, double>> counts;  // In how many texts of a cause a term occurs.
  std::map<std::string, int> texts;                             // In how many texts it occurs,
  std::map<std::string, int> spread;                            // and for how many causes.
  const auto add = [&](const std::string& cause, const std::set<std::string>& terms, double share) {
    const auto known = counts.find(cause);
    if (known == counts.end()) return;
    for (const std::string& term : terms) {
      double& count = known->second[term];
      if (count == 0) ++spread[term];
      count += share;
    }
  };
  const auto add_text = [&](const std::set<std::string>& terms) {
    for (const std::string& term : terms) ++texts[term];
  };
  for (const Cause& cause : causes) {
    counts[cause.id];
    const std::set<std::string> terms = terms_of(description_of(cause, catalogue));
    add(cause.id, terms, 1);
    add_text(terms);
  }
  for (const Example& example : examples) {
    if (counts.count(example.cause) == 0) continue;
    std::set<std::string> terms = terms_of(parse_error_text(example.text).words);
    for (const std::string& term : terms_of(example.url)) terms.erase(term);
    add(example.cause, terms, 1);
    for (const std::string& cause : example.also) add(cause, terms, kSecond);
    add_text(terms);
  }
  Terms all;
  for (const auto& [cause, terms] : counts) {
    std::map<std::string, double> weights;
    double squares = 0;
    for (const auto& [term, count] : terms) {
      if (texts[term] < 2) continue;
      const double weight = std::pow(count, kRepeats) * std::log(static_cast<double>(counts.size()) / spread[term]);
      weights[term] = weight;
      squares += weight * weight;
    }
    for (const auto& [term, weight] : weights) {
      const auto rounded = static_cast<int>(std::lround(kScale * weight / std::pow(squares, kLength / 2)));
      if (rounded > 0) all[cause][term] = rounded;
    }
  }
  return all;
}

std::string render_terms(const Terms& terms) {
  std::string text =
      "# Generated by `recapture dev tables terms`: a cause, and the words that people use of it with their weights.\n";
  for (const auto& [cause, weights] : terms) {
    std::vector<std::pair<std::string, int>> sorted(weights.begin(), weights.end());
    std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
    text += cause + "\t";
    for (const auto& [term, weight] : sorted) text += fmt::format("{}:{} ", term, weight);
    text.back() = '\n';
  }
  return text;
}

Terms read_terms(const std::string& root) {
  constexpr size_t kMost = 16U << 20;
  Terms all;
  const std::string path = path_of(root);
  if (!std::filesystem::exists(path)) return all;
  std::istringstream file(unpacked_by_xz(contents_of(path), path, kMost));
  int number = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    if (line.empty() || line[0] == '#') continue;
    const size_t tab = std::min(line.find('\t'), line.size());
    std::map<std::string, int>& terms = all[line.substr(0, tab)];
    for (size_t at = tab + 1; at < line.size();) {
      const size_t end = std::min(line.find(' ', at), line.size()), colon = line.find(':', at);
      int weight = 0;
      const char* last = line.data() + end;
      if (colon == line.npos || colon >= end || std::from_chars(line.data() + colon + 1, last, weight).ptr != last ||
          weight <= 0) {
        throw ExitError(Exit::Usage, fmt::format("{}:{}: '{}' is not a term with a weight such as 'replay:12'", path,
                                                 number, escape_control(line.substr(at, end - at))));
      }
      terms[line.substr(at, colon - at)] = weight;
      at = end + 1;
    }
  }
  return all;
}

std::vector<Example> read_examples(const std::string& path) {
  constexpr size_t kMost = 16U << 20;
  std::istringstream file(unpacked_by_xz(contents_of(path), path, kMost));
  std::vector<Example> examples;
  int number = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    const Json one = try_parse_json(line).value_or(Json());
    const Json *has_cause = member(one, "cause"), *has_text = member(one, "text");
    if (has_cause == nullptr || !has_cause->is_string() || has_text == nullptr || !has_text->is_string()) {
      throw ExitError(Exit::Usage, fmt::format("{}:{}: no object with a cause and a text", path, number));
    }
    const std::string cause = text_at(one, "cause");
    if (cause.empty()) continue;
    examples.push_back({cause, text_at(one, "text"), text_at(one, "url"), one.value("or", std::vector<std::string>())});
  }
  return examples;
}

}  // namespace recapture::explain
