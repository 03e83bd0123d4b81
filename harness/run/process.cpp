#include "harness/run/process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <fstream>
#include <functional>
#include <optional>
#include <set>

#include "harness/case/events.h"

extern char** environ;  // NOLINT(readability-redundant-declaration): POSIX asks the user to declare it.

namespace recapture {
namespace {

volatile std::sig_atomic_t stop_requested = 0;
std::set<pid_t> kept;  // Our servers; every other child that is still there after a test is an orphan of it.

using Clock = std::chrono::steady_clock;

double since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// Kills what a test left: its process group, and orphans that have left the group (they are our children by adoption).
// An orphan's own children become ours once it is dead, so we look until there are none.
void kill_leftovers(pid_t group) {
  constexpr double kPatience_s = 10;  // A process that hangs in a driver cannot be killed; the next test need not wait.
  if (group > 0) kill(-group, SIGKILL);
  const auto start = Clock::now();
  for (bool some = true; some && since(start) < kPatience_s;) {
    some = false;
    std::ifstream children("/proc/self/task/" + std::to_string(getpid()) + "/children");
    for (pid_t child = 0; children >> child;) {
      if (kept.count(child) != 0) continue;
      some = true;
      kill(child, SIGKILL);
      const int ended = static_cast<int>(syscall(SYS_pidfd_open, child, 0));  // Readable once it has.
      pollfd wait{ended, POLLIN, 0};
      poll(&wait, 1, static_cast<int>(1000 * std::max(0.0, kPatience_s - since(start))));
      if (ended >= 0) close(ended);
      waitpid(child, nullptr, WNOHANG);
    }
  }
}

void parse_events(const std::string& text, Observation& seen) {
  for (size_t at = 0; at < text.size();) {
    const size_t end = text.find('\n', at);
    if (end == std::string::npos) break;  // A line that was never finished was never said.
    auto event = parse_event(std::string_view(text).substr(at, end - at));
    if (!event.first.empty()) seen.events.push_back(std::move(event));
    at = end + 1;
  }
}

void set_ending(int status, Observation& seen) {
  const bool signalled = WIFSIGNALED(status);
  seen.ending = signalled ? Observation::Ending::Signal : Observation::Ending::Exited;
  seen.code = signalled ? WTERMSIG(status) : WEXITSTATUS(status);
}

// Variables that change what LibTorch, CUDA or GoogleTest does. Those of GoogleTest would change what a test is.
bool is_taken(const std::string& name) {
  static const std::set<std::string> kTaken = {"CUDA_LAUNCH_BLOCKING",
                                               "CUDA_MODULE_LOADING",
                                               "CUDA_INJECTION64_PATH",
                                               "PYTORCH_CUDA_ALLOC_CONF",
                                               "PYTORCH_ALLOC_CONF",
                                               "PYTORCH_NO_CUDA_MEMORY_CACHING",
                                               "CUBLAS_WORKSPACE_CONFIG",
                                               "TORCH_SHOW_CPP_STACKTRACES",
                                               "TORCH_CPP_LOG_LEVEL",
                                               "GTEST_FILTER",
                                               "GTEST_OUTPUT",
                                               "GTEST_REPEAT",
                                               "GTEST_SHUFFLE",
                                               "GTEST_TOTAL_SHARDS",
                                               kEventsVariable};
  return kTaken.count(name) != 0;
}

std::string name_of_variable(const char* variable) { return {variable, std::strcspn(variable, "=")}; }

std::vector<std::string> environment_for(const Program& program) {
  std::vector<std::string> all;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string name = name_of_variable(*variable);
    if (!is_taken(name) && program.environment.count(name) == 0) all.emplace_back(*variable);
  }
  for (const auto& [name, value] : program.environment) {
    std::string variable = name;
    all.push_back(variable.append("=").append(value));
  }
  return all;
}

std::vector<char*> pointers(std::vector<std::string>& strings) {
  std::vector<char*> all;
  all.reserve(strings.size() + 1);
  for (std::string& s : strings) all.push_back(s.data());
  all.push_back(nullptr);
  return all;
}

std::optional<int> reap_child(pid_t child, bool wait) {
  int status = 0;
  const pid_t got = waitpid(child, &status, wait ? 0 : WNOHANG);
  if (got == child) return status;
  if (got < 0 && errno == ECHILD) return 0;
  return std::nullopt;
}

}  // namespace

namespace process {

Pipe::Pipe() {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) == 0) {
    read = ends[0];
    write = ends[1];
    fcntl(read, F_SETFL, O_NONBLOCK);
  }
}

Pipe::~Pipe() {
  close_write();
  if (read >= 0) close(read);
}

void Pipe::close_write() {
  if (write >= 0) close(write);
  write = -1;
}

size_t drain(int fd, std::string& text, size_t most) {
  std::array<char, 16384> buffer{};
  size_t total = 0;
  for (;;) {
    const ssize_t got = read(fd, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return total;
    text.append(buffer.data(), static_cast<size_t>(got));
    if (text.size() > 2 * most) text.erase(0, text.size() - most);
    total += static_cast<size_t>(got);
    if (total > 64 * most) return total;  // A flood: look at the deadline before reading on.
  }
}

pid_t start(const Program& program, int out, int err, int inherit, int inherit_as, const std::string& variable) {
  Program full = program;
  if (!variable.empty()) full.environment[variable] = std::to_string(inherit_as);
  std::vector<std::string> words{full.path};
  words.insert(words.end(), full.arguments.begin(), full.arguments.end());
  std::vector<std::string> variables = environment_for(full);
  const auto argv = pointers(words), envp = pointers(variables);
  // All that the child needs is made before the fork: afterwards another thread may hold any lock for ever.
  const std::string cannot = "cannot start " + full.path + ": ";
  const pid_t parent = getpid(), child = fork();
  if (child != 0) return child;
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(127);  // It died before it could take us along.
  signal(SIGINT, SIG_DFL);
  signal(SIGTERM, SIG_DFL);
  signal(SIGPIPE, SIG_DFL);
  const int nothing = open("/dev/null", O_RDONLY);
  dup2(nothing, 0);
  dup2(out, 1);
  dup2(err, 2);
  if (inherit >= 0) {
    if (inherit == inherit_as) {
      fcntl(inherit, F_SETFD, 0);
    } else {
      dup2(inherit, inherit_as);
    }
  }
  execve(full.path.c_str(), argv.data(), envp.data());
  const char* why = strerrordesc_np(errno);
  for (const std::string_view part :
       {std::string_view(cannot), std::string_view(why ? why : "?"), std::string_view("\n")}) {
    [[maybe_unused]] const ssize_t written = write(2, part.data(), part.size());
  }
  _exit(127);
}

Observation watch(pid_t group, Pipe& output, Pipe& events, double deadline_s, int wake,
                  const std::function<std::optional<int>(bool wait)>& reap) {
  constexpr int kLook_ms = 10;  // How often reap is asked where nothing wakes us.
  const auto start = Clock::now();
  Observation seen;
  std::string said;
  std::optional<int> status;
  bool killed = false;
  int open_output = output.read, open_events = events.read;
  while (!status) {
    const double left = deadline_s - since(start);
    if (left <= 0 || interrupted()) {
      killed = true;
      kill(-group, SIGKILL);
      status = reap(true);
      break;
    }
    const int left_ms = static_cast<int>(left * 1000) + 1;
    std::array<pollfd, 3> fds{{{open_output, POLLIN, 0}, {open_events, POLLIN, 0}, {wake, POLLIN, 0}}};
    poll(fds.data(), fds.size(), wake >= 0 ? left_ms : std::min(left_ms, kLook_ms));
    seen.output_bytes += drain(output.read, seen.last_words, kLastWords);
    drain(events.read, said, kMostEvents);
    status = reap(false);
    if ((fds[0].revents & POLLHUP) != 0) open_output = -1;  // A closed pipe would be readable for ever.
    if ((fds[1].revents & POLLHUP) != 0) open_events = -1;
  }
  seen.seconds = since(start);
  kill_leftovers(group);
  seen.output_bytes += drain(output.read, seen.last_words, kLastWords);
  drain(events.read, said, kMostEvents);
  if (seen.last_words.size() > kLastWords) seen.last_words.erase(0, seen.last_words.size() - kLastWords);
  parse_events(said, seen);
  if (killed) {
    seen.ending = Observation::Ending::Deadline;
  } else if (status) {
    set_ending(*status, seen);
  }
  return seen;
}

void keep(pid_t pid) { kept.insert(pid); }
void keep_no_longer(pid_t pid) { kept.erase(pid); }
void kill_orphans() { kill_leftovers(0); }
void stop_from_within() { stop_requested = 1; }

}  // namespace process

using process::kInherited;
using process::Pipe;

std::map<std::string, std::string> variables_let_through() {
  constexpr std::array<std::string_view, 7> kOfInterest = {"CUDA_",    "CUBLAS_",  "CUDNN_", "NCCL_",
                                                           "NVSHMEM_", "PYTORCH_", "TORCH_"};
  std::map<std::string, std::string> all;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string name = name_of_variable(*variable);
    const bool counts = std::any_of(kOfInterest.begin(), kOfInterest.end(),
                                    [&](std::string_view start) { return name.rfind(start, 0) == 0; });
    if (counts && !is_taken(name)) all[name] = *variable + name.size() + 1;
  }
  return all;
}

bool interrupted() { return stop_requested != 0; }

void own_the_processes() {
  struct sigaction action {};
  action.sa_handler = [](int) { stop_requested = 1; };  // No SA_RESTART: a poll that waits must return.
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  signal(SIGPIPE, SIG_IGN);
  prctl(PR_SET_CHILD_SUBREAPER, 1);
}

Observation execute(const Program& program, double deadline_s) {
  Pipe output, events;
  const pid_t child = process::start(program, output.write, output.write, events.write, kInherited, kEventsVariable);
  if (child < 0) return {};
  output.close_write();
  events.close_write();
  return process::watch(child, output, events, deadline_s, -1, [&](bool wait) { return reap_child(child, wait); });
}

std::pair<Observation, std::string> ask(const Program& program, double deadline_s) {
  Pipe errors, answer;  // The answer takes the place of the events and is kept as text.
  const pid_t child = process::start(program, answer.write, errors.write, -1, -1, "");
  if (child < 0) return {};
  answer.close_write();
  errors.close_write();
  const auto begin = Clock::now();
  std::string text, words;
  Observation seen;
  std::optional<int> status;
  while (!status) {
    if (since(begin) > deadline_s || interrupted()) {
      kill(-child, SIGKILL);
      reap_child(child, true);
      seen.ending = Observation::Ending::Deadline;
      return {seen, text};
    }
    std::array<pollfd, 2> fds{{{answer.read, POLLIN, 0}, {errors.read, POLLIN, 0}}};
    poll(fds.data(), fds.size(), 10);
    process::drain(answer.read, text, kMostEvents);
    process::drain(errors.read, words, kLastWords);
    status = reap_child(child, false);
  }
  process::drain(answer.read, text, kMostEvents);
  process::drain(errors.read, words, kLastWords);
  set_ending(*status, seen);
  seen.last_words = words;
  return {seen, text};
}

}  // namespace recapture
