#include "harness/judge/version.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <filesystem>
#include <limits>
#include <string_view>
#include <utility>

#include "harness/judge/toml.h"
#include "harness/record/exit.h"
#include "harness/record/visible.h"

namespace recapture {
namespace {

using Numbers = std::array<int, 3>;

// The one to three numbers that a text begins with, "2.11" or "580.159.04", and how much of it they are.
std::pair<Numbers, size_t> leading_numbers(std::string_view text) {
  Numbers parts{};
  size_t used = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    const size_t from = i == 0 ? 0 : used + 1;
    if (i > 0 && (used >= text.size() || text[used] != '.')) break;
    if (from >= text.size() || std::isdigit(static_cast<unsigned char>(text[from])) == 0) break;
    const auto read = std::from_chars(text.data() + from, text.data() + text.size(), parts.at(i));
    if (read.ec != std::errc()) return {{}, 0};
    used = static_cast<size_t>(read.ptr - text.data());
  }
  return {parts, used};
}

// Of what a machine says: "2.16.0.dev20260101+cu130" is 2.16.0.
Numbers numbers(const std::string& version) {
  const auto [parts, used] = leading_numbers(version);
  if (used == 0) throw Stop(Exit::Usage, "'" + visible(version) + "' is not a version such as 2.11.0");
  return parts;
}

struct Comparison {
  std::string_view sign;
  Numbers bound{};

  bool holds(const Numbers& version) const {
    if (sign == "<") return version < bound;
    if (sign == "<=") return version <= bound;
    if (sign == ">") return version > bound;
    if (sign == ">=") return version >= bound;
    return version == bound;
  }
};

// Of what people write: nothing may stand between or behind the comparisons.
std::vector<Comparison> comparisons(const std::string& range) {
  const auto wrong = [&] { return Stop(Exit::Usage, "'" + visible(range) + "' is not a range such as >=2.8, <2.13"); };
  std::vector<Comparison> all;
  for (std::string_view rest = range;;) {
    const size_t comma = std::min(rest.find(','), rest.size());
    std::string_view part = rest.substr(0, comma);
    part.remove_prefix(std::min(part.find_first_not_of(' '), part.size()));
    part.remove_suffix(part.size() - std::min(part.find_last_not_of(' ') + 1, part.size()));
    const size_t digits = std::min(part.find_first_of("0123456789"), part.size());
    std::string_view sign = part.substr(0, digits);
    sign.remove_suffix(sign.size() - std::min(sign.find_last_not_of(' ') + 1, sign.size()));
    const auto [bound, used] = leading_numbers(part.substr(digits));
    if (used == 0 || digits + used != part.size()) throw wrong();
    if (sign != "<" && sign != "<=" && sign != ">" && sign != ">=" && sign != "==") throw wrong();
    all.push_back({sign, bound});
    if (comma == rest.size()) return all;
    rest.remove_prefix(comma + 1);
  }
}

}  // namespace

bool older(const std::string& a, const std::string& b) { return numbers(a) < numbers(b); }

bool is_version(const std::string& text) { return leading_numbers(text).second > 0; }

void require_version(const std::string& text) {
  if (leading_numbers(text).second != text.size() || text.empty()) {
    throw Stop(Exit::Usage, "'" + visible(text) + "' is not a version such as 2.11.0");
  }
}

bool satisfies(const std::string& version, const std::string& range) {
  const auto all = comparisons(range);
  const Numbers its = numbers(version);
  return std::all_of(all.begin(), all.end(), [&](const Comparison& one) { return one.holds(its); });
}

bool in_range(const std::string& version, const std::string& range) {
  return range.empty() || (is_version(version) && satisfies(version, range));
}

bool can_meet(const std::string& range, const std::string& other) {
  if (range.empty() || other.empty()) return true;
  auto all = comparisons(range);
  for (const Comparison& one : comparisons(other)) all.push_back(one);
  // If any version lies in both, then one that is a bound or next to one does.
  std::vector<Numbers> candidates = {Numbers{0, 0, 0}};
  for (const Comparison& one : all) {
    candidates.push_back(one.bound);
    if (one.bound.back() < std::numeric_limits<int>::max()) {
      candidates.push_back({one.bound[0], one.bound[1], one.bound[2] + 1});
    }
  }
  return std::any_of(candidates.begin(), candidates.end(), [&](const Numbers& version) {
    return std::all_of(all.begin(), all.end(), [&](const Comparison& one) { return one.holds(version); });
  });
}

std::vector<std::string> read_matrix(const std::string& root) {
  const std::string path = root + "/ci/matrix.toml";
  if (!std::filesystem::exists(path)) {
    throw Stop(Exit::Usage, path + " is not there; --root names Recapture's own tree");
  }
  const toml::table matrix = parse_toml(path);
  std::vector<std::string> releases;
  if (const auto* list = tables_in(matrix, "release", path, "[[release]]")) {
    for (const auto& entry : *list) releases.push_back(text_in(*entry.as_table(), "version", place_of(path, entry)));
  }
  for (const std::string& release : releases) require_version(release);
  if (releases.empty()) throw Stop(Exit::Usage, path + ": lists no release");
  return releases;
}

}  // namespace recapture
