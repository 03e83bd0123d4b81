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
#include <memory>

#include "harness/base/escape.h"
#include "harness/base/file.h"
#include "harness/blame/launch.h"
#include "harness/blame/report.h"
#include "harness/commands/commands.h"
#include "harness/model/suggest.h"
#include "harness/recorder/report.h"
#include "harness/report/explanation.h"

namespace recapture::commands {
namespace fs = std::filesystem;
namespace {

struct Options {
  std::vector<std::string> program;
  std::string log, release;
  bool json = false, deep = false;
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

// What explain knows, for every failure.
class Explainer {
 public:
  Explainer(const run::Layout& places, std::string release)
      : catalogue_(read_catalogue(places.root)),
        causes_(explain::read_causes(places.root, catalogue_)),
        rows_(current_verdicts(places, release)),
        prices_(current_prices(places, release)),
        release_(std::move(release)) {}

  // explain goes by words; here more is known. Of its causes those of the right thread are left, of these the ones that
  // name what the call came through, and otherwise those that name the call; each time only if there are some.
  explain::Explanation operator()(const blame::Failure& failure) const {
    explain::Explanation explanation =
        explain::diagnose(explain::parse_error_text(blame::render_log(failure)), causes_, catalogue_, rows_, prices_);
    std::erase_if(explanation.causes, [](const explain::Found& one) { return one.role != explain::Role::Culprit; });
    if (!failure.culprit) return explanation;
    const auto keep = [&](const auto& condition) {
      const auto holds = [&](const explain::Found& one) { return condition(cause_of(one)); };
      if (std::none_of(explanation.causes.begin(), explanation.causes.end(), holds)) return false;
      std::erase_if(explanation.causes, [&](const explain::Found& one) { return !holds(one); });
      return true;
    };
    if (const auto beside = blame::beside_another(*failure.culprit)) {
      keep([&](const explain::Cause& cause) { return cause.other_thread == *beside; });
    }
    const explain::ErrorText path = explain::parse_error_text(blame::path_of(*failure.culprit));
    const auto in_path = [&](const std::string& name) { return explain::find_evidence(path, name) != 0; };
    const std::string api = failure.culprit->api, any_version = api.substr(0, api.find("_v"));
    const auto of_call = [&](const std::string& name) { return name.find(any_version) != name.npos; };
    if (!keep([&](const explain::Cause& cause) {
          return std::any_of(cause.names.begin(), cause.names.end(), in_path);
        })) {
      keep([&](const explain::Cause& cause) {
        return std::any_of(cause.calls.begin(), cause.calls.end(), of_call) ||
               std::any_of(cause.names.begin(), cause.names.end(), of_call);
      });
    }
    return explanation;
  }
  const std::string& release() const { return release_; }

 private:
  const explain::Cause& cause_of(const explain::Found& found) const {
    return *std::find_if(causes_.begin(), causes_.end(),
                         [&](const explain::Cause& cause) { return cause.id == found.id; });
  }

  Catalogue catalogue_;
  std::vector<explain::Cause> causes_;
  std::vector<TestVerdict> rows_;
  std::vector<Prices> prices_;
  std::string release_;
};

std::string causes(const Explainer& explainer, const blame::Failure& failure) {
  const explain::Explanation explanation = explainer(failure);
  std::string words;
  for (const explain::Found& one : explanation.causes) {
    words += fmt::format("  cause    {} ({})\n", one.title, one.id);
    for (const explain::FixAdvice& remedy : explanation.remedies) {
      if (remedy.cause == one.id) words += report::render_text(remedy, explainer.release(), 11);
    }
  }
  return words;
}

// Each of them with that head, as far as there is room.
template <class All, class InWords>
std::string list_in_words(const std::string& head, const All& all, const InWords& in_words_of) {
  constexpr size_t kMost = 10;
  std::string words;
  for (size_t i = 0; i < std::min(all.size(), kMost); ++i) words += fmt::format("{}:\n{}\n", head, in_words_of(all[i]));
  if (all.size() > kMost) words += fmt::format("and {} more\n", all.size() - kMost);
  return words;
}

// What the recorder itself has left out. It tells their number now and then, as the program may end at any time.
std::string cut_in_words(const std::string& head, const blame::Cut& cut) {
  std::string words;
  const auto add = [&](size_t number, const std::string& what) {
    if (number != 0) {
      words += fmt::format("{}: only its first {} were kept, and at least {} more were not\n", head, what, number);
    }
  };
  add(cut.failed, fmt::format("{} calls that failed", kMostCalls));
  add(cut.refused, "calls that were refused");
  add(cut.silent, fmt::format("{} calls that are in no graph", kMostCalls));
  return words;
}

std::string render_text(const std::vector<blame::Process>& processes, const std::string& not_whole,
                        const Explainer& explainer) {
  std::string words;
  size_t heard = 0, failures = 0;
  for (const blame::Process& process : processes) {
    heard += process.why_not.empty() ? 1 : 0;
    failures += process.failures.size();
    const std::string head = fmt::format("recapture blame: {}", blame::name(process));
    if (!process.why_not.empty())
      words += fmt::format("{}: nothing was heard, {}\n", head, escape_control(process.why_not));
    if (!process.why_not_deep.empty())
      words += fmt::format("{}: {}\n", head, blame::without_deep(process.why_not_deep));
    words += list_in_words(head, process.failures, [&](const blame::Failure& failure) {
      return blame::render_text(failure, process.by) + causes(explainer, failure);
    });
    words += list_in_words(head, process.refused, [](const blame::Call& call) { return blame::render_text(call); });
    words +=
        list_in_words(head, process.silent, [](const blame::Silent& silent) { return blame::render_text(silent); });
    words += cut_in_words(head, process.cut);
  }
  if (!not_whole.empty()) return words + fmt::format("recapture blame: the report is not whole: {}\n", not_whole);
  if (processes.empty()) {
    return "recapture blame: nothing was heard: the program has not used CUDA's driver, or this driver loads no "
           "library, or the report could not be written (by another user, on a full disk, under ulimit -f), or what "
           "uses CUDA is still running\n";
  }
  if (failures == 0 && heard != 0) {
    words += fmt::format("recapture blame: no capture has failed in {}\n",
                         heard == 1 ? "the process that used CUDA" : fmt::format("{} processes that used CUDA", heard));
  }
  return words;
}

Json render_json(const std::vector<blame::Process>& processes, const std::string& not_whole,
                 const Explainer& explainer) {
  Json all = Json::array();
  for (const blame::Process& process : processes) {
    Json failures = Json::array(), refused = Json::array(), silent = Json::array();
    for (const blame::Failure& failure : process.failures) {
      failures.push_back(blame::render_json(failure));
      failures.back()["explanation"] = report::render_json(explainer(failure));
    }
    for (const blame::Call& call : process.refused) refused.push_back(blame::render_json(call));
    for (const blame::Silent& one : process.silent) silent.push_back(blame::render_json(one));
    all.push_back(
        {{"pid", process.pid},
         {"rank", process.rank},
         {"local_rank", process.local_rank},
         {"program", process.program},
         {"heard_by", process.by},
         {"why_not", process.why_not},
         {"why_not_deep", process.why_not_deep},
         {"failures", failures},
         {"refused", refused},
         {"silent", silent},
         {"cut", {{"failed", process.cut.failed}, {"refused", process.cut.refused}, {"silent", process.cut.silent}}}});
  }
  return {{"processes", all}, {"not_whole", not_whole}};
}

Exit blame_program(const run::Layout& places, const Options& options) {
  if (options.program.empty()) throw ExitError(Exit::Usage, "no program; recapture blame -- PROGRAM ARGUMENT…");
  const std::string recorder = fs::absolute(places.recorder()).string();
  if (!fs::exists(recorder))
    throw ExitError(Exit::Infrastructure, recorder + " is not there; cmake --build build makes it");
  const Explainer explainer(places, options.release.empty() ? "" : known_release(places.root, options.release));
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
  const std::string text =
      options.json
          ? render_json(processes, not_whole, explainer).dump(1, ' ', false, Json::error_handler_t::replace) + "\n"
          : render_text(processes, not_whole, explainer);
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
  command->add_option("--release", options->release, "Show which fixes hold with this LibTorch release");
  command->add_flag(
      "--deep", options->deep,
      "Report also work that is silently in no graph, and where captures began; needs CUPTI and costs some percent");
  command->add_flag("--json", options->json, "Print a JSON object");
  return {command, [options, &root] { return blame_program(run::Layout::find(root), *options); }, Signals::Untouched};
}

}  // namespace recapture::commands
