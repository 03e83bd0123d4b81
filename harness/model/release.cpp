#include "harness/model/release.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <initializer_list>
#include <map>
#include <optional>
#include <string_view>
#include <tuple>
#include <utility>

#include "harness/base/embed.h"
#include "harness/base/escape.h"
#include "harness/base/exit.h"
#include "harness/base/regex.h"
#include "harness/base/text.h"
#include "harness/base/toml.h"

RECAPTURE_EMBED(built_matrix, "ci/matrix.toml");

namespace recapture {

// The parts that PEP 440 compares in order; each part's own comparison is the right one.
struct Version {
  // Digits without leading zeros, preceded by their count: such pairs compare as numbers of any length. Nightlies
  // contain dates.
  using Number = std::pair<size_t, std::string>;
  static constexpr int kNoPre = 4;

  Number epoch;
  std::vector<Number> release;                              // Without trailing zeros: 2.8 is 2.8.0.
  std::pair<int, Number> pre;                               // 0 of a .dev alone, 1 a, 2 b, 3 rc, kNoPre none.
  std::pair<int, Number> post;                              // 0 none, 1.
  std::pair<int, Number> dev;                               // 0, 1 none.
  std::vector<std::tuple<int, Number, std::string>> local;  // The part after +: words (0) before numbers (1).

  auto key() const { return std::tie(epoch, release, pre, post, dev, local); }
  bool operator<(const Version& other) const { return key() < other.key(); }

  bool is_before_release() const { return pre.first < kNoPre || dev.first == 0; }
  // The release that it becomes: of 2.15.0rc3 and of 2.15.0a0+0123abc that is 2.15.0.
  Version base() const {
    Version version = *this;
    version.pre = {kNoPre, Number{}};
    version.dev = {1, Number{}};
    version.local.clear();
    return version;
  }
};

namespace {

using Number = Version::Number;

class Scanner {
 public:
  explicit Scanner(std::string_view text) : rest_(text) {}

  bool done() const { return rest_.empty(); }
  bool take(std::string_view word) {
    if (rest_.substr(0, word.size()) != word) return false;
    rest_.remove_prefix(word.size());
    return true;
  }
  void take_separator() {
    if (!rest_.empty() && is_separator(rest_.front())) rest_.remove_prefix(1);
  }
  std::optional<Number> number() {
    size_t digits = 0, zeros = 0;
    while (digits < rest_.size() && is_digit(rest_[digits])) ++digits;
    if (digits == 0) return std::nullopt;
    while (zeros < digits && rest_[zeros] == '0') ++zeros;
    Number number{digits - zeros, std::string(rest_.substr(zeros, digits - zeros))};
    rest_.remove_prefix(digits);
    return number;
  }
  // "-rc.1": the index of its word in `words`, and its number, or 0.
  std::optional<std::pair<int, Number>> tag(std::initializer_list<std::pair<std::string_view, int>> words) {
    const std::string_view before = rest_;
    take_separator();
    for (const auto& [word, rank] : words) {
      if (!take(word)) continue;
      take_separator();
      return std::pair(rank, number().value_or(Number{}));
    }
    rest_ = before;
    return std::nullopt;
  }
  // A component after the +.
  std::optional<std::tuple<int, Number, std::string>> part() {
    size_t end = 0;
    while (end < rest_.size() && (is_digit(rest_[end]) || (rest_[end] >= 'a' && rest_[end] <= 'z'))) ++end;
    if (end == 0) return std::nullopt;
    const std::string_view word = rest_.substr(0, end);
    if (std::ranges::all_of(word, is_digit)) return std::tuple(1, *number(), std::string());
    rest_.remove_prefix(end);
    return std::tuple(0, Number{}, std::string(word));
  }

 private:
  static bool is_digit(char c) { return c >= '0' && c <= '9'; }
  static bool is_separator(char c) { return c == '.' || c == '-' || c == '_'; }
  std::string_view rest_;
};

// Reads a version in any spelling that PyPI accepts.
std::optional<Version> read_version(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  Scanner scanner(lower);
  Version version;
  scanner.take("v");
  auto number = scanner.number();
  if (number && scanner.take("!")) {
    version.epoch = *number;
    number = scanner.number();
  }
  if (!number) return std::nullopt;
  version.release.reserve(4);
  version.release.push_back(*number);
  for (Scanner after = scanner; after.take(".") && (number = after.number()); scanner = after) {
    version.release.push_back(*number);
  }
  while (!version.release.empty() && version.release.back() == Number{}) version.release.pop_back();

  const auto pre =
      scanner.tag({{"alpha", 1}, {"a", 1}, {"beta", 2}, {"b", 2}, {"preview", 3}, {"pre", 3}, {"c", 3}, {"rc", 3}});
  auto post = std::optional<std::pair<int, Number>>();
  if (Scanner after = scanner; after.take("-") && (number = after.number())) {  // "2.9-1"
    post = {1, *number};
    scanner = after;
  } else {
    post = scanner.tag({{"post", 1}, {"rev", 1}, {"r", 1}});
  }
  const auto dev = scanner.tag({{"dev", 0}});
  if (scanner.take("+")) {
    do {
      const auto part = scanner.part();
      if (!part) return std::nullopt;
      version.local.push_back(*part);
    } while (scanner.take(".") || scanner.take("-") || scanner.take("_"));
  }
  if (!scanner.done()) return std::nullopt;
  version.pre = pre.value_or(std::pair(dev && !post ? 0 : Version::kNoPre, Number{}));
  version.post = post.value_or(std::pair(0, Number{}));
  version.dev = dev.value_or(std::pair(1, Number{}));
  return version;
}

std::string matrix_path(const std::string& root) {
  std::string path = root + "/ci/matrix.toml";
  if (std::filesystem::exists(path)) return path;
  throw ExitError(Exit::Usage, path + " is not there; --root names Recapture's own tree");
}

Version version_of(const std::string& text) {
  if (auto version = read_version(text)) return *std::move(version);
  throw ExitError(Exit::Usage, "'" + escape_control(text) + "' is not a version such as 2.11.0");
}

struct Comparison {
  std::string_view sign;
  std::string bound;

  bool holds(const Version& version) const {
    const Version other = version_of(bound);
    if (sign == "<") return version < other;
    if (sign == "<=") return !(other < version);
    if (sign == ">") return other < version;
    if (sign == ">=") return !(version < other);
    return !(version < other) && !(other < version);
  }
};

// One to three numbers of up to nine digits.
bool is_bound(std::string_view text) {
  size_t numbers = 0;
  for (std::string_view rest = text;; rest.remove_prefix(1)) {
    const size_t digits = std::min(rest.find_first_not_of("0123456789"), rest.size());
    if (digits == 0 || digits > 9 || ++numbers > 3) return false;
    rest.remove_prefix(digits);
    if (rest.empty()) return true;
    if (rest.front() != '.') return false;
  }
}

// User input: no other text may be between or after the comparisons.
std::vector<Comparison> comparisons(const std::string& range) {
  const auto wrong = [&] {
    return ExitError(Exit::Usage, "'" + escape_control(range) + "' is not a range such as >=2.8, <2.13");
  };
  std::vector<Comparison> all;
  for (std::string_view rest = range;;) {
    const size_t comma = std::min(rest.find(','), rest.size());
    std::string_view part = rest.substr(0, comma);
    part.remove_prefix(std::min(part.find_first_not_of(' '), part.size()));
    part.remove_suffix(part.size() - std::min(part.find_last_not_of(' ') + 1, part.size()));
    const size_t digits = std::min(part.find_first_of("0123456789"), part.size());
    std::string_view sign = part.substr(0, digits);
    sign.remove_suffix(sign.size() - std::min(sign.find_last_not_of(' ') + 1, sign.size()));
    if (!is_bound(part.substr(digits))) throw wrong();
    if (sign != "<" && sign != "<=" && sign != ">" && sign != ">=" && sign != "==") throw wrong();
    all.push_back({sign, std::string(part.substr(digits))});
    if (comma == rest.size()) return all;
    rest.remove_prefix(comma + 1);
  }
}

}  // namespace

Release::Release(std::string name) : name_(std::move(name)) {
  if (auto version = read_version(name_)) version_ = std::make_shared<const Version>(*std::move(version));
}

bool Release::is_older_than(const Release& other) const {
  return version_ != nullptr && other.version_ != nullptr && *version_ < *other.version_;
}

std::strong_ordering Release::operator<=>(const Release& other) const {
  if (is_version() != other.is_version()) return other.is_version() <=> is_version();
  if (is_older_than(other)) return std::strong_ordering::less;
  if (other.is_older_than(*this)) return std::strong_ordering::greater;
  return name_ <=> other.name_;
}

std::string Release::line() const {
  if (!is_version()) return name_;
  const auto number = [&](size_t i) {
    const std::string digits = i < version_->release.size() ? version_->release[i].second : "";
    return digits.empty() ? "0" : digits;
  };
  return number(0) + "." + number(1);
}

bool Release::is_nightly() const { return is_version() && version_->dev.first == 0; }

bool Release::is_candidate() const {
  constexpr int kCandidate = 3;
  return is_version() && version_->pre.first == kCandidate && !is_nightly();
}

bool Release::is_final() const { return is_version() && !version_->is_before_release() && version_->local.empty(); }

std::vector<std::string> Release::labels() const {
  std::vector<std::string> words;
  if (!is_version()) return words;
  for (const auto& [rank, number, word] : version_->local) {
    if (!word.empty()) words.push_back(word);
  }
  return words;
}

std::string Release::without_nightly_date() const {
  constexpr std::string_view kNightly = ".dev";
  const size_t at = name_.find(kNightly);
  return at == std::string::npos ? name_ : name_.substr(0, at + kNightly.size());
}

bool NewestFirst::operator()(const Release& one, const Release& other) const {
  return one.is_version() == other.is_version() ? other < one : one.is_version();
}

void sort_releases(std::vector<std::string>& names) {
  std::vector<Release> releases;
  releases.reserve(names.size());
  for (std::string& name : names) releases.emplace_back(std::move(name));
  std::ranges::sort(releases);
  std::ranges::transform(releases, names.begin(), &Release::name);
}

std::string resolve_release(const std::string& word, const std::vector<std::string>& known) {
  if (contains(known, word)) return word;
  // PyTorch's own builds of a release differ in what they were built for. "2.11.0+acme" is another one's.
  static const RE2 kOfPytorch(R"([^+]*\+(?:cpu|cu[0-9]+|rocm[0-9.]+|xpu|cpu\.cxx11\.abi))");
  const std::string wanted = RE2::FullMatch(word, kOfPytorch) ? without_local(word) : word;
  const auto named = read_version(word);
  const bool names_a_build = named && named->is_before_release();
  Release newest;
  for (const std::string& name : known) {
    // "2.16.0.dev20261124" names that night's build, 2.16.0.dev20261124+cu132. A fork of 2.11.0 has a name of its own.
    const bool is_its_build = names_a_build && word == without_local(word) && without_local(name) == word;
    if (name != wanted && !name.starts_with(wanted + ".") && !is_its_build) continue;
    const Release release(name);
    if (!release.is_version()) continue;
    // A line is its newest release, and not a candidate or a fork beside it.
    const bool is_better = release.is_final() == newest.is_final() ? newest.is_older_than(release) : release.is_final();
    if (newest.empty() || is_better) newest = release;
  }
  return newest.empty() ? word : newest.name();
}

std::string resolve_release(const std::string& word, std::vector<std::string> known, const Yields& yields) {
  const std::string first = resolve_release(word, known);
  for (std::string meant = first; meant != word; meant = resolve_release(word, known)) {
    if (!yields || !yields(meant)) return meant;
    std::erase(known, meant);
  }
  return first;
}

bool is_version(const std::string& text) { return read_version(text).has_value(); }

void require_version(const std::string& text) {
  if (!read_version(text))
    throw ExitError(Exit::Usage, "'" + escape_control(text) + "' is not a version such as 2.11.0");
}

std::string without_local(const std::string& version) { return version.substr(0, version.find('+')); }

std::string with_label(const std::string& version, const std::string& label) {
  return version + (version.find('+') == std::string::npos ? "+" : ".") + label;
}

bool is_label(const std::string& text) {
  static const RE2 kLabel(R"([a-z0-9]+(?:\.[a-z0-9]+)*)");
  return RE2::FullMatch(text, kLabel);
}

std::string git_of_release(const std::string& version) {
  static const std::map<std::string, std::string> kCommits = [] {
    std::map<std::string, std::string> commits;
    const toml::table matrix = toml::parse(std::string_view(built_matrix));
    for (const auto& entry : *matrix["release"].as_array()) {
      const toml::table& one = *entry.as_table();
      commits.emplace(one["version"].value_or(std::string()), one["git"].value_or(std::string()));
    }
    return commits;
  }();
  const auto found = kCommits.find(version);
  return found == kCommits.end() ? "" : found->second;
}

bool satisfies(const std::string& version, const std::string& range) {
  const auto all = comparisons(range);
  const Version its = version_of(version).base();
  return std::ranges::all_of(all, [&](const Comparison& one) { return one.holds(its); });
}

bool in_range(const std::string& version, const std::string& range) {
  return range.empty() || (is_version(version) && satisfies(version, range));
}

bool in_range_until_measured(const std::string& version, const std::string& range, const std::string& neighbour) {
  if (in_range(version, range)) return true;
  if (neighbour.empty() || !is_version(version) || !in_range(neighbour, range)) return false;
  const Version its = version_of(version).base();  // A candidate counts as the release that it becomes.
  return std::ranges::all_of(comparisons(range), [&](const Comparison& one) {
    return one.sign == "==" || one.sign == "<=" || one.holds(its);
  });
}

bool can_meet(const std::string& range, const std::string& other) {
  if (range.empty() || other.empty()) return true;
  auto all = comparisons(range);
  for (const Comparison& one : comparisons(other)) all.push_back(one);
  // If a version satisfies both, then so does a bound, or a neighbour of one.
  std::vector<Version> candidates = {version_of("0")};
  for (const Comparison& one : all) {
    for (const char* next : {"", ".post1"}) candidates.push_back(version_of(one.bound + next));
  }
  return std::ranges::any_of(candidates, [&](const Version& version) {
    return std::ranges::all_of(all, [&](const Comparison& one) { return one.holds(version); });
  });
}

std::string without_versions(const std::string& text) {
  static const RE2 kVersioned(R"(\b(cu[A-Z]\w*?)_v[0-9]+\b)", RE2::Latin1);
  return replace_all(text, kVersioned, "\\1");
}

std::vector<std::string> read_matrix(const std::string& root) {
  const std::string path = matrix_path(root);
  const toml::table matrix = parse_toml(path);
  std::vector<std::string> releases;
  if (const auto* list = tables_in(matrix, "release", path, "[[release]]")) {
    for (const auto& entry : *list) releases.push_back(text_in(*entry.as_table(), "version", place_of(path, entry)));
  }
  for (const std::string& release : releases) require_version(release);
  if (releases.empty()) throw ExitError(Exit::Usage, path + ": lists no release");
  return releases;
}

std::vector<std::string> read_builds(const std::string& root) {
  const std::string path = matrix_path(root);
  const toml::table matrix = parse_toml(path);
  std::vector<std::string> builds;
  const auto* list = tables_in(matrix, "build", path, "[[build]]");
  if (list == nullptr) return builds;
  // It is a folder below build/ and part of a task's name. A version would be taken for a release.
  static const RE2 kName("[a-z][a-z0-9-]*");
  for (const auto& entry : *list) {
    const std::string place = place_of(path, entry), name = text_in(*entry.as_table(), "name", place);
    if (!RE2::FullMatch(name, kName) || is_version(name) || name == "cuda12" || name == "cuda13") {
      throw ExitError(Exit::Usage, fmt::format("{}: '{}' is not the name of a build, such as nightly",
                                               escape_control(place), escape_control(name)));
    }
    if (contains(builds, name)) {
      throw ExitError(Exit::Usage, fmt::format("{}: there are two builds '{}'", escape_control(place), name));
    }
    builds.push_back(name);
  }
  return builds;
}

}  // namespace recapture
