#include "harness/run/run.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <memory>
#include <optional>

#include "harness/judge/version.h"
#include "harness/record/writer.h"
#include "harness/run/catalog.h"
#include "harness/run/line.h"
#include "harness/run/machine.h"
#include "harness/run/process.h"
#include "harness/run/progress.h"
#include "harness/run/server.h"
#include "harness/show/text.h"

namespace recapture {
namespace fs = std::filesystem;
namespace {

constexpr int kConfirmations = 2;

std::string revision_of(const Places& places) {
  const auto [seen, answer] =
      ask({"/usr/bin/env", {"git", "-C", places.root, "describe", "--always", "--dirty"}, {}}, 10);
  return seen.code == 0 && !answer.empty() ? answer.substr(0, answer.find('\n')) : "unknown";
}

std::string chosen_release(const Places& places, const std::string& wanted) {
  const auto built = built_releases(places);
  if (wanted.empty() && built.empty()) {
    throw Stop(Exit::Infrastructure, "no cases are built; `ci/suite` gets LibTorch and builds them");
  }
  if (wanted.empty()) return built.back();
  const auto matrix = read_matrix(places.root);
  const bool known = std::find(matrix.begin(), matrix.end(), wanted) != matrix.end() || !is_version(wanted);
  if (!known) throw Stop(Exit::Usage, wanted + " is not a release of ci/matrix.toml");
  return wanted;
}

// What a case binary says that it runs on.
Json facts_of(const std::string& binary, const std::string& libtorch) {
  // Without the GPU: with one, LibTorch's account of itself asks libraries that a packed LibTorch lacks.
  auto variables = libtorch_variables(libtorch);
  variables["CUDA_VISIBLE_DEVICES"] = "";
  const auto [seen, answer] = ask({binary, {"--environment"}, variables}, 120);
  const Json facts = Json::parse(answer, nullptr, false);
  if (!facts.is_object()) {
    throw Stop(Exit::Infrastructure, binary + " cannot tell its environment: " + seen.last_words);
  }
  return facts;
}

// Whether a package manager put LibTorch there: parts of it that were copied have no record of an installation.
bool is_installed(const fs::path& site) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(site, error)) {
    const std::string name = entry.path().filename().string();
    if (name.rfind("torch-", 0) == 0 && entry.path().extension() == ".dist-info") return true;
  }
  return false;
}

// One run's state, so that its steps can be functions.
class Run {
 public:
  Run(const Places& places, const RunOptions& options) : places_(places), options_(options) {}
  Finished go();

 private:
  void prepare();
  void describe_environment();
  void open_record();
  void run_case(const PlannedCase& planned);
  void run_test(const CaseBinary& binary, const std::string& test);
  Observation observe(const CaseBinary& binary, const std::string& test, bool by_exec);
  Row judge_line(const CaseBinary& binary, const Json& line);
  void check_gpu(const std::string& after);
  Program program_of(const CaseBinary& binary) const;
  bool done_before(const CaseBinary& binary, const std::string& test) const {
    return resumed_ && resumed_->find(binary.info.id + "." + test) != nullptr;
  }

  const Places& places_;
  RunOptions options_;
  std::vector<PlannedCase> plan_;
  Machine machine_;
  Json environment_;
  Rules rules_;
  Anonymous anonymous_;
  std::optional<RecordWriter> writer_;
  std::optional<Record> resumed_;
  std::unique_ptr<Server> server_;
  std::unique_ptr<Progress> progress_;
};

Program Run::program_of(const CaseBinary& binary) const {
  Program program{
      binary.path, {fmt::format("--break={}", word(options_.broken))}, libtorch_variables(options_.libtorch)};
  if (binary.info.needs.gpus > 0 && fs::exists(places_.recorder())) {
    program.environment["CUDA_INJECTION64_PATH"] = places_.recorder();
    // While it switches its hearing on and off, for some microseconds it can miss what another thread calls.
    program.environment["RECAPTURE_RECORDER"] = "always";
  }
  return program;
}

void Run::prepare() {
  options_.release = chosen_release(places_, options_.release);
  plan_ =
      plan_of(catalog(places_, options_.release, options_.libtorch), options_.filters, options_.broken, options_.shard);
  options_.demands.as_before = options_.broken == Break::Nothing;
  rules_ = rules_of(places_.root, options_.demands);
  machine_ = ask_machine(places_);
  if (machine_.gpus > 0 && !machine_.answers()) {
    throw Stop(Exit::Infrastructure, "the GPU does not answer: " + machine_.health + "; nothing was run");
  }
  if (rules_.demands.gpu && machine_.gpus == 0) {
    throw Stop(Exit::Infrastructure, "a GPU is demanded and there is none: " + machine_.reason);
  }
}

void Run::describe_environment() {
  const Json facts = facts_of(plan_.front().binary.path, options_.libtorch);
  const fs::path site = fs::path(facts.value("library", "")).parent_path().parent_path().parent_path();
  anonymous_.hide(site.string(), "(site-packages)");
  anonymous_.hide(fs::absolute(places_.build).string(), "build");
  anonymous_.hide(fs::absolute(places_.root).string() + "/", "");
  if (const char* home = std::getenv("HOME"); home != nullptr) anonymous_.hide(home, "~");
  environment_ = {{"recapture", 1},
                  {"release", options_.release},
                  {"gpu", machine_.gpu},
                  {"gpus", machine_.gpus},
                  {"driver", machine_.driver},
                  {"cuda_driver", machine_.cuda_driver},
                  {"cuda_runtime", facts.value("cuda_runtime", "")},
                  {"libtorch", facts.value("libtorch", "")},
                  {"headers", facts.value("headers", "")},
                  {"packed", is_version(options_.release) && !is_installed(site)},
                  {"revision", options_.revision.empty() ? revision_of(places_) : options_.revision},
                  {"break", word(options_.broken)},
                  {"shard", fmt::format("{}/{}", options_.shard.index, options_.shard.of)},
                  {"volatile", {{"started", fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)))}}}};
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
    return;
  }
  if (options_.record.empty()) {
    std::string name = report_path(environment_);
    std::replace(name.begin(), name.end(), '/', '-');
    options_.record =
        fmt::format("{}/records/{:%Y%m%d-%H%M%S}-{}", places_.build, fmt::gmtime(std::time(nullptr)), name);
  }
  writer_.emplace(RecordWriter::create(options_.record));
  writer_->write(environment_);
  Json tests = Json::array();
  for (const PlannedCase& planned : plan_) {
    for (const std::string& test : planned.tests) tests.push_back(planned.binary.info.id + "." + test);
  }
  writer_->write({{"plan", tests}});
}

Observation Run::observe(const CaseBinary& binary, const std::string& test, bool by_exec) {
  // The suite's name is the file's stem in CamelCase; GoogleTest's filter needs only the test's.
  const std::string filter = "*." + test;
  if (!by_exec && server_ && server_->alive()) return server_->run(filter, binary.info.deadline_s);
  Program program = program_of(binary);
  program.arguments.push_back("--gtest_filter=" + filter);
  return execute(program, binary.info.deadline_s);
}

Row Run::judge_line(const CaseBinary& binary, const Json& line) {
  Record one;
  one.environment = environment_;
  one.cases[binary.info.id] = binary.info;
  one.add({line});
  return judge_record(one, rules_).front();
}

void Run::check_gpu(const std::string& after) {
  const Machine now = ask_machine(places_);
  if (now.answers()) return;
  writer_->write({{"end", "the GPU does not answer after " + after}, {"canary", now.health}});
  throw Stop(Exit::Infrastructure, fmt::format("the GPU does not answer after {}: {}; the rest was not run, see {}",
                                               after, now.health, options_.record));
}

void Run::run_test(const CaseBinary& binary, const std::string& test) {
  const std::string id = binary.info.id + "." + test;
  progress_->running(id);
  const std::string reason = machine_.lacks(binary.info.needs);
  Json line;
  const bool by_exec = options_.exec || !server_ || !server_->alive();
  if (reason.empty()) {
    const Observation seen = observe(binary, test, by_exec);
    if (interrupted()) return;
    line = line_of(id, seen, by_exec ? "exec" : "fork", anonymous_);
  } else {
    line = line_of_skipped(id, reason);
  }
  writer_->write(line);
  const Row row = judge_line(binary, line);
  progress_->finished(as_line(row));
  const bool surprise = tone_of(row.verdict) == Tone::Red || tone_of(row.verdict) == Tone::Error;
  Record here;
  here.environment = environment_;
  const Expectation* expected = find_expectation(rules_.expectations, id, here);
  const bool open_question = expected != nullptr && expected->open_question();
  const bool uses_gpu = binary.info.needs.gpus > 0;
  if (!reason.empty() || options_.broken != Break::Nothing || (!surprise && !open_question)) return;
  if (uses_gpu) check_gpu(id);
  for (int i = 1; i <= kConfirmations && !interrupted(); ++i) {
    Json again = line_of(id, observe(binary, test, true), "exec", anonymous_);
    again["confirms"] = i;
    if (!interrupted()) writer_->write(again);
  }
  if (uses_gpu && surprise) check_gpu(id);
}

void Run::run_case(const PlannedCase& planned) {
  const CaseBinary& binary = planned.binary;
  const auto left = [&](const std::string& test) { return !done_before(binary, test); };
  if (std::none_of(planned.tests.begin(), planned.tests.end(), left)) return;
  if (!resumed_ || resumed_->cases.count(binary.info.id) == 0) writer_->write(binary.info.to_json());
  server_.reset();
  if (!options_.exec && machine_.lacks(binary.info.needs).empty()) {
    server_ = std::make_unique<Server>(program_of(binary));
  }
  for (const std::string& test : planned.tests) {
    if (interrupted()) return;
    if (left(test)) run_test(binary, test);
  }
}

Finished Run::go() {
  prepare();
  if (plan_.empty()) throw Stop(Exit::NothingRan, "nothing to run: no case is in this shard");
  describe_environment();
  open_record();
  size_t total = 0;
  for (const PlannedCase& planned : plan_) {
    for (const std::string& test : planned.tests) total += done_before(planned.binary, test) ? 0 : 1;
  }
  progress_ = std::make_unique<Progress>(total);
  for (const PlannedCase& planned : plan_) {
    if (!interrupted()) run_case(planned);
  }
  server_.reset();
  if (interrupted()) {
    writer_->write({{"end", "interrupted"}});
    throw Stop(Exit::Interrupted, "interrupted; --resume " + options_.record + " runs the rest");
  }
  if (machine_.gpus > 0) check_gpu("the last test");
  writer_->write({{"end", "complete"}, {"canary", machine_.health}});
  Finished finished{read_record(options_.record), {}};
  finished.rows = judge_record(finished.record, rules_);
  return finished;
}

}  // namespace

Finished run(const Places& places, const RunOptions& options) { return Run(places, options).go(); }

}  // namespace recapture
