#include "harness/recorder/python.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <type_traits>

#include "harness/recorder/loaded.h"
#include "harness/recorder/size_limit.h"

namespace recapture::python {
namespace {

using AuditHook = int (*)(const char* event, void* arguments, void* own);

struct Api {
  int (*is_initialized)();                // Py_IsInitialized
  int (*has_gil)();                       // PyGILState_Check
  int (*ensure)();                        // PyGILState_Ensure
  void (*release)(int state);             // PyGILState_Release
  int (*run)(const char* text);           // PyRun_SimpleString
  int (*add_hook)(AuditHook, void* own);  // PySys_AddAuditHook, since 3.8
} api{};

using Handler = void (*)(int);

// Where faulthandler writes: a file in memory, which the program may close and whose number it may use again.
int file = -1;
ino_t inode = 0;
std::atomic<int> listening{0};  // The signal, once faulthandler listens to it.
Handler handler = SIG_DFL;      // Its handler.

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

// With the GIL.
void listen_now() {
  if (listening != 0) return;
  make_file(-1);
  if (file < 0) return;
  int number = SIGRTMAX - 1;
  while (number > SIGRTMIN && handler_of(number) != SIG_DFL) --number;
  std::array<char, 256> text{};
  // Nothing is bound to a name of the program's, and nothing is printed.
  std::snprintf(text.data(), text.size(),
                "try: __import__('faulthandler').register(%d, file=%d, all_threads=True)\nexcept BaseException: pass\n",
                number, file);
  api.run(text.data());
  handler = handler_of(number);
  if (handler != SIG_DFL) listening = number;
}

int on_audit(const char*, void*, void*) {
  static std::atomic<bool> done{false};
  if (!done && api.is_initialized() != 0 && !done.exchange(true)) listen_now();
  return 0;
}

// A thread that holds the GIL may itself be waiting for the driver, which waits for us: so nobody waits here for the
// GIL but a thread of ours, and for that one not for long.
struct Helper {
  std::mutex mutex;
  std::condition_variable ended;
  bool has_ended = false;
};

void* listen_with_gil(void* data) {
  auto* helper =
      static_cast<Helper*>(data);  // Never freed: we may still be waiting for the GIL when nobody waits for us.
  const int state = api.ensure();
  listen_now();
  api.release(state);
  const std::lock_guard<std::mutex> lock(helper->mutex);
  helper->has_ended = true;
  helper->ended.notify_one();
  return nullptr;
}

void listen_on_a_thread() {
  constexpr std::chrono::seconds kMost{1};
  auto* helper = new Helper;
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);  // The program's signals are for its own threads.
  pthread_t thread;
  const bool started = pthread_create(&thread, nullptr, listen_with_gil, helper) == 0;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (!started) return;
  pthread_detach(thread);
  std::unique_lock<std::mutex> lock(helper->mutex);
  helper->ended.wait_for(lock, kMost, [&] { return helper->has_ended; });
}

}  // namespace

void listen() {
  void* python = dlopen(nullptr, RTLD_NOW);
  if (!dlsym(python, "Py_IsInitialized")) {
    const std::string library = loaded("libpython3");
    python = library.empty() ? nullptr : dlopen(library.c_str(), RTLD_NOW | RTLD_NOLOAD);
  }
  if (!python) return;
  const auto find = [&](auto& function, const char* symbol) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(python, symbol));
    return function != nullptr;
  };
  if (!find(api.is_initialized, "Py_IsInitialized") || !find(api.has_gil, "PyGILState_Check") ||
      !find(api.ensure, "PyGILState_Ensure") || !find(api.release, "PyGILState_Release") ||
      !find(api.run, "PyRun_SimpleString")) {
    return;
  }
  if (api.is_initialized() == 0) {
    if (find(api.add_hook, "PySys_AddAuditHook")) api.add_hook(on_audit, nullptr);
  } else if (api.has_gil() != 0) {
    listen_now();
  } else {
    listen_on_a_thread();
  }
}

std::string frames_of_all_threads() {
  const int number = listening;
  if (number == 0 || !file_is_ours() || handler_of(number) != handler) return {};
  if (ftruncate(file, 0) != 0 || lseek(file, 0, SEEK_SET) != 0) return {};
  const NoSizeSignal whatever_happens;
  sigset_t one, before;
  sigemptyset(&one);
  sigaddset(&one, number);
  pthread_sigmask(SIG_UNBLOCK, &one, &before);
  syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), number);  // It is handled before this returns.
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  std::string text;
  std::array<char, 4096> buffer{};
  for (ssize_t got = 0; (got = pread(file, buffer.data(), buffer.size(), static_cast<off_t>(text.size()))) > 0;) {
    text.append(buffer.data(), static_cast<size_t>(got));
  }
  return text;
}

// The file would be shared with the parent, and so would the place in it.
void forked() {
  if (file_is_ours()) make_file(file);
}

}  // namespace recapture::python
