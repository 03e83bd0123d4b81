// recapture dev gates: many gates by one process, for tests that ask about all releases.
#include <fmt/format.h>

#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>

#include "harness/base/escape.h"
#include "harness/base/json.h"
#include "harness/base/output.h"
#include "harness/commands/commands.h"
#include "harness/commands/gate.h"

namespace recapture::commands {
namespace {

struct GateQuestion {
  SideOptions sides;
  std::string policy;
};

GateQuestion question_of(const std::string& line) {
  const auto json = try_parse_json(line);
  if (!json || !json->is_object()) throw ExitError(Exit::Usage, "a line is not a JSON object: " + escape_control(line));
  GateQuestion question;
  const std::map<std::string_view, std::string*> members = {
      {"from", &question.sides.from},       {"to", &question.sides.to},
      {"gpu", &question.sides.machine.gpu}, {"driver", &question.sides.machine.driver},
      {"records", &question.sides.records}, {"policy", &question.policy}};
  for (const auto& [key, value] : json->items()) {
    const auto known = members.find(key);
    if (known == members.end() || !value.is_string()) {
      throw ExitError(Exit::Usage, fmt::format("'{}' is not a member of a question, or not text", escape_control(key)));
    }
    *known->second = value.get<std::string>();
  }
  if (question.sides.from.empty() || question.sides.to.empty()) {
    throw ExitError(Exit::Usage, "a question needs from and to");
  }
  return question;
}

// Questions about the same sides share the comparison.
class ManyGates {
 public:
  explicit ManyGates(const run::Layout& places)
      : places_(places),
        background_(background_with_remedies(places)),
        records_(places.reports(), places.reports(), background_) {
    records_.read_all();
  }

  Json answer(GateQuestion question) {
    check(places_, question.sides);
    const compare::Policy policy = gate_policy(question.policy, {});
    SideOptions& sides = question.sides;
    sides.machine.machines = policy.machines;
    sides.records = records_of(places_, sides.records);
    if (sides.records != folder_) records_.change_folder(sides.records);
    folder_ = sides.records;
    const bool with_operators = names_operators(policy);
    Key key = {sides.from,    sides.to,        sides.machine.gpu, sides.machine.driver,
               sides.records, policy.machines, with_operators};
    if (!compared_ || key != compared_->first) {
      compared_.reset();
      GateSides found = records_.sides(sides, with_operators);
      compared_.emplace(std::move(key), std::move(found));
    }
    const GateAnswer answer = answer_gate(compared_->second, policy, std::nullopt, background_.catalogue);
    return report::render_json(report::ComparisonReport{answer.shown, policy, &answer.decision, nullptr});
  }

 private:
  using Key =
      std::tuple<std::string, std::string, std::string, std::string, std::string, std::vector<std::string>, bool>;

  const run::Layout& places_;
  const compare::CompareContext background_;
  GateRecords records_;
  std::string folder_ = places_.reports();
  std::optional<std::pair<Key, GateSides>> compared_;
};

Exit answer_all(const run::Layout& places) {
  ManyGates gates(places);
  for (std::string line; std::getline(std::cin, line);) {
    Json answer;
    try {
      answer = gates.answer(question_of(line));
    } catch (const ExitError& stop) {
      answer = {{"exit", static_cast<int>(stop.code)}, {"error", stop.what()}};
    }
    print("{}\n", to_text(answer));
    flush_output();
  }
  return Exit::AsExpected;
}

}  // namespace

Verb dev_gates_verb(CLI::App& dev, const std::string& root) {
  auto* command = dev.add_subcommand(
      "gates",
      "Answer as gate --json does, for each line on standard input: a JSON object with from and to, and gpu, "
      "driver, policy and records, as text; an answer is a line");
  command->footer(
      "Exit codes: 0 done, 2 wrong usage. An answer has the exit code of gate; an error also has its text.");
  return {command,
          [&root] { return answer_all(run::Layout::find(root)); },
          Signals::Output,
          {{"recapture dev gates <questions.jsonl", "all of a file"},
           {"echo '{\"from\": \"2.6\", \"to\": \"2.11\"}' | recapture dev gates", "one"}}};
}

}  // namespace recapture::commands
