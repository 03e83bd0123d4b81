#include "harness/triage/privacy.h"

#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <regex>

namespace recapture::triage {
namespace {

// Words of this machine that must stand nowhere.
std::vector<std::string> own_words() {
  std::vector<std::string> words;
  std::array<char, 256> host{};
  if (gethostname(host.data(), host.size() - 1) == 0) words.emplace_back(host.data());
  const passwd* const user = getpwuid(getuid());
  if (user != nullptr) words.emplace_back(user->pw_name);
  for (const char* name : {"USER", "LOGNAME", "HOSTNAME", "SLURMD_NODENAME"}) {
    if (const char* value = std::getenv(name)) words.emplace_back(value);
  }
  // Names that many machines have say nothing of one, and occur in any text.
  const auto says_nothing = [](const std::string& word) {
    return word.size() < 3 || word == "root" || word == "localhost" || word == "user";
  };
  words.erase(std::remove_if(words.begin(), words.end(), says_nothing), words.end());
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
  static const std::array<std::regex, 7> kPatterns = {
      // A file in a place that is no system's own.
      std::regex(
          R"((^|[^\w./)])/(root|home|work|tmp|var|mnt|opt|srv|data|scratch|media|nfs|lustre|gpfs|Users)/[\w.+-])"),
      std::regex(R"([\w.+-]+@[\w-]+\.[\w.-]*[A-Za-z]{2,})"),                                            // E-mail
      std::regex(R"((^|[^\w.])((25[0-5]|2[0-4]\d|1?\d?\d)\.){3}(25[0-5]|2[0-4]\d|1?\d?\d)(?![\w.]))"),  // IPv4
      std::regex(R"(\b([0-9a-fA-F]{1,4}:){3,7}(:|[0-9a-fA-F]{1,4})\b)"),  // IPv6, and a device's
      std::regex(R"(\b([0-9a-fA-F]{2}[:-]){5}[0-9a-fA-F]{2}\b)"),
      std::regex(R"(\b[0-9a-fA-F]{8}-([0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\b)"),  // UUID
      std::regex(R"((^|[^\w.])\d{13}(?![\w.]))"),                               // Serial numbers
  };
  std::vector<std::string> found;
  for (const std::regex& pattern : kPatterns) {
    for (std::sregex_iterator at(text.begin(), text.end(), pattern), end; at != end; ++at) {
      std::string part = at->str();
      while (!part.empty() && !is_word_character(part.front()) && part.front() != '/') part.erase(0, 1);
      if (std::find(known.begin(), known.end(), part) == known.end()) found.push_back(part);
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
  static const std::regex kPackages(R"((/[\w.+-]+)+/(torch|nvidia|triton)/)");
  return std::regex_replace(text, kPackages, "(site-packages)/$2/");
}

}  // namespace recapture::triage
