// One process: started, watched, and nothing that it starts survives it. Knows nothing of GoogleTest, CUDA or records.
#pragma once
#include <sys/types.h>

#include <functional>
#include <map>
#include <optional>
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

// What of this process's variables that concern CUDA and LibTorch every program started here has too.
std::map<std::string, std::string> variables_let_through();

// Runs it by plain exec, in a process group of its own that is killed after `deadline_s` seconds.
Observation execute(const Program& program, double deadline_s);

// Its standard output, for the questions that binaries answer. The observation's last words hold standard error.
std::pair<Observation, std::string> ask(const Program& program, double deadline_s);

// The parts that a server of tests needs as well.
namespace process {

struct Pipe {
  int read = -1, write = -1;
  Pipe();
  ~Pipe();
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  void close_write();
};

// The descriptor that a started program finds its events, or its connection, on.
inline constexpr int kInherited = 9;

// Appends what is there to `text` and keeps at most the last `most` bytes. Returns how many bytes there were.
size_t drain(int fd, std::string& text, size_t most);

// Forks and execs. `inherit` becomes `inherit_as` in the child, which finds its number in `variable`, if that has a
// name.
pid_t start(const Program& program, int out, int err, int inherit, int inherit_as, const std::string& variable);

// Watches a process until `reap` has its status. `wake` is a descriptor that becomes readable when reap may know, or
// -1.
Observation watch(pid_t group, Pipe& output, Pipe& events, double deadline_s, int wake,
                  const std::function<std::optional<int>(bool wait)>& reap);

// A process of ours that outlives a test; every other child that is still there after it is an orphan of the test.
void keep(pid_t pid);
void keep_no_longer(pid_t pid);

// Kills every child that is not kept.
void kill_orphans();

// Makes interrupted() true: there is nobody left to work for.
void stop_from_within();

}  // namespace process
}  // namespace recapture
