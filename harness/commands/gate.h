// What the verb gate and its sweeps share.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "harness/commands/compare.h"
#include "harness/compare/features.h"
#include "harness/compare/gaps.h"
#include "harness/compare/judged_records.h"
#include "harness/compare/policy.h"

namespace recapture::commands {

// Two sides compared, and what that lacks: the same for every policy that chooses the same machine, and names the
// operators or not.
struct GateSides {
  compare::Comparison comparison;
  compare::Gaps gaps;
};

// The records that gates read.
class GateRecords {
 public:
  // `folder` has the sides' records; `reports` is another folder whose records show what a case can do.
  GateRecords(std::string folder, std::string reports, const compare::CompareContext& background)
      : folder_(std::move(folder)), reports_(std::move(reports)), background_(background), read_(background) {}

  GateSides sides(const SideOptions& sides, bool names_operators);

  // For many gates: reads all records, and does not read those of some cases for each gate.
  void read_all();
  // Takes the sides from another folder, and drops the records of the one before. Only after read_all().
  void change_folder(const std::string& folder);

 private:
  compare::Gaps gaps_in(const compare::Comparison& comparison, const compare::BothSides& sides,
                        const compare::MachineChoice& choice);
  // What the history of the cases must answer.
  struct Question {
    const compare::GapInput& input;
    std::set<std::string> hiding;   // Whether a failure of one of their tests is damage in any run.
    std::set<std::string> earlier;  // What they show in releases older than both sides.
  };
  // Reads until nothing is in question.
  void add_to_history(const std::string& folder, Question& question, compare::History& history);

  std::string folder_, reports_;
  const compare::CompareContext& background_;
  compare::JudgedRecords read_;
  std::unique_ptr<compare::History> of_reports_, history_;  // After read_all(): of those, and with `folder_`.
};

// A policy's answer. `features` are those of a program, if it was observed.
struct GateAnswer {
  compare::Comparison shown;  // What is in scope, and what blocks.
  compare::Decision decision;
};
GateAnswer answer_gate(GateSides sides, const compare::Policy& policy, const std::optional<compare::Features>& features,
                       const Catalogue& catalogue);

// Of a policy, and --without. Notes on older words go to standard error.
compare::Policy gate_policy(const std::string& path, const std::vector<std::string>& without);
bool names_operators(const compare::Policy& policy);

}  // namespace recapture::commands
