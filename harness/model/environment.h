// The first line of a record: the environment of a run. Parsed once; what is used often is a member.
#pragma once
#include <set>
#include <string>
#include <vector>

#include "harness/base/json.h"
#include "harness/case/types.h"
#include "harness/model/gpu.h"
#include "harness/model/machine_id.h"
#include "harness/model/release.h"

namespace recapture {

class Environment {
 public:
  Environment() = default;
  Environment(Json json);  // Not explicit: a line of a record is an environment.
  Environment(Json::initializer_list_t members) : Environment(Json(members)) {}

  // The complete line, with unknown keys; its "release" as `release` has it.
  const Json& json() const { return json_; }
  bool empty() const { return json_.is_null(); }
  // A copy with another value of one key.
  Environment with(const std::string& key, Json value) const;

  int format = 1;  // Of the record.
  // Texts as they are on record, "" where they are absent.
  // With a label where it is not that release's own build: "2.11.0+acme", "2.11.0+git0123abc".
  Release release;
  std::string build;  // A build in ci/matrix.toml without a release number, such as "nightly".
  std::string shard;  // "2/4"
  MachineId machine;
  Architecture architecture;  // Of its GPU.
  MachineKind kind;           // Records of one kind can be compared as results of one machine.
  Break broken = Break::Nothing;
  int gpus = 0;
  std::string started;               // Escaped. Sorts by time as text.
  std::vector<std::string> run_ids;  // The run's own id; of a merged record the ids of all its shards.

  // The build, whose release changes each night, or else the release, as `run --release` takes it: without a label.
  const std::string& name_in_matrix() const { return build.empty() ? own_release_ : build; }

 private:
  void read_release();

  Json json_;
  std::string own_release_;
};

// Whether a run without a GPU has the same results, for cases that need none, as a run on that machine: the same
// release with its own libraries, and the same variables.
bool stands_in(const Environment& without_gpu, const Environment& machine);

// The names of the differences between two environments, except volatile members; each variable by itself: "driver",
// "CUDA_VISIBLE_DEVICES", "--env TORCH_LOGS".
std::set<std::string> differences(const Environment& one, const Environment& other);

// The path of a record below reports/, from its environment: "2.11.0/nvidia-h200.jsonl", of a run broken on purpose
// "2.11.0/nvidia-h200.trigger.jsonl", without a GPU "2.15.0/host.jsonl". Variables follow the GPU, in a form valid in
// file names and with a hash, then the chosen libraries: "2.11.0/nvidia-h200.cuda-13.2.nccl-2.30.7.jsonl".
std::string report_path(const Environment& environment);

// Further runs of one kind of machine have a suffix: "2.11.0/nvidia-h200.run-2.jsonl".
bool is_report_path(const std::string& path, const Environment& environment);

}  // namespace recapture
