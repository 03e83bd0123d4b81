// recapture blame: runs a program unchanged, and says which call broke which of its captures.
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

#include "harness/base/escape.h"
#include "harness/base/file.h"
#include "harness/blame/launch.h"
#include "harness/blame/report.h"
#include "harness/commands/commands.h"
#include "harness/model/release.h"
#include "harness/model/suggest.h"

namespace recapture::commands {
namespace fs = std::filesystem;
namespace {

struct Options {
  std::vector<std::string> program;
  std::string log, release;
  bool json = false, deep = false, verbose = false;
};

// Where the recorder writes: every process of the program opens it by its name, so that it survives whatever they do to
// their descriptors. It goes with us.
class ReportFile {
 public:
  ReportFile() {
    const char* folder = std::getenv("TMPDIR");
    path_ = fs::absolute(folder != nullptr && *folder != '\0' ? folder : "/tmp").string() + "/recapture-blame-XXXXXX";
    const int file = mkostemp(path_.data(), O_CLOEXEC);
    if (file < 0)
      throw ExitError(Exit::Infrastructure, fmt::format("{}: cannot make it: {}", path_, std::strerror(errno)));
    close(file);
  }
  ~ReportFile() { unlink(path_.c_str()); }
  ReportFile(const ReportFile&) = delete;
  ReportFile& operator=(const ReportFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// Emptied now, before the program starts; what is said goes to its end then, as ranks may share it that each run blame.
int open_log(const std::string& path) {
  if (path.empty()) return STDERR_FILENO;
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0644);
  if (file < 0)
    throw ExitError(Exit::Infrastructure, fmt::format("{}: cannot write it: {}", path, std::strerror(errno)));
  return file;
}

// In one write, unless there is no room for all of it: between two, others may write.
void write_all(int file, const std::string& text) {
  for (size_t done = 0; done < text.size();) {
    const ssize_t put = write(file, text.data() + done, text.size() - done);
    if (put < 0 && errno != EINTR) return;  // The program's exit status says more than ours.
    if (put > 0) done += static_cast<size_t>(put);
  }
}

// By release, as the processes of a program may have several. Read once a program has failed, which few do.
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
    return all_.emplace(release, std::move(knowledge)).first->second;
  }

 private:
  // "" where there is no record of it.
  std::string release_of(const blame::Process& process) const {
    const std::string release = without_local(process.torch);
    return is_version(release) && fs::is_directory(places_.reports() + "/" + release) ? release : "";
  }

  const run::Layout& places_;
  std::string chosen_;
  std::map<std::string, blame::Knowledge> all_;
};

// Colours are for people: on a terminal, unless https://no-color.org says no.
bool is_colour_wanted(int file) {
  const char* no_colour = std::getenv("NO_COLOR");
  return isatty(file) != 0 && (no_colour == nullptr || *no_colour == '\0');
}

Exit blame_program(const run::Layout& places, const Options& options) {
  if (options.program.empty()) throw ExitError(Exit::Usage, "no program; recapture blame -- PROGRAM ARGUMENT…");
  const std::string recorder = fs::absolute(places.recorder()).string();
  if (!fs::exists(recorder))
    throw ExitError(Exit::Infrastructure, recorder + " is not there; cmake --build build makes it");
  KnowledgeOfReleases knowledge(places, options.release.empty() ? "" : known_release(places.root, options.release));
  const int log = open_log(options.log);
  int status = 0;
  std::vector<blame::Process> processes;
  std::string not_whole;  // Why not all that the recorder has said is there, or "".
  {
    const ReportFile report;
    std::map<std::string, std::string> variables{{"CUDA_INJECTION64_PATH", recorder},
                                                 {"RECAPTURE_BLAME", report.path()}};
    if (options.deep) variables["RECAPTURE_DEEP"] = "1";
    const char* other = std::getenv("CUDA_INJECTION64_PATH");
    if (other != nullptr && other != recorder) variables["RECAPTURE_CHAIN"] = other;
    status = blame::launch(options.program, variables);
    std::signal(SIGPIPE, SIG_IGN);
    try {
      const std::string text = contents_of(report.path());
      processes = blame::read_report(text);
      if (!blame::is_whole(text)) not_whole = "a line of it is cut, as on a full disk or under ulimit -f";
    } catch (const ExitError&) {
      not_whole = fmt::format("{} is gone; the program has removed it", escape_control(report.path()));
    }
  }
  const blame::Answer answer =
      blame::answer_of(std::move(processes), not_whole,
                       [&](const blame::Process& of) -> const blame::Knowledge& { return knowledge(of); });
  const std::string text = options.json
                               ? blame::render_json(answer).dump(1, ' ', false, Json::error_handler_t::replace) + "\n"
                               : blame::render_text(answer, {options.verbose, is_colour_wanted(log)});
  write_all(log, text);
  return static_cast<Exit>(blame::end_like(status));
}

}  // namespace

Verb blame_verb(CLI::App& app, const std::string& root) {
  const auto options = std::make_shared<Options>();
  auto* command = app.add_subcommand("blame", "Run a program and report which call broke which capture");
  command->add_option("program", options->program, "After --: any CUDA program, in C++ or Python, and its arguments");
  command->add_option("--log", options->log,
                      "Write the report to this file, which is truncated first (default: standard error)");
  command->add_option("--release", options->release,
                      "Show which fixes hold with this LibTorch release (default: that of the program)");
  command->add_flag(
      "--deep", options->deep,
      "Report also work that is silently in no graph, and where captures began; needs CUPTI and costs some percent");
  command->add_flag("--verbose", options->verbose,
                    "Show all: frames, victims, every cause that fits, every remedy and its price");
  command->add_flag("--json", options->json, "Print a JSON object");
  return {command, [options, &root] { return blame_program(run::Layout::find(root), *options); }, Signals::Untouched};
}

}  // namespace recapture::commands
