#include "harness/recorder/terminate.h"

#include <cxxabi.h>
#include <dlfcn.h>

#include <cstdint>
#include <cstdlib>
#include <exception>
#include <string>
#include <type_traits>
#include <typeinfo>

#include "harness/recorder/loaded.h"
#include "harness/recorder/report.h"

namespace recapture {
namespace {

// This library has a C++ library of its own, which knows nothing of the program's exceptions.
struct ExceptionPointer {  // std::exception_ptr, whose reference is never given back: the program ends.
  void* object;
  ~ExceptionPointer() {}  // NOLINT(modernize-use-equals-default): how it is returned follows from that there is one.
};
std::terminate_handler (*set_handler)(std::terminate_handler) = nullptr;  // std::set_terminate
std::type_info* (*current_type)() = nullptr;                              // __cxa_current_exception_type
ExceptionPointer (*current_exception)() = nullptr;                        // std::current_exception
std::terminate_handler next = nullptr;

// The driver's.
int (*allocate)(uint64_t* address, size_t bytes) = nullptr;  // cuMemAlloc_v2

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
  // Types are the same if their names are; the catch of a base class moves the pointer to that.
  if (object && typeid(std::exception).__do_catch(type, &object, 1)) {
    constexpr size_t kLongest = 2000;
    raised.text = std::string(static_cast<const std::exception*>(object)->what()).substr(0, kLongest);
  }
  return raised;
}

// Asks for what no open capture permits, but relaxed ones. It breaks the capture, which will not be ended.
bool is_capturing() {
  constexpr int kUnsupported = 900, kInvalidated = 901;
  uint64_t address = 0;
  const Quiet quiet;
  const int code = allocate(&address, 1);  // A query of a new event does not show it, on an H100.
  return code == kUnsupported || code == kInvalidated;
}

void on_terminate() {
  if (is_capturing()) {
    const Raised raised = raised_here();
    GivenUp given_up{GivenUp::At::Terminate, {}, {}, 0};
    if (!raised.type.empty()) given_up.raised.push_back(raised);
    report_given_up(given_up);
  }
  if (next) next();
  std::abort();
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
  if (find(set_handler, runtime, "_ZSt13set_terminatePFvvE") &&
      find(current_type, runtime, "__cxa_current_exception_type") &&
      find(current_exception, runtime, "_ZSt17current_exceptionv") && find(allocate, driver, "cuMemAlloc_v2")) {
    next = set_handler(on_terminate);
  }
}

}  // namespace recapture
