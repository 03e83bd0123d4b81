#include "harness/blame/launch.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include "harness/base/escape.h"
#include "harness/base/exit.h"

namespace recapture::blame {
namespace {

constexpr std::array kSentOn = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};

volatile pid_t program = 0;

// Forwards a signal. One from the terminal reaches the program anyway.
void send_on(int number, siginfo_t* info, void*) {
  if (info->si_code != SI_KERNEL && program > 0) kill(program, number);
}

[[noreturn]] void become(const std::vector<std::string>& words, const std::map<std::string, std::string>& variables,
                         const sigset_t& mask, pid_t parent, int failed) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // If we are killed, the program must end too.
  if (getppid() != parent) _exit(127);
  for (const auto& [name, value] : variables) setenv(name.c_str(), value.c_str(), 1);
  std::vector<char*> argv;
  argv.reserve(words.size() + 1);
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  sigprocmask(SIG_SETMASK, &mask, nullptr);
  execvp(argv[0], argv.data());
  const int error = errno;
  [[maybe_unused]] const ssize_t written = write(failed, &error, sizeof error);
  _exit(127);
}

}  // namespace

int launch(const std::vector<std::string>& words, const std::map<std::string, std::string>& variables) {
  std::array<int, 2> failed{};
  if (pipe2(failed.data(), O_CLOEXEC) != 0) {
    throw ExitError(Exit::Infrastructure, fmt::format("cannot make a pipe: {}", std::strerror(errno)));
  }
  sigset_t ours, before;
  sigemptyset(&ours);
  for (const int number : kSentOn) sigaddset(&ours, number);
  sigprocmask(SIG_BLOCK, &ours, &before);
  const pid_t parent = getpid(), child = fork();
  if (child < 0) throw ExitError(Exit::Infrastructure, fmt::format("cannot start a process: {}", std::strerror(errno)));
  if (child == 0) become(words, variables, before, parent, failed[1]);
  close(failed[1]);
  program = child;
  for (const int number : kSentOn) {
    struct sigaction action {};
    sigaction(number, nullptr, &action);
    if (action.sa_handler == SIG_IGN) continue;  // The program ignores it too, as under nohup.
    action = {};
    action.sa_sigaction = send_on;
    action.sa_flags = SA_SIGINFO | SA_RESTART;
    sigaction(number, &action, nullptr);
  }
  sigprocmask(SIG_SETMASK, &before, nullptr);
  int error = 0, status = 0;
  const bool not_started = read(failed[0], &error, sizeof error) == sizeof error;
  close(failed[0]);
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  program = 0;
  for (const int number : kSentOn) {  // From now on the signals are ours.
    struct sigaction action {};
    sigaction(number, nullptr, &action);
    if (action.sa_handler != SIG_IGN) std::signal(number, SIG_DFL);
  }
  if (not_started) {
    const std::string name = escape_control(words[0]);
    std::string why = fmt::format(": {}", std::strerror(error));
    if (name.ends_with(".py")) why = "; a Python program goes behind its interpreter: -- python " + name;
    if (name == "python") why += "; outside of an environment it is often called python3";
    throw ExitError(Exit::Usage, fmt::format("cannot start '{}'{}", name, why));
  }
  return status;
}

int end_like(int status) {
  if (!WIFSIGNALED(status)) return WEXITSTATUS(status);
  const int number = WTERMSIG(status);
  const rlimit no_core{0, 0};  // The program has left its own core file, if enabled.
  setrlimit(RLIMIT_CORE, &no_core);
  std::signal(number, SIG_DFL);
  sigset_t one;
  sigemptyset(&one);
  sigaddset(&one, number);
  sigprocmask(SIG_UNBLOCK, &one, nullptr);
  raise(number);
  return 128 + number;
}

}  // namespace recapture::blame
