// A fake case whose server violates the protocol. The name of its copy selects the behaviour: never_ready,
// says_nothing, says_words, names_another, ends_with_much, describes_with_a_daemon.
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

namespace {

std::string folder() {
  const char* value = std::getenv("RECAPTURE_TEST");
  return value == nullptr ? "" : value;
}
void tell() {
  const int pipe = open((folder() + "/pipe").c_str(), O_WRONLY);
  [[maybe_unused]] const ssize_t written = write(pipe, "h", 1);
  close(pipe);
}
[[noreturn]] void wait_for_ever() {
  for (;;) pause();
}

void describe() {
  std::printf(R"({"title":"A server is rude","sources":[],"documented":"","nature":"defect","fidelity":"modelled",)"
              R"("tags":["threads"],"features":[],"fix_releases":{},)"
              R"("needs":"host","deadline_s":2,"effect":"raises","hash":"0","tests":["Server.ControlHolds"]})"
              "\n");
}

void serve(const std::string& how, int connection) {
  const auto say = [&](const std::string& line) { send(connection, line.data(), line.size(), MSG_NOSIGNAL); };
  if (how == "never_ready") {
    tell();
    wait_for_ever();
  }
  say("ready");
  std::array<char, 4096> request{};
  if (recv(connection, request.data(), request.size(), 0) <= 0) _exit(0);
  if (how == "says_words") say("started abc");
  if (how == "names_another") {
    std::ifstream file(folder() + "/another");
    std::string another;
    file >> another;
    say("started " + another);
  }
  if (how == "ends_with_much") {
    say("started " + std::to_string(getpid()));
    say("ended 99999999999");
  }
  wait_for_ever();
}

}  // namespace

int main(int argc, char** argv) {
  const std::string how = program_invocation_short_name;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--describe") {
      if (how == "describes_with_a_daemon" && fork() == 0) {
        setsid();
        if (fork() != 0) _exit(0);
        close(1);  // Otherwise the answer has no end.
        close(2);
        wait_for_ever();
      }
      if (how == "hangs_in_describe") {
        tell();
        wait_for_ever();
      }
      return describe(), 0;
    }
    if (word == "--environment")
      return std::printf("{\"libtorch\":\"0\",\"cuda_runtime\":\"0\",\"library\":\"/\"}\n"), 0;
    if (word.rfind("--serve=", 0) == 0) serve(how, std::atoi(word.c_str() + 8));
  }
  return 0;  // A test by plain exec, without a report.
}
