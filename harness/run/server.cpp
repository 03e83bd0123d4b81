#include "harness/run/server.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <fstream>
#include <optional>

namespace recapture::run {
namespace {

constexpr double kReady_s = 120;   // Reading LibTorch from a cold disk takes long.
constexpr double kStarted_s = 10;  // It only forks.

// The number in a line such as "ended 11", if there is nothing else.
std::optional<int> number_after(const std::string& word, const std::string& line) {
  int number = 0;
  if (line.rfind(word + " ", 0) != 0) return std::nullopt;
  const char *from = line.data() + word.size() + 1, *end = line.data() + line.size();
  const auto [at, error] = std::from_chars(from, end, number);
  return error == std::errc() && at == end && from != end ? std::optional(number) : std::nullopt;
}

pid_t parent_of(pid_t process) {
  std::ifstream file(fmt::format("/proc/{}/status", process));
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("PPid:\t", 0) == 0) return number_after("PPid:", "PPid: " + line.substr(6)).value_or(0);
  }
  return 0;
}

// Identifies a process: its number may be reused before we use it.
class Pidfd {
 public:
  // Only for a child of `parent`; the number may already be reused.
  Pidfd(pid_t process, pid_t parent) : fd_(static_cast<int>(syscall(SYS_pidfd_open, process, 0))) {
    if (fd_ >= 0 && parent_of(process) != parent) close(std::exchange(fd_, -1));
  }
  ~Pidfd() {
    if (fd_ >= 0) close(fd_);
  }
  Pidfd(const Pidfd&) = delete;
  Pidfd& operator=(const Pidfd&) = delete;

  explicit operator bool() const { return fd_ >= 0; }
  void kill() const { syscall(SYS_pidfd_send_signal, fd_, SIGKILL, nullptr, 0); }

 private:
  int fd_;
};

}  // namespace

Server::Server(const Program& program) {
  std::array<int, 2> ends{};
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) return;
  connection_ = ends[0];
  // Output before or between tests belongs to no test, and must not block on a reader.
  const int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
  Program serving = program;
  serving.arguments.push_back("--serve=" + std::to_string(process::kInherited));
  if (nowhere >= 0) pid_ = process::start(serving, scratch_, nowhere, nowhere, ends[1], process::kInherited, "");
  if (nowhere >= 0) close(nowhere);
  close(ends[1]);
  if (pid_ > 0) process::keep(pid_);
  if (pid_ > 0 && hear(kReady_s) != "ready") end();
}

Server::~Server() {
  const bool was_alive = alive();
  end();
  if (was_alive) process::kill_orphans();
}

void Server::end() {
  if (connection_ >= 0) close(connection_);
  connection_ = -1;
  if (pid_ > 0) {
    process::keep_no_longer(pid_);
    process::kill_and_reap(pid_);
  }
  pid_ = -1;
}

std::string Server::hear(double most_s) const {
  constexpr int kLook_ms = 100;  // A signal may come just before poll.
  const auto start = std::chrono::steady_clock::now();
  for (;;) {
    std::array<char, 64> line{};
    const ssize_t got = recv(connection_, line.data(), line.size(), MSG_DONTWAIT);
    if (got > 0) return {line.data(), static_cast<size_t>(got)};
    if (got == 0 || (errno != EINTR && errno != EAGAIN)) return "gone";
    const double left = most_s - std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (left <= 0 || interrupted()) return "";
    pollfd one{connection_, POLLIN, 0};
    poll(&one, 1, std::min(kLook_ms, static_cast<int>(left * 1000) + 1));
  }
}

// The test's name, then a line for each of its own variables; two descriptors are attached.
bool Server::request(const std::string& test, const std::string& folder,
                     const std::map<std::string, std::string>& variables, int output, int events) const {
  std::string words = test + "\n" + folder;
  for (const auto& [name, value] : variables) words += fmt::format("\n{}={}", name, value);
  iovec text{words.data(), words.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(2 * sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &text;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  cmsghdr* rights = CMSG_FIRSTHDR(&message);
  rights->cmsg_level = SOL_SOCKET;
  rights->cmsg_type = SCM_RIGHTS;
  rights->cmsg_len = CMSG_LEN(2 * sizeof(int));
  const std::array<int, 2> descriptors{output, events};
  std::memcpy(CMSG_DATA(rights), descriptors.data(), sizeof descriptors);
  return sendmsg(connection_, &message, MSG_NOSIGNAL) >= 0;
}

Observation Server::run(const std::string& test, double deadline_s,
                        const std::map<std::string, std::string>& variables) {
  const Scratch scratch;
  std::map<std::string, std::string> all = variables;
  for (const auto& [name, value] : scratch.variables()) all[name] = value;
  process::Pipe output, events;
  const auto broken = [&](const std::string& why) {
    end();
    process::kill_orphans();  // Its children are ours now.
    Observation seen;
    seen.last_words = why;
    return seen;
  };
  if (!request(test, scratch.path(), all, output.write, events.write)) return broken("the case's server is gone");
  output.close_write();
  events.close_write();
  const std::string started = hear(kStarted_s);
  const std::optional<int> number = number_after("started", started);
  if (!number) return broken(fmt::format("the case's server started no test; it said '{}'", started));
  const Pidfd child(*number, pid_);  // Empty if the test has already ended, or the number is not one of its children.

  std::string last;  // The server's last line.
  process::Watched watched;
  watched.wake = connection_;
  watched.ended = [&]() -> std::optional<int> {
    const std::string line = hear(0);
    if (line.empty()) return std::nullopt;
    last = line;
    return number_after("ended", line).value_or(SIGKILL);
  };
  watched.kill = [&] {
    if (pid_ > 0) kill(pid_, SIGCONT);  // The test may have stopped the server, which must report the test's end.
    child ? child.kill() : end();
  };
  watched.give_up = [&] { end(); };
  Observation seen = process::watch(output, events, deadline_s, watched);
  seen.scratch = scratch.path();
  if (last.empty() || number_after("ended", last)) return seen;
  end();
  if (last != "gone") return broken(fmt::format("the case's server said '{}' of a test's end", last));
  return seen;
}

}  // namespace recapture::run
