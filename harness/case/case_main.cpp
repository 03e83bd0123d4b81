// The main of every case binary. By hand it is an ordinary GoogleTest program; --describe and --environment are for the
// runner; with --serve it loads LibTorch, leaves CUDA untouched, and forks for each test.
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "harness/case/case.h"
#include "harness/case/events.h"
#include "harness/case/source_hash.h"

namespace recapture {

std::map<std::string, std::string> environment();  // fixtures/cuda/environment.cpp: what this binary runs on.

namespace {

using Json = nlohmann::ordered_json;

Break broken = Break::Nothing;
int events = -1;

void print(const Json& json) { std::cout << json.dump(-1, ' ', false, Json::error_handler_t::replace) << '\n'; }

std::optional<std::string> fixture(const std::string& path) {
  for (const FixtureSource* source = fixture_sources; source != nullptr && source->path != nullptr; ++source) {
    if (source->path == path) return source->text;
  }
  return std::nullopt;
}

void describe() {
  Json sources = Json::array(), tests = Json::array(), effects = Json::object(), fixes = Json::object();
  Json fix_releases = Json::object();
  for (const Source& source : this_case.sources) {
    sources.push_back({{"document", source.document}, {"heading", source.heading}});
  }
  for (const EffectOf& of : this_case.effects) effects[of.test] = to_string(of.effect);
  for (const Remedy& fix : this_case.fixes) {
    fixes[fix.test] = fix.sentence;
    if (*fix.releases != '\0') fix_releases[fix.test] = fix.releases;
  }
  const auto* unit = ::testing::UnitTest::GetInstance();
  for (int s = 0; s < unit->total_test_suite_count(); ++s) {
    const auto* suite = unit->GetTestSuite(s);
    for (int t = 0; t < suite->total_test_count(); ++t) {
      tests.push_back(std::string(suite->name()) + "." + suite->GetTestInfo(t)->name());
    }
  }
  print({{"title", this_case.title},
         {"sources", sources},
         {"documented", this_case.documented},
         {"nature", to_string(this_case.nature)},
         {"fidelity", to_string(this_case.fidelity)},
         {"tags", this_case.tags},
         {"features", this_case.features},
         {"needs", this_case.needs},
         {"deadline_s", this_case.deadline_s},
         {"effect", to_string(this_case.effect)},
         {"effects", effects},
         {"fixes", fixes},
         {"fix_releases", fix_releases},
         {"stopping", to_string(this_case.stopping)},
         {"connections", this_case.connections},
         {"hash", code_hash(std::string(this_source), fixture)},
         {"tests", tests}});
}

// Reports GoogleTest's results to the runner: skips with reason, failed assertions, and the end of the test.
class Listener : public ::testing::EmptyTestEventListener {
  void OnTestPartResult(const ::testing::TestPartResult& part) override {
    if (part.skipped()) {
      record(key::skipped, part.message());
    } else if (part.failed()) {
      record(key::assertion, std::string(part.file_name() ? part.file_name() : "") + ":" +
                                 std::to_string(part.line_number()) + ": " + part.message());
    }
  }
  void OnTestEnd(const ::testing::TestInfo& info) override {
    const auto* result = info.result();
    record(key::ended, result->Skipped() ? "skipped" : result->Passed() ? "passed" : "failed");
  }
};

// Runs the tests that GoogleTest's filter names and exits without static destructors: after a failed capture they may
// crash, which would hide the test's result.
[[noreturn]] void run_and_leave() {
  ::testing::UnitTest::GetInstance()->listeners().Append(new Listener);
  int code = RUN_ALL_TESTS();
  const auto* unit = ::testing::UnitTest::GetInstance();
  if (code == 0 && unit->test_to_run_count() > 0 && unit->skipped_test_count() == unit->test_to_run_count()) code = 77;
  if (unit->test_to_run_count() == 0) {
    std::cerr << "no test of that name; --gtest_list_tests lists them\n";
    code = 2;
  }
  std::cout << std::flush;
  std::fflush(nullptr);
  _exit(code);
}

struct Request {
  std::string test, folder;
  std::vector<std::string> variables;  // NAME=VALUE: of its own folder.
  int output = -1, events = -1;
};

// One request of the runner: lines with the test's name, its folder and its variables, and two descriptors. Empty at
// the end of the connection.
Request receive(int connection) {
  static char buffer[128 << 10];  // A dozen paths, which may be long.
  iovec text{buffer, sizeof buffer};
  alignas(cmsghdr) char control[CMSG_SPACE(2 * sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &text;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  ssize_t got;
  do got = recvmsg(connection, &message, 0);
  while (got < 0 && errno == EINTR);
  Request request;
  if (got <= 0) return request;
  std::istringstream lines(std::string(buffer, static_cast<size_t>(got)));
  std::getline(lines, request.test);
  std::getline(lines, request.folder);
  for (std::string line; std::getline(lines, line);) request.variables.push_back(line);
  if (cmsghdr* rights = CMSG_FIRSTHDR(&message); rights && rights->cmsg_type == SCM_RIGHTS) {
    int descriptors[2];
    std::memcpy(descriptors, CMSG_DATA(rights), sizeof descriptors);
    request.output = descriptors[0];
    request.events = descriptors[1];
  }
  return request;
}

void say(int connection, const std::string& line) {
  if (send(connection, line.data(), line.size(), MSG_NOSIGNAL) < 0) _exit(1);  // The runner has exited.
}

[[noreturn]] void serve(int connection) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (prepare_to_serve != nullptr) prepare_to_serve();
  say(connection, "ready");
  for (;;) {
    const Request request = receive(connection);
    if (request.test.empty()) _exit(0);
    const pid_t child = fork();
    if (child < 0) _exit(1);
    if (child == 0) {
      setpgid(0, 0);
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      // Reported here, as a test may stop the server at once.
      say(connection, "started " + std::to_string(getpid()));
      close(connection);
      dup2(request.output, 1);
      dup2(request.output, 2);
      close(request.output);
      events = request.events;
      setenv(kEventsVariable, std::to_string(events).c_str(), 1);
      // LibTorch reads none of these while it is being loaded.
      for (const std::string& variable : request.variables) {
        const size_t equals = variable.find('=');
        setenv(variable.substr(0, equals).c_str(), variable.substr(equals + 1).c_str(), 1);
      }
      if (chdir(request.folder.c_str()) != 0) _exit(127);
      GTEST_FLAG_SET(filter, request.test);
      run_and_leave();
    }
    close(request.output);
    close(request.events);
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    say(connection, "ended " + std::to_string(status));
  }
}

}  // namespace

void record(const std::string& key, const std::string& value) {
  if (events < 0) return;
  const std::string line = event_line(key, value);
  [[maybe_unused]] const ssize_t written = write(events, line.data(), line.size());
}

bool recording() { return events >= 0; }

bool trigger_on() { return broken != Break::Trigger; }

bool expects_wrong_value() { return broken == Break::Value; }

bool breaks_remedies() { return broken == Break::Remedy; }

bool remedy() {
  if (!breaks_remedies()) return true;
  record(key::remedy, "left out");
  return false;
}

void reproduces(const std::string& seen, std::string documented, const std::string& healthy, const char* file,
                int line) {
  if (expects_wrong_value()) documented = "a value that nothing shows";
  record(key::seen, seen);
  record(key::documented, documented);
  record(key::healthy, healthy);
  const std::string result = outcome(seen, documented, healthy);
  if (result == "reproduced") return;
  const char* words = result == "healthy"     ? "The documented failure did not occur."
                      : result == "different" ? "A failure, but not the documented one."
                                              : "The test takes the same observation for documented and for healthy.";
  ADD_FAILURE_AT(file, line) << words << "\n  seen:       " << seen << "\n  documented: " << documented
                             << "\n  healthy:    " << healthy;
}

void reproduces_at_rate(int hits, int tries, const char* file, int line) {
  record(key::hits, std::to_string(hits));
  record(key::tries, std::to_string(tries));
  if (hits == 0 || expects_wrong_value()) ADD_FAILURE_AT(file, line) << "Not seen in " << tries << " tries.";
}

}  // namespace recapture

int main(int argc, char** argv) {
  using namespace recapture;
  std::string mode, connection, how;
  for (int i = 1; i < argc; ++i) {
    const std::string arg = argv[i];
    if (arg == "--describe" || arg == "--environment") mode = arg;
    if (arg.rfind("--serve=", 0) == 0) connection = arg.substr(8);
    if (arg.rfind("--break=", 0) == 0) how = arg.substr(8);
  }
  if (!how.empty()) {
    const std::optional<Break> known = break_of(how);
    if (!known) {
      std::cerr << "--break takes nothing, trigger, value or remedy, not '" << how << "'\n";
      return 2;
    }
    broken = *known;
  }
  if (const char* number = std::getenv(kEventsVariable)) events = std::atoi(number);
  ::testing::InitGoogleMock(&argc, argv);
  if (mode == "--describe") return describe(), 0;
  if (mode == "--environment") {
    print(Json(environment()));
    std::cout << std::flush;
    _exit(0);
  }
  if (!connection.empty()) serve(std::atoi(connection.c_str()));
  run_and_leave();
}
