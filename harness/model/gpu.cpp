#include "harness/model/gpu.h"

#include <cstring>

#include "harness/base/letter_case.h"

namespace recapture {
namespace {

constexpr const char* kNone = "none";

}  // namespace

GpuFilter::GpuFilter(std::string word) : word_(lower_case(word)) {}

bool GpuFilter::is_none() const { return word_ == kNone; }

bool GpuFilter::covers(std::string_view gpu) const {
  if (is_none()) return gpu.empty();
  return word_.empty() || lower_case(std::string(gpu)).find(word_) != std::string::npos;
}

std::strong_ordering Architecture::operator<=>(const Architecture& other) const {
  return strverscmp(capability_.c_str(), other.capability_.c_str()) <=> 0;
}

}  // namespace recapture
