// Identifies the machine of a run: what must be equal for comparing two runs, its label, and its part of a file name.
#pragma once
#include <array>
#include <compare>
#include <map>
#include <string>
#include <string_view>

#include "harness/model/release.h"

namespace recapture {

// A library that a run may load instead of LibTorch's own, or a Python package of which it may give the cases another
// release. The environment has its version as `key`, and `key`_by if the run chose it.
struct OverridableLibrary {
  const char* key;
  const char* name;
  const char* option;   // Of `run` and `compare`,
  const char* example;  // and an example of its value.
  const char* file;     // Prefix of its file's name; empty for a Python package.
  const char* tag;      // In a report's file name.
  const char* fetch;    // The command that gets it, without the version.

  bool is_package() const { return *file == '\0'; }
};
inline constexpr std::array<OverridableLibrary, 3> kOverridableLibraries = {
    {{"cuda_runtime", "CUDA runtime", "--cuda-runtime", "12.9", "libcudart.so.", "cuda",
      "tools/libtorch --cuda-runtime"},
     {"nccl", "NCCL", "--nccl", "2.30.7", "libnccl.so.", "nccl", "tools/libtorch --nccl"},
     {"transformer_engine", "TransformerEngine", "--transformer-engine", "2.20.2", "", "te",
      "tools/transformer_engine"}}};

struct MachineId {
  std::string gpu, driver;                       // "" without a GPU.
  std::string runtime;                           // CUDA runtime, the release's own or chosen.
  bool packed = false;                           // By tools/pack.
  std::string variables;                         // Set on purpose for the tests: "A=1, B=2".
  std::map<std::string, std::string> overrides;  // Versions that the run chose, by OverridableLibrary::key.
  std::string processor = {};                    // Its architecture, "aarch64"; "" for x86_64.

  bool operator==(const MachineId&) const = default;
  // By GPU, driver, runtime, then the rest. Without a GPU comes last, "NVIDIA H200" after "NVIDIA H200 NVL".
  std::strong_ordering operator<=>(const MachineId& other) const;

  bool has_override(const OverridableLibrary& library) const { return overrides.count(library.key) != 0; }

  // Whether there were no variables and LibTorch had its own libraries.
  bool is_plain() const { return variables.empty() && overrides.empty(); }

  // What must be equal for comparing two releases: GPU, driver, processor, variables. Libraries come with the release.
  MachineId comparable() const;
  // The same, with the chosen libraries.
  MachineId with_overrides() const;
  // What an update of the driver or of a release's runtime does not change: GPU, processor, variables, chosen
  // libraries.
  MachineId place() const;
};

// A release on a machine, ordered by both.
struct MachineKind {
  Release release;
  MachineId machine;

  bool operator==(const MachineKind&) const = default;
  std::strong_ordering operator<=>(const MachineKind& other) const;
};

// Equal if and only if two records can be compared as those of one machine. A chosen CUDA runtime counts by its version
// alone, like a release's own, and is not among the overrides.
MachineKind kind_of_machine(const Release& release, const MachineId& machine);

// What a label shows besides the GPU.
struct Detail {
  bool driver = false, runtime = false, packed = false, variables = false, overrides = false;
  std::string_view no_gpu = "no GPU";
};

// "NVIDIA H200, driver 580.159.04, CUDA runtime 13.0 (packed), A=1, NCCL 2.30.7", escaped. A processor other than
// x86_64 follows the GPU.
std::string label(const MachineId& machine, const Detail& detail);

// Of a run with libraries other than LibTorch's own: ", CUDA runtime 12.9, NCCL 2.30.7"; else "".
std::string label_of_overrides(const MachineId& machine);

// "nvidia-h200.A-1-5d41.cuda-13.2.nccl-2.30.7", without a GPU "host", on another processor "host.aarch64". Variables
// have a hash.
std::string file_name(const MachineId& machine);

}  // namespace recapture
