#include "harness/model/gpu.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstring>
#include <vector>

#include "harness/base/escape.h"
#include "harness/base/exit.h"
#include "harness/base/letter_case.h"
#include "harness/base/text.h"

namespace recapture {
namespace {

constexpr const char* kNone = "none";

std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words;
  bool is_new = true;
  for (const char c : lower_case(text)) {
    const bool is_of_a_word = std::isalnum(static_cast<unsigned char>(c)) != 0;
    if (is_of_a_word && is_new) words.emplace_back();
    if (is_of_a_word) words.back() += c;
    is_new = !is_of_a_word;
  }
  return words;
}

// GH and GB are a GPU beside a processor of architecture aarch64. As NVIDIA's documents have them: "CUDA GPU Compute
// Capability", and for each toolkit's release notes the first and the last one with code for it.
constexpr std::array kArchitectures = {
    KnownArchitecture{"7.0", "Volta", 900, 12, "V100"},
    KnownArchitecture{"7.5", "Turing", 1000, 0, "T4 T4G"},
    KnownArchitecture{"8.0", "Ampere", 1100, 0, "A100 A800 A30"},
    KnownArchitecture{"8.6", "Ampere", 1101, 0, "A10 A10G A10M A16 A2 A40 A6000 3090"},
    KnownArchitecture{"8.7", "Ampere", 1104, 0, "Orin"},
    KnownArchitecture{"8.9", "Ada", 1108, 0, "L4 L20 L40 L40S 4090"},
    KnownArchitecture{"9.0", "Hopper", 1108, 0, "H100 H200 H800 H20 GH200"},
    KnownArchitecture{"10.0", "Blackwell", 1208, 0, "B100 B200 GB200"},
    KnownArchitecture{"10.3", "Blackwell", 1209, 0, "B300 GB300"},
    KnownArchitecture{"11.0", "Blackwell", 1300, 0, "Thor"},
    KnownArchitecture{"12.0", "Blackwell", 1208, 0, "5090"},
    KnownArchitecture{"12.1", "Blackwell", 1209, 0, "GB10"},
};

}  // namespace

bool has_words(std::string_view text, std::string_view words) {
  const std::vector<std::string> all = words_of(text), some = words_of(words);
  return std::search(all.begin(), all.end(), some.begin(), some.end()) != all.end() || some.empty();
}

GpuFilter::GpuFilter(std::string word) : word_(std::move(word)) {}

GpuFilter::GpuFilter(std::string word, const std::set<std::string>& gpus) : GpuFilter(std::move(word)) {
  if (word_.empty() || is_none()) return;
  std::vector<std::string> named;
  for (const std::string& gpu : gpus) {
    if (lower_case(gpu) == lower_case(word_)) named = {gpu};
    if (lower_case(gpu) == lower_case(word_)) break;
    if (covers(gpu)) named.push_back(gpu);
  }
  if (named.empty()) return;
  if (named.size() > 1) {
    throw ExitError(Exit::Usage,
                    escape_control(fmt::format("'{}' fits {}; name one of them", word_, join(named, " and "))));
  }
  word_ = named.front();
  is_name_ = true;
}

bool GpuFilter::is_none() const { return lower_case(word_) == kNone; }

bool GpuFilter::covers(std::string_view gpu) const {
  if (is_none()) return gpu.empty();
  if (is_name_) return gpu == word_;
  return word_.empty() || (!gpu.empty() && has_words(gpu, word_));
}

std::strong_ordering Architecture::operator<=>(const Architecture& other) const {
  return strverscmp(capability_.c_str(), other.capability_.c_str()) <=> 0;
}

std::string_view Architecture::name() const {
  const KnownArchitecture* known = find_architecture(*this);
  return known == nullptr ? "" : known->name;
}

std::span<const KnownArchitecture> architectures() { return kArchitectures; }

const KnownArchitecture* architecture_of(std::string_view gpu) {
  const std::vector<std::string> words = words_of(gpu);
  const auto found = std::ranges::find_if(kArchitectures, [&](const KnownArchitecture& one) {
    return std::ranges::any_of(words_of(one.words), [&](const std::string& word) { return contains(words, word); });
  });
  return found == kArchitectures.end() ? nullptr : &*found;
}

const KnownArchitecture* find_architecture(const Architecture& architecture) {
  const auto found =
      std::ranges::find(kArchitectures, std::string_view(architecture.capability()), &KnownArchitecture::capability);
  return found == kArchitectures.end() ? nullptr : &*found;
}

}  // namespace recapture
