// The main of every case binary. By hand it is an ordinary GoogleTest program; with --describe and --environment it
// answers the runner's questions; with --serve it stays, with LibTorch loaded and CUDA untouched, and forks once a
// test.
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

#include "harness/case.h"
#include "harness/events.h"
#include "harness/source_hash.h"

#ifndef RECAPTURE_BREAK
#define RECAPTURE_BREAK "nothing"  // CMake's option of that name sets another default for --break.
#endif

namespace recapture {

std::map<std::string, std::string> environment();  // fixtures/environment.cpp: what this binary runs on.

namespace {

std::string broken = RECAPTURE_BREAK;
int events = -1;

std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      char code[8];
      std::snprintf(code, sizeof code, "\\u%04x", c);
      out += code;
    } else {
      out += c;
    }
  }
  return out + '"';
}

const char* name(Nature n) { return n == Nature::Constraint ? "constraint" : n == Nature::Defect ? "defect" : "race"; }

const char* name(Fidelity f) {
  return f == Fidelity::Verbatim ? "verbatim" : f == Fidelity::Translated ? "translated" : "modelled";
}

void describe() {
  std::cout << "{\"title\":" << quoted(this_case.title) << ",\"sources\":[";
  const char* comma = "";
  for (const Source& source : this_case.sources) {
    std::cout << comma << "{\"document\":" << quoted(source.document) << ",\"heading\":" << quoted(source.heading)
              << "}";
    comma = ",";
  }
  std::cout << "],\"documented\":" << quoted(this_case.documented) << ",\"nature\":\"" << name(this_case.nature)
            << "\",\"fidelity\":\"" << name(this_case.fidelity) << "\",\"needs\":" << quoted(this_case.needs)
            << ",\"deadline_s\":" << this_case.deadline_s << ",\"hash\":\"" << source_hash(this_source)
            << "\",\"tests\":[";
  comma = "";
  const auto* unit = ::testing::UnitTest::GetInstance();
  for (int s = 0; s < unit->total_test_suite_count(); ++s) {
    const auto* suite = unit->GetTestSuite(s);
    for (int t = 0; t < suite->total_test_count(); ++t) {
      std::cout << comma << quoted(std::string(suite->name()) + "." + suite->GetTestInfo(t)->name());
      comma = ",";
    }
  }
  std::cout << "]}\n";
}

void print_environment() {
  const char* comma = "{";
  for (const auto& [key, value] : environment()) {
    std::cout << comma << quoted(key) << ":" << quoted(value);
    comma = ",";
  }
  std::cout << "}\n";
}

// Tells the runner what GoogleTest saw: skips with their reason, failed assertions, and that the test came to its end.
class Listener : public ::testing::EmptyTestEventListener {
  void OnTestPartResult(const ::testing::TestPartResult& part) override {
    if (part.skipped()) {
      record("skipped", part.message());
    } else if (part.failed()) {
      record("assertion", std::string(part.file_name() ? part.file_name() : "") + ":" +
                              std::to_string(part.line_number()) + ": " + part.message());
    }
  }
  void OnTestEnd(const ::testing::TestInfo& info) override {
    const auto* result = info.result();
    record("ended", result->Skipped() ? "skipped" : result->Passed() ? "passed" : "failed");
  }
};

// Runs the tests that GoogleTest's filter names and leaves without static destructors: after a failed capture they run
// into what it left behind, and their crash would cover what the test saw.
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
  std::string test;
  int output = -1, events = -1;
};

// One request of the runner: the test's name, with two descriptors beside it. Empty at the end of the connection.
Request receive(int connection) {
  char name_buffer[512] = {};
  iovec text{name_buffer, sizeof name_buffer - 1};
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
  request.test.assign(name_buffer, static_cast<size_t>(got));
  if (cmsghdr* rights = CMSG_FIRSTHDR(&message); rights && rights->cmsg_type == SCM_RIGHTS) {
    int descriptors[2];
    std::memcpy(descriptors, CMSG_DATA(rights), sizeof descriptors);
    request.output = descriptors[0];
    request.events = descriptors[1];
  }
  return request;
}

void say(int connection, const std::string& line) {
  if (send(connection, line.data(), line.size(), MSG_NOSIGNAL) < 0) _exit(1);  // The runner is gone, and so are we.
}

[[noreturn]] void serve(int connection) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  say(connection, "ready");
  for (;;) {
    const Request request = receive(connection);
    if (request.test.empty()) _exit(0);
    const pid_t child = fork();
    if (child == 0) {
      setpgid(0, 0);
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      close(connection);
      dup2(request.output, 1);
      dup2(request.output, 2);
      close(request.output);
      events = request.events;
      setenv(kEventsVariable, std::to_string(events).c_str(), 1);
      GTEST_FLAG_SET(filter, request.test);
      run_and_leave();
    }
    close(request.output);
    close(request.events);
    say(connection, "started " + std::to_string(child));
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

bool trigger_on() { return broken != "trigger"; }

bool remedy() {
  if (broken != "remedy") return true;
  record("remedy", "left out");
  return false;
}

void reproduces(const std::string& seen, std::string documented, const std::string& healthy, const char* file,
                int line) {
  if (broken == "value") documented = "a value that nothing shows";
  record("seen", seen);
  record("documented", documented);
  record("healthy", healthy);
  const std::string result = outcome(seen, documented, healthy);
  if (result == "reproduced") return;
  const char* words = result == "healthy"     ? "The documented failure did not occur."
                      : result == "different" ? "A failure, but not the documented one."
                                              : "The test takes the same observation for documented and for healthy.";
  ADD_FAILURE_AT(file, line) << words << "\n  seen:       " << seen << "\n  documented: " << documented
                             << "\n  healthy:    " << healthy;
}

void reproduces_at_rate(int hits, int tries, const char* file, int line) {
  record("hits", std::to_string(hits));
  record("tries", std::to_string(tries));
  if (hits == 0 || broken == "value") ADD_FAILURE_AT(file, line) << "Not seen in " << tries << " tries.";
}

}  // namespace recapture

int main(int argc, char** argv) {
  using namespace recapture;
  std::string mode, connection;
  for (int i = 1; i < argc; ++i) {
    const std::string arg = argv[i];
    if (arg == "--describe" || arg == "--environment") mode = arg;
    if (arg.rfind("--serve=", 0) == 0) connection = arg.substr(8);
    if (arg.rfind("--break=", 0) == 0) broken = arg.substr(8);
  }
  if (broken != "nothing" && broken != "trigger" && broken != "value" && broken != "remedy") {
    std::cerr << "--break takes nothing, trigger, value or remedy, not '" << broken << "'\n";
    return 2;
  }
  if (const char* number = std::getenv(kEventsVariable)) events = std::atoi(number);
  ::testing::InitGoogleMock(&argc, argv);
  if (mode == "--describe") return describe(), 0;
  if (mode == "--environment") {
    print_environment();
    std::cout << std::flush;
    _exit(0);
  }
  if (!connection.empty()) serve(std::atoi(connection.c_str()));
  run_and_leave();
}
