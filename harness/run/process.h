// Starts and watches one process, and kills all that it starts. Independent of GoogleTest, CUDA and records.
#pragma once
#include <sys/types.h>

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "harness/run/scratch.h"

namespace recapture::run {

// What a process did, without judgement.
struct Observation {
  enum class Ending { Exited, Signal, Deadline, NotStarted };
  Ending ending = Ending::NotStarted;
  int code = 0;                                             // Exit code, or the signal's number.
  std::vector<std::pair<std::string, std::string>> events;  // What the test reported, in order.
  std::string last_words;                                   // The end of its output.
  size_t output_bytes = 0;                                  // Total size of its output.
  bool events_lost = false;                                 // Too many events: the first ones were dropped.
  double seconds = 0;
  std::string scratch;  // Its own folder.
  pid_t stuck = 0;      // A process that SIGKILL did not end, which happens inside a driver.
};

constexpr size_t kOutputTail = size_t{8} << 10;  // Bytes of output that are kept.
constexpr size_t kMostEvents = size_t{2} << 20;  // Bytes of events; more are dropped.

// True after SIGINT or SIGTERM. Running tests are killed.
bool interrupted();

// Handles SIGINT, SIGTERM and SIGHUP, resets inherited signal dispositions, and adopts the orphans of tests so that
// they can be killed.
void become_subreaper();

// A program to start. Of this process's variables it inherits only a short list, so that no hidden variable changes
// LibTorch or CUDA. Its home, temporary files and caches are its own (scratch.h).
struct Program {
  std::string path;
  std::vector<std::string> arguments;
  std::map<std::string, std::string> environment;  // Added; takes precedence over both.
};

// These disable NVLink multicast where it could put other users' GPUs out of service: every started program inherits
// them unchanged.
inline constexpr const char* kMulticastVariables[] = {"NCCL_NVLS_ENABLE", "TORCH_SYMM_MEM_DISABLE_MULTICAST",
                                                      "NVSHMEM_DISABLE_NVLS"};

// The inherited variables that a record should name: those for CUDA, LibTorch and library folders.
std::map<std::string, std::string> variables_let_through();

// The names of variables that could have changed a test and are not inherited.
std::vector<std::string> variables_kept_out();

// Runs it by plain exec, and kills it and all that it started after `deadline_s` seconds. For workers: every child of
// this process counts as the program's.
Observation execute(const Program& program, double deadline_s);

// A program's standard output, with its observation, whose last words are its standard error.
using Reply = std::pair<Observation, std::string>;
Reply ask(const Program& program, double deadline_s);

// The replies of several programs, in order; `width` of them run in parallel. After an interruption, the remaining ones
// are not started.
std::vector<Reply> ask(const std::vector<Program>& programs, size_t width, double deadline_s);

// Parts that a server of tests also needs.
namespace process {

struct Pipe {
  int read = -1, write = -1;
  Pipe();
  ~Pipe();
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  void close_write();
};

// The descriptor of a started program's events, or of its connection.
inline constexpr int kInherited = 9;

// Appends the available data to `text`, which is cut to the last `most` bytes when it exceeds twice that. Returns the
// number of bytes read.
size_t drain(int fd, std::string& text, size_t most);

// Forks and execs in a new session. `inherit` becomes `inherit_as` in the child, whose number is in `variable`, unless
// that is empty.
pid_t start(const Program& program, const Scratch& scratch, int out, int err, int inherit, int inherit_as,
            const std::string& variable);

// How to watch a process.
struct Watched {
  int wake = -1;                              // Readable when to call `ended`; -1: poll.
  std::function<std::optional<int>()> ended;  // The exit status, once the process has ended.
  std::function<void()> kill;                 // Sends SIGKILL.
  std::function<void()> give_up;              // After SIGKILL without effect: adopts what is left.
};

// Watches a process until it ends, the deadline passes or the user interrupts, and kills what it leaves.
Observation watch(Pipe& output, Pipe& events, double deadline_s, const Watched& watched);

// The status of an ended child. One that is no longer ours counts as killed.
std::optional<int> reap(pid_t child);

// Sends SIGKILL and waits a limited time, since a process that hangs in a driver cannot be killed. True once it is
// gone.
bool kill_and_reap(pid_t child);

// Marks a process of ours that outlives a test; every other child left after the test is its orphan.
void keep(pid_t pid);
void keep_no_longer(pid_t pid);

// Kills every child that is not kept, and returns one that cannot be killed, or 0. For a process whose children are
// only those that it started and their orphans.
pid_t kill_orphans();

// The same for the runner, which may have inherited children: kills only those with this run's folder in their
// variables.
void kill_orphans_of_this_run();

// Makes interrupted() true: standard output has no reader.
void stop_from_within();

}  // namespace process
}  // namespace recapture::run
