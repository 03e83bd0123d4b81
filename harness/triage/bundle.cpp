#include "harness/triage/bundle.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "harness/base/embed.h"
#include "harness/base/exit.h"
#include "harness/base/file.h"
#include "harness/base/regex.h"
#include "harness/base/text.h"
#include "harness/case/source_hash.h"
#include "harness/case/types.h"
#include "harness/model/operator_cases.h"
#include "harness/model/program.h"

// Embedded: an installation has no sources of the harness.
RECAPTURE_EMBED(triage_gtest, "harness/triage/shim/gtest/gtest.h");
RECAPTURE_EMBED(triage_gmock, "harness/triage/shim/gmock/gmock.h");
RECAPTURE_EMBED(triage_main, "harness/triage/shim/main.cpp");
RECAPTURE_EMBED(triage_trace, "harness/triage/trace/trace.cpp");
RECAPTURE_EMBED(triage_trace_python, "harness/triage/trace/python.h");
RECAPTURE_EMBED(triage_judge, "harness/triage/template/judge.py");
RECAPTURE_EMBED(triage_judge_program, "harness/triage/template/judge_program.py");
RECAPTURE_EMBED(triage_flags, "harness/triage/template/flags.py");
RECAPTURE_EMBED(triage_run, "harness/triage/template/run.sh");
RECAPTURE_EMBED(triage_case, "harness/case/case.h");
RECAPTURE_EMBED(triage_events, "harness/case/events.h");
RECAPTURE_EMBED(triage_pattern, "harness/case/pattern.h");
RECAPTURE_EMBED(triage_types, "harness/case/types.h");
RECAPTURE_EMBED(triage_signature, "harness/case/signature.h");
RECAPTURE_EMBED(triage_errors, "harness/case/cuda_errors.h");

namespace recapture::triage {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostLines = 150;  // A reader can grasp such a program in a minute.

std::string path_of(const CatalogueCase& one) { return fmt::format("cases/{}/{}", one.family, one.id); }

bool is_file(const std::string& path) {
  std::error_code error;
  return fs::is_regular_file(path, error);
}

// The headers of harness/case/ that a case includes.
std::vector<BundleFile> case_headers() {
  return {{"harness/case/case.h", triage_case},           {"harness/case/events.h", triage_events},
          {"harness/case/pattern.h", triage_pattern},     {"harness/case/types.h", triage_types},
          {"harness/case/signature.h", triage_signature}, {"harness/case/cuda_errors.h", triage_errors}};
}

// The fixtures that a case uses, each header with its source file. With `libtorch` also those within
// RECAPTURE_HAS_LIBTORCH.
std::vector<BundleFile> fixtures_of(const std::string& root, const std::string& source, bool libtorch) {
  std::set<std::string> names;
  std::vector<BundleFile> files;
  std::vector<std::string> left = fixtures_in(source);
  while (!left.empty()) {
    const std::string name = left.back();
    left.pop_back();
    if (!libtorch && name.rfind("fixtures/torch/", 0) == 0) continue;
    const std::string path = fs::path(root) / name;
    if (!is_file(path) || !names.insert(name).second) continue;
    files.push_back({name, contents_of(path)});
    for (const std::string& next : fixtures_in(files.back().text)) left.push_back(next);
    if (fs::path(name).extension() == ".h") left.push_back(fs::path(name).replace_extension(".cpp").string());
  }
  std::ranges::sort(files, [](const auto& a, const auto& b) { return a.name < b.name; });
  return files;
}

void replace(std::string& text, const std::string& mark, const std::string& with) {
  for (size_t at = 0; (at = text.find(mark, at)) != std::string::npos; at += with.size()) {
    text.replace(at, mark.size(), with);
  }
}

// The C++ sources among the files, as compiler arguments.
std::string sources_in(const std::vector<BundleFile>& files) {
  std::vector<std::string> names;
  for (const BundleFile& file : files) {
    const fs::path path = file.name;
    if (path.extension() == ".cpp" || path.extension() == ".cu") names.push_back(file.name);
  }
  return join(names, " ");
}

constexpr char kPreparePython[] = R"sh(prepare() {
  command -v python3 > /dev/null || could_not_run "there is no python3"
  why=$(python3 -c "import torch" 2>&1) || could_not_run "python3 cannot import torch: $(echo "$why" | tail -n 1)"
@GPU@})sh";
constexpr char kAskForGpu[] =
    R"sh(  python3 -c "import torch; raise SystemExit(not torch.cuda.is_available())" 2> /dev/null \
    || could_not_run "this torch finds no GPU"
)sh";
// Always rebuilt: an existing binary may be built for another torch or toolkit.
constexpr char kPrepareTorch[] = R"sh(prepare() {
  command -v python3 > /dev/null || could_not_run "there is no python3"
  command -v g++ > /dev/null || could_not_run "there is no g++"
  flags=$(python3 flags.py 2> build.log) || could_not_run "$(tail -n 1 build.log)"
  g++ -w -DRECAPTURE_HAS_LIBTORCH -I. -Ishim @SOURCES@ $flags -o program 2> build.log \
    || could_not_run "it does not compile: $(grep -m 1 -E "error|undefined" build.log)"
})sh";
constexpr char kPrepareCuda[] = R"sh(prepare() {
  nvcc=$(command -v nvcc || ls /usr/local/cuda/bin/nvcc 2> /dev/null)
  if [ -n "$nvcc" ]; then
    "$nvcc" -std=c++17 -g -Xcompiler -w -I. -Ishim @SOURCES@ -o program > build.log 2>&1
  else  # The runtime that torch brings is enough.
    command -v g++ > /dev/null || could_not_run "there is neither nvcc nor g++"
    flags=$(python3 flags.py --cuda 2> build.log) || could_not_run "$(tail -n 1 build.log)"
    g++ -g -w -I. -Ishim -x c++ @SOURCES@ -x none $flags -o program 2> build.log
  fi || could_not_run "it does not compile: $(grep -m 1 -E "error|undefined" build.log)"
})sh";

// Fills in run.sh, which comes first.
void add_script(Bundle& bundle, const CatalogueCase& one) {
  const bool is_python = bundle.shape == Shape::Python || bundle.shape == Shape::Program;
  std::string prepare = is_python ? kPreparePython : bundle.shape == Shape::Case ? kPrepareTorch : kPrepareCuda;
  const bool needs_gpu = one.needs.gpus > 0;
  replace(prepare, "@GPU@", needs_gpu ? kAskForGpu : "");
  replace(prepare, "@SOURCES@", sources_in(bundle.files));
  std::string script = triage_run;
  replace(script, "@TITLE@", one.title);
  replace(script, "@REPRODUCES@", bundle.reproduces);
  replace(script, "@CONTROLS@", join(bundle.controls, " "));
  replace(script, "@FIXES@", join(bundle.fixes, " "));
  replace(script, "@DEADLINE@", std::to_string(one.deadline_s));
  replace(script, "@PROGRAM@",
          bundle.shape == Shape::Python    ? "python3 judge.py \"$1.py\""
          : bundle.shape == Shape::Program ? "python3 judge.py " + bundle.main + " \"$1\""
                                           : "./program \"$1\"");
  replace(script, "@PREPARE@", prepare);
  bundle.files.insert(bundle.files.begin(), {"run.sh", script});
}

bool has(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

// The control and the failure must be programs; a fix that is not is left out.
bool add_python(Bundle& bundle, const CatalogueCase& one, const std::map<std::string, Written>& written) {
  for (const CatalogueTest& test : one.tests) {
    if (test.kind == Kind::Reproduces && test.name != bundle.reproduces) continue;
    const auto its = written.find(test.name);
    if (its == written.end() || !its->second.why_not.empty()) {
      if (test.name == bundle.reproduces) return false;
      continue;
    }
    if (test.kind == Kind::Control) bundle.controls.push_back(test.name);
    if (test.kind == Kind::Fix) bundle.fixes.push_back(test.name);
    const std::string about = test.fix.empty() ? "" : "# " + test.fix + "\n";
    bundle.files.push_back({test.name + ".py", fmt::format("# {}.{}: {}.\n{}{}", one.id, test.name, one.title, about,
                                                           its->second.program)});
  }
  bundle.files.push_back({"judge.py", triage_judge});
  bundle.shape = Shape::Python;
  bundle.main = bundle.reproduces + ".py";
  return !bundle.controls.empty();
}

Bundle program_bundle(const std::string& path, const CatalogueCase& one) {
  Bundle bundle;
  bundle.shape = Shape::Program;
  bundle.main = one.id + ".py";
  bundle.reproduces = "fails";
  bundle.controls = {"control"};  // judge.py makes it of fails().
  const std::string source = contents_of(path + ".py");
  for (const std::string& function : functions_in(source)) {
    if (function.rfind("fix_", 0) == 0) bundle.fixes.push_back(function);
  }
  bundle.files = {{bundle.main, source}, {"judge.py", triage_judge_program}};
  add_script(bundle, one);
  return bundle;
}

}  // namespace

const BundleFile& Bundle::file(const std::string& name) const {
  return *std::ranges::find_if(files, [&](const BundleFile& one) { return one.name == name; });
}

std::vector<BundleFile> writer_of(const std::string& root, const CatalogueCase& one) {
  if (!one.needs.python) return {};
  const std::string source = contents_of(root + "/" + path_of(one) + ".cpp");
  std::vector<BundleFile> files = {{"case.cpp", source},
                                   {"trace.cpp", triage_trace},
                                   {"gtest/gtest.h", triage_gtest},
                                   {"gmock/gmock.h", triage_gmock},
                                   {"fixtures/python/python.h", triage_trace_python}};
  for (BundleFile& header : case_headers()) files.push_back(std::move(header));
  std::set<std::string> names;
  // Of the fixtures only the texts; the writer's own files replace the code that runs.
  std::vector<std::string> left = fixtures_in(source);
  for (const char* its : {"fixtures/python/python_programs.h", "fixtures/cuda/nvrtc.h"}) left.emplace_back(its);
  while (!left.empty()) {
    const std::string name = left.back();
    left.pop_back();
    const std::string path = fs::path(root) / name;
    if (name == "fixtures/python/python.h" || !is_file(path) || !names.insert(name).second) continue;
    files.push_back({name, contents_of(path)});
    for (const std::string& next : fixtures_in(files.back().text)) left.push_back(next);
  }
  return files;
}

Bundle bundle_of(const std::string& root, const CatalogueCase& one, const std::string& reproduces,
                 const std::map<std::string, Written>& written) {
  const std::string path = root + "/" + path_of(one);
  for (const auto& [needs, name] :
       {std::pair{one.needs.nemo, "NeMo"}, {one.needs.transformer_engine, "TransformerEngine"}}) {
    if (!needs) continue;
    throw ExitError(
        Exit::Usage,
        fmt::format("{} cannot be a bundle: it runs files of {}'s, which a bundle cannot carry", one.id, name));
  }
  if (is_of_program(reproduces)) return program_bundle(path, one);
  Bundle bundle;
  bundle.reproduces = reproduces;
  if (!written.empty() && add_python(bundle, one, written)) {
    add_script(bundle, one);
    return bundle;
  }
  bundle = {};
  bundle.reproduces = reproduces;
  for (const CatalogueTest& test : one.tests) {
    if (test.kind == Kind::Control) bundle.controls.push_back(test.name);
    if (test.kind == Kind::Fix && !is_of_program(test.name)) bundle.fixes.push_back(test.name);
  }
  if (is_file(path + ".cu")) {
    const std::string source = contents_of(path + ".cu");
    if (count_lines(source) > kMostLines) {
      throw ExitError(Exit::Usage, fmt::format("{}.cu has {} lines; a bundle takes {} at most", path_of(one),
                                               count_lines(source), kMostLines));
    }
    bundle.shape = Shape::Cuda;
    bundle.main = one.id + ".cu";
    bundle.files = {{bundle.main, source}, {"flags.py", triage_flags}};
    add_script(bundle, one);
    return bundle;
  }
  const std::string source = contents_of(path + ".cpp");
  const std::vector<std::string> used = fixtures_in(source);
  const bool runtime =
      !used.empty() &&
      std::ranges::all_of(used, [](const std::string& name) { return name.rfind("fixtures/cuda/", 0) == 0; }) &&
      !has(source, "\n#include <ATen/") && !has(source, "\n#include <torch/") && !has(source, "\n#include <c10/");
  bundle.shape = runtime ? Shape::Runtime : Shape::Case;
  bundle.main = one.id + ".cpp";
  // What only our own gates and runs read.
  static const RE2 kOurs(R"(    \.(?:features = \{[^}]*\}|connections = [0-9]+),\n)");
  bundle.files = {{bundle.main, replace_all(source, kOurs, "")}};
  for (BundleFile& file : fixtures_of(root, source, !runtime)) bundle.files.push_back(std::move(file));
  for (BundleFile& file : case_headers()) bundle.files.push_back(std::move(file));
  bundle.files.push_back({"shim/gtest/gtest.h", triage_gtest});
  bundle.files.push_back({"shim/gmock/gmock.h", triage_gmock});
  bundle.files.push_back({"shim/main.cpp", triage_main});
  bundle.files.push_back({"flags.py", triage_flags});
  add_script(bundle, one);
  return bundle;
}

std::string record_lines(const Record& record, const std::string& case_id) {
  std::string text;
  const auto add = [&](const Json& line) { text += to_text(line) + "\n"; };
  Json environment = record.environment.json();
  for (const char* key : {"host", "gpu_id", "image", "variables", "volatile"}) environment.erase(key);
  add(environment);
  const auto described = record.cases.find(case_id);
  if (described != record.cases.end()) add(described->second.to_json());
  for (const TestRecord& test : record.tests) {
    if (test.case_id() != case_id) continue;
    Json line = test.json();
    line.erase("volatile");
    add(line);
  }
  return text;
}

const CatalogueCase* python_sibling(const Catalogue& catalogue, const CatalogueCase& one) {
  constexpr size_t kAlike = 5;  // Letters: the common prefix of the names.
  const CatalogueCase* best = nullptr;
  size_t most = 0;
  for (const CatalogueCase& other : catalogue) {
    const Needs& needs = other.needs;
    if (!needs.python || needs.nemo || needs.transformer_engine || lists_operators(other.id)) continue;
    if (other.effect != one.effect || other.nature != one.nature) continue;
    const size_t alike = static_cast<size_t>(
        std::mismatch(one.id.begin(), one.id.end(), other.id.begin(), other.id.end()).first - one.id.begin());
    const bool is_named = one.why.find(other.id) != std::string::npos || other.why.find(one.id) != std::string::npos;
    if (alike < kAlike || (!is_named && other.sources != one.sources)) continue;
    if (best == nullptr || alike > most) best = &other;
    most = std::max(most, alike);
  }
  return best;
}

}  // namespace recapture::triage
