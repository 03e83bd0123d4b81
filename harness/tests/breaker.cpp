// A CUDA program that breaks captures as its argument says. It prints `out` and `err`, as a program does, and exits
// with 3. The test looks for the lines of `step` and `work` by their comments.
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <thread>

namespace {

void* driver = nullptr;
void *stream = nullptr, *graph = nullptr;

template <class... Arguments>
int call(const char* name, Arguments... arguments) {
  return reinterpret_cast<int (*)(Arguments...)>(dlsym(driver, name))(arguments...);
}

void begin(int mode = 0) { call("cuStreamBeginCapture_v2", stream, mode); }
void end() { call("cuStreamEndCapture", stream, &graph); }

__attribute__((noinline)) int step() {
  const int code = call("cuStreamSynchronize", stream);  // here step breaks it
  return code + 1;
}

__attribute__((noinline)) void work() {
  pthread_setname_np(pthread_self(), "loader");
  unsigned long memory = 0;
  call("cuMemAlloc_v2", &memory, size_t{1});  // here work breaks it
}

void start() {
  driver = dlopen("libcuda.so.1", RTLD_NOW);
  if (driver == nullptr) return;
  call("cuInit", 0U);
  call("cuStreamCreate", &stream, 0U);
}

__attribute__((noinline)) void refuse(bool is_known) {
  if (!is_known) throw 7;
  throw std::runtime_error("shape is not static");  // here refuse throws
}

void break_one() {
  begin();
  step();
  end();
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  std::puts("out");
  std::fputs("err\n", stderr);
  std::fflush(stdout);
  if (what == "without-cuda") return 3;
  if (what == "embed" || what == "embed-late") {  // Python starts long after CUDA, or is not even loaded then.
    if (what == "embed-late") start();
    void* python = dlopen(argv[2], RTLD_NOW | RTLD_GLOBAL);
    if (python == nullptr) return 4;
    if (what == "embed") start();
    reinterpret_cast<void (*)()>(dlsym(python, "Py_Initialize"))();
    const std::string run = std::string("exec(compile(open('") + argv[3] + "').read(), '" + argv[3] + "', 'exec'))";
    return reinterpret_cast<int (*)(const char*)>(dlsym(python, "PyRun_SimpleString"))(run.c_str());
  }
  if (what == "fork") {
    const pid_t child = fork();
    start();
    if (child == 0) {
      break_one();
      _exit(0);
    }
    waitpid(child, nullptr, 0);
    begin();
    std::thread(work).join();
    end();
    return 3;
  }
  start();
  if (what == "sync") {
    begin();
    step();
    step();  // A victim.
    end();
  } else if (what == "throw" || what == "throw-number") {
    begin();
    refuse(what == "throw");
  } else if (what == "abort-in-capture" || what == "abort-outside") {
    begin();
    if (what == "abort-outside") end();
    std::abort();
  } else if (what == "throw-outside") {
    begin();
    end();
    refuse(true);
  } else if (what == "twice") {
    break_one();
    begin();
    std::thread(work).join();
    end();
  } else if (what == "thread") {
    begin();
    std::thread(work).join();
    end();
  } else if (what == "benign") {
    int number = 0;
    for (int i = 0; i < 12; ++i) call("cuCtxGetDevice", &number);
    begin();
    call("cuStreamIsCapturing", static_cast<void*>(nullptr), &number);
    end();
  } else if (what == "refused") {
    begin();
    call("cuMemcpyBatchAsync");
    begin();
    end();
  } else if (what == "unjoined") {
    begin();
    call("cuEventRecord", static_cast<void*>(nullptr), stream);
    end();
  } else if (what == "unlogged") {
    begin();
    call("cuCtxSynchronize");
    end();
  } else if (what == "poll") {
    begin();
    for (int i = 0; i < 1000; ++i) step();
    end();
    break_one();
  } else if (what == "closed") {
    for (int fd = 3; fd < 256; ++fd) close(fd);
    break_one();
  } else if (what == "exec") {
    break_one();
    execl(argv[0], argv[0], "thread", nullptr);
  } else if (what == "fork-later") {
    break_one();
    const pid_t child = fork();
    if (child == 0) break_one();
    if (child == 0) _exit(0);
    waitpid(child, nullptr, 0);
  } else if (what == "kill" || what == "abort" || what == "segv" || what == "term") {
    begin();
    step();
    raise(what == "kill" ? SIGKILL : what == "abort" ? SIGABRT : what == "term" ? SIGTERM : SIGSEGV);
  } else if (what == "wait") {  // For a signal from outside.
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, nullptr);
    std::puts("ready");
    std::fflush(stdout);
    int number = 0;
    sigwait(&all, &number);
    std::printf("signal %d\n", number);
  }
  return 3;
}
