// Worker processes that share out numbered items of work. A process that adopts orphans and kills them after a test can
// run one test at a time; several at once take as many such processes. Knows nothing of tests or records.
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

  // Why not all was done: a worker threw Stop, or died.
  struct Failure {
    Exit code;
    std::string words;
    size_t worker;
  };

  // Forks the workers; call it while the process has one thread. `work` runs in them, `hear` in this process with what
  // they say, in each worker's own order. `between` is called at least ten times a second while work goes on.
  Pool(size_t width, Work work, Hear hear, std::function<void()> between);
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  size_t width() const { return workers_.size(); }

  // Hands the items out in this order to the first `width` workers and returns once all are done, or at a failure, or
  // when the user has interrupted.
  std::optional<Failure> run(const std::vector<size_t>& items, size_t width);

  // Ends the workers and all that they have started, and hears what they had said before. The destructor does the same
  // without listening.
  void stop();

 private:
  struct Worker {
    pid_t pid = -1;
    int connection = -1;
    std::string said;  // What came without its end of line so far.
    std::optional<size_t> item;
  };

  [[noreturn]] void serve(size_t index, int connection);
  void listen(size_t index, std::optional<Failure>& failure);
  void take(size_t index, const Json& message, std::optional<Failure>& failure);
  void wait_for_something(int most_ms);
  void end(bool listening);

  Work work_;
  Hear hear_;
  std::function<void()> between_;
  std::vector<Worker> workers_;
};

}  // namespace recapture::run
