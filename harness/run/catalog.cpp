#include "harness/run/catalog.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include "harness/judge/tree.h"
#include "harness/record/exit.h"
#include "harness/run/process.h"

namespace recapture {
namespace fs = std::filesystem;
namespace {

std::string contents(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// Tells whether a kept description is still that of the binary, wherever it has been copied to.
std::string fingerprint(const fs::path& binary) {
  const std::string bytes = contents(binary);
  return fmt::format("{}-{:016x}", bytes.size(), std::hash<std::string>{}(bytes));
}

// The loader's own line says which library is missing; of all else the last line says most.
std::string telling_line(const std::string& words) {
  const size_t loading = words.find("error while loading shared libraries");
  const size_t from =
      loading != std::string::npos ? words.rfind('\n', loading) + 1 : words.rfind('\n', words.size() - 2) + 1;
  return words.substr(from, words.find('\n', from) - from);
}

Json describe(const Program& program) {
  constexpr double kDeadline_s = 120;  // A cold LibTorch is read from disk.
  const auto [seen, answer] = ask(program, kDeadline_s);
  Json json = try_parse_json(answer).value_or(Json());
  if (seen.ending == Observation::Ending::Exited && seen.code == 0 && json.is_object()) return json;
  throw Stop(
      Exit::Infrastructure,
      fmt::format("{} cannot describe itself: {}. Is its LibTorch complete? `ci/libtorch` installs it, --libtorch "
                  "names another",
                  program.path, seen.last_words.empty() ? "no answer" : telling_line(seen.last_words)));
}

}  // namespace

std::vector<CaseBinary> catalog(const Places& places, const std::string& release, const std::string& site) {
  const fs::path folder = places.cases_of(release);
  const auto sources = cases_in_tree(places.root);  // A binary whose case has been deleted is a leftover of the build.
  std::vector<CaseBinary> cases;
  if (fs::is_directory(folder)) {
    for (const auto& entry : fs::recursive_directory_iterator(folder)) {
      const bool runnable = entry.is_regular_file() && access(entry.path().c_str(), X_OK) == 0;
      if (!runnable || entry.path().has_extension() || entry.path().parent_path().parent_path() != folder) continue;
      CaseBinary binary;
      binary.path = entry.path().string();
      binary.info.id = entry.path().filename().string();
      binary.info.family = entry.path().parent_path().filename().string();
      if (sources.empty() || sources.count(binary.info.id) != 0) cases.push_back(binary);
    }
  }
  if (cases.empty()) {
    throw Stop(
        Exit::Infrastructure,
        fmt::format("no cases are built for LibTorch {}; `ci/suite {}` gets it and builds them", release, release));
  }
  std::sort(cases.begin(), cases.end(), [](const CaseBinary& a, const CaseBinary& b) { return a.info.id < b.info.id; });

  const fs::path kept_path = places.build + "/" + release + "/catalog.json";
  Json kept = Json::parse(contents(kept_path), nullptr, false);
  if (!kept.is_object()) kept = Json::object();
  std::vector<Json> described(cases.size());
  std::vector<std::string> prints(cases.size()), errors(cases.size());
  std::atomic<size_t> next = 0;
  const auto variables = libtorch_variables(site);
  const auto work = [&] {
    for (size_t i = next++; i < cases.size(); i = next++) {
      prints[i] = fingerprint(cases[i].path);
      const auto known = kept.find(cases[i].info.id);
      if (known != kept.end() && known->value("binary", "") == prints[i]) {
        described[i] = known->at("description");
        continue;
      }
      try {
        described[i] = describe({cases[i].path, {"--describe"}, variables});
      } catch (const Stop& stop) {
        errors[i] = stop.what();
      }
    }
  };
  std::vector<std::thread> workers;
  for (unsigned i = 0; i < std::max(1U, std::thread::hardware_concurrency()); ++i) workers.emplace_back(work);
  for (std::thread& worker : workers) worker.join();

  Json now = Json::object();
  for (size_t i = 0; i < cases.size(); ++i) {
    if (!errors[i].empty()) throw Stop(Exit::Infrastructure, errors[i]);
    now[cases[i].info.id] = {{"binary", prints[i]}, {"description", described[i]}};
    CaseInfo info = CaseInfo::from(described[i]);
    info.id = cases[i].info.id;
    info.family = cases[i].info.family;
    for (std::string& test : info.tests) test.erase(0, test.find('.') + 1);
    cases[i].info = info;
  }
  if (now != kept)
    std::ofstream(kept_path) << now.dump(1) << '\n';  // Only a cache: not being able to keep it is no error.
  return cases;
}

}  // namespace recapture
