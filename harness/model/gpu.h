// Which GPUs a word names, and the architecture of a GPU.
#pragma once
#include <compare>
#include <string>
#include <string_view>

namespace recapture {

// A word of the command line, of a night's plan or of an expectation: a part of a GPU's name in any spelling of its
// letters, "none" for runs without a GPU, or "" for any.
class GpuFilter {
 public:
  explicit GpuFilter(std::string word);

  bool is_none() const;
  // `gpu` is a machine's GPU, "" without one.
  bool covers(std::string_view gpu) const;

 private:
  std::string word_;  // In lower case.
};

// Of a GPU: its compute capability, "9.0". Ordered by number.
class Architecture {
 public:
  Architecture() = default;
  explicit Architecture(std::string capability) : capability_(std::move(capability)) {}

  bool empty() const { return capability_.empty(); }
  const std::string& capability() const { return capability_; }

  bool operator==(const Architecture&) const = default;
  std::strong_ordering operator<=>(const Architecture& other) const;

 private:
  std::string capability_;
};

}  // namespace recapture
