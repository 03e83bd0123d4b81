// recapture triage: writes a small archive that reproduces a test's result for a vendor, after running it.
#include "harness/report/triage.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>

#include "harness/base/escape.h"
#include "harness/base/file.h"
#include "harness/base/output.h"
#include "harness/blame/report.h"
#include "harness/case/events.h"
#include "harness/commands/commands.h"
#include "harness/model/release.h"
#include "harness/model/suggest.h"
#include "harness/run/environment.h"
#include "harness/run/layout.h"
#include "harness/run/process.h"
#include "harness/run/scratch.h"
#include "harness/store/select.h"
#include "harness/triage/bundle.h"
#include "harness/triage/privacy.h"

namespace recapture::commands {
namespace fs = std::filesystem;
namespace {

constexpr size_t kMostBytes = 100'000;
constexpr double kBuildSeconds = 600, kBlameSeconds = 60;
constexpr size_t kMostLines = 60;  // Of a program's output.

struct TriageOptions {
  std::string test, release, output, records, python, libtorch;
};

// The selected test; for a case, that of its program, or else its first Reproduces.
std::pair<const CatalogueCase*, std::string> chosen(const Catalogue& catalogue, const std::string& word_given) {
  const std::vector<std::string> words = named(word_given, names_in(catalogue));
  const std::string& word_found = words.front();
  const CatalogueCase* one = find_case(catalogue, case_of(word_found));
  if (words.size() > 1 || one == nullptr) {
    throw ExitError(Exit::Usage, fmt::format("triage takes one test or case, not '{}'", word_given));
  }
  const bool names_test = word_found.find('.') != std::string::npos;
  const CatalogueTest* best = nullptr;
  for (const CatalogueTest& test : one->tests) {
    if (names_test ? test.name != name_of(word_found) : test.kind != Kind::Reproduces) continue;
    if (test.kind != Kind::Reproduces) {
      throw ExitError(Exit::Usage,
                      fmt::format("{} is a {}; a bundle shows a failure, so it takes a Reproduces test of {}",
                                  word_found, to_string(test.kind), one->id));
    }
    if (best == nullptr || is_of_program(test.name)) best = &test;
  }
  if (best != nullptr) return {one, best->name};
  throw ExitError(Exit::Usage, one->id + " has no Reproduces test");
}

void write_files(const std::string& folder, const std::vector<triage::BundleFile>& files) {
  for (const triage::BundleFile& file : files) {
    const fs::path path = fs::path(folder) / file.name;
    std::error_code error;
    fs::create_directories(path.parent_path(), error);
    write_file(path.string(), file.text);
  }
}

// How a program failed, in a few words; "" on success.
std::string trouble(const run::Reply& reply) {
  const run::Observation& seen = reply.first;
  if (run::interrupted()) throw ExitError(Exit::Interrupted, "interrupted; nothing was written");
  if (seen.ending == run::Observation::Ending::Exited && seen.code == 0) return "";
  if (seen.ending == run::Observation::Ending::NotStarted) return "it cannot be started";
  if (seen.ending == run::Observation::Ending::Deadline) return "it did not come back";
  return seen.ending == run::Observation::Ending::Signal ? fmt::format("signal {}", seen.code)
                                                         : fmt::format("exit status {}", seen.code);
}

// Turns each test of a Python case into a standalone program.
std::map<std::string, triage::Written> write_down(const run::Layout& places, const CatalogueCase& one,
                                                  const std::string& reproduces, const std::string& answer) {
  std::map<std::string, triage::Written> all;
  const std::vector<triage::BundleFile> files = triage::writer_of(places.root, one);
  if (files.empty()) return all;
  const run::Scratch scratch;
  write_files(scratch.path(), files);
  const std::string program = scratch.path() + "/write";
  const run::Reply built = run::ask({"/usr/bin/env",
                                     {"g++", "-std=c++17", "-w", "-I" + scratch.path(), scratch.path() + "/case.cpp",
                                      scratch.path() + "/trace.cpp", "-o", program, "-ldl"},
                                     {}},
                                    kBuildSeconds);
  if (built.first.ending == run::Observation::Ending::Exited && built.first.code == 127) {
    throw ExitError(Exit::Infrastructure, "there is no g++, with which triage reads the Python programs of a case");
  }
  const std::string why_not = trouble(built);
  for (const CatalogueTest& test : one.tests) {
    if ((test.kind == Kind::Reproduces && test.name != reproduces) || is_of_program(test.name)) continue;
    triage::Written& written = all[test.name];
    written.why_not = why_not;
    if (!why_not.empty()) continue;
    // The programs must not depend on a test's results: both runs must write the same programs.
    const run::Reply text = run::ask({program, {test.name}, {}}, 60);
    const run::Reply one_way = run::ask({program, {test.name, answer}, {}}, 60),
                     other = run::ask({program, {test.name, "?"}, {}}, 60);
    if (!trouble(text).empty()) {
      written.why_not = text.second.substr(0, text.second.find('\n'));
      if (written.why_not.empty()) written.why_not = trouble(text);
    } else if (one_way.second != other.second || one_way.first.code != other.first.code) {
      written.why_not = "what it runs depends on what it sees";
    } else {
      written.program = text.second;
    }
  }
  return all;
}

// The folder of the interpreter behind python3: a version manager's wrapper would need the user's variables.
std::string folder_of_python(const std::string& python) {
  const char* const home = std::getenv("HOME");
  const run::Reply reply = run::ask({"/usr/bin/env",
                                     {python.empty() ? "python3" : python, "-c", "import sys; print(sys.executable)"},
                                     {{"HOME", home == nullptr ? "" : home}}},
                                    60);
  const std::string program = reply.second.substr(0, reply.second.find('\n'));
  if (trouble(reply).empty() && !program.empty()) return fs::path(program).parent_path().string();
  if (!python.empty()) throw ExitError(Exit::Usage, fmt::format("{} is not a python3: {}", python, trouble(reply)));
  return "";
}

// Simulates the recipient's machine: a folder with the unpacked archive and a minimal environment.
class Stranger {
 public:
  Stranger(const TriageOptions& options, const std::string& release) {
    const std::string python = folder_of_python(options.python);
    const std::string folders = (python.empty() ? "" : python + ":") + "/usr/local/bin:/usr/bin:/bin";
    environment_ = {"-i", "PATH=" + folders, "HOME=" + scratch_.path(), "TMPDIR=" + scratch_.path()};
    for (const char* name : run::kMulticastVariables) {  // Always passed on.
      if (const char* value = std::getenv(name)) environment_.push_back(fmt::format("{}={}", name, value));
    }
    for (const char* name : {"LD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES"}) {  // The driver's folder, and the GPU.
      if (const char* value = std::getenv(name)) {
        environment_.push_back(fmt::format("{}={}", name, value));
        kept_ += std::string(kept_.empty() ? " but for " : " and ") + name;
      }
    }
    torch_ = version_of_torch();
    const std::string site = options.libtorch.empty() ? run::cache_folder() + "/libtorch/" + release : options.libtorch;
    if (!options.libtorch.empty() && !fs::is_directory(site + "/torch")) {
      throw ExitError(Exit::Infrastructure, site + " has no torch; --libtorch takes a site-packages folder");
    }
    if ((torch_.empty() || !options.libtorch.empty()) && fs::is_directory(site + "/torch")) {
      environment_.push_back("PYTHONPATH=" + site);
      torch_ = version_of_torch();
    }
  }

  std::string unpack(const std::string& archive, const std::string& name) {
    const std::string file = scratch_.path() + "/bundle.tar.gz";
    write_file(file, archive);
    const run::Reply reply = run("/", {"tar", "-xzf", file, "-C", scratch_.path()}, 60);
    if (const std::string wrong = trouble(reply); !wrong.empty()) {
      throw ExitError(Exit::Infrastructure, "tar cannot unpack the bundle: " + wrong);
    }
    folder_ = scratch_.path() + "/" + name;
    return folder_;
  }

  // run.sh with these words: its exit status and its output, both streams interleaved.
  std::pair<int, std::string> script(const std::string& words, double deadline_s) const {
    const run::Reply reply = run(folder_, {"sh", "-c", "exec sh run.sh " + words + " 2>&1"}, deadline_s);
    if (run::interrupted()) throw ExitError(Exit::Interrupted, "interrupted; nothing was written");
    const bool exited = reply.first.ending == run::Observation::Ending::Exited;
    return {exited ? reply.first.code : -1, triage::without_places(reply.second, folder_)};
  }

  run::Reply run(const std::string& folder, const std::vector<std::string>& words, double deadline_s) const {
    std::vector<std::string> all = {"-C", folder};
    all.insert(all.end(), environment_.begin(), environment_.end());
    all.insert(all.end(), words.begin(), words.end());
    return run::ask({"/usr/bin/env", all, {}}, deadline_s);
  }

  const std::string& torch() const { return torch_; }
  const std::string& kept() const { return kept_; }  // Variables that were kept, in words.

  // "NVIDIA H200, driver 580.159.04"; "" without one.
  std::string gpu() const {
    const run::Reply reply = run("/", {"nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"}, 30);
    if (!trouble(reply).empty()) return "";
    std::string line = reply.second.substr(0, reply.second.find('\n'));
    if (const size_t comma = line.find(", "); comma != std::string::npos) line.insert(comma + 2, "driver ");
    return escape_control(line);
  }

 private:
  std::string version_of_torch() const {
    const run::Reply reply = run("/", {"python3", "-c", "import torch; print(torch.__version__)"}, 120);
    return trouble(reply).empty() ? escape_control(reply.second.substr(0, reply.second.find('\n'))) : "";
  }

  run::Scratch scratch_;
  std::vector<std::string> environment_;
  std::string folder_, torch_, kept_;
};

std::string last_line(const std::string& text) {
  std::string trimmed = text.substr(0, text.find_last_not_of('\n') + 1);
  return escape_control(trimmed.substr(trimmed.rfind('\n') + 1));
}

// The end of a long output, which has the result.
std::string end_of(const std::string& text) {
  size_t lines = 0, at = text.size();
  while (at > 0 && lines <= kMostLines) lines += text[--at] == '\n' ? 1 : 0;
  return at == 0 ? text : "...\n" + text.substr(at + 1);
}

std::string system_name() {
  std::ifstream file("/etc/os-release");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("PRETTY_NAME=\"", 0) == 0) return line.substr(13, line.size() - 14);
  }
  return "Linux";
}

// All public words of the tree. A user whose name is one of them, such as nvidia, is not identified by it.
std::string everybodys_words(const compare::CompareContext& background, const triage::Bundle& bundle) {
  std::string text = render_text(background.catalogue);
  for (const triage::BundleFile& file : bundle.files) text += file.text + "\n";
  for (const CitedSource& source : background.sources) text += source.title + " " + source.url + "\n";
  for (const Deviation& change : background.changes) text += change.what + "\n";
  return text;
}

// The lines safe to publish: a program may print a path that no rule foresees.
std::string public_lines(const std::string& text, const report::TriageInput& story) {
  const std::vector<std::string> versions = triage::versions_in(story.record);
  const std::string public_words = everybodys_words(story.background, story.bundle);
  std::string kept;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (triage::private_parts(line, versions, public_words).empty()) kept += line + "\n";
  }
  return kept;
}

// What `blame` reports for the failing call, with stack and the driver's message. "" without a recorder or if no
// capture failed.
std::string blamed(const run::Layout& places, const Stranger& stranger, const std::string& folder, double deadline_s) {
  std::error_code error;
  const std::string self = fs::read_symlink("/proc/self/exe", error).string();
  if (error || !fs::exists(places.recorder(), error)) return "";
  const std::string events = folder + "/events.jsonl", log = folder + "/blame.txt";
  write_file(events, "");  // The recorder appends.
  stranger.run(folder,
               {"CUDA_INJECTION64_PATH=" + fs::absolute(places.recorder()).string(), "RECAPTURE_BLAME=" + events, "sh",
                "run.sh"},
               deadline_s);
  const std::vector<blame::Process> processes = blame::read_report(contents_of(events));
  const auto has_failed = [](const blame::Process& process) { return !process.failures.empty(); };
  if (std::ranges::none_of(processes, has_failed)) return "";  // Nothing useful to a vendor.
  run::ask({self, {"--root", places.root, "blame", "--read", events, "--log", log}, {}}, kBlameSeconds);
  std::ifstream file(log);
  std::string text, line;
  for (size_t i = 0; i < kMostLines && std::getline(file, line); ++i) text += line + "\n";
  return triage::without_places(triage::without_places(text, folder), places.root);
}

// Unpacks and runs it as a recipient would. Throws ExitError(Changed) if the result contradicts the archive's claim.
triage::Verification verify(const run::Layout& places, const TriageOptions& options, const report::TriageInput& story,
                            const std::string& name, const std::string& archive) {
  const std::string release = story.record.env("release");
  Stranger stranger(options, release);
  const std::string folder = stranger.unpack(archive, name);
  const bool needs_gpu = story.one.needs.gpus > 0;
  const size_t tests = 1 + story.bundle.controls.size() + story.bundle.fixes.size();
  const double deadline = kBuildSeconds + static_cast<double>(tests) * story.one.deadline_s;
  const std::string gpu = stranger.gpu();
  const bool alone = story.bundle.shape == triage::Shape::Cuda || story.bundle.shape == triage::Shape::Runtime;
  const std::string where = fmt::format("{}{}, {}",
                                        alone                      ? ""
                                        : stranger.torch().empty() ? "no torch, "
                                                                   : "torch " + stranger.torch() + ", ",
                                        gpu.empty() ? "no GPU" : gpu, system_name());

  triage::Verification result;
  constexpr std::array<std::pair<const char*, int>, 3> kClaims = {{{"control", 0}, {"", 1}, {"fix", 0}}};
  for (const auto& [words, claimed] : kClaims) {
    if (std::string_view(words) == "fix" && story.bundle.fixes.empty()) continue;
    const std::string line = std::string("run.sh") + (*words == '\0' ? "" : " ") + words;
    const auto [status, printed] = stranger.script(words, deadline);
    if (status == claimed) {
      if (*words == '\0') result.printed = public_lines(end_of(printed), story);
      continue;
    }
    const bool same_torch = alone || without_local(stranger.torch()) == without_local(release);
    if (status == 1 - claimed && same_torch && (gpu.empty() || gpu.rfind(story.record.env("gpu"), 0) == 0)) {
      throw ExitError(Exit::Changed,
                      fmt::format("the bundle does not do here what the record shows, so nothing was written: "
                                  "`{}` said: {}",
                                  line, last_line(printed)));
    }
    result.printed.clear();
    result.line = fmt::format(
        "**Not verified**: where this archive was made ({}), `{}` said: {} What follows is from the "
        "records.",
        where, line, last_line(printed) + (last_line(printed).empty() ? "nothing." : "."));
    return result;
  }
  result.done = true;
  if (needs_gpu && story.one.nature != Nature::Race) {
    result.blamed = public_lines(blamed(places, stranger, folder, deadline), story);
  }
  result.line = fmt::format(
      "**Verified**: unpacked in an empty folder, under an empty environment{}, `run.sh control`, `run.sh`{} did "
      "what is said here ({}).",
      stranger.kept(), story.bundle.fixes.empty() ? "" : " and `run.sh fix`", where);
  return result;
}

void require_nothing_private(const std::vector<triage::BundleFile>& files, const report::TriageInput& story) {
  const std::vector<std::string> versions = triage::versions_in(story.record);
  const std::string public_words = everybodys_words(story.background, story.bundle);
  for (const triage::BundleFile& file : files) {
    const std::vector<std::string> found = triage::private_parts(file.text, versions, public_words);
    if (found.empty()) continue;
    throw ExitError(Exit::Inconclusive, fmt::format("nothing was written: {} would reveal '{}', which is private",
                                                    file.name, escape_control(found.front())));
  }
}

// Refuses the file before half a minute of work.
void require_place(const std::string& output) {
  std::error_code error;
  if (fs::is_directory(output, error)) throw ExitError(Exit::Usage, output + " is a folder; --output takes a file");
  const fs::path folder = fs::path(output).parent_path();
  if (access(folder.empty() ? "." : folder.c_str(), W_OK) != 0) {
    throw ExitError(Exit::Infrastructure, fmt::format("{}: cannot write it: {}", output, std::strerror(errno)));
  }
}

// Its first recorded test, and the test's program; both empty if there is none.
std::pair<std::string, std::string> in_python(const run::Layout& places, const Catalogue& catalogue,
                                              const CatalogueCase& one, const std::vector<OnMachine>& machines) {
  const CatalogueCase* const sibling = triage::python_sibling(catalogue, one);
  if (sibling == nullptr) return {};
  try {
    for (const CatalogueTest& test : sibling->tests) {
      if (test.kind != Kind::Reproduces) continue;
      const std::string id = sibling->id + "." + test.name;
      const std::string answer = report::record_that_shows(machines, id, "").find(id)->text(key::documented);
      const auto all = write_down(places, *sibling, test.name, answer.empty() ? "!" : answer);
      const auto written = all.find(test.name);
      if (written != all.end() && written->second.why_not.empty()) return {id, written->second.program};
      return {};
    }
  } catch (const ExitError& stop) {
    if (stop.code == Exit::Interrupted) throw;  // Otherwise it has no record, or there is no compiler.
  }
  return {};
}

Exit triage(const run::Layout& places, const TriageOptions& options) {
  require_place(options.output.empty() ? "the archive" : options.output);
  const compare::CompareContext background = compare::read_compare_context(places.root);
  const auto [one, test] = chosen(background.catalogue, options.test);
  if (background.rules.simulated.count(one->id) != 0) {
    throw ExitError(
        Exit::NothingRan,
        fmt::format("{} is simulated: our own model raises its failure, so there is nothing for a vendor to fix",
                    one->id));
  }
  const std::string release =
      options.release.empty() ? "" : known_release(places.root, options.release, if_only_sent(places.reports()));
  const std::string folder = options.records.empty() ? places.reports() : options.records;
  if (!fs::is_directory(folder)) throw ExitError(Exit::Usage, folder + " is not a folder; --records takes one");
  const ResultMatrix board(newest_records(folder).records, background.rules);
  const std::vector<OnMachine> machines = latest(board);
  const std::string id = one->id + "." + test;
  const Record& record = report::record_that_shows(machines, id, release);

  const std::string answer = record.find(id)->text(key::documented);
  std::map<std::string, triage::Written> written;
  if (!is_of_program(test)) written = write_down(places, *one, test, answer.empty() ? "!" : answer);
  const triage::Bundle bundle = triage::bundle_of(places.root, *one, test, written);
  report::TriageInput story{*one, test, machines, record, background, bundle};
  if (bundle.shape != triage::Shape::Python && bundle.shape != triage::Shape::Program) {
    std::tie(story.python.test, story.python.program) = in_python(places, background.catalogue, *one, machines);
  }
  std::vector<triage::BundleFile> files = bundle.files;
  files.push_back({"record.jsonl", triage::record_lines(record, one->id)});
  require_nothing_private(files, story);
  const triage::Verification verified = verify(places, options, story, id, triage::archive_of(id, files));
  files.insert(files.begin(), {"REPORT.md", render_report(story, verified)});
  require_nothing_private(files, story);
  const std::string archive = triage::archive_of(id, files);
  if (archive.size() > kMostBytes) {
    throw ExitError(Exit::Usage, fmt::format("{} cannot be a bundle: it would have {} bytes, and a form takes {}", id,
                                             archive.size(), kMostBytes));
  }
  const std::string path = options.output.empty() ? id + ".tar.gz" : options.output;
  replace_output(path, archive, 2, "an archive");
  print("{}: {} bytes\n{}\n", path, archive.size(), verified.line);
  return Exit::AsExpected;
}

}  // namespace

Verb triage_verb(CLI::App& app, const std::string& root) {
  const auto options = std::make_shared<TriageOptions>();
  auto* command = app.add_subcommand("triage", "Make an archive for the vendor of a failure: program, script, report");
  command
      ->add_option("test", options->test,
                   "A Reproduces test, or a case, whose program in Python is used, or else its first test")
      ->required();
  command->add_option("--release", options->release,
                      "Use the record of this release (default: the newest that shows the failure)");
  command->add_option("--output", options->output, "Write the archive to this file (default: TEST.tar.gz here)");
  command->add_option("--records", options->records, "Folder of the records (default: reports/)");
  command->add_option("--python", options->python, "Try it with this python3 (default: the first on PATH)");
  command->add_option(
      "--libtorch", options->libtorch,
      "Try it with the torch of this site-packages folder (default: python3's own, or that of tools/libtorch)");
  command->footer(
      "Exit codes: 0 the archive is written, 1 it does not reproduce the record here, 2 wrong usage or unknown "
      "name,\n"
      "4 no record has the failure, 6 it would reveal something private, 7 it cannot be written, or a compiler or tar "
      "is\n"
      "missing, 130 interrupted.");
  return {command,
          [options, &root] { return triage(run::Layout::find(root), *options); },
          Signals::Children,
          {{"recapture triage item_in_capture", "an archive for a vendor: program, record, report"},
           {"recapture triage item_in_capture --release 2.11", "of one release"}}};
}

}  // namespace recapture::commands
