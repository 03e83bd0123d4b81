// One process: started, watched, and nothing that it starts survives it. Knows nothing of GoogleTest, CUDA or records.
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

// What a process did, without any judgement.
struct Observation {
  enum class Ending { Exited, Signal, Deadline, NotStarted };
  Ending ending = Ending::NotStarted;
  int code = 0;                                             // Exit code, or the signal's number.
  std::vector<std::pair<std::string, std::string>> events;  // What the test told about itself, in order.
  std::string last_words;                                   // The end of its output.
  size_t output_bytes = 0;                                  // How much it printed in all.
  bool events_lost = false;                                 // There were more events than are kept: the first are gone.
  double seconds = 0;
  std::string scratch;  // The folder that was its own.
  pid_t stuck = 0;      // A process of its that SIGKILL did not end, as it happens inside a driver.
};

constexpr size_t kOutputTail = size_t{8} << 10;  // Bytes of output that are kept.
constexpr size_t kMostEvents = size_t{2} << 20;  // Bytes of events that are kept, if there are no more than that.

// True once the user wants the run to stop (SIGINT or SIGTERM). What is running is killed.
bool interrupted();

// Takes over SIGINT, SIGTERM and SIGHUP, undoes what was inherited of signals, and adopts the orphans that tests leave
// so that they can be killed.
void become_subreaper();

// What a program started here knows of this process's variables are those on a short list, so that nothing changes
// LibTorch's or CUDA's behaviour unseen. Its home, its temporary files and its caches are its own (scratch.h).
struct Program {
  std::string path;
  std::vector<std::string> arguments;
  std::map<std::string, std::string> environment;  // Added; wins over both.
};

// These keep NVLink multicast off where it could put others' GPUs out of service: with any values, every program
// started here has them unchanged.
inline constexpr const char* kMulticastVariables[] = {"NCCL_NVLS_ENABLE", "TORCH_SYMM_MEM_DISABLE_MULTICAST",
                                                      "NVSHMEM_DISABLE_NVLS"};

// Those of this process's variables that every program started here has too and that a record should name: what
// concerns CUDA, LibTorch and where libraries are found.
std::map<std::string, std::string> variables_let_through();

// The names of those that could have changed what a test does, and that no program started here has.
std::vector<std::string> variables_kept_out();

// Runs it by plain exec, and kills it and all that it started after `deadline_s` seconds. In a worker: every child of
// this process is taken for the program's.
Observation execute(const Program& program, double deadline_s);

// What a binary answers to a question, on standard output. The observation's last words hold standard error.
using Reply = std::pair<Observation, std::string>;
Reply ask(const Program& program, double deadline_s);

// The answers of several, in their order; `width` of them are asked at once. Those that the user's interruption left
// unasked were not started.
std::vector<Reply> ask(const std::vector<Program>& programs, size_t width, double deadline_s);

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

// Appends what is there to `text`, of which at least the last `most` bytes are kept: it is cut where it has more than
// twice as many. Returns how many bytes there were.
size_t drain(int fd, std::string& text, size_t most);

// Forks and execs, in a session of its own. `inherit` becomes `inherit_as` in the child, which finds its number in
// `variable`, if that has a name.
pid_t start(const Program& program, const Scratch& scratch, int out, int err, int inherit, int inherit_as,
            const std::string& variable);

// What watch has to know of the process that it watches.
struct Watched {
  int wake = -1;                              // Becomes readable when `ended` may know; -1: nothing does.
  std::function<std::optional<int>()> ended;  // The process's status, once it has ended.
  std::function<void()> kill;                 // Sends SIGKILL.
  std::function<void()> give_up;              // SIGKILL has not helped; makes what is left a child of this process.
};

// Watches a process until it ends, the deadline passes or the user interrupts, and kills what it leaves.
Observation watch(Pipe& output, Pipe& events, double deadline_s, const Watched& watched);

// The status of a child that has ended. One that is not ours any more counts as killed.
std::optional<int> reap(pid_t child);

// SIGKILL, and some patience: a process that hangs in a driver cannot be killed. True once it is gone.
bool kill_and_reap(pid_t child);

// A process of ours that outlives a test; every other child that is still there after it is an orphan of the test.
void keep(pid_t pid);
void keep_no_longer(pid_t pid);

// Kills every child that is not kept, and returns one that cannot be killed, or 0. For a process that has no children
// but those that it started, and what these left.
pid_t kill_orphans();

// The same for the runner, which may have been started with children of somebody else: kills those that were started
// with this run's folder in their variables.
void kill_orphans_of_this_run();

// Makes interrupted() true: there is no reader left.
void stop_from_within();

}  // namespace process
}  // namespace recapture::run
