#include "harness/run/release_python.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <utility>

#include "harness/base/embed.h"

RECAPTURE_EMBED(run_programs_py, "harness/run/programs.py");

namespace recapture::run {
namespace fs = std::filesystem;
namespace {

// "3.11", "3.13t": of "_C.cpython-311-x86_64-linux-gnu.so", torch's own module. "" if there is none.
std::string version_of_python(const fs::path& site) {
  constexpr std::string_view kBefore = "_C.cpython-3";
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(site / "torch", error)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(kBefore)) continue;
    return "3." + name.substr(kBefore.size(), name.find('-', kBefore.size()) - kBefore.size());
  }
  return "";
}

}  // namespace

ReleasePython find_python(const std::string& site) {
  const std::string version = version_of_python(site);
  if (version.empty()) return {"", "no Python: the loaded LibTorch has no Python package", site};
  const std::string name = "python" + version;
  std::string folders = site + "/../../../bin";
  if (const char* path = std::getenv("PATH")) folders += std::string(":") + path;
  std::istringstream each(folders);
  for (std::string folder; std::getline(each, folder, ':');) {
    std::error_code error;
    const std::string file = fs::weakly_canonical(folder, error).string() + "/" + name;
    if (!error && access(file.c_str(), X_OK) == 0) return {file, "", site};
  }
  return {"", fmt::format("no Python: no {} on PATH, which this LibTorch's package needs", name), site};
}

Program program_runner(const ReleasePython& python, const std::vector<std::string>& arguments,
                       std::map<std::string, std::string> variables) {
  variables["PYTHONPATH"] = python.site;
  variables["PYTHONNOUSERSITE"] = "1";
  Program program{python.interpreter, {"-c", run_programs_py}, std::move(variables)};
  program.arguments.insert(program.arguments.end(), arguments.begin(), arguments.end());
  return program;
}

}  // namespace recapture::run
