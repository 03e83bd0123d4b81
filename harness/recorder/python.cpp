#include "harness/recorder/python.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <memory>
#include <mutex>
#include <type_traits>
#include <vector>

#include "harness/recorder/exceptions.h"
#include "harness/recorder/loaded.h"
#include "harness/recorder/python_text.h"
#include "harness/recorder/size_limit.h"

namespace recapture::python {
namespace {

using AuditHook = int (*)(const char* event, void* arguments, void* own);

struct Api {
  int (*is_initialized)();                                // Py_IsInitialized
  int (*has_gil)();                                       // PyGILState_Check
  int (*ensure)();                                        // PyGILState_Ensure
  void (*release)(int state);                             // PyGILState_Release
  int (*run)(const char* text);                           // PyRun_SimpleString
  int (*add_pending)(int (*call)(void* own), void* own);  // Py_AddPendingCall
  int (*add_hook)(AuditHook, void* own);                  // PySys_AddAuditHook, since 3.8
  void* (*error)();                                       // PyErr_Occurred
  void* (*interpreter)();                                 // PyInterpreterState_Main
  void* (*first_thread)(void* interpreter);               // PyInterpreterState_ThreadHead
  void* (*next_thread)(void* thread);                     // PyThreadState_Next
  int (*collect_nothing)();                               // PyGC_Disable, since 3.10
  int (*collect_again)();                                 // PyGC_Enable
} api{};

void* library = nullptr;  // Python's.
bool captures_wanted = false;
std::atomic<bool> captures_followed{false};

using Handler = void (*)(int);

// Where faulthandler writes: a file in memory; the program may close it and reuse its descriptor.
int file = -1;
ino_t inode = 0;

// The registered signals: for all threads, and for one thread.
std::atomic<bool> listening{false};
int for_all = 0, for_one = 0;
Handler handler = SIG_DFL;

bool file_is_ours() {
  struct stat now {};
  return file >= 0 && fstat(file, &now) == 0 && now.st_ino == inode;
}

Handler handler_of(int number) {
  struct sigaction action {};
  return sigaction(number, nullptr, &action) == 0 ? action.sa_handler : SIG_IGN;
}

void make_file(int at) {
  const int made = memfd_create("recapture", MFD_CLOEXEC);
  if (made < 0) return;
  file = made;
  if (at >= 0 && dup3(made, at, O_CLOEXEC) == at) {
    close(made);
    file = at;
  }
  struct stat now {};
  if (fstat(file, &now) == 0) inode = now.st_ino;
}

int free_signal_below(int number) {
  do --number;
  while (number > SIGRTMIN && handler_of(number) != SIG_DFL);
  return number;
}

// Returns after the signal has been handled.
void ask(int number) {
  const NoSizeSignal no_signal;
  sigset_t one, before;
  sigemptyset(&one);
  sigaddset(&one, number);
  pthread_sigmask(SIG_UNBLOCK, &one, &before);
  syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), number);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

std::string written() {
  std::string text;
  std::array<char, 4096> buffer{};
  for (ssize_t got = 0; (got = pread(file, buffer.data(), buffer.size(), static_cast<off_t>(text.size()))) > 0;) {
    text.append(buffer.data(), static_cast<size_t>(got));
  }
  return text;
}

// Registers faulthandler for a free signal below a number, and returns the signal; 0 if none works. Needs the GIL.
int listen_below(int number, bool all_threads) {
  for (int tries = 0; tries < 4 && number > SIGRTMIN; ++tries) {  // qemu-user has fewer signals than the C library.
    number = free_signal_below(number);
    std::array<char, 256> text{};
    // Binds no name of the program's, and prints nothing.
    std::snprintf(text.data(), text.size(),
                  "try: __import__('faulthandler').register(%d, file=%d, all_threads=%s)\n"
                  "except BaseException: pass\n",
                  number, file, all_threads ? "True" : "False");
    api.run(text.data());
    if (handler_of(number) == SIG_DFL) continue;
    ask(number);
    if (!written().empty()) return number;
  }
  return 0;
}

// Modules are imported by one thread at a time or with the GIL, and others follow torch.cuda.graphs.
int on_import(const char* event, void*, void*) {
  if (!captures_followed && std::strcmp(event, "import") == 0) captures_followed = follow_captures(library);
  return 0;
}

// Needs the GIL, and must not run inside the driver: it runs Python code, which may give the GIL to a thread that waits
// for the driver.
void listen_now() {
  static std::atomic<bool> begun{false};
  if (begun.exchange(true)) return;
  make_file(-1);
  if (file < 0) return;
  for_all = listen_below(SIGRTMAX, true);
  for_one = for_all == 0 ? 0 : listen_below(for_all, false);
  handler = handler_of(for_one);
  listening = for_one != 0;
  if (!captures_wanted) return;
  captures_followed = follow_captures(library);
  if (!captures_followed && api.add_hook) api.add_hook(on_import, nullptr);
}

int on_audit(const char*, void*, void*) {
  if (!listening && api.is_initialized() != 0) listen_now();
  return 0;
}

// A task for a helper thread, which runs it once it has the GIL or the loader's lock. A thread that holds those may be
// waiting for the driver, and the driver waits for us: so only the helper waits for them, and callers wait for the
// helper with a time limit.
struct HelperTask {
  void (*act)();
  bool with_gil, even_late;  // Late: also after the caller has stopped waiting. Tasks that run foreign code set it.
  std::mutex mutex = {};
  std::condition_variable ended = {};
  bool has_ended = false, is_late = false;
};

constexpr std::chrono::seconds kMost{1};  // The longest time that a caller waits.

std::atomic<int> late{0};  // Tasks that are still waiting.

void* run(void* data) {
  const std::unique_ptr<std::shared_ptr<HelperTask>> owned(static_cast<std::shared_ptr<HelperTask>*>(data));
  HelperTask& errand = **owned;
  const int state = errand.with_gil ? api.ensure() : 0;
  // The task may block, or give the GIL to a thread that waits for the driver: so the mutex must not be held.
  if (errand.even_late) errand.act();
  {
    const std::lock_guard<std::mutex> lock(errand.mutex);
    // The task does neither: under the mutex it cannot be abandoned halfway.
    if (!errand.even_late && !errand.is_late) errand.act();
    if (errand.is_late) --late;
    errand.has_ended = true;
    errand.ended.notify_one();
  }
  if (errand.with_gil) api.release(state);
  return nullptr;
}

// Returns whether it was done in time.
bool run_on_helper_thread(void (*act)(), bool with_gil, bool even_late, std::chrono::seconds most) {
  auto errand = std::make_shared<HelperTask>();
  errand->act = act;
  errand->with_gil = with_gil;
  errand->even_late = even_late;
  auto for_thread = std::make_unique<std::shared_ptr<HelperTask>>(errand);
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);  // Signals of the program must be delivered to its own threads.
  pthread_t thread;
  const bool started = pthread_create(&thread, nullptr, run, for_thread.get()) == 0;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (!started) return false;
  for_thread.release();  // NOLINT(bugprone-unused-return-value): the thread owns it now.
  pthread_detach(thread);
  std::unique_lock<std::mutex> lock(errand->mutex);
  errand->is_late = !errand->ended.wait_for(lock, most, [&] { return errand->has_ended; });
  if (errand->is_late) ++late;
  return !errand->is_late;
}
bool with_gil(void (*act)(), bool even_late, std::chrono::seconds most) {
  return run_on_helper_thread(act, true, even_late, most);
}

// Whether what is written next is all that there is.
bool is_ready() {
  if (!listening || !file_is_ours() || handler_of(for_all) != handler || handler_of(for_one) != handler) return false;
  return ftruncate(file, 0) == 0 && lseek(file, 0, SEEK_SET) == 0 && api.is_initialized() != 0;
}

// Whether the process has a Python with all needed functions.
bool find_api() {
  void* python = dlopen(nullptr, RTLD_NOW);
  if (!dlsym(python, "Py_IsInitialized")) {
    const std::string library = loaded("libpython3");
    python = library.empty() ? nullptr : dlopen(library.c_str(), RTLD_NOW | RTLD_NOLOAD);
  }
  if (!python) return false;
  python::library = python;
  const auto find = [&](auto& function, const char* symbol) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(python, symbol));
    return function != nullptr;
  };
  find(api.add_hook, "PySys_AddAuditHook");
  find(api.collect_again, "PyGC_Enable");
  find(api.collect_nothing, "PyGC_Disable");
  return find(api.has_gil, "PyGILState_Check") && find(api.ensure, "PyGILState_Ensure") &&
         find(api.release, "PyGILState_Release") && find(api.run, "PyRun_SimpleString") &&
         find(api.add_pending, "Py_AddPendingCall") && find(api.error, "PyErr_Occurred") &&
         find(api.interpreter, "PyInterpreterState_Main") && find(api.first_thread, "PyInterpreterState_ThreadHead") &&
         find(api.next_thread, "PyThreadState_Next") && find(api.is_initialized, "Py_IsInitialized");
}

bool may_listen = false;
std::atomic<bool> found{false};  // Whether the API is complete; it is not written afterwards.

// A C++ program may load and start Python long after its first CUDA call. This runs inside the driver: a thread that
// holds the GIL may run Python code only if there is no other thread to give it to. The garbage collector is off,
// because destructors may call the driver.
void listen_late() {
  if (listening || !may_listen) return;
  if (!found && (late != 0 || !run_on_helper_thread([] { found = find_api(); }, false, true, kMost))) return;
  if (!found || api.is_initialized() == 0) return;
  if (api.has_gil() == 0) {
    with_gil(listen_now, true, kMost);
  } else if (!api.next_thread(api.first_thread(api.interpreter())) && !api.error() && api.collect_nothing) {
    const bool collected = api.collect_nothing() != 0;
    listen_now();
    if (collected) api.collect_again();
  }
}

}  // namespace

void listen(bool captures) {
  may_listen = true;
  captures_wanted = captures;
  found = find_api();
  if (!found) return;
  if (api.is_initialized() == 0) {
    if (api.add_hook) api.add_hook(on_audit, nullptr);
  } else if (api.has_gil() != 0) {  // On the main thread or the helper, whichever runs first.
    constexpr std::chrono::seconds kNotNow{0};
    api.add_pending([](void*) { return listen_now(), 0; }, nullptr);
    with_gil(listen_now, true, kNotNow);
  } else {
    with_gil(listen_now, true, kMost);
  }
}

std::string frames_of_threads() {
  if (!listening) listen_late();
  if (!is_ready()) return {};
  // Reading the frames of a running thread sometimes crashes. Holding the GIL stops all other Python threads.
  if (api.has_gil() != 0) {
    ask(for_all);
  } else if (late != 0 || !with_gil([] { ask(for_all); }, false, kMost)) {
    ask(for_one);
  }
  // faulthandler prints only the newest hundred threads, and this one may be older.
  constexpr size_t kHundred = 100;
  const std::vector<Thread> threads = read_threads(written(), pthread_self());
  const auto is_this = [](const Thread& thread) { return thread.handle == pthread_self(); };
  if (threads.size() >= kHundred && std::none_of(threads.begin(), threads.end(), is_this)) ask(for_one);
  return written();
}

std::string frames_of_this_thread() {
  if (!is_ready()) return {};
  ask(for_one);
  return written();
}

// The child would share the file, and its position, with the parent.
void forked() {
  if (file_is_ours()) make_file(file);
  late = 0;
}

}  // namespace recapture::python
