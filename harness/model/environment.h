// The first line of a record: what a run had. It is read once; what is asked of it again and again is a member.
#pragma once
#include <set>
#include <string>
#include <vector>

#include "harness/base/json.h"
#include "harness/case/types.h"
#include "harness/model/machine_id.h"

namespace recapture {

class Environment {
 public:
  Environment() = default;
  Environment(Json json);  // Not explicit: a line of a record is an environment.
  Environment(Json::initializer_list_t members) : Environment(Json(members)) {}

  // All that is on record, with what this program does not know.
  const Json& json() const { return json_; }
  bool empty() const { return json_.is_null(); }
  // The same with another value of one member.
  Environment with(const std::string& key, Json value) const;

  int format = 1;  // Of the record.
  // Texts as they are on record, "" where they are absent.
  std::string release;
  std::string build;  // The name in ci/matrix.toml, such as "nightly", of what is no release.
  std::string shard;  // "2/4"
  MachineId machine;
  MachineKind kind;  // Two records of one kind may be compared as results of one machine.
  Break broken = Break::Nothing;
  int gpus = 0;
  std::string started;               // As it may be shown. As text it sorts by time.
  std::vector<std::string> run_ids;  // The run's own; of a merged record those of all its shards.

  // The build, whose release is another one each night, or else the release.
  const std::string& name_in_matrix() const { return build.empty() ? release : build; }

 private:
  Json json_;
};

// Whether none of its runs has been counted yet, as one of a copy has, or of a shard that a merged record has too. From
// now on they have.
bool counts_first(const Environment& environment, std::set<std::string>& counted);

// Whether a run without a GPU says of the cases that need none what one on that machine would: of the same release with
// its own libraries, and with the same variables.
bool stands_in(const Environment& without_gpu, const Environment& machine);

// The names of what differs in two environments, other than by being volatile; of variables each one's: "driver",
// "CUDA_VISIBLE_DEVICES", "--env TORCH_LOGS".
std::set<std::string> differences(const Environment& one, const Environment& other);

// Where a record belongs below reports/, from what it was run on: "2.11.0/nvidia-h200.jsonl", of a run broken on
// purpose "2.11.0/nvidia-h200.trigger.jsonl", without a GPU "2.15.0/host.jsonl". Variables follow the GPU, spelt as a
// file's name and with a hash of them, and then what was chosen: "2.11.0/nvidia-h200.cuda-13.2.nccl-2.30.7.jsonl".
std::string report_path(const Environment& environment);

// Further runs of one kind of machine stand beside its first: "2.11.0/nvidia-h200.run-2.jsonl".
bool is_report_path(const std::string& path, const Environment& environment);

}  // namespace recapture
