#include "harness/recorder/terminate.h"

#include <cxxabi.h>
#include <dlfcn.h>
#include <link.h>
#include <signal.h>

#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <string>
#include <type_traits>
#include <typeinfo>

#include "harness/recorder/frames.h"
#include "harness/recorder/loaded.h"
#include "harness/recorder/report.h"

namespace recapture {
namespace {

// This library has its own C++ library, which does not see the program's exceptions.
struct ExceptionPointer {  // std::exception_ptr. Its reference is never released: the program ends.
  void* object;
  ~ExceptionPointer() {}  // NOLINT(modernize-use-equals-default): the calling convention depends on it.
};
std::terminate_handler (*set_handler)(std::terminate_handler) = nullptr;  // std::set_terminate
std::type_info* (*current_type)() = nullptr;                              // __cxa_current_exception_type
ExceptionPointer (*current_exception)() = nullptr;                        // std::current_exception
std::terminate_handler next = nullptr;

// The driver's.
int (*allocate)(uint64_t* address, size_t bytes) = nullptr;  // cuMemAlloc_v2

void* abort_of_libc = nullptr;

std::string demangled(const char* name) {
  char* plain = abi::__cxa_demangle(name, nullptr, nullptr, nullptr);
  std::string text = plain ? plain : name;
  std::free(plain);
  return text;
}

Raised raised_here() {
  const std::type_info* type = current_type();
  if (!type) return {};
  Raised raised{demangled(type->name()), "", {}};
  void* object = current_exception().object;
  // Types are equal if their names are; catching a base class adjusts the pointer.
  if (object && typeid(std::exception).__do_catch(type, &object, 1)) {
    constexpr size_t kLongest = 2000;
    raised.text = std::string(static_cast<const std::exception*>(object)->what()).substr(0, kLongest);
  }
  return raised;
}

// Makes a call that every open capture except a relaxed one forbids. It breaks the capture, which will not be ended
// anyway.
bool is_capturing() {
  constexpr int kUnsupported = 900, kInvalidated = 901;
  uint64_t address = 0;
  const Quiet quiet;
  const int code = allocate(&address, 1);  // On an H100, a query of a new event does not fail.
  return code == kUnsupported || code == kInvalidated;
}

bool is_reported = false;  // The end of the program is reported once.

void on_terminate() {
  if (is_capturing()) {
    is_reported = true;
    const Raised raised = raised_here();
    GivenUp given_up{GivenUp::At::Terminate, {}, {}, 0};
    if (!raised.type.empty()) given_up.raised.push_back(raised);
    report_given_up(given_up);
  }
  if (next) next();
  std::abort();
}

// The start of the library that contains this address. Allocates nothing.
uintptr_t library_of(const void* address) {
  struct Search {
    uintptr_t address, begin;
  } search{reinterpret_cast<uintptr_t>(address), 0};
  dl_iterate_phdr(
      [](dl_phdr_info* module, size_t, void* data) {
        auto& s = *static_cast<Search*>(data);
        for (int i = 0; i < module->dlpi_phnum; ++i) {
          const auto& segment = module->dlpi_phdr[i];
          const uintptr_t begin = module->dlpi_addr + segment.p_vaddr;
          if (segment.p_type != PT_LOAD || s.address < begin || s.address - begin >= segment.p_memsz) continue;
          s.begin = module->dlpi_addr + 1;  // A program may begin at 0.
          return 1;
        }
        return 0;
      },
      &search);
  return search.begin;
}

// Whether the program itself called abort(), not the C library, which may hold malloc()'s lock, nor the driver.
bool is_abort_by_program() {
  const Stack stack = stack_here();
  const auto abort_begin = reinterpret_cast<uintptr_t>(abort_of_libc);
  constexpr uintptr_t kMostBytes = 1024;
  for (int i = 0; i + 1 < stack.depth; ++i) {
    const auto address = reinterpret_cast<uintptr_t>(stack.addresses[i]);
    if (address < abort_begin || address - abort_begin >= kMostBytes) continue;
    const uintptr_t caller = library_of(stack.addresses[i + 1]);
    return caller != 0 && caller != library_of(abort_of_libc) &&
           caller != library_of(reinterpret_cast<const void*>(allocate));
  }
  return false;
}

// A statically linked C++ library reports no exceptions, but it ends in abort().
void on_abort(int number, siginfo_t* info, void*) {
  if (info->si_code == SI_TKILL && !is_reported && is_abort_by_program() && is_capturing()) {
    report_given_up({GivenUp::At::Abort, {}, {}, 0});
  }
  std::signal(number, SIG_DFL);
  std::raise(number);
}

void follow_abort() {
  void* libc = dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD);
  abort_of_libc = libc ? dlsym(libc, "abort") : nullptr;
  struct sigaction action {};
  if (!abort_of_libc || sigaction(SIGABRT, nullptr, &action) != 0 || action.sa_handler != SIG_DFL) return;
  action = {};
  action.sa_sigaction = on_abort;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigaction(SIGABRT, &action, nullptr);
}

}  // namespace

void follow_terminate() {
  const std::string library = loaded("libstdc++.so");
  void* runtime = library.empty() ? nullptr : dlopen(library.c_str(), RTLD_NOW | RTLD_NOLOAD);
  void* driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  const auto find = [](auto& function, void* in, const char* symbol) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(in ? dlsym(in, symbol) : nullptr);
    return function != nullptr;
  };
  if (!find(allocate, driver, "cuMemAlloc_v2")) return;
  void* program = dlopen(nullptr, RTLD_NOW);
  const auto has = [&](const char* symbol) { return program && dlsym(program, symbol); };
  if (!has("_ZSt13set_terminatePFvvE") && !has("Py_IsInitialized")) follow_abort();
  if (find(set_handler, runtime, "_ZSt13set_terminatePFvvE") &&
      find(current_type, runtime, "__cxa_current_exception_type") &&
      find(current_exception, runtime, "_ZSt17current_exceptionv")) {
    next = set_handler(on_terminate);
  }
}

}  // namespace recapture
