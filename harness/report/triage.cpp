#include "harness/report/triage.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <sstream>
#include <string_view>
#include <tuple>

#include "harness/base/escape.h"
#include "harness/base/text.h"
#include "harness/case/events.h"
#include "harness/model/origin.h"
#include "harness/model/program.h"
#include "harness/model/release.h"
#include "harness/report/case_view.h"
#include "harness/store/select.h"

namespace recapture::report {
namespace {

using triage::Bundle;
using triage::BundleFile;
using triage::Shape;
using triage::Verification;

enum class Vendor { PyTorch, Nvidia, Nemo };

constexpr size_t kLinesOfAnIssue = 80;    // Of a program quoted in full.
constexpr size_t kLinesOfAnExcerpt = 40;  // Of an excerpt from a longer one.

std::vector<const CitedSource*> cited(const TriageInput& story) {
  std::vector<const CitedSource*> all;
  for (const Json& source : story.one.sources) {
    const CitedSource* const its = find_source(story.background.sources, cited_id(source));
    if (its != nullptr) add_once(all, its);
  }
  return all;
}

Vendor vendor_of(const TriageInput& story) {
  if (story.bundle.shape == Shape::Cuda || story.bundle.shape == Shape::Runtime) return Vendor::Nvidia;
  for (const CitedSource* source : cited(story)) {
    if (source->url.rfind("https://github.com/NVIDIA-NeMo/", 0) == 0) return Vendor::Nemo;
  }
  return Vendor::PyTorch;
}

const TestRecord& seen_test(const TriageInput& story) { return *story.record.find(story.one.id + "." + story.test); }

// A call in the runtime's spelling: without the driver's prefix and version.
std::string as_runtime(std::string call) {
  if (const size_t at = call.rfind("_v"); at != std::string::npos) call.erase(at);
  return call.rfind("cu", 0) == 0 ? "cuda" + call.substr(2) : call;
}

// The line of the bundle's program that makes the call: "x.cu:110: (void)cudaEventQuery(…)"; "" if there is none.
std::string line_of_call(const TriageInput& story, const std::string& call) {
  const std::string wanted = as_runtime(call) + "(";
  std::istringstream lines(story.bundle.file(story.bundle.main).text);
  size_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (line.rfind("//", 0) == 0 || line.find(wanted) == std::string::npos) continue;
    return fmt::format("{}:{}: {}", story.bundle.main, number, line.substr(line.find_first_not_of(' ')));
  }
  return "";
}

std::string plain(const std::string& text) {
  std::string out;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) out += escape_control(line) + "\n";
  return out;
}

std::string block(const std::string& text, const char* language = "") {
  return fmt::format("```{}\n{}```\n\n", language, plain(text));
}

// A Python program without the handler that only records the failure of its one capture: the exception then ends the
// program, as a reader expects. Unchanged if its other lines need the handler.
std::string plain_program(const std::string& program) {
  const size_t at = program.find("\nimport torch\n");
  if (at == std::string::npos || program.find("\nclass Outcome:\n") > at) return program;
  std::string body = program.substr(at + 1);
  constexpr std::string_view kRecorder = "Outcome()";
  const size_t recorder = body.find(kRecorder);
  if (recorder == std::string::npos) return program;
  body.replace(recorder, kRecorder.size(), "contextlib.nullcontext()");
  for (const char* of_recorder :
       {"Outcome", "failure(", "CODES", "read_codes(", "capture_errors", "documented", "healthy", "traceback."}) {
    if (body.find(of_recorder) != std::string::npos) return program;
  }
  return "import contextlib\n" + body;
}

// The relevant part of a C++ program: the test, and the code that it shares with others if that is short; of a program
// without tests, the capturing function.
std::string excerpt_of(const std::string& source, const std::string& test) {
  if (count_lines(source) <= kLinesOfAnExcerpt) return source;
  std::string text = test_in(source, test);
  if (!text.empty()) {
    const size_t described = source.find("RECAPTURE_CASE = {");
    const size_t begin = described == std::string::npos ? described : source.find("\n};\n", described);
    const size_t first = source.find("\nTEST", std::min(begin, source.size()));
    if (begin != std::string::npos && first != std::string::npos) {
      const size_t comment = source.rfind("\n\n", first);  // That comment is the first test's.
      std::string shared = source.substr(begin + 5, comment + 1 - std::min(begin + 5, comment + 1));
      if (count_lines(shared + text) <= kLinesOfAnExcerpt) text = shared + "\n" + text;
    }
  } else if (const size_t capture = source.find("BeginCapture("); capture != std::string::npos) {
    for (size_t line = source.rfind('\n', capture); line != std::string::npos && line > 0;
         line = source.rfind('\n', line - 1)) {
      const char first = source[line + 1];
      if (first == ' ' || first == '\n' || first == '}') continue;
      text = function_at(source, line + 1);
      break;
    }
  }
  text.erase(0, text.find_first_not_of('\n'));
  std::string cut;
  std::istringstream lines(text);
  std::string line;
  for (size_t i = 0; i < kLinesOfAnExcerpt && std::getline(lines, line); ++i) cut += line + "\n";
  return cut;
}

// Of a case's program: without the fixes, main(), and the modules that these alone use.
std::string failing_part_of(const std::string& program) {
  const std::string whole = program.substr(0, std::min(program.find("\ndef fix_"), program.find("\ndef main(")));
  std::string text;
  std::istringstream lines(whole);
  for (std::string line; std::getline(lines, line);) {
    constexpr std::string_view kImport = "import ";
    const bool is_import = line.rfind(kImport, 0) == 0;
    if (is_import && whole.find(line.substr(kImport.size()) + ".") == std::string::npos) continue;
    text += line + "\n";
  }
  return text;
}

// A test's observation, in words.
std::string seen_words(const TestRecord& test) {
  if (test.has_rate()) {
    const std::string stopping = test.text("stopping");
    return fmt::format("{} times in {} tries{}", test.hits(), test.tries(),
                       stopping.empty() ? "" : " (" + escape_control(stopping) + ")");
  }
  return escape_control(test.seen());
}

std::string steps_text(const TriageInput& story) {
  const Bundle& bundle = story.bundle;
  const std::string& program = bundle.file(bundle.main).text;
  std::string text;
  if (bundle.shape == Shape::Program) {
    text += block(failing_part_of(program) + "\nprint(fails())\n", "python");
  } else if (bundle.shape == Shape::Python) {
    const std::string plain = plain_program(program);
    if (count_lines(plain) <= kLinesOfAnIssue) text += block(plain, "python");
  } else {
    const std::string plain = plain_program(story.python.program);
    if (count_lines(plain) <= kLinesOfAnIssue && !plain.empty()) {
      text += fmt::format("The same in Python ({}), which reproduced it on record too:\n\n{}", story.python.test,
                          block(plain, "python"));
    }
    const std::string excerpt = excerpt_of(program, story.test);
    const bool is_whole = excerpt.size() == program.size();
    if (!excerpt.empty())
      text += fmt::format("{}{}:\n\n{}", is_whole ? "" : "From ", bundle.main, block(excerpt, "cpp"));
  }
  const bool is_python = bundle.shape == Shape::Python || bundle.shape == Shape::Program;
  const char* how = is_python                     ? "runs {0} with your python3 and its torch"
                    : bundle.shape == Shape::Case ? "compiles {0} against the torch of your python3 and runs it"
                                                  : "compiles {0} with nvcc, or with g++ against the CUDA runtime of "
                                                    "your python3's torch, and runs it";
  text += fmt::format(
      "In the attached folder `sh run.sh` {}. It says REPRODUCED (exit status 1), NOT REPRODUCED (0), "
      "or COULD NOT RUN and why (2). `sh run.sh control` is the same without the cause",
      fmt::format(fmt::runtime(how), bundle.main));
  if (!bundle.fixes.empty()) text += ", `sh run.sh fix` with each remedy";
  return text + ".\n\n";
}

std::string seen_text(const TriageInput& story, const Verification& verification) {
  const TestRecord& test = seen_test(story);
  const Details known = details_of(test);
  std::string text = "* seen: " + seen_words(test) + "\n";
  if (!known.message.empty() && seen_words(test).find(known.message) == std::string::npos) {
    text += fmt::format("* message: {}{}\n", escape_control(known.message),
                        known.exception.empty() ? "" : " (" + escape_control(known.exception) + ")");
  }
  text += fmt::format("* what it does to a program: {}\n", [&] {
    for (const CatalogueTest& each : story.one.tests) {
      if (each.name == story.test) return to_string(each.effect.value_or(story.one.effect));
    }
    return to_string(story.one.effect);
  }());
  if (!known.after.empty()) text += "* what it leaves behind: " + escape_control(known.after) + "\n";
  if (!known.call.empty()) {
    std::string call = escape_control(known.call);
    if (const size_t at = call.find(", capture mode none"); at != std::string::npos) call.erase(at);  // Unknown.
    text += "* the call: " + call + "\n";
    if (const std::string line = line_of_call(story, test.culprit("api")); !line.empty()) {
      text += "* in the program: `" + escape_control(line) + "`\n";
    }
  }
  if (!known.log.empty()) text += "* the driver's log: " + escape_control(known.log) + "\n";
  text += "\n";
  // The case's own frames are offsets in a binary that only this machine has.
  std::string frames;
  for (const std::string& frame : known.stack) {
    const bool is_own = frame.rfind(story.one.id + "+0x", 0) == 0, is_plain = frame.rfind("lib", 0) == 0;
    if (!is_own && (!is_plain || frame.rfind("libtorch", 0) == 0 || frame.rfind("libc10", 0) == 0))
      frames += frame + "\n";
  }
  if (!frames.empty()) {
    text += "The stack of the call, the innermost frame first, as the run on record had it:\n\n" + block(frames);
  }
  if (const JsonObject facts = test.object("facts"); verification.printed.empty() && facts.has("traceback")) {
    text += "The traceback on record:\n\n" + block(facts.text("traceback"));
  }
  if (!verification.blamed.empty()) {
    text +=
        "The call, its stack and the driver's log, of a run of the attached program:\n\n" + block(verification.blamed);
  } else if (!known.call.empty() && known.log.empty() && known.pytorch.empty()) {
    text +=
        "The record has no text of the driver's log; `CUDA_LOG_FILE=stderr sh run.sh` prints it (R575 and newer)."
        "\n\n";
  }
  if (!verification.printed.empty()) text += "What `sh run.sh` printed:\n\n" + block(verification.printed);
  return text;
}

std::string expected_text(const TriageInput& story) {
  const TestRecord& test = seen_test(story);
  if (!test.text(key::healthy).empty()) return "`" + escape_control(test.text(key::healthy)) + "`\n\n";
  return story.one.effect == Effect::Crashes ? "No process crashes: each call returns its error.\n\n"
                                             : "None of the tries shows it.\n\n";
}

// Labelled members of the environment; members that the record lacks are left out.
std::string lines_of(const TriageInput& story, const std::vector<std::pair<const char*, const char*>>& members) {
  std::string text;
  for (const auto& [label, key] : members) {
    const std::string value = story.record.env(key);
    if (!value.empty()) text += fmt::format("{}: {}\n", label, value);
  }
  return text;
}

// In the format of torch.utils.collect_env.
std::string versions_text(const TriageInput& story) {
  const std::string text = lines_of(story, {{"PyTorch version", "libtorch"},
                                            {"PyTorch git", "libtorch_git"},
                                            {"OS", "system"},
                                            {"Python version", "python"}}) +
                           fmt::format("Is CUDA available: {}\n", story.record.env("gpu").empty() ? "False" : "True") +
                           lines_of(story, {{"CUDA runtime version", "cuda_runtime"},
                                            {"GPU models and configuration", "gpu"},
                                            {"Compute capability", "compute_capability"},
                                            {"Nvidia driver version", "driver"},
                                            {"CUDA version of the driver", "cuda_driver"},
                                            {"cuDNN version", "cudnn"},
                                            {"NCCL version", "nccl"},
                                            {"NVRTC version", "nvrtc"}});
  return block(text) + "This is the machine of the record; `sh run.sh env` prints yours in full.\n\n";
}

std::string bundle_text(const TriageInput& story) {
  return fmt::format("The attached folder: `run.sh`; {}; `record.jsonl`, the record's lines of this case.\n\n", [&] {
    std::string names;
    for (const BundleFile& file : story.bundle.files) {
      if (file.name != "run.sh") names += fmt::format("{}`{}`", names.empty() ? "" : ", ", file.name);
    }
    return names;
  }());
}

bool names_another(const TriageInput& story, const std::string& text) {
  const Catalogue& all = story.background.catalogue;
  return std::ranges::any_of(all, [&](const CatalogueCase& other) {
    return other.id != story.one.id && text.find(other.id) != std::string::npos;
  });
}

// Without clauses about other cases, which the recipient does not have.
std::string why_text(const TriageInput& story) {
  const std::string& program = story.bundle.file(story.bundle.main).text;
  const std::string text = story.bundle.shape == Shape::Cuda ? recapture::why_of(program) : story.one.why;
  std::string kept;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min({text.find(". ", at), text.find("; ", at), text.find("\n\n", at), text.size() - 2}) + 2;
    const std::string clause = text.substr(at, end - at);
    at = end;
    if (!names_another(story, clause)) {
      kept += clause;
    } else if (kept.size() > 2 && kept.compare(kept.size() - 2, 2, "; ") == 0 &&
               clause.find("; ") == std::string::npos) {
      kept.replace(kept.size() - 2, 1, ".");
    }
  }
  return kept.substr(0, kept.find_last_not_of(" \n") + 1) + "\n\n";
}

// Other cases from the same part of a document, each with its remedies.
std::string related_text(const TriageInput& story) {
  std::string text;
  for (const CatalogueCase& other : story.background.catalogue) {
    const auto is_shared = [&](const Json& source) { return contains(story.one.sources, source); };
    if (other.id == story.one.id || !std::ranges::all_of(other.sources, is_shared)) continue;
    text += fmt::format("* {}.", other.title);
    for (const CatalogueTest& test : other.tests) {
      if (!test.fix.empty()) text += " Remedy: " + test.fix;
    }
    text += "\n";
  }
  return text.empty() ? "" : "## The same failure from other sides\n\n" + text + "\n";
}

std::string pytorch_form(const TriageInput& story, const Verification& verification) {
  return "## 🐛 Describe the bug\n\n" + why_text(story) + steps_text(story) + "### Expected\n\n" + expected_text(story) +
         "### Seen\n\n" + seen_text(story, verification) + "## Versions\n\n" + versions_text(story);
}

std::string nemo_form(const TriageInput& story, const Verification& verification) {
  const bool gpu = !story.record.env("gpu").empty();
  return "**Describe the bug**\n\n" + why_text(story) + seen_text(story, verification) +
         "**Steps/Code to reproduce bug**\n\n" + steps_text(story) + "**Expected behavior**\n\n" +
         expected_text(story) +
         "**Environment overview**\n\n* Environment location: the machines below\n* Method of NeMo "
         "install: none; the failure needs PyTorch and NVRTC alone\n\n**Environment details**\n\n" +
         versions_text(story) + "**Additional context**\n\nGPU model: " +
         (gpu ? story.record.env("gpu") : std::string("none; it fails without a GPU")) + "\n\n";
}

std::string nvidia_form(const TriageInput& story, const Verification& verification) {
  const std::string environment = lines_of(story, {{"OS", "system"},
                                                   {"GPU", "gpu"},
                                                   {"Compute capability", "compute_capability"},
                                                   {"Driver", "driver"},
                                                   {"CUDA version of the driver", "cuda_driver"},
                                                   {"CUDA runtime", "cuda_runtime"}});
  return "**Area**: CUDA driver, stream capture and CUDA graphs\n\n**Description**\n\n" + why_text(story) +
         "**Environment**\n\n" + block(environment) + "**Steps to reproduce**\n\n" + steps_text(story) +
         "**Expected result**\n\n" + expected_text(story) + "**Actual result**\n\n" + seen_text(story, verification);
}

// A test's result on one machine, in a few words.
std::string result_words(const Latest& latest) {
  const TestVerdict& row = *latest.row;
  std::string words(row.ran ? to_string(row.result) : "not run");
  const TestRecord* const test = latest.test();
  if (test != nullptr && test->has_rate()) words += ", " + seen_words(*test);
  if (row.verdict == Verdict::Stale) words += " (by an older form of this test)";
  return words;
}

const Latest* of_test(const OnMachine& on, const std::string& test) {
  for (const Latest& latest : on.rows) {
    if (latest.row->test == test) return &latest;
  }
  return nullptr;
}

bool has_result(const Latest& latest) {
  return latest.row->ran && latest.row->result != Result::Unavailable && latest.row->result != Result::Invalid;
}

// Whether to report it to a vendor: not if the case cannot run there, or if the verdict lacks evidence.
bool is_judged(const Latest& latest) {
  const Verdict verdict = latest.row->verdict;
  return has_result(latest) && verdict != Verdict::NotApplicable && verdict != Verdict::Inconclusive &&
         verdict != Verdict::Missing;
}

std::string cell(std::string text) {
  for (size_t at = 0; (at = text.find('|', at)) != std::string::npos; at += 2) text.replace(at, 1, "\\|");
  return text.empty() ? "–" : text;
}

// The side with the failure comes first.
constexpr std::array<const char*, 4> kSides = {"", "it does not in", "it fails in another way in",
                                               "no try showed it in"};

size_t side_of(Result result) {
  switch (result) {
    case Result::Reproduced:
      return 0;
    case Result::Different:
    case Result::Broken:
    case Result::Crashed:
    case Result::Hung:
      return 2;
    case Result::Unseen:
      return 3;
    default:
      return 1;
  }
}

// One machine's result of the test.
struct Place {
  const Latest* latest;
  size_t side;  // Of kSides.

  const Record& record() const { return latest->judged->record; }
  const std::string& release() const { return latest->row->release; }
  std::string date() const { return record().environment.started.substr(0, 10); }
  std::string words() const { return escape_control(result_words(*latest)); }
  std::string value(const char* key) const {
    const std::string value = record().env(key);
    return value.empty() && key == std::string_view("gpu") ? "no GPU" : value;
  }
};

// Places that differ only in the release, its libraries and the date share a row.
std::vector<std::vector<const Place*>> rows_of(const std::vector<Place>& places) {
  const auto key = [](const Place& place) {
    const Record& record = place.record();
    const bool has_own_nccl = !record.environment.json().contains("nccl_by");
    return std::tuple(place.side, place.words(), record.env("gpu"), record.env("driver"),
                      has_own_nccl ? "" : record.env("nccl"));
  };
  std::vector<std::vector<const Place*>> rows;
  for (const Place& place : places) {
    auto row = std::ranges::find_if(rows, [&](const auto& known) { return key(*known.front()) == key(place); });
    if (row == rows.end()) row = rows.insert(rows.end(), std::vector<const Place*>());
    row->push_back(&place);
  }
  return rows;
}

// The releases of a side. If a release is on several sides, with what distinguishes its machines: "2.11.0 (NCCL
// 2.27.7)".
std::vector<std::string> releases_on(size_t side, const std::vector<Place>& places) {
  constexpr std::array<std::pair<const char*, const char*>, 4> kParts = {
      {{"nccl", "NCCL "}, {"cuda_runtime", "CUDA runtime "}, {"gpu", ""}, {"driver", "driver "}}};
  std::vector<std::string> names;
  for (const Place& place : places) {
    if (place.side != side || !is_version(place.release())) continue;
    const auto values = [&](const char* key, bool here) {
      std::vector<std::string> all;
      for (const Place& other : places) {
        if (other.release() == place.release() && (other.side == side) == here) add_once(all, other.value(key));
      }
      return all;
    };
    const auto tells_apart = [&](const std::pair<const char*, const char*>& part) {
      std::vector<std::string> others = values(part.first, false);
      others.emplace_back();  // A missing member distinguishes nothing.
      const auto ours = values(part.first, true);
      return std::find_first_of(ours.begin(), ours.end(), others.begin(), others.end()) == ours.end() &&
             std::ranges::count(others, "") == 1;
    };
    std::string name = place.release();
    if (!values("release", false).empty()) {
      const auto* const part = std::ranges::find_if(kParts, tells_apart);
      name += part == kParts.end() ? " on some machines"
                                   : fmt::format(" ({}{})", part->second, fmt::join(values(part->first, true), ", "));
    }
    add_once(names, name);
  }
  return names;
}

std::string where_text(const TriageInput& story) {
  const std::string id = story.one.id + "." + story.test;
  std::vector<Place> places;
  for (const OnMachine& on : story.machines) {
    const Latest* const latest = on.broken == Break::Nothing ? of_test(on, id) : nullptr;
    if (latest != nullptr && is_judged(*latest)) places.push_back({latest, side_of(latest->row->result)});
  }
  std::string text = "## Since when, and where\n\n";
  if (const auto with = releases_on(0, places); !with.empty()) {
    text += with.size() == 1 ? fmt::format("It shows in LibTorch {}", with.front())
                             : fmt::format("It shows from LibTorch {} to {}", with.front(), with.back());
    std::string others;
    for (size_t side = 1; side < kSides.size(); ++side) {
      const auto those = releases_on(side, places);
      if (!those.empty()) others += fmt::format("; {} {}", kSides.at(side), fmt::join(those, ", "));
    }
    text += others.empty() ? ", in every release with a result on record; older and newer ones have none.\n\n"
                           : others + ".\n\n";
  }
  // Each release has its own NCCL, which is only shown if a run chose another.
  const bool has_nccl = std::ranges::any_of(
      places, [](const Place& place) { return place.record().environment.json().contains("nccl_by"); });
  text += fmt::format(
      "| LibTorch | CUDA runtime |{} GPU | driver | what it shows | date |\n"
      "| --- | --- |{} --- | --- | --- | --- |\n",
      has_nccl ? " NCCL |" : "", has_nccl ? " --- |" : "");
  for (const std::vector<const Place*>& row : rows_of(places)) {
    const Place& first = *row.front();
    const auto all = [&](const std::function<std::string(const Place&)>& value) {
      std::vector<std::string> values;
      for (const Place* place : row) add_once(values, value(*place));
      return cell(join(values));
    };
    std::string from = first.date(), to = from;
    for (const Place* place : row) {
      from = std::min(from, place->date());
      to = std::max(to, place->date());
    }
    const std::string days = from == to ? from : fmt::format("{} to {}", from, to);
    text += fmt::format("| {} | {} |{} {} | {} | {} | {} |\n",
                        all([](const Place& place) { return is_version(place.release()) ? place.release() : "none"; }),
                        all([](const Place& place) { return place.record().env("cuda_runtime"); }),
                        has_nccl ? " " + all([](const Place& place) { return place.record().env("nccl"); }) + " |" : "",
                        cell(first.record().env("gpu").empty() ? "none" : first.record().env("gpu")),
                        cell(first.record().env("driver")), cell(first.words()), days);
  }
  text += "\n";
  std::string changes;
  for (const Deviation& change : story.background.changes) {
    for (const Expectation& expected : change.expectations) {
      if (expected.test != id) continue;
      const CitedSource* const source = find_source(story.background.sources, change.number);
      changes += fmt::format(
          "* {}{}{}: {}{}\n", expected.where.release.empty() ? "" : expected.where.release + ": ",
          to_string(expected.result), change.since.empty() ? "" : ", since " + change.since, change.what,
          source == nullptr ? " (" + change.number + ")" : fmt::format(" ([{}]({}))", source->id, source->url));
    }
  }
  text += changes.empty() ? "No change upstream is known to have begun or ended it.\n\n"
                          : "Changes upstream that alter it:\n\n" + changes + "\n";
  text += "Threads and pages:\n\n";
  for (const CitedSource* source : cited(story)) text += fmt::format("* [{}]({})\n", source->title, source->url);
  return text + "\n";
}

// What `run.sh fix` calls a test of the case; "" if the bundle has none.
std::string name_in_bundle(const Bundle& bundle, const std::string& test) {
  for (const std::string& fix : bundle.fixes) {
    if ((bundle.shape == Shape::Program ? test_of_function(fix) : fix) == test) return fix;
  }
  return "";
}

// The sentence of a fix; a function of a program has that of the test with the same name in C++.
std::string sentence_of(const CatalogueCase& one, const CatalogueTest& test) {
  if (!test.fix.empty() || !is_of_program(test.name)) return test.fix;
  for (const CatalogueTest& other : one.tests) {
    if (other.name == test.name.substr(kProgramPrefix.size())) return other.fix;
  }
  return "";
}

std::string remedies_text(const TriageInput& story) {
  std::string text;
  const bool is_program = story.bundle.shape == Shape::Program;
  for (const CatalogueTest& test : story.one.tests) {
    if (test.kind != Kind::Fix || is_of_program(test.name) != is_program) continue;
    std::map<std::pair<bool, std::string>, std::vector<std::string>> machines;  // Older forms last.
    for (const OnMachine& on : story.machines) {
      const Latest* const latest = on.broken == Break::Nothing ? of_test(on, story.one.id + "." + test.name) : nullptr;
      if (latest == nullptr || !is_judged(*latest)) continue;
      machines[{latest->row->verdict == Verdict::Stale, outcome_of(*latest->row)}].push_back(on.machine);
    }
    const std::string fix = name_in_bundle(story.bundle, test.name);
    text += fmt::format("* {}{}\n", sentence_of(story.one, test),
                        fix.empty() ? "" : fmt::format(" `sh run.sh fix {}`", fix));
    for (const auto& [outcome, those] : machines) {
      text += fmt::format("  {} on {}\n", outcome.second, by_gpu(those));
    }
  }
  return text.empty() ? "" : "## Remedies that were tried\n\n" + text + "\n";
}

}  // namespace

const Record& record_that_shows(const std::vector<OnMachine>& machines, const std::string& test,
                                const std::string& release) {
  const Latest* best = nullptr;
  const Latest* other = nullptr;
  for (const OnMachine& on : machines) {
    const Latest* const latest = on.broken == Break::Nothing ? of_test(on, test) : nullptr;
    if (latest == nullptr || (!release.empty() && latest->row->release != release)) continue;
    if (latest->row->result == Result::Reproduced && is_judged(*latest)) {
      // The project's own runs, then current code before older code; of these the newest release, which comes last.
      const auto rank = [](const Latest& one) {
        return std::pair(was_sent(one.judged->record.environment), one.row->verdict == Verdict::Stale);
      };
      if (best == nullptr || rank(*latest) <= rank(*best)) best = latest;
    } else if (has_result(*latest)) {
      other = latest;
    }
  }
  if (best != nullptr) return best->judged->record;
  const std::string where = release.empty() ? "" : " in " + release;
  if (other != nullptr) {
    throw ExitError(Exit::Usage, fmt::format("no record shows {}{}; in {} it is {}", test, where, other->row->release,
                                             outcome_of(*other->row)));
  }
  throw ExitError(Exit::NothingRan,
                  fmt::format("no record has a result of {}{}; `ci/suite {}` makes one", test, where,
                              release.empty() ? "-- " + case_of(test) : release + " -- " + case_of(test)));
}

std::string render_report(const TriageInput& story, const triage::Verification& verification) {
  std::string text = verification.line + "\n\n";
  if (story.one.nature == Nature::Constraint) {
    text +=
        "**A documented constraint of CUDA or PyTorch, and not a defect**: this is by design. It is not a bug report, "
        "but may help with questions about the document, the error or the remedies.\n\n";
  }
  text += "# " + story.one.title + "\n\n";
  for (const CitedSource* source : cited(story)) {
    const bool is_thread =
        source->url.find("/issues/") != std::string::npos || source->url.find("/pull/") != std::string::npos;
    if (is_thread) text += fmt::format("This is about [{}]({}).\n\n", source->title, source->url);
  }
  switch (vendor_of(story)) {
    case Vendor::PyTorch:
      text += pytorch_form(story, verification);
      break;
    case Vendor::Nemo:
      text += nemo_form(story, verification);
      break;
    case Vendor::Nvidia:
      text += nvidia_form(story, verification);
      break;
  }
  return text + where_text(story) + remedies_text(story) + related_text(story) + "## What is attached\n\n" +
         bundle_text(story);
}

}  // namespace recapture::report
