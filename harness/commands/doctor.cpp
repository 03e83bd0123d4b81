// recapture doctor: what is on this machine, and what each verb can do with it.
#include <dlfcn.h>
#include <fmt/format.h>
#include <gnu/libc-version.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "harness/base/escape.h"
#include "harness/base/output.h"
#include "harness/base/text.h"
#include "harness/commands/commands.h"
#include "harness/commands/version.h"
#include "harness/model/gpu.h"
#include "harness/model/release.h"
#include "harness/run/layout.h"
#include "harness/run/machine.h"
#include "harness/run/process.h"
#include "harness/store/select.h"

namespace recapture::commands {
namespace fs = std::filesystem;
namespace {

std::string text_in_file(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// The value of NAME="value" in a file such as /etc/os-release.
std::string value_in(const std::string& text, const std::string& name) {
  const std::string begin = name + "=\"";
  const size_t at = text.find(begin);
  return at == std::string::npos
             ? ""
             : text.substr(at + begin.size(), text.find('"', at + begin.size()) - at - begin.size());
}

std::string container() {
  if (run::is_wsl()) return "WSL2";
  const std::string kind = run::container_here();
  return kind.empty() ? "no container that is known" : "a container of " + escape_control(kind);
}

std::string system_line() {
  const std::string name = value_in(text_in_file("/etc/os-release"), "PRETTY_NAME");
  utsname kernel{};
  uname(&kernel);
  return fmt::format("{}, {}, glibc {}, {}", name.empty() ? "Linux" : escape_control(name), kernel.machine,
                     gnu_get_libc_version(), container());
}

bool loads(const char* library) {
  void* handle = dlopen(library, RTLD_LAZY | RTLD_LOCAL);
  if (handle != nullptr) dlclose(handle);
  return handle != nullptr;
}

// Of the loader's path; PyTorch brings its own.
std::string runtime_line(const std::string& of_torch) {
  std::vector<std::string> found;
  for (const char* library : {"libcudart.so.13", "libcudart.so.12", "libcudart.so.11.0"}) {
    if (loads(library)) found.emplace_back(library);
  }
  if (!of_torch.empty()) found.push_back(of_torch + " of PyTorch");
  return found.empty() ? "none that programs here would load" : join(found);
}

struct Torch {
  std::string python, version, cuda, why_not;
};

// Its Python is asked, as `check` would use it.
Torch find_torch(const std::string& python) {
  constexpr double kDeadline_s = 60;
  constexpr char kAsk[] =
      "import sys\nsys.path[0] = sys.argv[1]\ntry:\n import torch\nexcept ImportError:\n sys.exit(3)\n"
      "if not hasattr(torch, '__version__'):\n print(*torch.__path__)\n sys.exit(4)\n"
      "print(torch.__version__, torch.version.cuda)";
  const char *path = std::getenv("PATH"), *home = std::getenv("HOME");
  Torch torch{python, "", "", ""};
  // It is started in another folder, which has a folder torch/ of its own.
  const std::string word = python.find('/') == std::string::npos ? python : fs::absolute(python).string();
  const auto [seen, answer] = run::ask({"/usr/bin/env",
                                        {word, "-c", kAsk, fs::current_path().string()},
                                        {{"PATH", path == nullptr ? "" : path}, {"HOME", home == nullptr ? "" : home}}},
                                       kDeadline_s);
  const size_t blank = answer.find(' ');
  constexpr int kNoTorch = 3, kFolder = 4;
  if (seen.code == kNoTorch) {
    torch.why_not = fmt::format("{} has none; `check --python` names another", python);
  } else if (seen.code == kFolder) {  // A folder of that name, as beside a script, is imported as a package.
    torch.why_not = fmt::format("{} has none: it imports the folder {}", python,
                                escape_control(answer.substr(0, answer.find('\n'))));
  } else if (seen.code != 0 || blank == std::string::npos) {
    const std::string words = seen.last_words.substr(0, seen.last_words.find_last_not_of(" \n") + 1);
    const std::string reason = escape_control(words.substr(words.rfind('\n') + 1));  // Of a traceback.
    torch.why_not = fmt::format("{} cannot be asked{}{}; `check --python` names another", python,
                                reason.empty() ? "" : ": ", reason);
  } else {
    torch.version = escape_control(answer.substr(0, blank));
    torch.cuda = escape_control(answer.substr(blank + 1, answer.find('\n') - blank - 1));
  }
  return torch;
}

struct OnRecord {
  std::set<std::string> releases, gpus;
};

OnRecord on_record(const run::Layout& places) {
  OnRecord found;
  for (const std::string& path : records_below(places.reports())) {
    try {
      const Environment environment = environment_of(path);
      if (environment.release.is_version()) found.releases.insert(environment.release.name());
      if (!environment.machine.gpu.empty()) found.gpus.insert(environment.machine.gpu);
    } catch (const ExitError&) {
      // `recapture show` reports what cannot be read.
    }
  }
  return found;
}

std::string records_line(const OnRecord& found, const RecordsAge& age) {
  if (age.count == 0) return "none";
  std::vector<std::string> releases(found.releases.begin(), found.releases.end());
  sort_releases(releases);
  return fmt::format("{} of {} to {} on {}; the newest is of {}", age.count, releases.front(), releases.back(),
                     found.gpus.empty() ? "no GPU" : escape_control(join(found.gpus)), age.newest);
}

void print_line(const std::string& label, const std::string& text) { print("{:<13}{}\n", label, text); }

// "there is no CUDA driver (libcuda.so.1)": why there is no GPU.
std::string why_no_gpu(const run::Machine& machine) {
  if (machine.reason.rfind("no libcuda", 0) == 0) return "there is no CUDA driver (libcuda.so.1)";
  return machine.reason.empty() ? machine.health : machine.reason;
}

// " (Hopper)"
std::string architecture_words(const run::Machine& machine) {
  const std::string name(Architecture(machine.compute_capability).name());
  return name.empty() ? "" : " (" + name + ")";
}

Exit diagnose(const run::Layout& places, const std::string& python) {
  run::become_subreaper();
  const run::Machine machine = run::ask_machine(places);
  const bool has_gpu = machine.answers(), has_recorder = fs::exists(places.recorder());
  const Torch torch = find_torch(python);
  const std::vector<std::string> built = run::built_releases(places);
  const OnRecord found = on_record(places);
  const std::string no_gpu = why_no_gpu(machine);
  print_line("recapture", fmt::format("{} ({})", commands::kVersion, commands::revision_of_tree(places)));
  print_line("system", system_line());
  print_line("GPU", has_gpu ? fmt::format("{} × {}, compute capability {}{}, MIG {}{}{}", machine.gpus, machine.gpu,
                                          machine.compute_capability, architecture_words(machine),
                                          machine.mig.empty() ? "unknown" : machine.mig,
                                          machine.mps.empty() ? "" : ", MPS " + machine.mps,
                                          machine.compute_mode.empty() ? "" : ", compute mode " + machine.compute_mode)
                            : "none: " + no_gpu);
  print_line("driver",
             machine.cuda_driver.empty()
                 ? "none"
                 : fmt::format("{}, for CUDA up to {}", machine.driver.empty() ? "of unknown version" : machine.driver,
                               machine.cuda_driver));
  print_line("NVML", !machine.driver.empty()      ? "answers"
                     : loads("libnvidia-ml.so.1") ? "is here and does not answer"
                                                  : "none (libnvidia-ml.so.1)");
  print_line("CUDA runtime", runtime_line(torch.cuda));
  print_line("PyTorch", torch.why_not.empty() ? fmt::format("{} in {}", torch.version, torch.python) : torch.why_not);
  print_line("recorder", has_recorder ? places.recorder() : places.recorder() + " is missing; install again");
  print_line("cases", built.empty() ? "none are built; `ci/suite` in a clone builds them" : "built for " + join(built));
  const std::string set = set_in_use(places);
  print_line("records", records_line(found, age_of_records(places)) + (set.empty() ? "" : "; " + set));
  print("\n");
  print_line("by records", "show, explain, operators, compare, gate, history, bisect, page, list, triage work here");
  print_line("blame", !has_recorder ? "the recorder is missing"
                      : has_gpu     ? "works"
                                    : "would record nothing: " + no_gpu);
  print_line("check", !torch.why_not.empty() ? "cannot run: no PyTorch" : has_gpu ? "works" : "cannot run: " + no_gpu);
  print_line("run", built.empty() ? "no cases are built"
                    : has_gpu     ? "works"
                                  : "only tests that need no GPU: " + no_gpu);
  print_line("gate --run", built.size() < 2 ? "needs the cases of both releases, and a GPU"
                           : has_gpu        ? "works"
                                            : no_gpu);
  return Exit::AsExpected;
}

}  // namespace

Verb doctor_verb(CLI::App& app, const std::string& root) {
  const auto python = std::make_shared<std::string>();
  auto* command = app.add_subcommand("doctor", "Report what is on this machine, and what each verb can do with it");
  command->add_option("--python", *python,
                      "The Python that has PyTorch (default: the one beside this program, or python3)");
  command->footer("Exit codes: 0 done, 2 wrong usage.");
  return {command,
          [python, &root] { return diagnose(run::Layout::find(root), python->empty() ? default_python() : *python); },
          Signals::Children,
          {{"recapture doctor", "GPU, driver, PyTorch, records"},
           {"recapture doctor --python venv/bin/python", "with the PyTorch of another environment"}}};
}

}  // namespace recapture::commands
