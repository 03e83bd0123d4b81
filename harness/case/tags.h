// Tags: the features of affected programs. One vocabulary for cases, `list`, gates and the page.
#pragma once
#include <algorithm>
#include <array>
#include <cctype>
#include <string>
#include <string_view>

namespace recapture {

struct Tag {
  std::string_view name;
  std::array<std::string_view, 5> aliases;  // "" where there are fewer.
  std::string_view meaning;
};

// Cases with this tag are in every scope.
inline constexpr std::string_view kAnyProgram = "any program";

inline constexpr std::array<Tag, 35> kTags = {{
    {kAnyProgram, {}, "any program that captures and replays graphs meets it"},
    {"DDP", {"DistributedDataParallel"}, "DistributedDataParallel, and what it rests on"},
    {"FSDP", {"fully_shard"}, "modules that FSDP shards"},
    {"NCCL", {}, "collectives, and NCCL's watchdog"},
    {"graphed callables", {"make_graphed_callables"}, "torch.cuda.make_graphed_callables(), or the like"},
    {"torch.compile", {"compile", "dynamo", "inductor"}, "compiled functions"},
    {"generators",
     {"rng", "random numbers", "dropout", "custom generators"},
     "random numbers in a capture, of the default generator or one's own"},
    {"pinned memory", {"pinned", "pin_memory"}, "pinned host memory"},
    {"side streams", {"streams"}, "more streams than the one that captures"},
    {"default stream", {"legacy stream"}, "work on the default stream"},
    {"threads", {}, "another thread calls CUDA during a capture"},
    {"data loader", {}, "torch.utils.data.DataLoader, or another loader's threads"},
    {"autograd", {"backward"}, "a captured backward pass"},
    {"checkpointing", {"checkpoint"}, "torch.utils.checkpoint"},
    {"optimizer", {}, "a captured step of an optimizer"},
    {"autocast", {"amp"}, "torch.autocast around a capture"},
    {"cuBLAS", {"matmul"}, "a matrix product in a capture"},
    {"cuDNN", {"convolution"}, "a convolution in a capture"},
    {"memory pools", {"pools", "allocator"}, "graphs' pools, emptyCache(), settings of the allocator"},
    {"raw CUDA calls", {"raw CUDA"}, "the program calls the CUDA API itself"},
    {"host reads", {"sync", "item"}, "item(), nonzero(), a wait or a copy of the host's in a capture"},
    {"events", {}, "events that are recorded, queried or waited for"},
    {"conditional nodes", {"conditionals"}, "IF and WHILE nodes"},
    {"runtime compilation", {"NVRTC"}, "kernels and modules that are compiled or loaded late"},
    {"graph updates", {}, "graphs that are instantiated, updated or destroyed by hand"},
    {"failed captures", {"aftermath"}, "the program goes on after a capture has failed"},
    {"several graphs", {}, "two or more graphs at a time"},
    {"extensions", {"libraries", "library", "custom kernels"}, "a library outside PyTorch works in the capture"},
    {"NeMo", {}, "NeMo's models and decoders"},
    {"torch.load", {}, "loading and saving tensors"},
    {"expandable segments", {}, "the allocator's setting expandable_segments, which is off by default"},
    {"max_split_size", {}, "the allocator's setting max_split_size_mb, which is off by default"},
    {"cudaMallocAsync", {}, "the allocator's setting backend:cudaMallocAsync, which is off by default"},
    {"cuDNN plan limit", {}, "TORCH_CUDNN_V8_API_LRU_CACHE_LIMIT, which is unset by default"},
    {"pinned background threads",
     {"pinned_use_background_threads"},
     "the allocator's setting pinned_use_background_threads, which is off by default"},
}};

// A word without its case, blanks, underscores, hyphens and final s.
inline std::string folded_tag(std::string_view word) {
  std::string folded;
  for (const char c : word) {
    if (c == ' ' || c == '_' || c == '-') continue;
    folded += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  if (folded.size() > 1 && folded.back() == 's') folded.pop_back();
  return folded;
}

// The tag that a word means by its name or an alias; nullptr if none.
inline const Tag* tag_of(std::string_view word) {
  const std::string wanted = folded_tag(word);
  if (wanted.empty()) return nullptr;
  for (const Tag& tag : kTags) {
    const auto is_wanted = [&](std::string_view name) { return folded_tag(name) == wanted; };
    if (is_wanted(tag.name) || std::any_of(tag.aliases.begin(), tag.aliases.end(), is_wanted)) return &tag;
  }
  return nullptr;
}

}  // namespace recapture
