// Fuzzes every reader of Recapture with libFuzzer: `fuzz --target=record corpus/`. A reader may accept an input or
// throw one Stop; anything else (a crash, another exception, a hang) is a bug of ours. tools/fuzz runs all.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <sstream>
#include <string>
#include <string_view>

#include "harness/base/escape.h"
#include "harness/base/exit.h"
#include "harness/case/events.h"
#include "harness/case/pattern.h"
#include "harness/case/signature.h"
#include "harness/case/source_hash.h"
#include "harness/compare/policy.h"
#include "harness/lint/documents.h"
#include "harness/model/catalogue.h"
#include "harness/model/release.h"
#include "harness/model/suggest.h"
#include "harness/model/tree.h"
#include "harness/nightly/accepted.h"
#include "harness/nightly/state_file.h"
#include "harness/report/json.h"
#include "harness/report/junit.h"
#include "harness/report/markdown.h"
#include "harness/report/night.h"
#include "harness/report/overview.h"
#include "harness/report/text.h"
#include "harness/run/line.h"
#include "harness/run/plan.h"
#include "harness/store/rate_pools.h"
#include "harness/store/result_matrix.h"
#include "harness/store/select.h"
#include "harness/tests/namespaces.h"
#include "harness/verdict/price.h"
#include "harness/verdict/rate.h"
#include "harness/words/measurement.h"

namespace recapture {
namespace {

namespace fs = std::filesystem;

// A tree in memory with the input as every file that a reader may open.
class Tree {
 public:
  Tree() {
    file_ = memfd_create("input", 0);
    const std::string input = "/proc/" + std::to_string(getpid()) + "/fd/" + std::to_string(file_);
    root_ = fs::temp_directory_path().string() + "/recapture-fuzz-" + std::to_string(getpid());
    for (const char* path : {"cases/catalogue.json", "cases/expectations.toml", "cases/sources.toml",
                             "cases/coverage.tsv", "reports/hashes.tsv", "ci/matrix.toml", "ci/accepted.toml",
                             "policy.toml", "records/r.jsonl", "packed/r.jsonl.gz"}) {
      fs::create_directories(fs::path(root_ + "/" + path).parent_path());
      fs::create_symlink(input, root_ + "/" + path);
    }
  }
  ~Tree() { fs::remove_all(root_); }
  Tree(const Tree&) = delete;
  Tree& operator=(const Tree&) = delete;

  const std::string& root() const { return root_; }
  void put(std::string_view text) const {
    if (ftruncate(file_, 0) != 0 || pwrite(file_, text.data(), text.size(), 0) != static_cast<ssize_t>(text.size())) {
      std::abort();
    }
  }

 private:
  int file_ = -1;
  std::string root_;
};

const Tree& tree() {
  static const Tree the_tree;
  return the_tree;
}

void must(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "%s\n", what);
  std::abort();
}

// Every output of a record.
void show(Record record) {
  const ResultMatrix board({std::move(record)}, {});
  const JudgedRun& judged = board.records().front();
  std::string all = heading(judged.record) + summary(judged.rows) + observed_tables(judged.record, judged.rows);
  for (const TestVerdict& row : judged.rows) all += render_line(row) + "\n";
  const auto machines = latest(board);
  all += machines_text(machines) + surprises(machines) + last_line(machines) + render_markdown(board);
  std::istringstream lines(all);
  for (std::string line; std::getline(lines, line);) must(escape_control(line) == line, "a control character is shown");
  render_json(judged).dump(1, ' ', false, Json::error_handler_t::replace);
  render_junit(judged);
  exit_for(board.verdicts());
  exit_for(verdicts_of(machines));
  must(judged.record.is_complete() || exit_for(board.verdicts()) != Exit::AsExpected, "an incomplete run passes");
  for (const RatePool& pool : rate_pools({judged.record}, {})) describe(pool.runs);
}

void fuzz_record(std::string_view text) {
  tree().put(text);
  show(read_record(tree().root() + "/records/r.jsonl"));
  newest_records(tree().root() + "/records");
  read_rates_below(tree().root() + "/records");
}

// A record as CI and others hand it on.
void fuzz_archive(std::string_view bytes) {
  tree().put(bytes);
  show(read_record(tree().root() + "/packed/r.jsonl.gz"));
}

void fuzz_prices(std::string_view text) {
  tree().put(text);
  for (const PriceLine& line : read_prices(tree().root() + "/records/r.jsonl").lines) {
    const std::string all = line.what + describe(line);
    must(escape_control(all) == all, "a control character is shown");
    must(!changed(line, line), "a price differs from itself");
    render_json(line).dump(1, ' ', false, Json::error_handler_t::replace);
  }
}

// Lines of a test's events. The runner must be able to read what it writes for them.
void fuzz_events(std::string_view text) {
  Observation seen;
  seen.ending = Observation::Ending::Exited;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    auto event = parse_event(text.substr(at, end - at));
    if (!event.first.empty()) seen.events.push_back(std::move(event));
    at = end + 1;
  }
  std::string record = "{\"recapture\":2,\"release\":\"2.15.0\"}\n";
  CaseInfo info;
  info.id = "c";
  record += info.to_json().dump() + "\n";
  for (const char* test : {"c.Control", "c.Reproduces"}) {
    const Json line = line_of({test, "fork", "", "300 captures"}, seen, Anonymous());
    record += line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  }
  tree().put(record);
  try {
    show(read_record(tree().root() + "/records/r.jsonl"));
  } catch (const ExitError& stop) {
    must(false, stop.what());
  }
}

// A case binary's description.
void fuzz_description(std::string_view text) {
  const auto json = try_parse_json(text);
  if (!json) return;
  try {
    const CaseInfo info = CaseInfo::from(*json);
    must(CaseInfo::from(info.to_json()).to_json() == info.to_json(), "a description is not what it was");
    catalogue_case(*json, "// Why.\n");
  } catch (const ExitError&) {
    throw;
  } catch (const std::exception&) {  // The caller reports it with the binary's name.
  }
}

// The small grammars, one line of the input each.
void fuzz_grammars(std::string_view text) {
  must(!JsonObject::read(text) || try_parse_json(text), "an object is kept as text that cannot be parsed");
  const std::string all(text), first = all.substr(0, all.find('\n')),
                               rest = all.substr(std::min(first.size() + 1, all.size()));
  const auto may_stop = [](const std::function<void()>& read) {
    try {
      read();
    } catch (const ExitError&) {
    }
  };
  may_stop([&] { satisfies("2.6.0", first); });
  may_stop([&] { can_meet(first, rest); });
  may_stop([&] { Release(first).is_older_than(Release(rest)); });
  may_stop([&] { require_version(first); });
  may_stop([&] { read_shard(first); });
  may_stop([&] { read_gpus(first); });
  may_stop([&] { named(first, {{"sync"}, {"item_in_capture"}, {"item_in_capture.Reproduces"}}); });
  if (const auto signature = Signature::read(first)) {
    must(Signature::read(signature->text()).has_value(), "a signature cannot be read again");
    code_of_failure(signature->first);
  }
  matches(first, rest);
  outcome(first, rest, all);
  Needs::read(first);
  stopping_of(TestRecord{{{"stopping", std::string(first)}, {key::hits, 1}}});
  must(escape_control(escape_control(all)) == escape_control(all), "what is visible is not");
  code_hash(all, [&](const std::string&) { return std::optional<std::string>(rest); });
  why_of(all);
  const Json environment = {{"release", first}, {"gpu", rest}, {"env", {{first, rest}}}};
  must(report_path(environment).find("..") == std::string::npos || first.find("..") != std::string::npos,
       "a record leaves its folder");
  const auto [key, value] = parse_event(event_line("seen", first).substr(0, event_line("seen", first).size() - 1));
  must(first.size() > kLongestValue - 16 || (key == "seen" && value == first), "an event is not what was said");
}

// The body of a night's state, and the next night of its places.
void fuzz_state(std::string_view text) {
  const auto json = try_parse_json(text);
  if (!json) return;
  static const compare::CompareContext background;
  std::optional<nightly::SavedState> state;
  try {
    state = nightly::state_from(*json, background);
    const Json again = to_json(*state);
    must(to_json(nightly::state_from(again, background)) == again, "a state is not what it was");
  } catch (const ExitError&) {
    throw;
  } catch (const std::exception&) {  // read_state() reports it with the file's name.
    return;
  }
  nightly::NightReport report;
  report.night = "tonight";
  for (auto& [key, place] : state->places) {
    Record record;
    record.path = "tonight.jsonl";
    record.environment = place.environment().json();
    CaseInfo info;
    info.id = "c1";
    info.hash = "h";
    record.cases.emplace(info.id, info);
    for (const char* test : {"c1.Control", "c1.FixIt", "c1.Reproduces"}) {
      record.plan.emplace_back(test);
      record.add({{{"test", test}, {"ending", "exited"}, {"code", 1}, {"ended", "failed"}, {"seen", "E"}}});
    }
    record.end = "complete";
    std::vector<JudgedRun> runs;
    runs.push_back(compare::judge_without_staleness(std::move(record), background));
    report.places.push_back(place.add({"tonight", std::move(runs)}, {}));
    report.places.push_back(place.without_run("tomorrow", nightly::PlaceHistory::Absence::Unplanned));
  }
  const std::string all = render_text(report) + render_markdown(report);
  render_json(report).dump(1, ' ', false, Json::error_handler_t::replace);
  std::istringstream lines(all);
  for (std::string line; std::getline(lines, line);) must(escape_control(line) == line, "a control character is shown");
  exit_for(report);
}

const std::map<std::string, std::function<void(std::string_view)>>& targets() {
  const auto file = [](auto&& read) {
    return [read](std::string_view text) {
      tree().put(text);
      read(tree().root());
    };
  };
  static const std::map<std::string, std::function<void(std::string_view)>> all = {
      {"record", fuzz_record},
      {"archive", fuzz_archive},
      {"prices", fuzz_prices},
      {"events", fuzz_events},
      {"description", fuzz_description},
      {"grammars", fuzz_grammars},
      {"catalogue", file([](const std::string& root) { render_text(selected(read_catalogue(root), {})); })},
      {"changes", file([](const std::string& root) {
         Record record;
         record.environment = {{"release", "2.15.0"}, {"gpu", "NVIDIA H200"}};
         const auto expected = expectations_of(read_deviations(root));
         if (!expected.empty()) find_expectation(expected, expected.front().test, record);
       })},
      {"sources", file([](const std::string& root) { read_sources(root); })},
      {"state", fuzz_state},
      {"accepted", file([](const std::string& root) { nightly::read_accepted(root); })},
      {"policy", file([](const std::string& root) {
         std::vector<compare::RenamedWord> renamed;
         compare::read_policy(root + "/policy.toml", renamed);
       })},
      {"matrix", file([](const std::string& root) { read_matrix(root); })},
      {"documents", file([](const std::string& root) { read_documents(root); })},
      {"hashes", file([](const std::string& root) { hashes_of_old_records(root); })},
  };
  return all;
}

const std::function<void(std::string_view)>* target = nullptr;

}  // namespace
}  // namespace recapture

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  const auto& all = recapture::targets();
  for (int i = 1; i < *argc; ++i) {
    const std::string word = (*argv)[i];  // libFuzzer ignores words that begin with two dashes.
    if (word == "--list") {
      for (const auto& [name, target] : all) std::printf("%s\n", name.c_str());
      std::exit(0);
    }
    if (word.rfind("--target=", 0) == 0 && all.count(word.substr(9)) != 0) recapture::target = &all.at(word.substr(9));
  }
  if (recapture::target == nullptr) {
    std::fprintf(stderr, "fuzz: --target=NAME is one of those that --list prints\n");
    std::exit(2);
  }
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    (*recapture::target)({reinterpret_cast<const char*>(data), size});
  } catch (const recapture::ExitError& stop) {
    recapture::must(std::string_view(stop.what()).find('\n') == std::string_view::npos, "a Stop of several lines");
  }
  return 0;
}
