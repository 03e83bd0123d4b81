#include "harness/run/case_binaries.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <map>
#include <system_error>
#include <thread>
#include <utility>

#include "harness/base/escape.h"
#include "harness/base/exit.h"
#include "harness/base/file.h"
#include "harness/base/reason.h"
#include "harness/base/text.h"
#include "harness/model/catalogue.h"
#include "harness/model/suggest.h"
#include "harness/model/tree.h"
#include "harness/run/process.h"

namespace recapture::run {
namespace fs = std::filesystem;
namespace {

// Identifies a binary for its cached description, also after copying.
std::string fingerprint(const fs::path& binary) {
  const std::string bytes = contents_of(binary);
  return fmt::format("{}-{:016x}", bytes.size(), std::hash<std::string>{}(bytes));
}

// The loader's line about a missing library; otherwise the last line, which is usually the most specific.
std::string telling_line(const std::string& words) {
  const size_t loading = words.find("error while loading shared libraries");
  const size_t from =
      loading != std::string::npos ? words.rfind('\n', loading) + 1 : words.rfind('\n', words.size() - 2) + 1;
  return words.substr(from, words.find('\n', from) - from);
}

Json description_in(const Reply& answer, const std::string& binary) {
  const auto& [seen, text] = answer;
  Json json = try_parse_json(text).value_or(Json());
  if (seen.ending == Observation::Ending::Exited && seen.code == 0 && json.is_object()) return json;
  throw ExitError(
      Exit::Infrastructure,
      fmt::format("{} cannot describe itself: {}. Is its LibTorch complete? `tools/libtorch` installs it, --libtorch "
                  "names another",
                  binary, seen.last_words.empty() ? "no answer" : telling_line(seen.last_words)));
}

// A name that can stand in a record and on a terminal as it is.
bool is_plain(const std::string& name) {
  return !name.empty() && std::ranges::all_of(name, [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '_' || c == '/' || c == '-';
  });
}

// The case binaries of a build folder. Of two with the same name, the one in the family where the tree has the case
// counts; the other is older than a move of the case.
std::vector<CaseBinary> binaries_in(const fs::path& folder, const std::map<std::string, TreeCase>& sources) {
  std::map<std::string, CaseBinary> found;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    const bool runnable = entry.is_regular_file() && access(entry.path().c_str(), X_OK) == 0;
    if (!runnable || entry.path().has_extension() || entry.path().parent_path().parent_path() != folder) continue;
    CaseBinary binary;
    binary.path = entry.path().string();
    if (!is_plain(entry.path().filename().string())) {
      throw ExitError(Exit::Usage,
                      fmt::format("{}: a case's name has letters, digits and '_'", escape_control(binary.path)));
    }
    binary.stamp = stamp_of(binary.path);
    binary.info.id = entry.path().filename().string();
    binary.info.family = entry.path().parent_path().filename().string();
    const auto source = sources.find(binary.info.id);
    if (!sources.empty() && source == sources.end()) continue;  // Its case was deleted.
    const auto [other, is_new] = found.emplace(binary.info.id, binary);
    if (is_new) continue;
    const std::string& family = source == sources.end() ? "" : source->second.family;
    if (family != binary.info.family && family != other->second.info.family) {
      throw ExitError(Exit::Usage, fmt::format("two cases have one name: {} and {}", other->second.path, binary.path));
    }
    if (family == binary.info.family) other->second = binary;
  }
  std::vector<CaseBinary> all;
  all.reserve(found.size());
  for (auto& [id, binary] : found) all.push_back(std::move(binary));
  return all;
}

// The cached descriptions. Damaged entries are asked for again.
std::map<std::string, std::pair<std::string, Json>> kept_in(const fs::path& path) {
  std::map<std::string, std::pair<std::string, Json>> kept;
  try {
    const Json json = parse_json(contents_of(path));
    for (const auto& [id, one] : json.items()) {
      kept[id] = {one.at("binary").get<std::string>(), one.at("description")};
      CaseInfo::from(kept[id].second);
    }
  } catch (const std::exception&) {
    return {};
  }
  return kept;
}

// Atomic: another run may be reading it.
void keep(const fs::path& path, const Json& json) {
  const fs::path draft = fmt::format("{}.{}", path.string(), getpid());
  std::ofstream file(draft);
  file << json.dump(1) << '\n';
  file.close();
  std::error_code error;
  if (file) fs::rename(draft, path, error);
  if (!file || error) fs::remove(draft, error);
}

CaseInfo info_of(const CaseBinary& binary, const Json& description) {
  try {
    CaseInfo info = CaseInfo::from(description);
    info.id = binary.info.id;
    info.family = binary.info.family;
    std::set<std::string> names;
    for (std::string& test : info.tests) {
      test.erase(0, test.find('.') + 1);
      if (!is_plain(test))
        throw std::runtime_error("a test's name has letters, digits, '_' and '/', not '" + test + "'");
      if (!names.insert(test).second) throw std::runtime_error("two of its tests are named " + test);
    }
    return info;
  } catch (const std::exception& e) {
    throw ExitError(Exit::Usage, fmt::format("{} cannot describe itself: {}", escape_control(binary.path),
                                             escape_control(reason_of(e))));
  }
}

Json catalogued_in(const CaseBinary& binary, const Json& description) {
  Json catalogued = Json::object();
  try {
    if (description.contains("tags")) {
      catalogued["tags"] = description.at("tags").get<std::vector<std::string>>();
      if (description.contains("features")) {
        catalogued["features"] = description.at("features").get<std::vector<std::string>>();
      }
      catalogued["fix_releases"] = description.at("fix_releases").get<std::map<std::string, std::string>>();
    }
  } catch (const std::exception& e) {
    throw ExitError(Exit::Usage, fmt::format("{} cannot describe itself: {}", escape_control(binary.path),
                                             escape_control(reason_of(e))));
  }
  return catalogued;
}

int connections_in(const CaseBinary& binary, const Json& description) {
  const int connections = int_at(description, "connections").value_or(kConnectionsOfDriver);  // Or an older binary.
  if (connections < 1 || connections > kMostConnections) {
    throw ExitError(Exit::Usage, fmt::format("{} cannot describe itself: {} connections to the GPU, not 1 to {}",
                                             binary.path, connections, kMostConnections));
  }
  return binary.info.nature == Nature::Race ? kConnectionsOfDriver : connections;
}

void add_program(const CaseProgram& program, CaseBinary& binary) {
  binary.program = program;
  for (std::string& test : tests_of(program)) binary.info.tests.push_back(std::move(test));
}

// The catalogue's description of a case that is not built.
CaseInfo info_of(const CatalogueCase& one, const std::map<std::string, TreeCase>& sources) {
  CaseInfo info;
  info.id = one.id;
  info.family = one.family;
  if (const auto source = sources.find(one.id); source != sources.end()) info.hash = source->second.code;
  info.title = one.title;
  info.documented = one.documented;
  info.nature = one.nature;
  info.fidelity = one.fidelity;
  info.needs = one.needs;
  info.sources = one.sources;
  info.deadline_s = one.deadline_s;
  info.effect = one.effect;
  return info;
}

}  // namespace

std::string stamp_of(const std::string& path) {
  struct stat about {};
  if (stat(path.c_str(), &about) != 0) return "";
  return fmt::format("{} {} {}.{:09}", about.st_ino, about.st_size, about.st_mtim.tv_sec, about.st_mtim.tv_nsec);
}

std::vector<CaseBinary> catalog(const Layout& places, const std::string& release, const std::string& site) {
  const fs::path folder = places.cases_of(release);
  std::vector<CaseBinary> cases;
  if (fs::is_directory(folder)) cases = binaries_in(folder, cases_in_tree(places.root));
  if (cases.empty()) {
    throw ExitError(Exit::Infrastructure,
                    fmt::format("no cases are built for LibTorch {}; in a clone `ci/suite {}` gets it and builds them",
                                release, release));
  }
  const fs::path kept_path = places.build + "/" + release + "/catalog.json";
  const auto kept = kept_in(kept_path);
  std::vector<Json> described(cases.size());
  std::vector<std::string> prints(cases.size());
  std::vector<size_t> unknown;
  std::vector<Program> programs;
  const auto variables = libtorch_variables(site);
  for (size_t i = 0; i < cases.size(); ++i) {
    prints[i] = fingerprint(cases[i].path);
    const auto known = kept.find(cases[i].info.id);
    if (known != kept.end() && known->second.first == prints[i]) {
      described[i] = known->second.second;
    } else {
      unknown.push_back(i);
      programs.push_back({cases[i].path, {"--describe"}, variables});
    }
  }
  constexpr double kDeadline_s = 120;  // Reading LibTorch from a cold disk takes long.
  const std::vector<Reply> answers = ask(programs, std::thread::hardware_concurrency(), kDeadline_s);
  if (interrupted()) throw ExitError(Exit::Interrupted, "interrupted; nothing was run");
  for (size_t i = 0; i < unknown.size(); ++i) {
    described[unknown[i]] = description_in(answers[i], programs[i].path);
  }

  std::map<std::string, CaseProgram> in_python;
  if (!is_without_libtorch(release)) in_python = programs_in_tree(places.root);
  Json now = Json::object(), before = Json::object();
  for (size_t i = 0; i < cases.size(); ++i) {
    const std::string& id = cases[i].info.id;
    cases[i].info = info_of(cases[i], described[i]);
    cases[i].connections = connections_in(cases[i], described[i]);
    cases[i].catalogued = catalogued_in(cases[i], described[i]);
    if (const auto program = in_python.find(id); program != in_python.end()) add_program(program->second, cases[i]);
    now[id] = {{"binary", prints[i]}, {"description", described[i]}};
  }
  for (const auto& [id, one] : kept) before[id] = {{"binary", one.first}, {"description", one.second}};
  if (now != before) keep(kept_path, now);
  return cases;
}

void add_lost(std::vector<CaseBinary>& built, const Layout& places, const std::string& release,
              const std::vector<Record>& committed) {
  std::map<std::string, CaseInfo> expected;  // With their expected tests.
  std::map<std::string, std::set<std::string>> known;
  const bool catalogued = fs::exists(catalogue_path(places.root));
  if (catalogued) {
    const auto sources = cases_in_tree(places.root);
    for (const CatalogueCase& one : read_catalogue(places.root)) {
      CaseInfo& info = expected[one.id] = info_of(one, sources);
      for (const CatalogueTest& test : one.tests) known[one.id].insert(test.name);
      if (is_without_libtorch(release)) continue;
      for (const CatalogueTest& test : one.tests) info.tests.push_back(test.name);
    }
  }
  for (const Record& record : committed) {
    if (record.env("release") != release) continue;
    for (const std::string& id : record.plan) {
      const std::string case_id = case_of(id), name = name_of(id);
      if (catalogued && known[case_id].count(name) == 0) continue;  // It was removed on purpose.
      if (const auto info = record.cases.find(case_id); info != record.cases.end()) expected.insert(*info);
      auto& tests = expected[case_id].tests;
      add_once(tests, name);
    }
  }
  for (auto& [case_id, info] : expected) {
    const std::string& id = case_id;  // For the lambda.
    const auto its = std::ranges::find_if(built, [&](const CaseBinary& b) { return b.info.id == id; });
    if (its == built.end()) {
      const std::set<std::string> lost(info.tests.begin(), info.tests.end());
      if (!lost.empty()) built.push_back({std::move(info), "", lost, ""});
      continue;
    }
    for (const std::string& test : info.tests) {
      if (contains(its->info.tests, test)) continue;
      its->info.tests.push_back(test);
      its->lost.insert(test);
    }
  }
  std::ranges::sort(built, [](const CaseBinary& a, const CaseBinary& b) { return a.info.id < b.info.id; });
}

}  // namespace recapture::run
