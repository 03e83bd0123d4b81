#include "harness/triage/privacy.h"

#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>

#include "harness/base/regex.h"
#include "harness/base/text.h"

namespace recapture::triage {
namespace {

// Words of this machine that must not appear anywhere.
std::vector<std::string> own_words() {
  std::vector<std::string> words;
  std::array<char, 256> host{};
  if (gethostname(host.data(), host.size() - 1) == 0) words.emplace_back(host.data());
  const passwd* const user = getpwuid(getuid());
  if (user != nullptr) words.emplace_back(user->pw_name);
  for (const char* name : {"USER", "LOGNAME", "HOSTNAME", "SLURMD_NODENAME"}) {
    if (const char* value = std::getenv(name)) words.emplace_back(value);
  }
  // Common names do not identify a machine, and occur in any text.
  const auto says_nothing = [](const std::string& word) {
    return word.size() < 3 || word == "root" || word == "localhost" || word == "user";
  };
  std::erase_if(words, says_nothing);
  return words;
}

bool is_word_character(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

bool has_word(const std::string& text, const std::string& word) {
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) {
    const size_t end = at + word.size();
    if ((at == 0 || !is_word_character(text[at - 1])) && (end == text.size() || !is_word_character(text[end]))) {
      return true;
    }
  }
  return false;
}

}  // namespace

std::vector<std::string> private_parts(const std::string& text, const std::vector<std::string>& known,
                                       const std::string& public_words) {
  struct Pattern {
    RE2 expression;
    bool ends_a_word = false;  // Neither a letter nor a dot follows.
  };
  static const std::array<Pattern, 7> kPatterns = {{
      // A file outside the system's folders.
      {{R"((?:^|[^\w./)])/(?:root|home|work|tmp|var|mnt|opt|srv|data|scratch|media|nfs|lustre|gpfs|Users)/[\w.+-])",
        RE2::Latin1}},
      {{R"([\w.+-]+@[\w-]+\.[\w.-]*[A-Za-z]{2,})", RE2::Latin1}},  // E-mail
      {{R"((?:^|[^\w.])(?:(?:25[0-5]|2[0-4]\d|1?\d?\d)\.){3}(?:25[0-5]|2[0-4]\d|1?\d?\d))", RE2::Latin1},
       true},                                                                      // IPv4
      {{R"(\b(?:[0-9a-fA-F]{1,4}:){3,7}(?::|[0-9a-fA-F]{1,4})\b)", RE2::Latin1}},  // IPv6, and a device's
      {{R"(\b(?:[0-9a-fA-F]{2}[:-]){5}[0-9a-fA-F]{2}\b)", RE2::Latin1}},
      {{R"(\b[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\b)", RE2::Latin1}},  // UUID
      {{R"((?:^|[^\w.])\d{13})", RE2::Latin1}, true},                                  // Serial numbers
  }};
  std::vector<std::string> found;
  for (const auto& [expression, ends_a_word] : kPatterns) {
    for (const Match& match : all_matches(text, expression)) {
      const auto end = static_cast<size_t>(match[0].data() - text.data()) + match[0].size();
      if (ends_a_word && end < text.size() && (is_word_character(text[end]) || text[end] == '.')) continue;
      std::string part(match[0]);
      while (!part.empty() && !is_word_character(part.front()) && part.front() != '/') part.erase(0, 1);
      if (!contains(known, part)) found.push_back(part);
    }
  }
  for (const std::string& word : own_words()) {
    if (has_word(text, word) && !has_word(public_words, word)) found.push_back(word);
  }
  return found;
}

std::string without_places(std::string text, const std::string& folder) {
  for (size_t at = 0; !folder.empty() && (at = text.find(folder, at)) != std::string::npos;) {
    text.replace(at, folder.size(), ".");
  }
  // The driver's own folders, such as /usr/local/nvidia, belong to the system: they contain no packages.
  static const RE2 kPackages(R"((?:/[\w.+-]+)+/(torch|nvidia|triton)/)", RE2::Latin1);
  std::string out;
  size_t at = 0;
  for (const Match& match : all_matches(text, kPackages)) {
    const auto begin = static_cast<size_t>(match[0].data() - text.data());
    const std::string_view path = match[0];
    const bool is_systems = (path.rfind("/usr/", 0) == 0 || path.rfind("/lib", 0) == 0) &&
                            path.find("-packages/") == std::string_view::npos;
    out += text.substr(at, begin - at);
    out += is_systems ? std::string(path) : "(site-packages)/" + std::string(match[1]) + "/";
    at = begin + path.size();
  }
  return out + text.substr(at);
}

std::vector<std::string> versions_in(const Record& record) {
  std::vector<std::string> all;
  for (const auto& [key, value] : record.environment.json().items()) {
    if (value.is_string()) all.push_back(value.get<std::string>());
  }
  return all;
}

}  // namespace recapture::triage
