// Which GPUs a word names, and the architecture of a GPU.
#pragma once
#include <compare>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace recapture {

// Whether a text has these words next to each other, in any spelling of their letters: "h100 80gb" in "NVIDIA H100 80GB
// HBM3", but not "H200" in "NVIDIA GH200 480GB". A word is letters and digits.
bool has_words(std::string_view text, std::string_view words);

// A word of the command line, of a night's plan or of an expectation: one or more words of a GPU's name, "none" for
// runs without a GPU, or "" for any.
class GpuFilter {
 public:
  explicit GpuFilter(std::string word);
  // The one of these GPUs that the word names, "" being a machine without one: that with exactly this name, or the only
  // one that has the words; as the word alone if none has them. Throws ExitError(Usage) with the list if several have.
  GpuFilter(std::string word, const std::set<std::string>& gpus);

  bool is_none() const;
  // `gpu` is a machine's GPU, "" without one.
  bool covers(std::string_view gpu) const;
  // The word, or the complete name if it is known.
  const std::string& word() const { return word_; }

 private:
  std::string word_;
  bool is_name_ = false;  // The GPU's complete name.
};

// Of a GPU: its compute capability, "9.0". Ordered by number.
class Architecture {
 public:
  Architecture() = default;
  explicit Architecture(std::string capability) : capability_(std::move(capability)) {}

  bool empty() const { return capability_.empty(); }
  const std::string& capability() const { return capability_; }
  std::string_view name() const;  // "Hopper"; "" if this program does not know it.

  bool operator==(const Architecture&) const = default;
  std::strong_ordering operator<=>(const Architecture& other) const;

 private:
  std::string capability_;
};

// An architecture, and what follows from it.
struct KnownArchitecture {
  std::string_view capability, name;
  int first_cuda;          // The first CUDA runtime with code for it, 1108 for 11.8,
  int last_major;          // and the last major release of one; 0 if all newer ones have it.
  std::string_view words;  // Of its GPUs' names: "H100 H200 GH200".
};
std::span<const KnownArchitecture> architectures();  // The oldest first.
// By a GPU's name, or by its capability; nullptr if it is not known.
const KnownArchitecture* architecture_of(std::string_view gpu);
const KnownArchitecture* find_architecture(const Architecture& architecture);

}  // namespace recapture
