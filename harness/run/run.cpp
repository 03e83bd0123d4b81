#include "harness/run/run.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <sstream>
#include <thread>
#include <utility>

#include "harness/base/file.h"
#include "harness/base/output.h"
#include "harness/base/text.h"
#include "harness/case/events.h"
#include "harness/model/operator_cases.h"
#include "harness/model/release.h"
#include "harness/run/case_binaries.h"
#include "harness/run/environment.h"
#include "harness/run/estimate.h"
#include "harness/run/line.h"
#include "harness/run/machine.h"
#include "harness/run/pool.h"
#include "harness/run/process.h"
#include "harness/run/progress.h"
#include "harness/run/release_python.h"
#include "harness/run/run_record.h"
#include "harness/run/server.h"
#include "harness/store/coverage.h"
#include "harness/store/select.h"
#include "harness/verdict/race_rule.h"

namespace recapture::run {
namespace fs = std::filesystem;
namespace {

constexpr size_t kConfirmations = 2;

std::string chosen_release(const Layout& places, const std::string& wanted) {
  const auto built = built_releases(places);
  if (wanted.empty() && built.empty()) {
    throw ExitError(Exit::Infrastructure,
                    "no cases are built; in a clone `ci/suite` installs LibTorch and builds them");
  }
  if (wanted.empty()) return built.back();
  const auto builds = read_builds(places.root);
  if (std::find(builds.begin(), builds.end(), wanted) != builds.end()) return wanted;
  return named_release(places, wanted);
}

constexpr size_t kMostBesideAGpu = 16;  // More gain little: the driver creates contexts one at a time.

size_t best_jobs(const Machine& machine) {
  const size_t cores = std::max(1U, std::thread::hardware_concurrency());
  return machine.gpus > 0 ? std::clamp<size_t>(cores * 3 / 4, 1, kMostBesideAGpu) : cores;
}

void stop_if_interrupted() {
  if (interrupted()) throw ExitError(Exit::Interrupted, "interrupted; nothing was run");
}

// A program's own limit ends it by a signal, which is a result; the deadline is for what that does not end.
constexpr double kLimitOfProgram_s = 60, kLonger_s = 30;
double deadline_of_program(const CaseInfo& info) {
  return std::max(static_cast<double>(info.deadline_s), kLimitOfProgram_s) + kLonger_s;
}

bool is_built(const CaseBinary& binary) { return !binary.path.empty(); }

// The binary must still be the one that described itself for the record.
void require_unchanged(const CaseBinary& binary) {
  if (!is_built(binary) || stamp_of(binary.path) == binary.stamp) return;
  throw ExitError(Exit::Usage, binary.info.id + ": its binary has changed since the run began");
}

// The same of the file of its program, whose hash is in the record.
void require_unchanged_program(const CaseProgram& program) {
  if (program_hash(contents_of(program.path)) == program.code) return;
  throw ExitError(Exit::Usage, program.path + " has changed since the run began");
}

// The hash of the program that a test runs; "" of any other.
std::string program_code(const CaseBinary& binary, const std::string& test) {
  return is_of_program(test) && binary.program ? binary.program->code : "";
}

// The function that a test runs, and its file, as programs.py takes them.
std::array<std::string, 2> program_request(const CaseBinary& binary, const std::string& test) {
  const auto& functions = binary.program->functions;
  const auto is_its = [&](const std::string& function) { return test_of_function(function) == test; };
  return {*std::ranges::find_if(functions, is_its), fs::absolute(binary.program->path).string()};
}

// Whether workers share the case's tests: they are hundreds, and none is judged by another.
bool is_shared(const CaseInfo& info) { return lists_operators(info.id); }

// A part for each case, and for each test of a shared one.
std::vector<PlannedCase> in_parts(const std::vector<PlannedCase>& plan) {
  std::vector<PlannedCase> parts;
  for (const PlannedCase& planned : plan) {
    if (!is_shared(planned.binary.info)) {
      parts.push_back(planned);
      continue;
    }
    for (const std::string& test : planned.tests) parts.push_back({planned.binary, {test}});
  }
  return parts;
}

bool runs_alone(const CaseInfo& info) { return info.nature == Nature::Race; }

constexpr const char* kConnectionsVariable = "CUDA_DEVICE_MAX_CONNECTIONS";

class Stopwatch {
 public:
  double seconds() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(); }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

double rounded(double seconds) { return std::round(seconds * 100) / 100; }

// One run's state, so that its steps can be functions. The runner starts no test: it forks workers that run whole
// cases, writes the record, and reports to the user. Functions marked "in a worker" run there, with the state at the
// fork.
class Run {
 public:
  Run(const Layout& places, const RunOptions& options, RenderLine render_line)
      : places_(places), options_(options), render_line_(render_line), record_(options) {}
  Finished go();

 private:
  void make_plan();
  void probe_machine();
  void leave_out_simulated();
  bool keep_what_is_left();
  void schedule_tests();
  void run_all();
  void hear(size_t worker, const Json& message);
  void measure_contexts();
  void finish();
  [[noreturn]] void end_interrupted();
  [[noreturn]] void fail(const Pool::Failure& failure);
  [[noreturn]] void cut_short(Exit code, const std::string& what);

  // In a worker.
  void run_case(size_t worker, const PlannedCase& planned);
  void enter(size_t worker, const PlannedCase& planned);
  void leave();
  void run_test(const CaseBinary& binary, const std::string& test);
  Json line_by_rule(const CaseBinary& binary, const std::string& test, bool by_exec, Observation& seen);
  void confirm(const CaseBinary& binary, const std::string& test, size_t before);
  void write_line(const Json& line);
  void show_case();
  Observation observe(const CaseBinary& binary, const std::string& test, bool by_exec);
  Observation observe_program(const CaseBinary& binary, const std::string& test, bool by_exec);
  Server* server_of(const std::string& test);
  Ran ran(const CaseBinary& binary, const std::string& test, bool by_exec) const;
  void check_gpu(const std::string& after);
  void say(const Json& message) const { (*say_)(message); }

  // In either process.
  void see_gpus(const std::string& visible) const;
  std::string gpus_that_answer() const;
  std::string leave_out_bad_gpus();
  Program program_of(const CaseBinary& binary) const;
  std::map<std::string, std::string> variables_of(const CaseBinary& binary) const;
  std::optional<int> connections_of(const CaseBinary& binary) const;
  // The test's line in the resumed record; nullptr if there is none.
  const TestRecord* line_before(const CaseBinary& binary, const std::string& test) const {
    return record_.before() ? record_.before()->find(binary.info.id + "." + test) : nullptr;
  }
  size_t confirmations_before(const std::string& id) const;
  TestVerdict judge_line(const CaseBinary& binary, const TestRecord& line) const;
  bool asks_for_confirmation(const TestVerdict& row, const TestRecord& line) const;
  bool is_done(const CaseBinary& binary, const std::string& test) const;
  std::string why_not(const CaseBinary& binary, const std::string& test) const;

  const Layout& places_;
  RunOptions options_;
  RenderLine render_line_;
  std::vector<PlannedCase> plan_;        // In the catalogue's order.
  std::vector<PlannedCase> whole_plan_;  // Of all shards, if there are several.
  std::vector<Record> committed_;        // The newest of each machine.
  std::vector<PlannedCase> queue_;       // What is left of it, in execution order.
  std::vector<size_t> together_, alone_;
  std::set<std::string> left_;       // Planned tests without a line.
  std::set<std::string> described_;  // Cases with a line.
  Machine machine_;
  Json environment_;
  Rules rules_;
  Anonymous anonymous_;
  std::vector<std::string> notes_;  // Notes on the machine for the user.
  std::string lacks_;               // Why no test can be loaded; "" if tests can.
  std::string preload_;             // Libraries to load before LibTorch.
  ReleasePython python_;            // For the programs of cases.
  RunRecord record_;
  std::optional<Progress> progress_;
  Record case_;                               // In a worker: the lines so far of its case,
  std::map<std::string, std::string> shown_;  // and the lines shown to the user.
  std::string entered_;                       // its name,
  std::unique_ptr<Server> server_;            // its server,
  bool served_ = false;                       // and whether that answered.
  std::unique_ptr<Server> programs_;          // Of all its cases. It stays until the worker ends.
  const Pool::Say* say_ = nullptr;
  Json last_;  // The record's last line, if a worker found that going on is pointless.
  Pace pace_;
  Stopwatch watch_;
  std::vector<double> ended_s_;  // By worker, on the watch: the end of its last test.
};

// No effect without --gpu.
void Run::see_gpus(const std::string& visible) const {
  if (!options_.gpus.empty()) setenv("CUDA_VISIBLE_DEVICES", visible.c_str(), 1);
}

// As --gpu takes them; "" if none does, or all do.
std::string Run::gpus_that_answer() const {
  if (machine_.bad.empty()) return "";
  std::vector<std::string> visible = options_.gpus;
  if (const char* chosen = std::getenv("CUDA_VISIBLE_DEVICES"); visible.empty() && chosen != nullptr) {
    std::istringstream words(chosen);
    for (std::string gpu; std::getline(words, gpu, ',');) visible.push_back(gpu);
  }
  std::vector<std::string> good;
  for (int i = 0; i < machine_.gpus; ++i) {
    if (contains(machine_.bad, i)) continue;
    good.push_back(static_cast<size_t>(i) < visible.size() ? visible[static_cast<size_t>(i)] : std::to_string(i));
  }
  return join(good, ",");
}

// The GPUs that a user named are his choice. Of all others a run takes those that work; returns a note on the rest.
std::string Run::leave_out_bad_gpus() {
  const std::string good = gpus_that_answer(), why = machine_.health;
  if (!options_.gpus.empty() || good.empty()) return "";
  setenv("CUDA_VISIBLE_DEVICES", good.c_str(), 1);
  machine_ = ask_machine(places_);
  stop_if_interrupted();
  return fmt::format("a GPU does not answer and is left out: {}; the run has GPUs {}, and --gpu chooses others", why,
                     good);
}

// The hardware connections to the GPU that its processes are given; nothing where the driver or --env decides.
std::optional<int> Run::connections_of(const CaseBinary& binary) const {
  const bool is_left_alone = binary.info.needs.gpus == 0 || binary.connections == kConnectionsOfDriver;
  return is_left_alone || options_.env.count(kConnectionsVariable) != 0 ? std::nullopt
                                                                        : std::optional(binary.connections);
}

// Those that CUDA reads when it starts: they differ between cases.
std::map<std::string, std::string> Run::variables_of(const CaseBinary& binary) const {
  std::map<std::string, std::string> variables;
  if (const auto connections = connections_of(binary)) variables[kConnectionsVariable] = std::to_string(*connections);
  if (binary.info.needs.gpus > 0 && fs::exists(places_.recorder())) {
    variables["CUDA_INJECTION64_PATH"] = places_.recorder();
    // While the recorder switches CUPTI on and off, it can miss calls of other threads for some microseconds. Reading
    // Python frames would disturb a race.
    variables["RECAPTURE_RECORDER"] = runs_alone(binary.info) ? "aloof" : "always";
  }
  return variables;
}

Program Run::program_of(const CaseBinary& binary) const {
  Program program{
      binary.path, {fmt::format("--break={}", to_string(options_.broken))}, variables_of_tests(options_, preload_)};
  for (const auto& [name, value] : variables_of(binary)) program.environment[name] = value;
  return program;
}

void Run::make_plan() {
  options_.release = chosen_release(places_, options_.release);
  auto cases = catalog(places_, options_.release, options_.libtorch);
  committed_ = newest_records(places_.reports()).records;
  add_lost(cases, places_, options_.release, committed_);
  const bool has_plan = record_.before() && !record_.before()->plan.empty();
  const bool takes_plan = options_.left ? has_plan : record_.before() && !options_.go_on && options_.filters.empty();
  if (takes_plan) {
    plan_ = plan_of(cases, record_.before()->plan, options_.broken, Shard{});  // This shard's plan.
  } else {
    plan_ = plan_of(cases, options_.filters, options_.broken, options_.shard);
  }
  if (options_.shard.of > 1) {
    const auto& filters = options_.left && has_plan ? record_.before()->whole_plan : options_.filters;
    whole_plan_ = plan_of(cases, filters, options_.broken, Shard{});
  }
  rules_ = rules_of(places_.root, options_.demands);
  add_machines(committed_, rules_.measured);
  if (options_.demands.as_before) rules_.available = available_in(committed_);
  if (plan_.empty()) {
    throw ExitError(Exit::NothingRan, options_.shard.of > 1
                                          ? "nothing to run: this shard is empty"
                                          : fmt::format("nothing to run: --break {} concerns none of these tests",
                                                        to_string(options_.broken)));
  }
}

void Run::probe_machine() {
  record_.hold();
  see_gpus(join(options_.gpus, ","));
  machine_ = ask_machine(places_);
  stop_if_interrupted();
  const std::string left_out = leave_out_bad_gpus();
  if (machine_.gpus > 0 && !machine_.answers()) {
    throw ExitError(
        Exit::Infrastructure,
        fmt::format("the GPU does not answer: {}{}; nothing was run", machine_.health,
                    gpus_that_answer().empty() ? "" : "; --gpu " + gpus_that_answer() + " runs on the rest"));
  }
  // CUDA ignores all GPUs from the first missing one on.
  if (static_cast<size_t>(machine_.gpus) < options_.gpus.size()) {
    throw ExitError(Exit::Infrastructure, fmt::format("GPU {}, which --gpu names, is not here; nothing was run",
                                                      options_.gpus[static_cast<size_t>(machine_.gpus)]));
  }
  if (!machine_.unlike.empty()) {
    throw ExitError(Exit::Usage, fmt::format("a record is of one kind of GPU, and here are {} and {}; --gpu or "
                                             "CUDA_VISIBLE_DEVICES chooses, such as --gpu 0",
                                             machine_.gpu, machine_.unlike));
  }
  if (rules_.demands.gpu && machine_.gpus == 0) {
    throw ExitError(Exit::Infrastructure, "a GPU is required, but there is none: " + machine_.reason);
  }
  if (options_.jobs == 0) options_.jobs = best_jobs(machine_);
  const auto built = std::find_if(plan_.begin(), plan_.end(), [](const PlannedCase& p) { return is_built(p.binary); });
  if (built == plan_.end()) {
    const std::string& id = plan_.front().binary.info.id;
    throw ExitError(Exit::Infrastructure, fmt::format("{} is not built for LibTorch {}; `ci/suite {} -- {}` builds it",
                                                      id, options_.release, options_.release, id));
  }
  ProbedEnvironment surroundings = surroundings_of(places_, options_, machine_, built->binary.path);
  stop_if_interrupted();
  environment_ = surroundings.environment;
  const Json last = environment_.at("volatile");  // It stays the last member.
  environment_.erase("volatile");
  if (options_.demands.gpu || options_.demands.recorder) {  // A reader must judge the record as this run does.
    environment_["require"] = describe(options_.demands);
  }
  environment_["volatile"] = last;
  anonymous_ = surroundings.anonymous;
  notes_ = surroundings.notes;
  if (!left_out.empty()) notes_.push_back(left_out);
  const auto needs_gpu = [](const PlannedCase& planned) { return planned.binary.info.needs.gpus > 0; };
  if (std::ranges::any_of(plan_, needs_gpu)) {
    const std::string why = why_driver_cannot_run(machine_, text_at(environment_, "cuda_runtime"), options_.release);
    if (!why.empty()) throw ExitError(Exit::Infrastructure, why + "; nothing was run");
  }
  lacks_ = surroundings.lacks;
  preload_ = surroundings.preload;
  python_ = find_python(surroundings.site);
  if (!lacks_.empty()) notes_.push_back(lacks_ + ", so no test can run");
}

// Our models behave the same on each machine and release, so they do not run on a GPU.
void Run::leave_out_simulated() {
  if (machine_.gpus == 0) return;
  std::vector<std::string> left_out;
  const auto is_simulated = [&](const PlannedCase& planned) {
    return rules_.simulated.count(planned.binary.info.id) != 0;
  };
  for (const PlannedCase& planned : plan_) {
    if (is_simulated(planned)) left_out.push_back(planned.binary.info.id);
  }
  std::erase_if(plan_, is_simulated);
  std::erase_if(whole_plan_, is_simulated);
  if (left_out.empty()) return;
  const std::string why = fmt::format(
      "{}, a model of ours, independent of the release; without a GPU, as under CUDA_VISIBLE_DEVICES=, a run has {}",
      left_out.size() == 1 ? left_out.front() + " is simulated"
                           : fmt::format("{} cases are simulated", left_out.size()),
      left_out.size() == 1 ? "it" : "them");
  if (plan_.empty() && !options_.left) throw ExitError(Exit::NothingRan, "nothing to run: " + why);
  notes_.push_back("left out: " + why);
}

// Returns whether anything is left.
bool Run::keep_what_is_left() {
  if (!options_.left || (record_.before() && !record_.before()->plan.empty())) return true;
  const CoverageIndex index(committed_, rules_);
  const Environment environment(environment_);
  const MachineId& machine = environment.machine;
  size_t for_more_gpus = 0;
  const auto keep = [&](std::vector<PlannedCase>& plan) {
    for_more_gpus = 0;
    for (PlannedCase& planned : plan) {
      const CaseInfo& info = planned.binary.info;
      std::vector<WantedTest> wanted;
      for (const std::string& test : planned.tests) {
        wanted.push_back({info.id + "." + test, info.needs, rules_.simulated.count(info.id) != 0});
      }
      planned.tests.clear();
      for (const LeftTest& left : index.left(environment.release.name(), machine, wanted).tests) {
        if (left.gpus <= machine_.gpus) {
          planned.tests.push_back(name_of(left.test));
        } else {
          ++for_more_gpus;
        }
      }
    }
    plan.erase(std::remove_if(plan.begin(), plan.end(), [](const PlannedCase& p) { return p.tests.empty(); }),
               plan.end());
  };
  keep(whole_plan_);
  keep(plan_);
  if (for_more_gpus > 0) {
    notes_.push_back(fmt::format("{} left need{} more GPUs than the {} here", plural(for_more_gpus, "test"),
                                 for_more_gpus == 1 ? "s" : "", machine_.gpus));
  }
  return !plan_.empty();
}

// Longest first, so that no long test starts last. With one job, the catalogue's order is as good.
void Run::schedule_tests() {
  Estimate estimate(committed_, machine_.gpu, options_.release);
  for (const std::string& test : tests_of(plan_)) {
    if (!record_.before() || record_.before()->find(test) == nullptr) left_.insert(test);
  }
  queue_ = plan_;
  for (PlannedCase& planned : queue_) {
    const auto done = [&](const std::string& test) { return is_done(planned.binary, test); };
    planned.tests.erase(std::remove_if(planned.tests.begin(), planned.tests.end(), done), planned.tests.end());
  }
  queue_.erase(std::remove_if(queue_.begin(), queue_.end(), [](const PlannedCase& p) { return p.tests.empty(); }),
               queue_.end());
  if (options_.seed) {
    shuffle(queue_, *options_.seed);
  } else if (options_.jobs > 1) {
    std::map<std::string, double> seconds;  // Of cases and tests.
    for (PlannedCase& planned : queue_) {
      const std::string& id = planned.binary.info.id;
      const auto seconds_of = [&](const std::string& test) { return seconds.at(id + "." + test); };
      for (const std::string& test : planned.tests) {
        seconds[id + "." + test] = estimate.of(id + "." + test);
        seconds[id] += seconds_of(test);
      }
      if (is_shared(planned.binary.info)) std::ranges::stable_sort(planned.tests, std::greater<>(), seconds_of);
    }
    std::ranges::stable_sort(queue_, std::greater<>(),
                             [&](const PlannedCase& planned) { return seconds.at(planned.binary.info.id); });
  }
  queue_ = in_parts(queue_);
  size_t total = 0;
  for (size_t i = 0; i < queue_.size(); ++i) {
    const CaseInfo& info = queue_[i].binary.info;
    const bool alone = runs_alone(info);
    (alone ? alone_ : together_).push_back(i);
    total += queue_[i].tests.size();
    for (const std::string& test : queue_[i].tests) estimate.plan(info.id + "." + test, alone);
    for (const std::string& test : queue_[i].tests) {
      if (why_not(queue_[i].binary, test).empty()) ++(alone ? pace_.alone : pace_.together);
    }
  }
  pace_.jobs = std::clamp<size_t>(options_.jobs, 1, std::max<size_t>(1, together_.size()));
  progress_.emplace(total, pace_.jobs, std::move(estimate));
}

// The server that runs a test; nullptr if it runs by plain exec. Python imports torch when the first program needs it.
Server* Run::server_of(const std::string& test) {
  if (options_.exec) return nullptr;
  const bool of_program = is_of_program(test);
  if (of_program && (!programs_ || !programs_->alive())) {
    const std::string how = fmt::format("--break={}", to_string(options_.broken));
    programs_ = std::make_unique<Server>(program_runner(python_, {how}, variables_of_tests(options_, preload_)));
  }
  Server* server = of_program ? programs_.get() : server_.get();
  return server != nullptr && server->alive() ? server : nullptr;
}

Observation Run::observe_program(const CaseBinary& binary, const std::string& test, bool by_exec) {
  require_unchanged_program(*binary.program);
  const auto [function, path] = program_request(binary, test);
  const double deadline_s = deadline_of_program(binary.info);
  std::map<std::string, std::string> variables = variables_of(binary);
  if (Server* server = by_exec ? nullptr : server_of(test)) {
    // The server has those of the case in which it was started.
    if (const char* gpus = std::getenv("CUDA_VISIBLE_DEVICES")) variables["CUDA_VISIBLE_DEVICES"] = gpus;
    return server->run(function + " " + path, deadline_s, variables);
  }
  variables.merge(variables_of_tests(options_, preload_));
  const std::string how = fmt::format("--break={}", to_string(options_.broken));
  return execute(program_runner(python_, {how, function, path}, std::move(variables)), deadline_s);
}

Observation Run::observe(const CaseBinary& binary, const std::string& test, bool by_exec) {
  if (is_of_program(test)) return observe_program(binary, test, by_exec);
  // The suite's name is the file's stem in CamelCase; GoogleTest's filter needs only the test's.
  const std::string filter = "*." + test;
  if (!by_exec && server_ && server_->alive()) return server_->run(filter, binary.info.deadline_s);
  require_unchanged(binary);
  Program program = program_of(binary);
  program.arguments.push_back("--gtest_filter=" + filter);
  return execute(program, binary.info.deadline_s);
}

Ran Run::ran(const CaseBinary& binary, const std::string& test, bool by_exec) const {
  const CaseInfo& info = binary.info;
  return {info.id + "." + test,
          by_exec ? "exec" : "fork",
          std::string(to_string(info.stopping)),
          is_of_program(test) ? "" : binary.path,
          program_code(binary, test),
          connections_of(binary)};
}

TestVerdict Run::judge_line(const CaseBinary& binary, const TestRecord& line) const {
  Record one;
  one.environment = environment_;
  one.cases[binary.info.id] = binary.info;
  one.add(line);
  return judge_record(one, rules_).front();
}

size_t Run::confirmations_before(const std::string& id) const {
  if (!record_.before()) return 0;
  const auto found = record_.before()->confirmations.find(id);
  return found == record_.before()->confirmations.end() ? 0 : found->second.size();
}

// Decided by the line alone, so that a run that was cut before its confirmations repeats them.
bool Run::asks_for_confirmation(const TestVerdict& row, const TestRecord& line) const {
  if (options_.broken != Break::Nothing || line.ending() == Ending::NotStarted) return false;
  if (is_surprise(row.verdict)) return true;
  Record here;
  here.environment = environment_;
  const Expectation* expected = find_expectation(rules_.expectations, row.test, here);
  return expected != nullptr && expected->is_open_question;
}

bool Run::is_done(const CaseBinary& binary, const std::string& test) const {
  const TestRecord* before = line_before(binary, test);
  return before != nullptr && (confirmations_before(before->id()) >= kConfirmations ||
                               !asks_for_confirmation(judge_line(binary, *before), *before));
}

// Why a test is not started; "" if it is.
std::string Run::why_not(const CaseBinary& binary, const std::string& test) const {
  if (binary.lost.count(test) != 0) return kNotBuilt;
  if (!lacks_.empty()) return lacks_;
  const std::string lacking = machine_.lacks(binary.info.needs);
  return lacking.empty() && is_of_program(test) ? python_.reason : lacking;
}

// The check after the last test runs in the runner, without a process to report to.
void Run::check_gpu(const std::string& after) {
  const Machine now = ask_machine(places_);
  if (now.answers() || interrupted()) return;
  const Json last = {{"end", "the GPU does not answer after " + after}, {"canary", now.health}};
  if (say_ != nullptr) say({{"last", last}});
  if (say_ == nullptr) record_.keep(last);
  const std::string& why = now.reason.empty() ? now.health : now.reason;
  throw ExitError(
      Exit::Infrastructure,
      fmt::format("the GPU does not answer after {}: {}; the rest was not run, see {}", after, why, record_.path()));
}

void Run::write_line(const Json& line) {
  say({{"line", line}});
  TestRecord test{line};
  if (line.contains("confirms")) {
    case_.confirmations[test.id()].push_back(std::move(test));
  } else {
    case_.add(std::move(test));
  }
}

// Shows each test's verdict given the case's results so far, and again if a later result changes it.
void Run::show_case() {
  for (const TestVerdict& row : judge_record(case_, rules_)) {
    const std::string line = render_line_(row);
    if (std::exchange(shown_[row.test], line) != line) say({{"shown", line}});
  }
}

// The line of a test after its process was seen. If the test leaves its tries to the race rule, of as many processes as
// that asks for: with the words of the first that has a hit, or of the first one, and the tries of all. One that shows
// something else ends them, and is the result. `seen` becomes the last process.
Json Run::line_by_rule(const CaseBinary& binary, const std::string& test, bool by_exec, Observation& seen) {
  const Json first = line_of(ran(binary, test, by_exec), seen, anonymous_);
  const auto leaves_tries_to_us = [](const TestRecord& line) {
    return line.ending() == Ending::Exited && line.tries() > 0 && !line.has("contradiction") &&
           line.object("facts").text(kRaceRuleFact) == kRaceRule;
  };
  if (options_.broken != Break::Nothing || !leaves_tries_to_us({first})) return first;
  Json line = first;
  int hits = TestRecord{first}.hits(), tries = TestRecord{first}.tries(), processes = 1;
  double seconds = TestRecord{first}.seconds();
  for (; stopped_by(hits, tries).empty() && !interrupted(); ++processes) {
    seen = observe(binary, test, by_exec);
    Json next = line_of(ran(binary, test, by_exec), seen, anonymous_);
    const TestRecord its{next};
    if (!leaves_tries_to_us(its)) return next;
    if (hits == 0 && its.hits() > 0) line = next;
    hits += its.hits();
    tries += its.tries();
    seconds += its.seconds();
  }
  line.erase("volatile");
  line[key::hits] = hits;
  line[key::tries] = tries;
  line["stopping"] = kRaceRule;
  line["stopped_by"] = stopped_by(hits, tries);
  line["processes"] = processes;
  line["volatile"] = {{"seconds", std::round(seconds * 100) / 100}};
  return line;
}

void Run::confirm(const CaseBinary& binary, const std::string& test, size_t before) {
  const std::string id = binary.info.id + "." + test;
  const bool uses_gpu = binary.info.needs.gpus > 0;
  if (uses_gpu) check_gpu(id);
  for (size_t i = before + 1; i <= kConfirmations && !interrupted(); ++i) {
    Observation seen = observe(binary, test, true);
    Json again = line_by_rule(binary, test, true, seen);
    again["confirms"] = i;
    if (!interrupted()) write_line(again);
  }
  if (uses_gpu) check_gpu(id);
}

void Run::run_test(const CaseBinary& binary, const std::string& test) {
  const std::string id = binary.info.id + "." + test;
  say({{"running", id}});
  if (line_before(binary, test) == nullptr) {
    const std::string reason = why_not(binary, test);
    const bool by_exec = !reason.empty() || server_of(test) == nullptr;
    Observation seen = reason.empty() ? observe(binary, test, by_exec) : Observation{};
    if (interrupted()) return;
    const Json line = reason.empty() ? line_by_rule(binary, test, by_exec, seen)
                                     : line_of_skipped(id, program_code(binary, test), reason);
    // There was a GPU. If it is gone, the test did not run and gets no line: a resumed run repeats it.
    if (reason.empty() && binary.info.needs.gpus > 0 && TestRecord{line}.skip_reason() == SkipReason::NoGpu)
      check_gpu(id);
    if (interrupted()) return;
    write_line(line);
    if (seen.stuck != 0) {
      throw ExitError(
          Exit::Infrastructure,
          fmt::format("{}: process {} cannot be killed, and may hold the GPU; the rest was not run, {} runs it", id,
                      seen.stuck, record_.how_to_resume()));
    }
  }
  const TestRecord& line = *case_.find(id);
  if (asks_for_confirmation(judge_line(binary, line), line)) confirm(binary, test, confirmations_before(id));
  if (interrupted()) return;
  show_case();
  say({{"finished", id}});
}

void Run::run_case(size_t worker, const PlannedCase& planned) {
  const CaseBinary& binary = planned.binary;
  require_unchanged(binary);
  const bool has_lost_server = served_ && !server_->alive();
  if (entered_ != binary.info.id || has_lost_server) enter(worker, planned);
  for (const std::string& test : planned.tests) {
    if (!interrupted()) run_test(binary, test);
  }
  if (!is_shared(binary.info)) leave();
}

// The next part of a shared case finds its server and its results.
void Run::enter(size_t worker, const PlannedCase& planned) {
  const CaseBinary& binary = planned.binary;
  leave();
  entered_ = binary.info.id;
  case_ = Record{};
  case_.environment = environment_;
  case_.cases[binary.info.id] = binary.info;
  shown_.clear();
  if (!record_.before() || record_.before()->cases.count(binary.info.id) == 0) say({{"line", binary.info.to_json()}});
  for (const std::string& test : binary.info.tests) {
    const TestRecord* before = line_before(binary, test);
    if (before == nullptr) continue;
    case_.add(*before);
    if (const auto again = record_.before()->confirmations.find(before->id());
        again != record_.before()->confirmations.end()) {
      case_.confirmations.insert(*again);
    }
  }
  for (const TestVerdict& row : judge_record(case_, rules_))
    shown_[row.test] = render_line_(row);  // Before the run was cut.
  if (binary.info.needs.ranks) {
    see_gpus(join(options_.gpus, ","));
  } else if (!options_.gpus.empty()) {
    see_gpus(options_.gpus[worker % options_.gpus.size()]);
  }
  const bool has_own = !std::ranges::all_of(planned.tests, [](const std::string& test) { return is_of_program(test); });
  if (has_own && !options_.exec && is_built(binary) && lacks_.empty() && machine_.lacks(binary.info.needs).empty()) {
    server_ = std::make_unique<Server>(program_of(binary));
    if (!server_->alive() && !interrupted()) {
      say({{"shown", fmt::format("note: {} has no server that answers, so each of its tests loads LibTorch again",
                                 binary.info.id)}});
    }
    served_ = server_->alive();
  }
}

void Run::leave() {
  server_.reset();
  served_ = false;
  entered_.clear();
}

void Run::hear(size_t worker, const Json& message) {
  if (message.contains("running")) {
    progress_->running(worker, message.at("running"));
  } else if (message.contains("last")) {
    last_ = message.at("last");
  } else if (message.contains("line")) {
    const std::string case_id = text_at(message.at("line"), "case");
    if (!case_id.empty() && !described_.insert(case_id).second) return;  // Written by a worker with another part of it.
    record_.keep(message.at("line"));
    left_.erase(text_at(message.at("line"), "test"));
  } else if (message.contains("shown")) {
    progress_->show(message.at("shown"));
  } else if (message.contains("finished")) {
    const std::string test = message.at("finished");
    progress_->finished(worker, test);
    if (worker < pace_.workers.size()) {
      const double now_s = watch_.seconds();
      pace_.workers[worker].emplace_back(test, now_s - std::exchange(ended_s_[worker], now_s));
    }
  }
}

void Run::fail(const Pool::Failure& failure) {
  if (!last_.is_null()) {
    record_.keep(last_);
    throw ExitError(failure.code, failure.words);
  }
  const std::string test = progress_->run_by(failure.worker);
  cut_short(failure.code, failure.words + (test.empty() ? "" : " in " + test));
}

void Run::cut_short(Exit code, const std::string& what) {
  record_.keep({{"end", what}});
  throw ExitError(code, fmt::format("{}; the rest was not run, {} runs it", what, record_.how_to_resume()));
}

void Run::run_all() {
  Pool pool(
      pace_.jobs,
      [this](size_t worker, size_t item, const Pool::Say& say) {
        say_ = &say;
        run_case(worker, queue_[item]);
      },
      [this] {
        leave();
        programs_.reset();
      },
      [this](size_t worker, const Json& message) { hear(worker, message); }, [this] { progress_->tick(); });
  pace_.jobs = pool.width();
  if (options_.verbose) {
    pace_.workers.resize(pace_.jobs);
    ended_s_.assign(pace_.jobs, watch_.seconds());
  }
  const Stopwatch together;
  auto failure = pool.run(together_, pace_.jobs);
  pace_.together_s = together.seconds();
  std::vector<WorkerTimes> workers = std::exchange(pace_.workers, {});  // Races count apart.
  if (!failure && !interrupted()) {
    const Stopwatch alone;
    failure = pool.run(alone_, 1);
    pace_.alone_s = alone.seconds();
  }
  pool.stop();
  pace_.workers = std::move(workers);
  if (interrupted()) end_interrupted();
  if (failure) fail(*failure);
  if (!left_.empty()) cut_short(Exit::Infrastructure, *left_.begin() + " has not run, for an unknown reason");
}

void Run::end_interrupted() {
  record_.keep({{"end", "interrupted"}},
               Durability::Buffered);  // The user waits, and all finished tests are on disk.
  throw ExitError(Exit::Interrupted, fmt::format("interrupted; {} runs the rest", record_.how_to_resume()));
}

// The driver creates contexts one after the other, so a night cannot be faster than as many bare ones. The same number
// of processes at once, with the same variables, but without the recorder.
void Run::measure_contexts() {
  constexpr size_t kContexts = 48;  // A spread of some percent.
  constexpr double kDeadline_s = 60;
  BareContexts bare;
  for (const size_t part : together_) {
    const CaseBinary& binary = queue_[part].binary;
    if (binary.info.needs.gpus == 0 || lists_operators(binary.info.id)) continue;  // An operator creates several.
    for (const std::string& test : queue_[part].tests) {
      if (why_not(binary, test).empty()) ++bare.tests[binary.connections];
    }
  }
  for (const auto& [connections, tests] : bare.tests) {
    auto variables = variables_of_tests(options_, "");
    if (connections != kConnectionsOfDriver) variables.emplace(kConnectionsVariable, std::to_string(connections));
    const std::vector<Program> programs(kContexts, Program{places_.canary(), {"--context"}, variables});
    const Stopwatch stopwatch;
    const std::vector<Reply> replies = ask(programs, pace_.jobs, kDeadline_s);
    if (interrupted()) end_interrupted();
    const bool are_created = std::ranges::all_of(replies, [](const Reply& reply) { return reply.first.code == 0; });
    if (!are_created) return;
    bare.per_second[connections] = kContexts / stopwatch.seconds();
  }
  if (!bare.tests.empty()) pace_.bare = bare;
}

void Run::finish() {
  if (options_.verbose && machine_.gpus > 0) measure_contexts();
  if (machine_.gpus > 0) {
    std::vector<std::string> gpus = options_.gpus;
    if (gpus.empty()) gpus.emplace_back();
    for (const std::string& gpu : gpus) {
      see_gpus(gpu);
      check_gpu("the last test");
      if (interrupted()) end_interrupted();
    }
  }
  Json took = {{"seconds", rounded(watch_.seconds())},
               {"side_by_side_s", rounded(pace_.together_s)},
               {"alone_s", rounded(pace_.alone_s)},
               {"jobs", pace_.jobs}};
  if (pace_.bare) took["as_many_bare_contexts_s"] = rounded(pace_.bare->seconds());
  record_.keep({{"end", "complete"}, {"canary", machine_.health}, {"volatile", took}});
  if (interrupted())
    throw ExitError(Exit::Interrupted, "interrupted, but all had run: " + record_.path() + " is complete");
}

Finished Run::go() {
  options_.demands.as_before = options_.broken == Break::Nothing;
  make_plan();
  if (record_.before()) record_.require_same_run(options_, plan_, rules_.simulated);
  if (record_.was_complete()) {
    record_.require_told_the_same(options_);
    return {*record_.before(),
            judge_record(*record_.before(), rules_),
            {},
            true,
            "",
            neighbour_of(record_.before()->environment, rules_.measured)};
  }
  try {
    probe_machine();
  } catch (const ExitError&) {  // After Ctrl-C a query may fail.
    stop_if_interrupted();
    throw;
  }
  leave_out_simulated();
  const bool is_any_left = keep_what_is_left();
  if (is_any_left) record_.begin({environment_, tests_of(plan_), tests_of(whole_plan_)}, places_);
  for (const std::string& note : notes_) print("note: {}\n", note);
  if (!is_any_left) {
    const std::string on =
        label(Environment(environment_).machine, {.driver = true, .variables = true, .overrides = true});
    return {{}, {}, {}, false, fmt::format("LibTorch {} on {}", options_.release, on)};
  }
  schedule_tests();
  run_all();
  finish();
  Finished finished{read_record(record_.path()), {}, pace_, false, ""};
  finished.rows = judge_record(finished.record, rules_);
  finished.neighbour = neighbour_of(finished.record.environment, rules_.measured);
  return finished;
}

}  // namespace

double BareContexts::seconds() const {
  double sum_s = 0;
  for (const auto& [connections, count] : tests) sum_s += static_cast<double>(count) / per_second.at(connections);
  return sum_s;
}

Finished run_cases(const Layout& places, const RunOptions& options, RenderLine render_line) {
  return Run(places, options, render_line).go();
}

}  // namespace recapture::run
