#include "harness/run/server.h"

#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <optional>

namespace recapture {

Server::Server(const Program& program) {
  std::array<int, 2> ends{};
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) return;
  connection_ = ends[0];
  process::Pipe output;
  Program serving = program;
  serving.arguments.push_back("--serve=" + std::to_string(process::kInherited));
  pid_ = process::start(serving, output.write, output.write, ends[1], process::kInherited, "");
  close(ends[1]);
  output.close_write();
  if (pid_ < 0) return;
  process::keep(pid_);
  std::array<char, 64> answer{};
  ssize_t got = 0;
  do got = recv(connection_, answer.data(), answer.size(), 0);
  while (got < 0 && errno == EINTR && !interrupted());
  if (got <= 0) end();
}

Server::~Server() { end(); }

void Server::end() {
  if (connection_ >= 0) close(connection_);
  connection_ = -1;
  if (pid_ > 0) {
    kill(-pid_, SIGKILL);
    process::keep_no_longer(pid_);
    waitpid(pid_, nullptr, 0);
  }
  pid_ = -1;
}

Observation Server::run(const std::string& test, double deadline_s) {
  process::Pipe output, events;
  std::string name = test;
  iovec text{name.data(), name.size()};
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
  const std::array<int, 2> descriptors{output.write, events.write};
  std::memcpy(CMSG_DATA(rights), descriptors.data(), sizeof descriptors);
  if (sendmsg(connection_, &message, MSG_NOSIGNAL) < 0) {
    end();
    return {};
  }
  output.close_write();
  events.close_write();

  const auto hear = [&](bool wait) -> std::string {
    std::array<char, 64> line{};
    ssize_t got = 0;
    do got = recv(connection_, line.data(), line.size(), wait ? 0 : MSG_DONTWAIT);
    while (got < 0 && errno == EINTR);
    if (got == 0) return "gone";
    return got < 0 ? "" : std::string(line.data(), static_cast<size_t>(got));
  };
  const std::string started = hear(true);
  if (started.rfind("started ", 0) != 0) {
    end();
    return {};
  }
  bool gone = false;
  Observation seen = process::watch(std::stoi(started.substr(8)), output, events, deadline_s, connection_,
                                    [&](bool wait) -> std::optional<int> {
                                      const std::string line = hear(wait);
                                      if (line.rfind("ended ", 0) == 0) return std::stoi(line.substr(6));
                                      gone = line == "gone";
                                      return gone ? std::optional<int>(SIGKILL) : std::nullopt;
                                    });
  if (gone) end();
  return seen;
}

}  // namespace recapture
