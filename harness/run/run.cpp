#include "harness/run/run.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "harness/judge/index.h"
#include "harness/judge/suggest.h"
#include "harness/record/writer.h"
#include "harness/run/catalog.h"
#include "harness/run/context.h"
#include "harness/run/environment.h"
#include "harness/run/estimate.h"
#include "harness/run/line.h"
#include "harness/run/machine.h"
#include "harness/run/pool.h"
#include "harness/run/process.h"
#include "harness/run/progress.h"
#include "harness/run/server.h"
#include "harness/show/text.h"

namespace recapture {
namespace fs = std::filesystem;
namespace {

constexpr int kConfirmations = 2;

std::string chosen_release(const Places& places, const std::string& wanted) {
  const auto built = built_releases(places);
  if (wanted.empty() && built.empty()) {
    throw Stop(Exit::Infrastructure, "no cases are built; `ci/suite` installs LibTorch and builds them");
  }
  if (wanted.empty()) return built.back();
  require_known_release(places.root, wanted);
  return wanted;
}

constexpr size_t kMostBesideAGpu = 8;  // The driver makes contexts one at a time: more at once gain nothing.
constexpr size_t kTestsAContext =
    10;  // So many tests for each that runs at once, or the cost of a context is left open.

size_t best_jobs(const Machine& machine) {
  const size_t cores = std::max(1U, std::thread::hardware_concurrency());
  return machine.gpus > 0 ? std::clamp<size_t>(cores / 2, 1, kMostBesideAGpu) : cores;
}

bool runs_alone(const CaseInfo& info) { return info.nature == word(Nature::Race); }

Json tests_of(const std::vector<PlannedCase>& plan) {
  Json tests = Json::array();
  for (const PlannedCase& planned : plan) {
    for (const std::string& test : planned.tests) tests.push_back(planned.binary.info.id + "." + test);
  }
  return tests;
}

class Stopwatch {
 public:
  double seconds() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(); }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

double rounded(double seconds, double parts = 100) { return std::round(seconds * parts) / parts; }

// One run's state, so that its steps can be functions. The runner itself starts no test: it forks workers that each
// run whole cases, it alone writes the record, and it tells the user. Below "in a worker" stands what workers do, with
// the state as it was when they were forked.
class Run {
 public:
  Run(const Places& places, const RunOptions& options) : places_(places), options_(options) {}
  Finished go();

 private:
  void prepare();
  void open_record();
  void put_in_order();
  void run_all();
  void hear(size_t worker, const Json& message);
  void end_of_all();
  [[noreturn]] void cut_short(const Pool::Failure& failure);

  // In a worker.
  void run_case(size_t worker, const PlannedCase& planned);
  void run_test(const CaseBinary& binary, const std::string& test);
  Observation observe(const CaseBinary& binary, const std::string& test, bool by_exec);
  static Ran ran(const CaseBinary& binary, const std::string& test, bool by_exec);
  Row judge_line(const CaseBinary& binary, const Json& line);
  void check_gpu(const std::string& after);
  void say(const Json& message) const { (*say_)(message); }

  // In either.
  void see_gpus(const std::string& visible) const;
  Program program_of(const CaseBinary& binary) const;
  bool done_before(const CaseBinary& binary, const std::string& test) const {
    return resumed_ && resumed_->find(binary.info.id + "." + test) != nullptr;
  }

  const Places& places_;
  RunOptions options_;
  std::vector<PlannedCase> plan_;        // In the catalogue's order.
  std::vector<PlannedCase> whole_plan_;  // Of all shards, if there are several.
  std::vector<PlannedCase> queue_;       // What is left of it, in the order in which it runs.
  std::vector<size_t> together_, alone_;
  Machine machine_;
  Json environment_;
  Rules rules_;
  Anonymous anonymous_;
  std::optional<RecordWriter> writer_;
  std::optional<Record> resumed_;
  std::unique_ptr<Server> server_;
  std::optional<Progress> progress_;
  const Pool::Say* say_ = nullptr;
  Json last_;  // The record's last line, if a worker has found out that there is no sense in going on.
  Pace pace_;
  Stopwatch watch_;
};

// No effect without --gpu.
void Run::see_gpus(const std::string& visible) const {
  if (!options_.gpus.empty()) setenv("CUDA_VISIBLE_DEVICES", visible.c_str(), 1);
}

Program Run::program_of(const CaseBinary& binary) const {
  Program program{binary.path, {fmt::format("--break={}", word(options_.broken))}, variables_of_tests(options_)};
  if (binary.info.needs.gpus > 0 && fs::exists(places_.recorder())) {
    program.environment["CUDA_INJECTION64_PATH"] = places_.recorder();
    // While it switches its hearing on and off, for some microseconds it can miss what another thread calls.
    program.environment["RECAPTURE_RECORDER"] = "always";
  }
  return program;
}

void Run::prepare() {
  options_.release = chosen_release(places_, options_.release);
  const auto built = catalog(places_, options_.release, options_.libtorch);
  plan_ = plan_of(built, options_.filters, options_.broken, options_.shard);
  if (options_.shard.of > 1) whole_plan_ = plan_of(built, options_.filters, options_.broken, Shard{});
  options_.demands.as_before = options_.broken == Break::Nothing;
  rules_ = rules_of(places_.root, options_.demands);
  see_gpus(fmt::format("{}", fmt::join(options_.gpus, ",")));
  machine_ = ask_machine(places_);
  if (machine_.gpus > 0 && !machine_.answers()) {
    throw Stop(Exit::Infrastructure, "the GPU does not answer: " + machine_.health + "; nothing was run");
  }
  if (rules_.demands.gpu && machine_.gpus == 0) {
    throw Stop(Exit::Infrastructure, "a GPU is required, but there is none: " + machine_.reason);
  }
  if (options_.jobs == 0) options_.jobs = best_jobs(machine_);
}

void Run::open_record() {
  if (!options_.resume.empty()) {
    resumed_ = read_record(options_.resume);
    Json then = resumed_->environment, now = environment_;
    then.erase("volatile");
    now.erase("volatile");
    if (then != now) {
      throw Stop(
          Exit::Usage,
          options_.resume + " is of another environment (machine, release, revision or options); start a new run");
    }
    if (resumed_->end == "complete") {
      throw Stop(Exit::Usage, options_.resume + " is complete; there is nothing to resume");
    }
    writer_.emplace(RecordWriter::append(options_.resume));
    writer_->write({{"resumed", environment_.at("volatile")}});
    options_.record = options_.resume;
    if (!resumed_->plan.empty()) return;
  } else if (options_.record.empty()) {
    std::string name = report_path(environment_);
    std::replace(name.begin(), name.end(), '/', '-');
    options_.record =
        fmt::format("{}/records/{:%Y%m%d-%H%M%S}-{}", places_.build, fmt::gmtime(std::time(nullptr)), name);
  }
  if (!resumed_) {
    writer_.emplace(RecordWriter::create(options_.record));
    writer_->write(environment_);
  }
  Json line{{"plan", tests_of(plan_)}};
  if (!whole_plan_.empty()) line["whole"] = tests_of(whole_plan_);
  writer_->write(line);
}

// Longest first: what begins last must not be what all wait for. One at a time, the catalogue's order is as good.
void Run::put_in_order() {
  Estimate estimate(newest_records(places_.reports()).records, machine_.gpu, options_.release);
  queue_ = plan_;
  for (PlannedCase& planned : queue_) {
    const auto done = [&](const std::string& test) { return done_before(planned.binary, test); };
    planned.tests.erase(std::remove_if(planned.tests.begin(), planned.tests.end(), done), planned.tests.end());
  }
  queue_.erase(std::remove_if(queue_.begin(), queue_.end(), [](const PlannedCase& p) { return p.tests.empty(); }),
               queue_.end());
  if (options_.seed) {
    shuffle(queue_, *options_.seed);
  } else if (options_.jobs > 1) {
    const auto seconds = [&](const PlannedCase& planned) {
      double sum = 0;
      for (const std::string& test : planned.tests) sum += estimate.of(planned.binary.info.id + "." + test);
      return sum;
    };
    std::stable_sort(queue_.begin(), queue_.end(),
                     [&](const PlannedCase& a, const PlannedCase& b) { return seconds(a) > seconds(b); });
  }
  size_t total = 0;
  for (size_t i = 0; i < queue_.size(); ++i) {
    const CaseInfo& info = queue_[i].binary.info;
    const bool alone = runs_alone(info);
    (alone ? alone_ : together_).push_back(i);
    total += queue_[i].tests.size();
    for (const std::string& test : queue_[i].tests) estimate.plan(info.id + "." + test, alone);
    if (machine_.lacks(info.needs).empty()) (alone ? pace_.alone : pace_.together) += queue_[i].tests.size();
  }
  pace_.jobs = std::clamp<size_t>(options_.jobs, 1, std::max<size_t>(1, together_.size()));
  progress_.emplace(total, pace_.jobs, std::move(estimate));
}

Observation Run::observe(const CaseBinary& binary, const std::string& test, bool by_exec) {
  // The suite's name is the file's stem in CamelCase; GoogleTest's filter needs only the test's.
  const std::string filter = "*." + test;
  if (!by_exec && server_ && server_->alive()) return server_->run(filter, binary.info.deadline_s);
  Program program = program_of(binary);
  program.arguments.push_back("--gtest_filter=" + filter);
  return execute(program, binary.info.deadline_s);
}

Ran Run::ran(const CaseBinary& binary, const std::string& test, bool by_exec) {
  const CaseInfo& info = binary.info;
  return {info.id + "." + test, by_exec ? "exec" : "fork", binary.path + " --gtest_filter=*." + test, info.stopping};
}

Row Run::judge_line(const CaseBinary& binary, const Json& line) {
  Record one;
  one.environment = environment_;
  one.cases[binary.info.id] = binary.info;
  one.add({line});
  return judge_record(one, rules_).front();
}

// The runner's own check after the last test has nobody to tell.
void Run::check_gpu(const std::string& after) {
  const Machine now = ask_machine(places_);
  if (now.answers()) return;
  const Json last = {{"end", "the GPU does not answer after " + after}, {"canary", now.health}};
  if (say_ != nullptr) say({{"last", last}});
  if (say_ == nullptr) writer_->write(last);
  throw Stop(Exit::Infrastructure, fmt::format("the GPU does not answer after {}: {}; the rest was not run, see {}",
                                               after, now.health, options_.record));
}

void Run::run_test(const CaseBinary& binary, const std::string& test) {
  const std::string id = binary.info.id + "." + test;
  say({{"running", id}});
  const std::string reason = machine_.lacks(binary.info.needs);
  Json line;
  pid_t stuck = 0;
  const bool by_exec = options_.exec || !server_ || !server_->alive();
  if (reason.empty()) {
    const Observation seen = observe(binary, test, by_exec);
    if (interrupted()) return;
    stuck = seen.stuck;
    line = line_of(ran(binary, test, by_exec), seen, anonymous_);
  } else {
    line = line_of_skipped(id, reason);
  }
  const Row row = judge_line(binary, line);
  say({{"line", line}, {"shown", as_line(row)}});
  if (stuck != 0) {
    throw Stop(Exit::Infrastructure,
               fmt::format("{}: process {} cannot be killed, and may hold the GPU; the rest was not "
                           "run, --resume {} runs it",
                           id, stuck, options_.record));
  }
  const bool surprise = tone_of(row.verdict) == Tone::Red || tone_of(row.verdict) == Tone::Error;
  Record here;
  here.environment = environment_;
  const Expectation* expected = find_expectation(rules_.expectations, id, here);
  const bool open_question = expected != nullptr && expected->open_question();
  const bool uses_gpu = binary.info.needs.gpus > 0;
  if (!reason.empty() || options_.broken != Break::Nothing || (!surprise && !open_question)) return;
  if (uses_gpu) check_gpu(id);
  for (int i = 1; i <= kConfirmations && !interrupted(); ++i) {
    Json again = line_of(ran(binary, test, true), observe(binary, test, true), anonymous_);
    again["confirms"] = i;
    if (!interrupted()) say({{"line", again}});
  }
  if (uses_gpu && surprise) check_gpu(id);
}

void Run::run_case(size_t worker, const PlannedCase& planned) {
  const CaseBinary& binary = planned.binary;
  if (!resumed_ || resumed_->cases.count(binary.info.id) == 0) say({{"line", binary.info.to_json()}});
  if (binary.info.needs.gpus > 1) {
    see_gpus(fmt::format("{}", fmt::join(options_.gpus, ",")));
  } else if (!options_.gpus.empty()) {
    see_gpus(options_.gpus[worker % options_.gpus.size()]);
  }
  if (!options_.exec && machine_.lacks(binary.info.needs).empty()) {
    server_ = std::make_unique<Server>(program_of(binary));
  }
  for (const std::string& test : planned.tests) {
    if (!interrupted()) run_test(binary, test);
  }
  server_.reset();
}

void Run::hear(size_t worker, const Json& message) {
  if (message.contains("running")) {
    progress_->running(worker, message.at("running"));
  } else if (message.contains("last")) {
    last_ = message.at("last");
  } else if (message.contains("line")) {
    writer_->write(message.at("line"));
    if (message.contains("shown")) progress_->finished(worker, message.at("line").at("test"), message.at("shown"));
  }
}

void Run::cut_short(const Pool::Failure& failure) {
  if (!last_.is_null()) {
    writer_->write(last_);
    throw Stop(failure.code, failure.words);
  }
  const std::string test = progress_->run_by(failure.worker);
  const std::string what = failure.words + (test.empty() ? "" : " in " + test);
  writer_->write({{"end", what}});
  throw Stop(failure.code, fmt::format("{}; the rest was not run, --resume {} runs it", what, options_.record));
}

void Run::run_all() {
  Pool pool(
      pace_.jobs,
      [this](size_t worker, size_t item, const Pool::Say& say) {
        say_ = &say;
        run_case(worker, queue_[item]);
      },
      [this](size_t worker, const Json& message) { hear(worker, message); }, [this] { progress_->tick(); });
  pace_.jobs = pool.width();
  const Stopwatch together;
  auto failure = pool.run(together_, pace_.jobs);
  pace_.together_s = together.seconds();
  if (!failure && !interrupted()) {
    const Stopwatch alone;
    failure = pool.run(alone_, 1);
    pace_.alone_s = alone.seconds();
  }
  pool.stop();
  if (interrupted()) {
    writer_->write({{"end", "interrupted"}});
    throw Stop(Exit::Interrupted, "interrupted; --resume " + options_.record + " runs the rest");
  }
  if (failure) cut_short(*failure);
}

void Run::end_of_all() {
  if (machine_.gpus > 0) {
    std::vector<std::string> gpus = options_.gpus;
    if (gpus.empty()) gpus.emplace_back();
    for (const std::string& gpu : gpus) {
      see_gpus(gpu);
      check_gpu("the last test");
    }
    if (pace_.together >= kTestsAContext * pace_.jobs) {
      pace_.context_s = seconds_per_context(places_, pace_.jobs, options_.gpus);
    }
  }
  Json took = {{"seconds", rounded(watch_.seconds())},
               {"side_by_side_s", rounded(pace_.together_s)},
               {"alone_s", rounded(pace_.alone_s)}};
  if (pace_.context_s > 0) took["context_s"] = rounded(pace_.context_s, 10000);
  took["jobs"] = pace_.jobs;
  writer_->write({{"end", "complete"}, {"canary", machine_.health}, {"volatile", took}});
}

Finished Run::go() {
  prepare();
  if (plan_.empty()) throw Stop(Exit::NothingRan, "nothing to run: this shard is empty");
  Surroundings surroundings = surroundings_of(places_, options_, machine_, plan_.front().binary.path);
  environment_ = surroundings.environment;
  anonymous_ = surroundings.anonymous;
  open_record();
  for (const std::string& note : surroundings.notes) fmt::print("note: {}\n", note);
  put_in_order();
  run_all();
  end_of_all();
  Finished finished{read_record(options_.record), {}, pace_};
  finished.rows = judge_record(finished.record, rules_);
  return finished;
}

}  // namespace

Finished run(const Places& places, const RunOptions& options) { return Run(places, options).go(); }

}  // namespace recapture
