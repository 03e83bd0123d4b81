// A tree for a test of the program: the real program with a fake canary, and the cases that the test adds. Its
// temporary files are in it too, so that a test sees what is left.
#pragma once
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "harness/model/record.h"
#include "harness/tests/namespaces.h"
#include "harness/tests/shell.h"

namespace recapture {

class StandIn : public ::testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directories(folder + "/ci");
    std::filesystem::create_directories(folder + "/tmp");
    std::filesystem::create_directories(cases());
    std::ofstream(folder + "/ci/matrix.toml") << "[[release]]\nversion = '2.15.0'\n";
    std::filesystem::copy(RECAPTURE_BUILD "/recapture", folder + "/build/recapture");
    script("build/canary", R"(echo '{"gpus":0,"canary":"none","reason":"no driver"}'; exit 77)");
    mkfifo(pipe().c_str(), 0600);
  }
  void TearDown() override { std::filesystem::remove_all(folder); }

  // Adds a program of harness/tests/ as the case of this name.
  void add(const std::string& program, const std::string& name) const {
    std::filesystem::copy(RECAPTURE_BUILD "/harness/tests/" + program, cases() + "/" + name);
  }
  void script(const std::string& path, const std::string& lines) const {
    std::filesystem::remove(folder + "/" + path);
    std::ofstream(folder + "/" + path) << "#!/bin/sh\n" << lines << "\n";
    std::filesystem::permissions(folder + "/" + path, std::filesystem::perms::owner_all);
  }
  std::string command(const std::string& arguments) const {
    return "TMPDIR='" + folder + "/tmp' RECAPTURE_TEST='" + folder + "' '" + folder + "/build/recapture' " + arguments;
  }
  ShellResult recapture(const std::string& arguments) const { return shell(command(arguments)); }

  // Starts the program in the background, and waits until one of its tests has written to the pipe.
  pid_t start(const std::string& arguments) const {
    const int reader = open(pipe().c_str(), O_RDWR | O_CLOEXEC);
    const pid_t runner = fork();
    if (runner == 0) {
      execl("/bin/sh", "sh", "-c", ("exec env " + command(arguments) + " >'" + folder + "/out' 2>&1").c_str(), nullptr);
      _exit(126);
    }
    char word = 0;
    EXPECT_EQ(read(reader, &word, 1), 1);
    close(reader);
    return runner;
  }
  // Its exit code; fails after the time limit.
  int ended_within(pid_t runner, double seconds) const {
    const auto start = std::chrono::steady_clock::now();
    int status = 0;
    waitpid(runner, &status, 0);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    EXPECT_LT(took.count(), seconds);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  // Its output.
  std::string out() const { return text_of(folder + "/out"); }
  static std::string text_of(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  // Processes with this tree in their environment that are no zombies.
  std::vector<pid_t> left() const {
    std::vector<pid_t> all;
    for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
      const std::string text = text_of(entry.path() / "environ");
      if (text.find("RECAPTURE_TEST=" + folder) != std::string::npos) all.push_back(std::stoi(entry.path().filename()));
    }
    return all;
  }
  // Waits for the end of each of them.
  void wait_until_none_is_left() const {
    for (std::vector<pid_t> all = left(); !all.empty(); all = left()) {
      for (const pid_t one : all) {
        pollfd end{static_cast<int>(syscall(SYS_pidfd_open, one, 0)), POLLIN, 0};
        if (end.fd < 0) continue;  // It is gone.
        poll(&end, 1, -1);
        close(end.fd);
      }
    }
  }
  std::vector<std::string> files_left() const {
    std::vector<std::string> all;
    for (const auto& entry : std::filesystem::directory_iterator(folder + "/tmp")) all.push_back(entry.path());
    return all;
  }

  Json line_of(const std::string& test) const {
    const Record seen = read_record(record());
    const TestRecord* found = seen.find(test);
    return found == nullptr ? Json::object() : found->json();
  }
  std::string fact_of(const std::string& test, const std::string& fact) const {
    return line_of(test).value("facts", Json::object()).value(fact, "");
  }

  std::string cases() const { return folder + "/build/2.15.0/cases/lies"; }
  std::string record() const { return folder + "/r.jsonl"; }
  std::string pipe() const { return folder + "/pipe"; }
  const std::string folder = ::testing::TempDir() + "recapture-stand-in-" + std::to_string(getpid());
};

}  // namespace recapture
