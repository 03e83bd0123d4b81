// Worker processes that share numbered items of work. A process that adopts orphans and kills them after a test can run
// only one test at a time, so parallel tests need several. Independent of tests and records.
#pragma once
#include <sys/types.h>

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "harness/base/exit.h"
#include "harness/model/record.h"

namespace recapture::run {

class Pool {
 public:
  using Say = std::function<void(const Json&)>;
  using Work = std::function<void(size_t worker, size_t item, const Say& say)>;
  using Hear = std::function<void(size_t worker, const Json&)>;

  // Why work is left: a worker threw Stop, or died.
  struct Failure {
    Exit code;
    std::string words;
    size_t worker;
  };

  // Forks the workers; call it while the process has one thread. `work` runs in them, and `leave` before they end;
  // `hear` in this process with each worker's messages in order. `between` is called at least ten times a second during
  // the work.
  Pool(size_t width, Work work, std::function<void()> leave, Hear hear, std::function<void()> between);
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  size_t width() const { return workers_.size(); }

  // Assigns the items in this order to the first `width` workers. Returns when all are done, at a failure, or when the
  // user interrupts.
  std::optional<Failure> run(const std::vector<size_t>& items, size_t width);

  // Ends the workers and all processes that they started, after handling their last messages. The destructor does the
  // same without the messages.
  void stop();

 private:
  struct Worker {
    pid_t pid = -1;
    int connection = -1;
    std::string said;  // Text of an incomplete line.
    std::optional<size_t> item;
  };

  [[noreturn]] void serve(size_t index, int connection);
  void listen(size_t index, std::optional<Failure>& failure);
  void take(size_t index, const Json& message, std::optional<Failure>& failure);
  void wait_for_something(int most_ms);
  void end(bool listening);

  Work work_;
  std::function<void()> leave_;
  Hear hear_;
  std::function<void()> between_;
  std::vector<Worker> workers_;
};

}  // namespace recapture::run
