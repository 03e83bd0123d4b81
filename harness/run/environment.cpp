#include "harness/run/environment.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string_view>
#include <tuple>
#include <utility>

#include "harness/base/escape.h"
#include "harness/base/file.h"
#include "harness/base/text.h"
#include "harness/case/source_hash.h"
#include "harness/model/release.h"
#include "harness/model/suggest.h"
#include "harness/run/process.h"

namespace recapture::run {
namespace fs = std::filesystem;
namespace {

// The newest file of a library in a version, 12.9 or 12.9.79, where tools/libtorch keeps it; for NCCL, of the same
// major CUDA release as LibTorch.
std::string file_of(const OverridableLibrary& library, const std::string& version, const std::string& cuda,
                    const std::string& release) {
  const bool is_nccl = library.key == std::string_view("nccl");
  const fs::path folder =
      fs::path(cache_folder()) / (is_nccl ? "nccl-cuda" + cuda.substr(0, cuda.find('.')) : "cuda-runtime");
  Release newest;
  std::string path;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const Release found(entry.path().filename().string());
    if (!(found == version) && !found.name().starts_with(version + ".")) continue;
    if (!newest.empty() && !newest.is_older_than(found)) continue;
    for (const auto& file : fs::directory_iterator(entry.path(), error)) {
      if (file.path().filename().string().rfind(library.file, 0) != 0) continue;
      newest = found;
      path = fs::absolute(file.path()).string();
    }
  }
  if (path.empty()) {
    throw ExitError(Exit::Infrastructure,
                    fmt::format("{} {} is not in {}; `tools/libtorch {}{} {}` gets it", library.name, version,
                                folder.string(), is_nccl ? release + " " : "", library.option, version));
  }
  return path;
}

struct Facts {
  Json json;
  std::string lacks;    // Why nothing can be loaded.
  std::string preload;  // Loaded before LibTorch, whose own library of the same name is then not loaded.
};

// The environment that a case binary reports; the end of its output if it reports none.
std::pair<Json, std::string> told_by(const std::string& binary, const RunOptions& options, const std::string& preload) {
  // Without a GPU: with one, LibTorch would query libraries that a packed LibTorch lacks.
  auto variables = libtorch_variables(options.libtorch);
  if (!preload.empty()) variables["LD_PRELOAD"] = preload;
  variables["CUDA_VISIBLE_DEVICES"] = "";
  const auto [seen, answer] = ask({binary, {"--environment"}, variables}, 120);
  Json facts = try_parse_json(answer).value_or(Json());
  return {facts.is_object() ? facts : Json(), seen.last_words};
}

Json own_facts_of(const std::string& binary, const RunOptions& options) {
  const auto [facts, last_words] = told_by(binary, options, "");
  if (!facts.is_object()) {
    throw ExitError(Exit::Infrastructure, binary + " cannot report its environment: " + last_words);
  }
  return facts;
}

// Throws if this release of a Python package is not in the cache, for any Python.
void require_package(const OverridableLibrary& library, const std::string& version) {
  const fs::path folder = fs::path(cache_folder()) / library.key;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().filename().string().rfind(version + "-python", 0) == 0) return;
  }
  throw ExitError(Exit::Infrastructure, fmt::format("{} {} is not in {}; `{} {}` gets it", library.name, version,
                                                    folder.string(), library.fetch, version));
}

Facts facts_of(const std::string& binary, const RunOptions& options) {
  Facts facts;
  std::vector<std::pair<OverridableLibrary, std::string>> chosen;
  for (const OverridableLibrary& library : kOverridableLibraries) {
    const auto at = options.libraries.find(library.key);
    if (at == options.libraries.end()) continue;
    if (library.is_package()) {
      require_package(library, at->second);
    } else {
      chosen.emplace_back(library, at->second);
    }
  }
  if (chosen.empty()) return {own_facts_of(binary, options), "", ""};
  std::string cuda;  // LibTorch's own version, or the one to replace it, which has the same major release.
  for (const auto& [library, version] : chosen) {
    if (library.key == std::string_view("cuda_runtime")) cuda = version;
    if (cuda.empty()) cuda = own_facts_of(binary, options).value("cuda_runtime", "");
    facts.preload += (facts.preload.empty() ? "" : ":") + file_of(library, version, cuda, options.release);
  }
  std::string last_words;
  std::tie(facts.json, last_words) = told_by(binary, options, facts.preload);
  if (facts.json.is_object()) {
    for (const auto& [library, version] : chosen) {
      const std::string loaded = facts.json.value(library.key, "");
      if (!loaded.empty() && is_same_version(version, loaded)) continue;
      throw ExitError(
          Exit::Infrastructure,
          fmt::format("LibTorch {} does not use {} {}: it {}", options.release, library.name, version,
                      loaded.empty() ? "has none" : "loaded " + loaded + ". Is that of another major release?"));
    }
    return facts;
  }
  const std::string lacking = missing_symbol(last_words);
  if (lacking.empty()) {
    throw ExitError(Exit::Infrastructure, binary + " cannot report its environment: " + last_words);
  }
  facts.json = own_facts_of(binary, options);
  for (const auto& [library, version] : chosen) facts.json[library.key] = version;
  facts.lacks = fmt::format("{}, which LibTorch {} needs", lacking, options.release);
  return facts;
}

// What the package metadata in a folder, LibTorch's own package and tools/pack report.
struct Packages {
  bool installed = false;  // Copied parts of a LibTorch have no metadata.
  bool packed = false;     // By tools/pack, which lists
  Json left_out;           // the libraries and modules that are stubs.
  std::string cudnn, nccl, nvrtc, python, version, git_version;
};

// The version in "nvidia_nccl_cu13-2.30.7.dist-info", if it is of this package; "" otherwise.
std::string version_in(const std::string& name, const std::string& package) {
  const size_t dash = name.find('-');
  const bool is_it = name.rfind(package, 0) == 0 && dash != std::string::npos &&
                     (dash == package.size() || name[package.size()] == '_');
  const size_t end = name.rfind(".dist-info");
  return is_it && end != std::string::npos ? name.substr(dash + 1, end - dash - 1) : "";
}

Packages packages_in(const fs::path& site) {
  Packages found;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(site, error)) {
    if (entry.path().extension() != ".dist-info") continue;
    const std::string name = entry.path().filename().string();
    found.installed = found.installed || !version_in(name, "torch").empty();
    for (const auto& [package, version] :
         {std::pair{"nvidia_cudnn", &found.cudnn}, {"nvidia_nccl", &found.nccl}, {"nvidia_cuda_nvrtc", &found.nvrtc}}) {
      if (const std::string its = version_in(name, package); !its.empty()) *version = its;
    }
  }
  for (const auto& entry : fs::directory_iterator(site / "torch", error)) {
    int minor = 0;  // "_C.cpython-311-x86_64-linux-gnu.so"
    const std::string name = entry.path().filename().string();
    if (std::sscanf(name.c_str(), "_C.cpython-3%d-", &minor) == 1) found.python = fmt::format("3.{}", minor);
  }
  std::ifstream about(site / "torch/version.py");
  for (std::string line; std::getline(about, line);) {
    for (const auto& [start, value] : {std::pair<std::string, std::string*>{"__version__ = '", &found.version},
                                       {"git_version = '", &found.git_version}}) {
      if (line.rfind(start, 0) == 0) *value = line.substr(start.size(), line.rfind('\'') - start.size());
    }
  }
  const fs::path pack = site / "recapture_pack.json";
  if (fs::exists(pack, error)) {
    const Json facts = try_parse_json(contents_of(pack)).value_or(Json());
    if (!facts.is_object() || !facts.contains("left_out") || !facts.at("left_out").is_array()) {
      throw ExitError(Exit::Infrastructure, pack.string() + " does not say what is left out; unpack the pack again");
    }
    found.packed = true;
    found.left_out = facts.at("left_out");
  }
  return found;
}

// "Debian GNU/Linux 12 (bookworm)"
std::string operating_system() {
  std::ifstream file("/etc/os-release");
  for (std::string line; std::getline(file, line);) {
    const std::string kStart = "PRETTY_NAME=\"";
    if (line.rfind(kStart, 0) == 0) return line.substr(kStart.size(), line.rfind('"') - kStart.size());
  }
  return "";
}

// "x86_64", "aarch64"
std::string processor() {
  struct utsname about {};
  return uname(&about) == 0 ? about.machine : "";
}

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::vector<std::string> notes_of(const Machine& machine) {
  std::vector<std::string> notes;
  if (const auto names = variables_kept_out(); !names.empty()) {
    notes.push_back(
        fmt::format("tests do not have {}; --env NAME=VALUE gives them a variable", fmt::join(names, ", ")));
  }
  if (machine.others > 0) {
    notes.push_back(fmt::format("{} other process{} on the GPU, which changes the rates of races", machine.others,
                                machine.others == 1 ? " computes" : "es compute"));
  }
  if (!machine.nvml.empty()) {
    notes.emplace_back("NVML (libnvidia-ml.so.1) is missing, so the driver's version is not known");
  }
  if (!machine.compute_mode.empty()) {
    notes.push_back(
        fmt::format("the GPU's compute mode is {}: tests with several processes may not run", machine.compute_mode));
  }
  if (!machine.mps.empty()) notes.emplace_back("an MPS server runs here, through which tests may share the GPU");
  if (!machine.wsl.empty()) notes.emplace_back("this is WSL2, whose driver is that of Windows");
  if (!machine.container.empty()) {
    notes.push_back(fmt::format("this is a container ({})", escape_control(machine.container)));
  }
  if (machine.mig == "on") notes.emplace_back("the GPU is divided (MIG), and this record is of a part of it");
  return notes;
}

std::string host_id() {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  return hash_of(name.data());
}

// Distinguishes runs that began in the same second.
std::string new_run_id() {
  std::random_device random;
  return fmt::format("{:08x}{:08x}", random(), random());
}

}  // namespace

Json recorded(const std::map<std::string, std::string>& variables) {
  Json all = Json::object();
  for (const auto& [name, value] : variables) {
    const bool is_ours = value.find('/') != std::string::npos || value.find("GPU-") != std::string::npos ||
                         value.find("MIG-") != std::string::npos;
    all[name] = is_ours ? "hash " + hash_of(value) : value;
  }
  return all;
}

std::string describe(const Requirements& demands) {
  return fmt::format("{}{}{}", demands.gpu ? "gpu" : "", demands.gpu && demands.recorder ? "," : "",
                     demands.recorder ? "recorder" : "");
}

bool is_same_version(const std::string& one, const std::string& other) {
  return one == other || one.rfind(other + ".", 0) == 0 || other.rfind(one + ".", 0) == 0;
}

std::string cache_folder() {
  const std::string own = variable("RECAPTURE_CACHE"), xdg = variable("XDG_CACHE_HOME"), home = variable("HOME");
  if (own.empty() && xdg.empty() && home.empty()) return "";
  // Tests run in their own folder, where a relative path would be wrong.
  const fs::path folder = fs::absolute(!own.empty() ? own : (xdg.empty() ? home + "/.cache" : xdg) + "/recapture");
  return (folder.has_filename() ? folder : folder.parent_path()).string();  // Without a slash at its end.
}

std::string revision_of(const std::string& tree) {
  // With our own home: git may have to be configured there to trust this tree.
  const auto [seen, answer] =
      ask({"/usr/bin/env", {"git", "-C", tree, "describe", "--always", "--dirty"}, {{"HOME", variable("HOME")}}}, 10);
  return seen.ending == Observation::Ending::Exited && seen.code == 0 && !answer.empty()
             ? answer.substr(0, answer.find('\n'))
             : "unknown";
}

std::map<std::string, std::string> variables_of_tests(const RunOptions& options, const std::string& preload) {
  auto all = libtorch_variables(options.libtorch);
  if (!preload.empty()) all["LD_PRELOAD"] = preload;
  // If it exists; tests have another home.
  if (const std::string folder = cache_folder(); fs::is_directory(folder) || !variable("RECAPTURE_CACHE").empty()) {
    all["RECAPTURE_CACHE"] = folder;
  }
  // Always set: a value of the user's would change a test without being recorded.
  const auto chosen = options.libraries.find("transformer_engine");
  all[kTransformerEngineVariable] = chosen == options.libraries.end() ? "" : chosen->second;
  all.insert(options.env.begin(), options.env.end());
  return all;
}

std::pair<std::string, std::string> read_variable(const std::string& text) {
  const size_t equals = text.find('=');
  const std::string name = text.substr(0, equals);
  const auto is_of_a_name = [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; };
  if (equals == std::string::npos || name.empty() || std::isdigit(static_cast<unsigned char>(name.front())) != 0 ||
      !std::all_of(name.begin(), name.end(), is_of_a_name)) {
    throw ExitError(Exit::Usage, fmt::format("--env takes NAME=VALUE, not '{}'", text));
  }
  if (contains(kMulticastVariables, name)) {
    throw ExitError(Exit::Usage,
                    fmt::format("--env cannot set {}, which guards the GPUs of others on this host: tests have it "
                                "as the program has it",
                                name));
  }
  static const std::map<std::string, std::string> kOfOthers = {
      {"CUDA_VISIBLE_DEVICES", "--gpu chooses among GPUs"},
      {"LD_LIBRARY_PATH", "--libtorch names a LibTorch"},
      {"CUDA_INJECTION64_PATH", "the recorder has it"},
      {"LD_PRELOAD", "--cuda-runtime and --nccl choose a library"},
      {"PATH", "it is the program's own"}};
  std::string why;
  if (const auto found = kOfOthers.find(name); found != kOfOthers.end()) why = found->second;
  if (belongs_to_scratch(name)) why = "each test has its own";
  for (const char* start : {"GTEST_", "RECAPTURE_"}) {
    if (name.rfind(start, 0) == 0) why = "it would change what a test is";
  }
  if (!why.empty()) throw ExitError(Exit::Usage, fmt::format("--env cannot set {}: {}", name, why));
  return {name, text.substr(equals + 1)};
}

ProbedEnvironment surroundings_of(const Layout& places, const RunOptions& options, const Machine& machine,
                                  const std::string& binary) {
  Anonymous anonymous;
  const auto [facts, lacks, preload] = facts_of(binary, options);
  const fs::path site = fs::path(facts.value("library", "")).parent_path().parent_path().parent_path();
  anonymous.hide(site.string(), "(site-packages)");
  anonymous.hide((site.parent_path().parent_path() / "nemo").string(),
                 "(cache)/nemo");  // As in tools/libtorch's cache.
  anonymous.hide(cache_folder(), "(cache)");
  anonymous.hide(fs::absolute(places.build).string(), "build");
  anonymous.hide(fs::absolute(places.root).string() + "/", "");
  if (const char* home = std::getenv("HOME"); home != nullptr) anonymous.hide(home, "~");
  const Packages packages = packages_in(site);
  const bool is_release = can_be_release(options.release);  // Otherwise a build of ci/matrix.toml.
  const std::string release = is_release ? options.release : packages.version;
  if (!is_version(release) && !is_without_libtorch(release)) {
    throw ExitError(Exit::Infrastructure,
                    fmt::format("{}/torch/version.py has no __version__, which is the release of {}", site.string(),
                                options.release));
  }
  const std::string nccl = facts.value("nccl", "");
  const std::string started = fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)));
  Json environment = {{"recapture", kRecordFormat},
                      {"release", release},
                      {"gpu", machine.gpu},
                      {"gpus", machine.gpus},
                      {"compute_capability", machine.compute_capability},
                      {"driver", machine.driver},
                      {"cuda_driver", machine.cuda_driver},
                      {"cuda_runtime", facts.value("cuda_runtime", "")},
                      {"libtorch", facts.value("libtorch", "")},
                      {"libtorch_git", packages.git_version},
                      {"headers", facts.value("headers", "")},
                      {"cudnn", packages.cudnn},
                      {"nccl", nccl.empty() ? packages.nccl : nccl},
                      {"nvrtc", packages.nvrtc},
                      {"python", packages.python},
                      {"packed", is_version(release) && (packages.packed || !packages.installed)},
                      {"system", operating_system()},
                      {"architecture", processor()},
                      {"image", variable("RECAPTURE_IMAGE")},
                      {"host", host_id()},
                      {"gpu_id", machine.gpu_id},
                      {"revision", options.revision.empty() ? revision_of(places.root) : options.revision},
                      {"break", to_string(options.broken)},
                      {"shard", fmt::format("{}/{}", options.shard.index, options.shard.of)},
                      {"mig", machine.mig},
                      {"variables", recorded(variables_let_through())},
                      {"volatile", {{"run", new_run_id()}, {"started", started}, {"jobs", options.jobs}}}};
  if (!is_release) environment["build"] = options.release;
  if (!options.label.empty()) environment["label"] = options.label;
  if (packages.packed) environment["left_out"] = packages.left_out;
  for (const OverridableLibrary& library : kOverridableLibraries) {
    const auto chosen = options.libraries.find(library.key);
    if (chosen == options.libraries.end()) continue;
    environment[std::string(library.key) + "_by"] = library.is_package() ? "variable" : "preload";
    if (library.is_package()) environment[library.key] = chosen->second;
  }
  for (const auto& [key, value] : {std::pair("nvml", &machine.nvml),
                                   {"compute_mode", &machine.compute_mode},
                                   {"mps", &machine.mps},
                                   {"wsl", &machine.wsl},
                                   {"container", &machine.container}}) {
    if (!value->empty()) environment[key] = *value;
  }
  if (!options.env.empty()) environment["env"] = recorded(options.env);
  if (machine.others > 0) environment["volatile"]["others"] = machine.others;
  if (options.seed) environment["volatile"]["seed"] = *options.seed;
  if (!options.gpus.empty()) environment["volatile"]["gpus"] = options.gpus;
  return {environment, anonymous, notes_of(machine), lacks, preload, site.string()};
}

}  // namespace recapture::run
