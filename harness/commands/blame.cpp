// recapture blame: runs a program unchanged, and reports which call broke which of its captures.
#include "harness/report/blame.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>

#include "harness/base/colour.h"
#include "harness/base/file.h"
#include "harness/base/text.h"
#include "harness/blame/features.h"
#include "harness/blame/launch.h"
#include "harness/blame/report.h"
#include "harness/commands/commands.h"
#include "harness/commands/watch.h"
#include "harness/model/release.h"
#include "harness/model/suggest.h"
#include "harness/report/features.h"

namespace recapture::commands {
namespace fs = std::filesystem;
namespace {

struct BlameOptions {
  std::vector<std::string> program;
  std::string log, release, read, features;
  bool json = false, deep = false, verbose = false, quiet = false;
};

// Truncates the file before the program starts, and appends afterwards: ranks that each run `blame` may share it.
int open_log(const std::string& path) {
  if (path.empty()) return STDERR_FILENO;
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0644);
  if (file < 0)
    throw ExitError(Exit::Infrastructure, fmt::format("{}: cannot write it: {}", path, std::strerror(errno)));
  return file;
}

// In one write if possible: others may write between two.
void write_all(int file, const std::string& text) {
  for (size_t done = 0; done < text.size();) {
    const ssize_t put = write(file, text.data() + done, text.size() - done);
    if (put < 0 && errno != EINTR) return;  // The program's exit status matters more than ours.
    if (put > 0) done += static_cast<size_t>(put);
  }
}

// By release, since the processes of a program may have several. Read only if the program fails.
class KnowledgeOfReleases {
 public:
  KnowledgeOfReleases(const run::Layout& places, std::string release) : places_(places), chosen_(std::move(release)) {}

  const blame::Knowledge& operator()(const blame::Process& process) {
    const std::string release = chosen_.empty() ? release_of(process) : chosen_;
    const auto found = all_.find(release);
    if (found != all_.end()) return found->second;
    blame::Knowledge knowledge;
    knowledge.release = release;
    knowledge.catalogue = read_catalogue(places_.root);
    knowledge.causes = explain::read_causes(places_.root, knowledge.catalogue);
    knowledge.operators = blame::read_operators(places_.root, knowledge.catalogue);
    knowledge.rows = current_verdicts(places_, release);
    knowledge.prices = current_prices(places_, release);
    knowledge.answers = current_answers(places_, release);
    return all_.emplace(release, std::move(knowledge)).first->second;
  }

 private:
  // "" if there is no record of it.
  std::string release_of(const blame::Process& process) const {
    const std::string release = without_local(process.torch);
    return is_version(release) && fs::is_directory(places_.reports() + "/" + release) ? release : "";
  }

  const run::Layout& places_;
  std::string chosen_;
  std::map<std::string, blame::Knowledge> all_;
};

// Reads what the recorder wrote in an earlier run.
Watched read_events(const std::string& path) {
  Watched watched{0, contents_of(path), "", ""};
  if (watched.events.empty()) watched.why_nothing = path + " is empty";
  if (!blame::is_whole(watched.events)) watched.not_whole = "a line of it is cut, as on a full disk or under ulimit -f";
  return watched;
}

void check_options(const BlameOptions& options) {
  if (options.program.empty() == options.read.empty()) {
    throw ExitError(Exit::Usage, options.read.empty() ? "no program; recapture blame -- PROGRAM ARGUMENT…"
                                                      : "--read judges a file, and takes no program");
  }
  if (!options.read.empty() && options.deep) throw ExitError(Exit::Usage, "--read and --deep cannot be combined");
}

Exit blame_program(const run::Layout& places, const BlameOptions& options) {
  check_options(options);
  KnowledgeOfReleases knowledge(places, options.release.empty() ? "" : known_release(places.root, options.release));
  const int log = open_log(options.log);
  if (!options.features.empty()) require_writable(options.features);
  const Watched watched = options.read.empty()
                              ? watch(places, options.program, {options.deep, !options.features.empty()})
                              : read_events(options.read);
  std::vector<blame::Process> processes = blame::read_report(watched.events);
  if (!options.features.empty()) {
    compare::Features features = blame::features_in(watched.events, watched.status != 0 || !watched.not_whole.empty());
    features.program = join(options.program, " ");
    write_file(options.features, report::render_toml(features));
  }
  const bool is_used = !processes.empty() || !watched.not_whole.empty();
  blame::Answer answer =
      blame::answer_of(std::move(processes), watched.not_whole,
                       [&](const blame::Process& of) -> const blame::Knowledge& { return knowledge(of); });
  if (!is_used) {
    answer.why_nothing =
        watched.why_nothing.empty() ? "the file has no line that a recorder writes" : watched.why_nothing;
  }
  const std::string text = options.json ? to_text(report::render_json(answer), 1) + "\n"
                                        : report::render_text(answer, {options.verbose, has_colours(log)});
  if (is_used || !options.quiet) write_all(log, text);
  return static_cast<Exit>(blame::end_like(watched.status));
}

}  // namespace

Verb blame_verb(CLI::App& app, const std::string& root) {
  const auto options = std::make_shared<BlameOptions>();
  auto* command = app.add_subcommand("blame", "Run a program and report which call broke which capture");
  command->add_option("program", options->program, "After --: any CUDA program, in C++ or Python, and its arguments");
  command->add_option("--log", options->log,
                      "Write the report to this file, which is truncated first (default: standard error)");
  command->add_option("--release", options->release,
                      "Show which fixes hold with this LibTorch release (default: that of the program)");
  command->add_flag("--deep", options->deep,
                    "Also report work that is silently missing from the graph, and where captures began; needs CUPTI "
                    "and costs some percent");
  command->add_flag("--verbose", options->verbose,
                    "Show all: frames, victims, every cause that fits, every remedy and its price");
  command->add_flag("--json", options->json, "Print a JSON object");
  command->add_flag("--quiet", options->quiet, "Print nothing if the program has not used CUDA");
  command->add_option("--features", options->features,
                      "Write which features of CUDA graphs the program uses to this file, for gate --features");
  command->add_option("--read", options->read,
                      "Judge what a recorder wrote to this file, instead of running a program");
  command->footer(
      "Exit codes: those of the program; 2 it cannot be started, or wrong usage, 7 the report cannot be written.");
  return {command,
          [options, &root] { return blame_program(run::Layout::find(root), *options); },
          Signals::Untouched,
          {{"recapture blame -- python train.py --lr 3", "run it, and report on standard error"},
           {"recapture blame --log rank.txt -- torchrun train.py", "report to a file"}},
          0};
}

}  // namespace recapture::commands
