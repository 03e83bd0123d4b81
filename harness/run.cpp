#include "harness/run.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>

namespace recapture {
namespace fs = std::filesystem;
namespace {

constexpr int kMostAssertions = 3;
constexpr size_t kWordsInRecord = 2048;  // Bytes of a test's output that its line keeps, if it did not go as it should.
constexpr int kConfirmations = 2;

// Replaces the folders of this machine, which mean nothing to the reader of a record.
class Anonymous {
 public:
  void hide(const std::string& folder, const std::string& as) {
    if (folder.size() > 1) folders_.emplace_back(folder, as);
  }
  std::string operator()(std::string text) const {
    for (const auto& [folder, as] : folders_) {
      for (size_t at = text.find(folder); at != std::string::npos; at = text.find(folder, at + as.size())) {
        text.replace(at, folder.size(), as);
      }
    }
    return text;
  }

 private:
  std::vector<std::pair<std::string, std::string>> folders_;
};

std::string_view ending_word(Observation::Ending ending) {
  switch (ending) {
    case Observation::Ending::Exited:
      return "exited";
    case Observation::Ending::Signal:
      return "signal";
    case Observation::Ending::Deadline:
      return "deadline";
    case Observation::Ending::NotStarted:
      break;
  }
  return "not started";
}

// Facts keep the order in which they are read best, not the one in which they came.
Json line_of(const std::string& test, const Observation& seen, const std::string& how, const Anonymous& anonymous) {
  static const std::set<std::string> kFirstCounts = {"exception", "message"};
  static const std::set<std::string> kLastCounts = {"seen",    "documented",   "healthy", "raised_by", "remedy",
                                                    "skipped", "inapplicable", "ended",   "recorder"};
  Json line{{"test", test}, {"ending", ending_word(seen.ending)}, {"code", seen.code}};
  Json probes = Json::object(), facts = Json::object(), assertions = Json::array();
  std::string probing;
  for (const auto& [key, raw] : seen.events) {
    const std::string value = anonymous(raw);
    if (kLastCounts.count(key) != 0) {
      line[key] = value;
    } else if (kFirstCounts.count(key) != 0) {
      if (!line.contains(key)) line[key] = value;
    } else if (key == "code") {
      if (!line.contains("error")) line["error"] = std::atoi(value.c_str());
    } else if (key == "hits" || key == "tries") {
      line[key] = std::atoi(value.c_str());
    } else if (key == "probing") {
      probing = value;
      line["probing"] = true;
    } else if (key.rfind("probe.", 0) == 0) {
      probes[key.substr(6)] = value;
      probing.clear();
    } else if (key == "assertion") {
      if (assertions.size() < kMostAssertions) assertions.push_back(value);
    } else if (key == "culprit") {
      const Json culprit = Json::parse(value, nullptr, false);
      if (culprit.is_object() && !line.contains("culprit")) line["culprit"] = culprit;
    } else {
      facts[key] = value;
    }
  }
  if (!probing.empty()) probes[probing] = std::string("did not come back: ") + std::string(ending_word(seen.ending));
  if (!probes.empty()) line["probes"] = probes;
  if (!facts.empty()) line["facts"] = facts;
  if (!assertions.empty()) line["assertions"] = assertions;
  if (line.value("recorder", "") == "on") line.erase("recorder");  // The usual; its absence is what matters.
  const bool silent = seen.ending == Observation::Ending::Exited && line.contains("ended") && line["ended"] != "failed";
  if (!silent && !seen.last_words.empty()) {
    const std::string words = anonymous(seen.last_words);
    line["last_words"] = words.size() > kWordsInRecord ? words.substr(words.size() - kWordsInRecord) : words;
    if (seen.output_bytes > kLastWords) line["output_bytes"] = seen.output_bytes;
  }
  line["how"] = how;
  line["volatile"] = {{"seconds", std::round(seen.seconds * 100) / 100}};
  return line;
}

// What the user sees while it runs: on a terminal one line that renews itself, elsewhere a line a test.
class Progress {
 public:
  explicit Progress(size_t total) : total_(total), terminal_(isatty(STDOUT_FILENO) != 0) {}
  void running(const std::string& test) {
    if (!terminal_) return;
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(std::chrono::steady_clock::now() - start_);
    fmt::print("\r\x1b[K{} of {} done, {} left, {:%M:%S}, running {}", done_, total_, total_ - done_, seconds, test);
    std::fflush(stdout);
  }
  void finished(const Row& row) {
    ++done_;
    fmt::print("{}{}\n", terminal_ ? "\r\x1b[K" : "", as_line(row));
    std::fflush(stdout);
  }

 private:
  size_t total_, done_ = 0;
  bool terminal_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

bool names(const std::string& filter, const CaseInfo& info, const std::string& test) {
  return filter == info.family || filter == info.id || filter == info.id + "." + test;
}

bool wanted(const RunOptions& options, const CaseInfo& info, const std::string& test) {
  const Kind breakable = options.broken == "remedy" ? Kind::Fix : Kind::Reproduces;
  if (options.broken != "nothing" && kind_of(test) != breakable) return false;
  return options.filters.empty() || std::any_of(options.filters.begin(), options.filters.end(),
                                                [&](const std::string& filter) { return names(filter, info, test); });
}

// The cases with a wanted test, of this shard. Throws Stop(Usage) for a filter that names nothing.
std::vector<CaseBinary> chosen(const std::vector<CaseBinary>& all, const RunOptions& options) {
  for (const std::string& filter : options.filters) {
    const bool known = std::any_of(all.begin(), all.end(), [&](const CaseBinary& binary) {
      return std::any_of(binary.info.tests.begin(), binary.info.tests.end(),
                         [&](const std::string& test) { return names(filter, binary.info, test); });
    });
    if (known) continue;
    throw Stop(Exit::Usage, fmt::format("no family, case or test is called '{}'; `recapture list` names them", filter));
  }
  std::vector<CaseBinary> mine;
  int index = 0;
  for (const CaseBinary& binary : all) {
    const bool any = std::any_of(binary.info.tests.begin(), binary.info.tests.end(),
                                 [&](const std::string& test) { return wanted(options, binary.info, test); });
    if (any && index++ % options.shards == options.shard - 1) mine.push_back(binary);
  }
  return mine;
}

std::string revision_of(const Places& places) {
  const auto [seen, answer] =
      ask({"/usr/bin/env", {"git", "-C", places.root, "describe", "--always", "--dirty"}, {}}, 10);
  return seen.code == 0 && !answer.empty() ? answer.substr(0, answer.find('\n')) : "unknown";
}

// One run's state, so that its steps can be functions.
class Run {
 public:
  Run(const Places& places, const RunOptions& options) : places_(places), options_(options) {}
  Exit go();

 private:
  void prepare();
  void open_record();
  void run_case(const CaseBinary& binary);
  void run_test(const CaseBinary& binary, const std::string& test);
  Observation observe(const CaseBinary& binary, const std::string& test, bool by_exec);
  Row judge_line(const CaseBinary& binary, const Json& line);
  void check_gpu(const std::string& after);
  Program program_of(const CaseBinary& binary) const;
  std::string why_not(const CaseInfo& info) const;

  const Places& places_;
  RunOptions options_;
  std::vector<CaseBinary> cases_;
  Json environment_, canary_;
  Rules rules_;
  Anonymous anonymous_;
  std::optional<RecordWriter> writer_;
  std::optional<Record> resumed_;
  std::unique_ptr<Server> server_;
  std::unique_ptr<Progress> progress_;
};

Program Run::program_of(const CaseBinary& binary) const {
  Program program{binary.path, {"--break=" + options_.broken}, libtorch_variables(options_.libtorch)};
  const std::string recorder = places_.build + "/" + options_.release + "/librecorder.so";
  if (binary.info.needs.find("gpu") != std::string::npos && fs::exists(recorder)) {
    program.environment["CUDA_INJECTION64_PATH"] = recorder;
    // While it switches its hearing on and off, for some microseconds it can miss what another thread calls.
    program.environment["RECAPTURE_RECORDER"] = "always";
  }
  return program;
}

// "" if the case can run here.
std::string Run::why_not(const CaseInfo& info) const {
  const int gpus = canary_.value("gpus", 0);
  const int needed = info.needs.find("2 gpus") != std::string::npos ? 2 : 1;
  if (info.needs.find("gpu") == std::string::npos || gpus >= needed) return "";
  return gpus == 0 ? "no GPU" : fmt::format("needs {} GPUs, {} here", needed, gpus);
}

void Run::prepare() {
  const auto built = built_releases(places_);
  if (options_.release.empty()) {
    if (built.empty()) throw Stop(Exit::Infrastructure, "no cases are built; `ci/suite` gets LibTorch and builds them");
    options_.release = built.back();
  }
  const auto matrix = read_matrix(places_.root);
  if (std::none_of(matrix.begin(), matrix.end(), [&](const Release& r) { return r.version == options_.release; })) {
    throw Stop(Exit::Usage, options_.release + " is not a release of ci/matrix.toml");
  }
  cases_ = chosen(catalog(places_, options_.release, options_.libtorch), options_);
  rules_.expectations = read_expectations(places_.root);
  rules_.hashes = source_hashes(places_.root);
  std::vector<Record> committed;
  for (const std::string& path : records_below(places_.root + "/reports")) {
    if (options_.broken == "nothing") committed.push_back(read_record(path));
  }
  rules_.available = available_in(committed);
  for (const std::string& need : options_.require) {
    if (need != "gpu" && need != "recorder")
      throw Stop(Exit::Usage, "--require takes gpu or recorder, not '" + need + "'");
    rules_.require_gpu = rules_.require_gpu || need == "gpu";
    rules_.require_recorder = rules_.require_recorder || need == "recorder";
  }
  canary_ = ask_canary(places_);
  const std::string health = canary_.value("canary", "none");
  if (canary_.value("gpus", 0) > 0 && health != "ok") {
    throw Stop(Exit::Infrastructure, "the GPU does not answer: " + health + "; nothing was run");
  }
  if (rules_.require_gpu && canary_.value("gpus", 0) == 0) {
    throw Stop(Exit::Infrastructure,
               "a GPU is demanded and there is none: " + canary_.value("reason", "the canary died"));
  }
  if (cases_.empty()) return;
  // Without the GPU: with one, LibTorch's account of itself asks libraries that a packed LibTorch lacks.
  auto variables = libtorch_variables(options_.libtorch);
  variables["CUDA_VISIBLE_DEVICES"] = "";
  const auto [seen, answer] = ask({cases_.front().path, {"--environment"}, variables}, 120);
  const Json facts = Json::parse(answer, nullptr, false);
  if (!facts.is_object()) {
    throw Stop(Exit::Infrastructure, cases_.front().path + " cannot tell its environment: " + seen.last_words);
  }
  const fs::path site = fs::path(facts.value("library", "")).parent_path().parent_path().parent_path();
  bool installed = false;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(site, error)) {
    const std::string name = entry.path().filename().string();
    installed = installed || (name.rfind("torch-", 0) == 0 && entry.path().extension() == ".dist-info");
  }
  anonymous_.hide(site.string(), "(site-packages)");
  anonymous_.hide(fs::absolute(places_.build).string(), "build");
  anonymous_.hide(fs::absolute(places_.root).string() + "/", "");
  if (const char* home = std::getenv("HOME"); home != nullptr) anonymous_.hide(home, "~");
  environment_ = {{"recapture", 1},
                  {"release", options_.release},
                  {"gpu", canary_.value("gpu", "")},
                  {"gpus", canary_.value("gpus", 0)},
                  {"driver", canary_.value("driver", "")},
                  {"cuda_driver", canary_.value("cuda_driver", "")},
                  {"cuda_runtime", facts.value("cuda_runtime", "")},
                  {"libtorch", facts.value("libtorch", "")},
                  {"headers", facts.value("headers", "")},
                  {"packed", !installed},
                  {"revision", options_.revision.empty() ? revision_of(places_) : options_.revision},
                  {"break", options_.broken},
                  {"shard", fmt::format("{}/{}", options_.shard, options_.shards)},
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
    if (resumed_->end == "complete")
      throw Stop(Exit::Usage, options_.resume + " is complete; there is nothing to resume");
    writer_.emplace(RecordWriter::append(options_.resume));
    writer_->write({{"resumed", environment_.at("volatile")}});
    options_.record = options_.resume;
    return;
  }
  if (options_.record.empty()) {
    std::string gpu = environment_.value("gpu", "");
    std::replace(gpu.begin(), gpu.end(), ' ', '-');
    options_.record = fmt::format("{}/records/{:%Y%m%d-%H%M%S}-{}-{}.jsonl", places_.build,
                                  fmt::gmtime(std::time(nullptr)), options_.release, gpu.empty() ? "host" : gpu);
  }
  writer_.emplace(RecordWriter::create(options_.record));
  writer_->write(environment_);
  Json plan = Json::array();
  for (const CaseBinary& binary : cases_) {
    for (const std::string& test : binary.info.tests) {
      if (wanted(options_, binary.info, test)) plan.push_back(binary.info.id + "." + test);
    }
  }
  writer_->write({{"plan", plan}});
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
  one.tests.push_back({line});
  return judge_record(one, rules_).front();
}

void Run::check_gpu(const std::string& after) {
  const Json now = ask_canary(places_);
  if (now.value("canary", "") == "ok") return;
  writer_->write({{"end", "the GPU does not answer after " + after}, {"canary", now.value("canary", "")}});
  throw Stop(Exit::Infrastructure, fmt::format("the GPU does not answer after {}: {}; the rest was not run, see {}",
                                               after, now.value("canary", ""), options_.record));
}

void Run::run_test(const CaseBinary& binary, const std::string& test) {
  const std::string id = binary.info.id + "." + test;
  if (resumed_ && resumed_->find(id) != nullptr) return;
  progress_->running(id);
  const std::string reason = why_not(binary.info);
  Json line;
  const bool by_exec = options_.exec || !server_ || !server_->alive();
  if (reason.empty()) {
    const Observation seen = observe(binary, test, by_exec);
    if (interrupted()) return;
    line = line_of(id, seen, by_exec ? "exec" : "fork", anonymous_);
  } else {
    line = Json{{"test", id}, {"ending", "not started"}, {"code", 0}, {"skipped", reason}};
  }
  writer_->write(line);
  const Row row = judge_line(binary, line);
  progress_->finished(row);
  const bool quiet = row.verdict == Verdict::AsDocumented || row.verdict == Verdict::AsExpected ||
                     row.verdict == Verdict::Unavailable || row.verdict == Verdict::NotApplicable;
  const Expectation* expected = find_expectation(rules_.expectations, id, row.release, row.gpu);
  const bool open_question = expected != nullptr && expected->source.rfind("open question", 0) == 0;
  const bool uses_gpu = binary.info.needs.find("gpu") != std::string::npos;
  if (!reason.empty() || options_.broken != "nothing" || (quiet && !open_question)) return;
  if (uses_gpu) check_gpu(id);
  for (int i = 1; i <= kConfirmations && !interrupted(); ++i) {
    Json again = line_of(id, observe(binary, test, true), "exec", anonymous_);
    again["confirms"] = i;
    if (!interrupted()) writer_->write(again);
  }
  if (uses_gpu && !quiet) check_gpu(id);
}

void Run::run_case(const CaseBinary& binary) {
  const auto left = [&](const std::string& test) {
    return wanted(options_, binary.info, test) && !(resumed_ && resumed_->find(binary.info.id + "." + test) != nullptr);
  };
  if (std::none_of(binary.info.tests.begin(), binary.info.tests.end(), left)) return;
  if (!resumed_ || resumed_->cases.count(binary.info.id) == 0) writer_->write(binary.info.to_json());
  server_.reset();
  if (!options_.exec && why_not(binary.info).empty()) server_ = std::make_unique<Server>(program_of(binary));
  for (const std::string& test : binary.info.tests) {
    if (interrupted()) return;
    if (left(test)) run_test(binary, test);
  }
}

Exit Run::go() {
  prepare();
  if (cases_.empty()) throw Stop(Exit::NothingRan, "nothing to run: no case is in this shard");
  open_record();
  size_t total = 0;
  for (const CaseBinary& binary : cases_) {
    total += static_cast<size_t>(
        std::count_if(binary.info.tests.begin(), binary.info.tests.end(), [&](const std::string& t) {
          return wanted(options_, binary.info, t) && !(resumed_ && resumed_->find(binary.info.id + "." + t) != nullptr);
        }));
  }
  progress_ = std::make_unique<Progress>(total);
  for (const CaseBinary& binary : cases_) {
    if (!interrupted()) run_case(binary);
  }
  server_.reset();
  if (interrupted()) {
    writer_->write({{"end", "interrupted"}});
    throw Stop(Exit::Interrupted, "interrupted; --resume " + options_.record + " runs the rest");
  }
  if (canary_.value("gpus", 0) > 0) check_gpu("the last test");
  writer_->write({{"end", "complete"}, {"canary", canary_.value("canary", "none")}});

  const Record record = read_record(options_.record);
  const auto rows = judge_record(record, rules_);
  if (!options_.junit.empty()) write_junit(rows, record, options_.junit);
  fmt::print("\n{}{}{}record: {}\n", heading(record), summary(rows), observed_tables(record, rows), options_.record);
  return exit_for(verdicts_of(rows));
}

}  // namespace

Exit run(const Places& places, const RunOptions& options) { return Run(places, options).go(); }

}  // namespace recapture
