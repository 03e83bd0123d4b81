#include "harness/run/pool.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>

#include "harness/run/process.h"

namespace recapture::run {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kLook_ms = 100;  // A signal may come just before poll; this limits the delay.
constexpr auto kPatience = std::chrono::milliseconds(700);  // For a worker to end; Ctrl-C then takes a second.

// False if the other side is gone, or we must stop.
bool send_line(int connection, std::string text) {
  text += '\n';
  for (size_t done = 0; done < text.size();) {
    const ssize_t put = send(connection, text.data() + done, text.size() - done, MSG_NOSIGNAL);
    if (put >= 0) {
      done += static_cast<size_t>(put);
    } else if (errno != EINTR || interrupted()) {
      return false;
    }
  }
  return true;
}

}  // namespace

Pool::Pool(size_t width, Work work, std::function<void()> leave, Hear hear, std::function<void()> between)
    : work_(std::move(work)), leave_(std::move(leave)), hear_(std::move(hear)), between_(std::move(between)) {
  std::fflush(nullptr);  // Otherwise each worker would also flush the buffer.
  const pid_t runner = getpid();
  for (size_t i = 0; i < width; ++i) {
    std::array<int, 2> ends{};
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) break;
    const pid_t pid = fork();
    if (pid == 0) {
      // Not SIGKILL: a worker that outlives the runner must still kill its test's processes.
      prctl(PR_SET_PDEATHSIG, SIGTERM);
      if (getppid() != runner) _exit(1);
      prctl(PR_SET_CHILD_SUBREAPER, 1);
      close(ends[0]);
      for (const Worker& other : workers_) close(other.connection);
      serve(i, ends[1]);
    }
    close(ends[1]);  // Before the next fork: a worker's end is noticed only if no other process holds its connection.
    if (pid < 0) {
      close(ends[0]);
      break;
    }
    workers_.push_back({pid, ends[0], "", std::nullopt});
  }
  if (workers_.empty()) throw ExitError(Exit::Infrastructure, "cannot start a process for the tests");
}

Pool::~Pool() { end(false); }

void Pool::serve(size_t index, int connection) {
  // Returns once the runner has handled it: a test's result is on disk before the next test begins.
  const Say say = [connection](const Json& message) {
    char acknowledged = 0;
    ssize_t got = send_line(connection, to_text(message)) ? -1 : 0;
    while (got < 0 && !interrupted()) {
      got = recv(connection, &acknowledged, 1, 0);
      if (got < 0 && errno != EINTR) got = 0;
    }
    if (got == 0) process::stop_from_within();
  };
  std::string line;
  for (;;) {
    std::array<char, 64> buffer{};
    const ssize_t got = interrupted() ? 0 : recv(connection, buffer.data(), buffer.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    line.append(buffer.data(), static_cast<size_t>(got));
    if (line.back() != '\n') continue;  // Items are assigned one at a time.
    const size_t item = std::stoul(line);
    line.clear();
    try {
      work_(index, item, say);
      if (!interrupted()) say({{"done", item}});  // An interrupted item is not done.
    } catch (const ExitError& stop) {
      say({{"stop", stop.what()}, {"exit", static_cast<int>(stop.code)}});
    } catch (const std::exception& e) {
      say({{"stop", e.what()}, {"exit", static_cast<int>(Exit::Infrastructure)}});
    }
  }
  leave_();
  process::kill_orphans();
  // Skip the runner's buffers and destructors.
  _exit(interrupted() ? static_cast<int>(Exit::Interrupted) : 0);
}

void Pool::take(size_t index, const Json& message, std::optional<Failure>& failure) {
  if (message.contains("done")) {
    workers_[index].item.reset();
  } else if (message.contains("stop")) {
    if (!failure) failure = {static_cast<Exit>(message.at("exit").get<int>()), message.at("stop"), index};
  } else {
    hear_(index, message);
  }
}

void Pool::listen(size_t index, std::optional<Failure>& failure) {
  Worker& worker = workers_[index];
  std::array<char, 65536> buffer{};
  for (;;) {
    const ssize_t got = recv(worker.connection, buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return;
    if (got <= 0) break;
    worker.said.append(buffer.data(), static_cast<size_t>(got));
    size_t at = 0;
    for (size_t end = 0; (end = worker.said.find('\n', at)) != std::string::npos; at = end + 1) {
      const Json message = Json::parse(worker.said.substr(at, end - at), nullptr, false);
      if (message.is_object()) take(index, message, failure);
      send(worker.connection, "", 1, MSG_NOSIGNAL);
    }
    worker.said.erase(0, at);
  }
  // The worker is gone.
  close(worker.connection);
  worker.connection = -1;
  int status = 0;
  waitpid(worker.pid, &status, 0);
  worker.pid = -1;
  if (failure) return;
  failure = {Exit::Infrastructure,
             WIFSIGNALED(status) ? fmt::format("a process that runs tests was killed by signal {}", WTERMSIG(status))
                                 : fmt::format("a process that runs tests left with {}", WEXITSTATUS(status)),
             index};
}

void Pool::wait_for_something(int most_ms) {
  std::vector<pollfd> fds;
  for (const Worker& worker : workers_) {
    fds.push_back({worker.connection, POLLIN, 0});
    siginfo_t stopped{};  // By a test that sent a signal too widely.
    const bool is_stopped = worker.pid > 0 &&
                            waitid(P_PID, static_cast<id_t>(worker.pid), &stopped, WSTOPPED | WNOHANG) == 0 &&
                            stopped.si_pid == worker.pid;
    if (is_stopped) kill(worker.pid, SIGCONT);
  }
  poll(fds.data(), fds.size(), most_ms);
}

std::optional<Pool::Failure> Pool::run(const std::vector<size_t>& items, size_t width) {
  std::optional<Failure> failure;
  width = std::min(width, workers_.size());
  size_t next = 0;
  while (!interrupted() && !failure) {
    bool busy = false;
    for (size_t i = 0; i < width; ++i) {
      Worker& worker = workers_[i];
      if (!worker.item && next < items.size()) {
        worker.item = items[next++];
        send_line(worker.connection, std::to_string(*worker.item));  // If the worker is gone, reading will show it.
      }
      busy = busy || worker.item.has_value();
    }
    if (!busy) break;
    between_();
    wait_for_something(kLook_ms);
    for (size_t i = 0; i < workers_.size(); ++i) {
      if (workers_[i].connection >= 0) listen(i, failure);
    }
  }
  return failure;
}

void Pool::stop() { end(true); }

void Pool::end(bool listening) {
  const auto alive = [](const Worker& worker) { return worker.connection >= 0; };
  for (const Worker& worker : workers_) {
    if (!alive(worker)) continue;
    kill(worker.pid, SIGTERM);
    shutdown(worker.connection, SHUT_WR);  // A signal just before the worker reads would not wake it.
  }
  if (!listening) hear_ = [](size_t, const Json&) {};
  std::optional<Failure> ended{Failure{Exit::Interrupted, "", 0}};  // Their end is no failure now.
  const auto until = Clock::now() + kPatience;
  while (std::ranges::any_of(workers_, alive)) {
    if (Clock::now() > until) {
      for (const Worker& worker : workers_) {
        if (alive(worker)) kill(worker.pid, SIGKILL);
      }
    }
    wait_for_something(10);
    for (size_t i = 0; i < workers_.size(); ++i) {
      if (alive(workers_[i])) listen(i, ended);
    }
  }
  process::kill_orphans_of_this_run();  // Orphans of a killed worker are now ours.
  workers_.clear();
}

}  // namespace recapture::run
