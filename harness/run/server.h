// A case binary that stays, and forks once a test: LibTorch is loaded once for all tests of a case.
#pragma once
#include <sys/types.h>

#include <string>

#include "harness/run/process.h"
#include "harness/run/scratch.h"

namespace recapture::run {

// A case binary with LibTorch loaded and CUDA untouched, which forks for each test.
class Server {
 public:
  explicit Server(const Program& program);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // False: it did not start, or died; tests then run by plain exec.
  bool alive() const { return pid_ > 0; }
  Observation run(const std::string& test, double deadline_s);

 private:
  // Waits for its next line: "" at the timeout or an interruption, "gone" after its end.
  std::string hear(double most_s) const;
  // Requests a test; false if the server is gone.
  bool request(const std::string& test, const Scratch& scratch, int output, int events) const;
  void end();

  Scratch scratch_;
  pid_t pid_ = -1;
  int connection_ = -1;
};

}  // namespace recapture::run
