// One test in one process: started, watched, and never outlived. Knows nothing of GoogleTest, CUDA or records.
#pragma once
#include <sys/types.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace recapture {

// What a process did, without any judgement.
struct Observation {
  enum class Ending { Exited, Signal, Deadline, NotStarted };
  Ending ending = Ending::NotStarted;
  int code = 0;                                             // Exit code, or the signal's number.
  std::vector<std::pair<std::string, std::string>> events;  // What the test told about itself, in order.
  std::string last_words;                                   // The end of its output.
  size_t output_bytes = 0;                                  // How much it printed in all.
  double seconds = 0;
};

constexpr size_t kLastWords = size_t{8} << 10;   // Bytes of output that are kept.
constexpr size_t kMostEvents = size_t{1} << 20;  // Bytes of events that are read.

// True once the user wants the run to stop (SIGINT or SIGTERM). What is running is killed.
bool interrupted();

// Takes over SIGINT and SIGTERM, ignores SIGPIPE, and adopts the orphans that tests leave so that they can be killed.
void own_the_processes();

// Variables that change LibTorch's or CUDA's behaviour from outside are taken away from every process started here.
struct Program {
  std::string path;
  std::vector<std::string> arguments;
  std::map<std::string, std::string> environment;  // Added to what the runner has.
};

// Runs it by plain exec, in a process group of its own that is killed after `deadline_s` seconds.
Observation execute(const Program& program, double deadline_s);

// Its standard output, for the questions that binaries answer. The observation's last words hold standard error.
std::pair<Observation, std::string> ask(const Program& program, double deadline_s);

// A case binary that has loaded LibTorch, never touches CUDA, and forks once a test.
class Server {
 public:
  explicit Server(const Program& program);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // False: it did not start, or died. `why` then holds its last words, and tests go by plain exec.
  bool alive() const { return pid_ > 0; }
  const std::string& why() const { return why_; }
  Observation run(const std::string& test, double deadline_s);

 private:
  void end();
  pid_t pid_ = -1;
  int connection_ = -1;
  std::string why_;
};

}  // namespace recapture
