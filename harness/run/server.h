// A process that stays, and forks once a test: a case binary, which loads LibTorch once for all tests of a case, or
// Python, which imports torch once for the programs of all cases.
#pragma once
#include <sys/types.h>

#include <map>
#include <string>

#include "harness/run/process.h"
#include "harness/run/scratch.h"

namespace recapture::run {

// A process with LibTorch loaded and CUDA untouched, which forks for each test.
class Server {
 public:
  explicit Server(const Program& program);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // False: it did not start, or died; tests then run by plain exec.
  bool alive() const { return pid_ > 0; }
  // With `variables` beside those of its own folder.
  Observation run(const std::string& test, double deadline_s, const std::map<std::string, std::string>& variables = {});

 private:
  // Waits for its next line: "" at the timeout or an interruption, "gone" after its end.
  std::string hear(double most_s) const;
  // Requests a test; false if the server is gone.
  bool request(const std::string& test, const std::string& folder, const std::map<std::string, std::string>& variables,
               int output, int events) const;
  void end();

  Scratch scratch_;
  pid_t pid_ = -1;
  int connection_ = -1;
};

}  // namespace recapture::run
