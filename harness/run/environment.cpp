#include "harness/run/environment.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <random>
#include <utility>

#include "harness/case/source_hash.h"
#include "harness/judge/version.h"
#include "harness/run/process.h"

namespace recapture {
namespace fs = std::filesystem;
namespace {

std::string revision_of(const Places& places) {
  const auto [seen, answer] =
      ask({"/usr/bin/env", {"git", "-C", places.root, "describe", "--always", "--dirty"}, {}}, 10);
  return seen.code == 0 && !answer.empty() ? answer.substr(0, answer.find('\n')) : "unknown";
}

// What a case binary says that it runs on.
Json facts_of(const std::string& binary, const std::string& libtorch) {
  // Without the GPU: with one, LibTorch's account of itself asks libraries that a packed LibTorch lacks.
  auto variables = libtorch_variables(libtorch);
  variables["CUDA_VISIBLE_DEVICES"] = "";
  const auto [seen, answer] = ask({binary, {"--environment"}, variables}, 120);
  Json facts = Json::parse(answer, nullptr, false);
  if (!facts.is_object()) {
    throw Stop(Exit::Infrastructure, binary + " cannot report its environment: " + seen.last_words);
  }
  return facts;
}

// What a package manager wrote down of the packages in a folder, and what LibTorch's own package says.
struct Packages {
  bool installed = false;  // Parts of a LibTorch that were copied have no record of an installation.
  std::string cudnn, nccl, nvrtc, python, git_version;
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
    const std::string kStart = "git_version = '";
    if (line.rfind(kStart, 0) == 0) found.git_version = line.substr(kStart.size(), line.rfind('\'') - kStart.size());
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

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// Variables by name; a value that names a folder or a GPU of this machine is hashed.
Json variables() {
  Json all = Json::object();
  for (const auto& [name, value] : variables_let_through()) {
    const bool is_ours = value.find('/') != std::string::npos || value.find("GPU-") != std::string::npos ||
                         value.find("MIG-") != std::string::npos;
    all[name] = is_ours ? "hash " + hash_of(value) : value;
  }
  return all;
}

std::string host_id() {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  return hash_of(name.data());
}

// Tells runs apart that began in the same second.
std::string new_run_id() {
  std::random_device random;
  return fmt::format("{:08x}{:08x}", random(), random());
}

}  // namespace

Surroundings surroundings_of(const Places& places, const RunOptions& options, const Machine& machine,
                             const std::string& binary) {
  Anonymous anonymous;
  const Json facts = facts_of(binary, options.libtorch);
  const fs::path site = fs::path(facts.value("library", "")).parent_path().parent_path().parent_path();
  anonymous.hide(site.string(), "(site-packages)");
  anonymous.hide((site.parent_path().parent_path() / "nemo").string(),
                 "(cache)/nemo");  // As ci/libtorch has its cache.
  anonymous.hide(fs::absolute(places.build).string(), "build");
  anonymous.hide(fs::absolute(places.root).string() + "/", "");
  if (const char* home = std::getenv("HOME"); home != nullptr) anonymous.hide(home, "~");
  const Packages packages = packages_in(site);
  const std::string started = fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)));
  Json environment = {{"recapture", kRecordFormat},
                      {"release", options.release},
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
                      {"nccl", packages.nccl},
                      {"nvrtc", packages.nvrtc},
                      {"python", packages.python},
                      {"packed", is_version(options.release) && !packages.installed},
                      {"system", operating_system()},
                      {"image", variable("RECAPTURE_IMAGE")},
                      {"host", host_id()},
                      {"gpu_id", machine.gpu_id},
                      {"revision", options.revision.empty() ? revision_of(places) : options.revision},
                      {"break", word(options.broken)},
                      {"shard", fmt::format("{}/{}", options.shard.index, options.shard.of)},
                      {"variables", variables()},
                      {"volatile", {{"run", new_run_id()}, {"started", started}, {"jobs", options.jobs}}}};
  if (options.seed) environment["volatile"]["seed"] = *options.seed;
  if (!options.gpus.empty()) environment["volatile"]["gpus"] = options.gpus;
  return {environment, anonymous};
}

}  // namespace recapture
