#include "harness/run/process.h"

#include <fcntl.h>
#include <fmt/format.h>
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
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "harness/base/exit.h"
#include "harness/base/json.h"
#include "harness/base/text.h"
#include "harness/case/events.h"

namespace recapture::run {
namespace {

volatile std::sig_atomic_t stop_requested = 0;
std::set<pid_t> kept;  // Our servers; every other child left after a test is its orphan.

using Clock = std::chrono::steady_clock;

double since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// How long to wait after SIGKILL: a process that hangs in a driver cannot be killed.
double patience_s() { return interrupted() ? 0.3 : 10; }
constexpr double kLast_s = 1;  // If it was already waited for.

std::vector<pid_t> children() {
  std::vector<pid_t> all;
  std::error_code error;
  for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task", error)) {
    std::ifstream list(thread.path() / "children");
    for (pid_t child = 0; list >> child;) all.push_back(child);
  }
  return all;
}

int pidfd_of(pid_t process) { return static_cast<int>(syscall(SYS_pidfd_open, process, 0)); }

// Waits for a child to end, which makes its pidfd readable.
bool reaped(pid_t child, double most_s) {
  const int fd = pidfd_of(child);
  pollfd wait{fd, POLLIN, 0};
  poll(&wait, 1, std::max(0, static_cast<int>(1000 * most_s)));
  if (fd >= 0) close(fd);
  return process::reap(child).has_value();
}

bool is_orphan(pid_t child) { return kept.count(child) == 0; }

// Kills the children that are `ours`. A dead orphan's children become ours, so it repeats until there are none. Returns
// a child that could not be killed, or 0.
pid_t kill_children(double most_s, const std::function<bool(pid_t)>& ours) {
  constexpr int kAgain_ms = 10;
  const auto start = Clock::now();
  for (;;) {
    std::vector<pid_t> all = children();
    std::erase_if(all, [&](pid_t child) { return !ours(child); });
    for (pid_t child : all) kill(child, SIGKILL);
    bool left = false;
    for (pid_t child : all) left = !reaped(child, std::min(most_s, patience_s()) - since(start)) || left;
    if (all.empty()) return 0;
    if (since(start) > std::min(most_s, patience_s())) return all.back();
    if (left) poll(nullptr, 0, kAgain_ms);
  }
}

void parse_events(const std::string& text, Observation& seen) {
  for (size_t at = 0; at < text.size();) {
    const size_t end = text.find('\n', at);
    if (end == std::string::npos) break;  // An incomplete line does not count.
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

bool is_multicast(std::string_view name) { return contains(kMulticastVariables, name); }

// Variables of the machine: which GPUs to use, and where their libraries are.
bool is_of_machine(std::string_view name) {
  static const std::set<std::string_view> kNames = {"CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER",
                                                    "NVIDIA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES",
                                                    "LD_LIBRARY_PATH"};
  return kNames.count(name) != 0 || is_multicast(name) || begins_with_any(name, {"LANG", "LC_"});
}

// The variables that a started program inherits: those of the machine, the user, the scheduler, a sanitizer, and
// Recapture's own except for the runner's descriptor.
bool passes(std::string_view name) {
  static const std::set<std::string_view> kNames = {
      "PATH", "TERM", "TZ", "USER", "LOGNAME", "ASAN_OPTIONS", "LSAN_OPTIONS", "TSAN_OPTIONS", "UBSAN_OPTIONS"};
  return name != kEventsVariable && (is_of_machine(name) || kNames.count(name) != 0 ||
                                     begins_with_any(name, {"SLURM_", "PBS_", "LSB_", "RECAPTURE_"}));
}

// Our variables, by name.
std::map<std::string, std::string> variables_if(const std::function<bool(std::string_view)>& chosen) {
  std::map<std::string, std::string> all;
  // glibc's own name for environ: in a program that Zig links for an older glibc, environ is another object and NULL.
  for (char** variable = __environ; *variable != nullptr; ++variable) {
    const std::string_view text = *variable;
    const size_t equals = std::min(text.find('='), text.size());
    if (chosen(text.substr(0, equals)))
      all.emplace(text.substr(0, equals), text.substr(std::min(equals + 1, text.size())));
  }
  return all;
}

std::vector<std::string> environment_for(const Program& program, const Scratch& scratch) {
  std::map<std::string, std::string> all = variables_if(passes);
  for (const auto& [name, value] : scratch.variables()) all[name] = value;
  for (const auto& [name, value] : program.environment) all[name] = value;
  for (const char* name : kMulticastVariables) all.erase(name);
  all.merge(variables_if(is_multicast));
  std::vector<std::string> lines;
  lines.reserve(all.size());
  for (const auto& [name, value] : all) lines.push_back(fmt::format("{}={}", name, value));
  return lines;
}

std::vector<char*> pointers(std::vector<std::string>& strings) {
  std::vector<char*> all;
  all.reserve(strings.size() + 1);
  for (std::string& s : strings) all.push_back(s.data());
  all.push_back(nullptr);
  return all;
}

// Like process::watch, but leaves the text of the second pipe unparsed.
Observation watch_text(process::Pipe& output, process::Pipe& other, std::string& events, double deadline_s,
                       const process::Watched& watched) {
  constexpr int kLook_ms = 10;     // Poll interval without a wake-up descriptor,
  constexpr int kAsleep_ms = 100;  // and with one: a signal may come just before poll.
  using process::drain;
  const auto start = Clock::now();
  Observation seen;
  std::optional<int> status;
  bool killed = false;
  size_t event_bytes = 0;
  double most_s = deadline_s;
  int open_output = output.read, open_other = other.read;
  while (!status) {
    double left = most_s - since(start);
    if (!killed && (left <= 0 || interrupted())) {
      killed = true;
      watched.kill();
      left = patience_s();
      most_s = since(start) + left;
    }
    if (left <= 0) break;
    std::array<pollfd, 3> fds{{{open_output, POLLIN, 0}, {open_other, POLLIN, 0}, {watched.wake, POLLIN, 0}}};
    const int most_ms = watched.wake >= 0 ? kAsleep_ms : kLook_ms;
    poll(fds.data(), fds.size(), std::min(static_cast<int>(std::min(left, 1.0) * 1000) + 1, most_ms));
    seen.output_bytes += drain(output.read, seen.last_words, kOutputTail);
    event_bytes += drain(other.read, events, kMostEvents / 2);
    status = watched.ended();
    if ((fds[0].revents & POLLHUP) != 0) open_output = -1;  // A closed pipe would stay readable.
    if ((fds[1].revents & POLLHUP) != 0) open_other = -1;
  }
  seen.seconds = since(start);
  if (!status) watched.give_up();
  seen.stuck = kill_children(status ? patience_s() : kLast_s, is_orphan);
  seen.output_bytes += drain(output.read, seen.last_words, kOutputTail);
  event_bytes += drain(other.read, events, kMostEvents / 2);
  seen.events_lost = event_bytes > events.size();
  if (seen.last_words.size() > kOutputTail) seen.last_words.erase(0, seen.last_words.size() - kOutputTail);
  if (killed) {
    seen.ending = Observation::Ending::Deadline;
  } else if (status) {
    set_ending(*status, seen);
  }
  return seen;
}

// A test inherits no descriptor of ours or the user's. By system call: close_range() is newer than a wheel's glibc;
// some kernels lack the call too.
void keep_descriptors_from_exec() {
  constexpr unsigned kCloseOnExec = 4;  // CLOSE_RANGE_CLOEXEC
  constexpr int kMost = 1024;
  if (syscall(SYS_close_range, 3, ~0U, kCloseOnExec) == 0) return;
  for (int fd = 3; fd < kMost; ++fd) fcntl(fd, F_SETFD, FD_CLOEXEC);
}

// For a child after fork, where strerror() may wait for a lock that no thread will release.
const std::vector<std::string>& texts_of_errors() {
  static const std::vector<std::string> kTexts = [] {
    std::vector<std::string> texts;
    for (int number = 0; number <= EHWPOISON; ++number) texts.emplace_back(std::strerror(number));
    return texts;
  }();
  return kTexts;
}

process::Watched a_child(pid_t child) {
  return {-1, [child] { return process::reap(child); }, [child] { kill(child, SIGKILL); }, [] {}};
}

Observation not_started(const std::string& why) {
  Observation seen;
  seen.last_words = "cannot start a process: " + why;
  return seen;
}

}  // namespace

namespace process {

Pipe::Pipe() {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) {
    throw ExitError(Exit::Infrastructure, fmt::format("cannot make a pipe for a test: {}", std::strerror(errno)));
  }
  read = ends[0];
  write = ends[1];
  fcntl(read, F_SETFL, O_NONBLOCK);
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
    if (total > 64 * most) return total;  // A flood: check the deadline before reading more.
  }
}

pid_t start(const Program& program, const Scratch& scratch, int out, int err, int inherit, int inherit_as,
            const std::string& variable) {
  Program full = program;
  if (!variable.empty()) full.environment[variable] = std::to_string(inherit_as);
  std::vector<std::string> words{full.path};
  words.insert(words.end(), full.arguments.begin(), full.arguments.end());
  std::vector<std::string> variables = environment_for(full, scratch);
  const auto argv = pointers(words), envp = pointers(variables);
  // Prepared before the fork: afterwards any lock may stay held by a thread that no longer exists.
  const std::string cannot = "cannot start " + full.path + ": ";
  const std::vector<std::string>& error_texts = texts_of_errors();
  const pid_t parent = getpid(), child = fork();
  if (child != 0) return child;
  setsid();  // Separates it from the terminal.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(127);                                    // The parent died before PR_SET_PDEATHSIG.
  for (int number = 1; number < NSIG; ++number) signal(number, SIG_DFL);  // Ignored signals would stay ignored.
  keep_descriptors_from_exec();
  if (chdir(scratch.path().c_str()) != 0) _exit(127);
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
  const char* why = static_cast<size_t>(errno) < error_texts.size() ? error_texts[errno].c_str() : "?";
  for (const std::string_view part : {std::string_view(cannot), std::string_view(why), std::string_view("\n")}) {
    [[maybe_unused]] const ssize_t written = write(2, part.data(), part.size());
  }
  _exit(127);
}

Observation watch(Pipe& output, Pipe& events, double deadline_s, const Watched& watched) {
  std::string text;
  Observation seen = watch_text(output, events, text, deadline_s, watched);
  parse_events(text, seen);
  return seen;
}

std::optional<int> reap(pid_t child) {
  int status = 0;
  const pid_t got = waitpid(child, &status, WNOHANG);
  if (got == child) return status;
  if (got < 0 && errno == ECHILD) return SIGKILL;
  return std::nullopt;
}

bool kill_and_reap(pid_t child) {
  kill(child, SIGKILL);
  return reaped(child, patience_s());
}

void keep(pid_t pid) { kept.insert(pid); }
void keep_no_longer(pid_t pid) { kept.erase(pid); }
void stop_from_within() { stop_requested = 1; }

pid_t kill_orphans() { return kill_children(patience_s(), is_orphan); }

void kill_orphans_of_this_run() {
  const std::string folder = scratch_of_run();
  if (folder.empty()) return;
  kill_children(kLast_s, [&](pid_t child) {
    std::ifstream file(fmt::format("/proc/{}/environ", child), std::ios::binary);
    const std::string variables(std::istreambuf_iterator<char>(file), {});
    return variables.find("=" + folder + "/") != std::string::npos;
  });
}

}  // namespace process

using process::kInherited;
using process::Pipe;

std::map<std::string, std::string> variables_let_through() { return variables_if(is_of_machine); }

std::vector<std::string> variables_kept_out() {
  std::vector<std::string> names;
  const auto counts = [](std::string_view name) {
    return begins_with_any(name, {"CUBLAS", "CUDA_", "CUDNN_", "GTEST_", "LD_", "NCCL_", "NVIDIA_", "NVSHMEM_", "OMP_",
                                  "PYTORCH_", "TORCH", "TRITON_"}) &&
           !passes(name) && !belongs_to_scratch(std::string(name));
  };
  for (const auto& [name, value] : variables_if(counts)) names.push_back(name);
  return names;
}

bool interrupted() { return stop_requested != 0; }

void become_subreaper() {
  struct sigaction action {};
  action.sa_handler = [](int) { stop_requested = 1; };  // No SA_RESTART: a waiting poll must return.
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  struct sigaction inherited {};
  sigaction(SIGHUP, nullptr, &inherited);
  if (inherited.sa_handler != SIG_IGN) sigaction(SIGHUP, &action, nullptr);  // Not under nohup.
  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN);  // At a file size limit write() then fails.
  signal(SIGCHLD, SIG_DFL);  // If it were ignored, a child's status would be lost.
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  prctl(PR_SET_CHILD_SUBREAPER, 1);
}

Observation execute(const Program& program, double deadline_s) {
  const Scratch scratch;
  Pipe output, events;
  const pid_t child =
      process::start(program, scratch, output.write, output.write, events.write, kInherited, kEventsVariable);
  if (child < 0) return not_started(std::strerror(errno));
  output.close_write();
  events.close_write();
  Observation seen = process::watch(output, events, deadline_s, a_child(child));
  seen.scratch = scratch.path();
  return seen;
}

namespace {

// Runs in a process between us and the program, which adopts everything that the program leaves behind, independently
// of our other work. Reports its observation in one line.
[[noreturn]] void guard(const Program& program, const Scratch& scratch, double deadline_s, int report) {
  Json reply;
  try {
    Pipe errors, answer;
    std::string text;
    Observation seen;
    const pid_t child = process::start(program, scratch, answer.write, errors.write, -1, -1, "");
    answer.close_write();
    errors.close_write();
    seen = child < 0 ? not_started(std::strerror(errno)) : watch_text(errors, answer, text, deadline_s, a_child(child));
    reply = {
        {"ending", static_cast<int>(seen.ending)}, {"code", seen.code}, {"words", seen.last_words}, {"answer", text}};
  } catch (const ExitError& stop) {
    reply = {{"ending", static_cast<int>(Observation::Ending::NotStarted)},
             {"code", 0},
             {"words", stop.what()},
             {"answer", ""}};
  }
  const std::string line = to_text(reply);
  for (size_t done = 0; done < line.size();) {
    const ssize_t put = write(report, line.data() + done, line.size() - done);
    if (put < 0 && errno != EINTR) break;
    if (put > 0) done += static_cast<size_t>(put);
  }
  _exit(0);
}

}  // namespace

namespace {

// One program to ask, and its guard.
class Question {
 public:
  Question(const Program& program, double deadline_s) : most_s_(deadline_s + kLonger_s) {
    const pid_t us = getpid();
    guard_ = fork();
    if (guard_ < 0) answer_ = {not_started(std::strerror(errno)), ""};
    if (guard_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGTERM);
      if (getppid() != us) _exit(1);
      prctl(PR_SET_CHILD_SUBREAPER, 1);
      guard(program, scratch_, deadline_s, report_.write);
    }
    if (guard_ > 0) ended_ = pidfd_of(guard_);
  }
  ~Question() {
    if (ended_ >= 0) close(ended_);
  }
  Question(const Question&) = delete;
  Question& operator=(const Question&) = delete;

  void add_to(std::vector<pollfd>& fds) const {
    fds.push_back({report_.read, POLLIN, 0});
    fds.push_back({ended_, POLLIN, 0});
  }

  // Its reply, once the guard has ended.
  std::optional<Reply> look() {
    if (answer_) return answer_;
    const double passed = since(start_);
    if (interrupted() && !std::exchange(told_, true)) {
      kill(guard_, SIGTERM);
      most_s_ = passed + 2 * patience_s();
    }
    if (passed > most_s_) kill(guard_, SIGKILL);
    const bool is_over = process::reap(guard_).has_value();
    process::drain(report_.read, text_, 2 * kMostEvents);
    if (is_over) answer_ = answer();
    return answer_;
  }

 private:
  static constexpr double kLonger_s = 15;  // Additional time for a guard that has to kill.

  Reply answer() const {
    const Json reply = Json::parse(text_, nullptr, false);
    Observation seen;
    seen.seconds = since(start_);
    seen.ending = Observation::Ending::Deadline;
    if (!reply.is_object()) return {seen, ""};
    seen.ending = static_cast<Observation::Ending>(reply.at("ending").get<int>());
    seen.code = reply.at("code");
    seen.last_words = reply.at("words");
    return {seen, reply.at("answer")};
  }

  const Clock::time_point start_ = Clock::now();
  const Scratch scratch_;
  process::Pipe report_;
  double most_s_;
  pid_t guard_ = -1;
  int ended_ = -1;
  bool told_ = false;
  std::string text_;
  std::optional<Reply> answer_;
};

}  // namespace

// Without threads: in a forked child, a lock held by another thread stays held forever.
std::vector<Reply> ask(const std::vector<Program>& programs, size_t width, double deadline_s) {
  std::vector<Reply> answers(programs.size());
  std::map<size_t, std::unique_ptr<Question>> open;
  const auto more = [&](size_t next) { return next < programs.size() && !interrupted(); };
  for (size_t next = 0; more(next) || !open.empty();) {
    if (more(next) && open.size() < std::max<size_t>(width, 1)) {
      open[next] = std::make_unique<Question>(programs[next], deadline_s);
      ++next;
      continue;
    }
    std::vector<pollfd> fds;
    for (const auto& [i, question] : open) question->add_to(fds);
    poll(fds.data(), fds.size(), 100);
    for (auto at = open.begin(); at != open.end();) {
      const std::optional<Reply> answer = at->second->look();
      if (answer) answers[at->first] = *answer;
      at = answer ? open.erase(at) : std::next(at);
    }
  }
  return answers;
}

Reply ask(const Program& program, double deadline_s) { return ask({program}, 1, deadline_s).front(); }

}  // namespace recapture::run
