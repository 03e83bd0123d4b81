#include "harness/recorder/exceptions.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <string_view>
#include <type_traits>
#include <utility>

#include "harness/recorder/report.h"

namespace recapture::python {
namespace {

// Python objects; `Strong` owns a reference, a plain pointer does not.
using Object = void*;
using Function = Object (*)(Object self, Object arguments, Object keywords);

struct Method {  // PyMethodDef
  const char* name;
  Function function;
  int flags;
  const char* text;
};
constexpr int kWithKeywords = 1 | 2;  // METH_VARARGS | METH_KEYWORDS

struct Api {
  Object (*attribute)(Object, const char* name);              // PyObject_GetAttrString
  int (*set_attribute)(Object, const char* name, Object);     // PyObject_SetAttrString
  Object (*call)(Object, Object arguments, Object keywords);  // PyObject_Call
  Object (*text)(Object);                                     // PyObject_Str
  const char* (*utf8)(Object);                                // PyUnicode_AsUTF8
  long (*number)(Object);                                     // PyLong_AsLong
  void (*keep)(Object);                                       // Py_IncRef
  void (*release)(Object);                                    // Py_DecRef
  Object (*item)(Object tuple, ptrdiff_t at);                 // PyTuple_GetItem, borrowed
  Object (*type)(Object);                                     // PyObject_Type
  Object (*function)(Method*, Object self, Object module);    // PyCFunction_NewEx
  Object (*method)(Object);                                   // PyInstanceMethod_New
  Object (*modules)();                                        // PyImport_GetModuleDict, borrowed
  Object (*at_key)(Object dict, const char* key);             // PyDict_GetItemString, borrowed
  Object (*of_sys)(const char* name);                         // PySys_GetObject, borrowed
  Object (*frame)();                                          // PyEval_GetFrame, borrowed
  void (*clear)();                                            // PyErr_Clear
  void (*take)(Object*, Object*, Object*);                    // PyErr_Fetch
  void (*put)(Object, Object, Object);                        // PyErr_Restore
  void (*complete)(Object*, Object*, Object*);                // PyErr_NormalizeException
  void (*handled)(Object*, Object*, Object*);                 // PyErr_GetExcInfo
  Object (*call_with)(Object, Object argument, ...);          // PyObject_CallFunctionObjArgs, to be ended by a null
  Object (*import)(const char* name);                         // PyImport_ImportModule
  Object (*new_dict)();                                       // PyDict_New
  Object (*new_text)(const char*);                            // PyUnicode_FromString
  Object none;                                                // Py_None
} api{};

class Strong {
 public:
  explicit Strong(Object object = nullptr) : object_(object) {}
  Strong(Strong&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Strong& operator=(Strong&& other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  Strong(const Strong&) = delete;
  Strong& operator=(const Strong&) = delete;
  ~Strong() {
    if (object_) api.release(object_);
  }
  // Null also for None.
  Object get() const { return object_ == api.none ? nullptr : object_; }
  explicit operator bool() const { return get() != nullptr; }

 private:
  Object object_;
};

// Clears errors: they must not reach the program.
Strong attribute(Object object, const char* name) {
  Object found = object ? api.attribute(object, name) : nullptr;
  if (!found) api.clear();
  return Strong(found);
}

std::string text_of(Object object) {
  constexpr size_t kLongest = 2000;
  const Strong text(object ? api.text(object) : nullptr);
  const char* utf8 = text ? api.utf8(text.get()) : nullptr;
  if (!utf8) api.clear();
  return utf8 ? std::string(utf8).substr(0, kLongest) : "";
}

int number_of(Object object) {
  const long number = object ? api.number(object) : 0;
  if (number == -1) api.clear();
  return static_cast<int>(number);
}

Frame frame_of(Object frame, Object line) {
  const Strong code = attribute(frame, "f_code");
  return {text_of(attribute(code.get(), "co_filename").get()), number_of(line),
          text_of(attribute(code.get(), "co_name").get())};
}

constexpr size_t kMostFrames = 160;  // PyTorch's compiler adds a hundred frames of its own.

std::vector<Frame> frames_here() {
  std::vector<Frame> frames;
  Object here = api.frame();
  if (here) api.keep(here);
  for (Strong frame(here); frame && frames.size() < kMostFrames; frame = attribute(frame.get(), "f_back")) {
    frames.push_back(frame_of(frame.get(), attribute(frame.get(), "f_lineno").get()));
  }
  return frames;
}

std::string type_name(Object exception) {
  const Strong type(api.type(exception));
  const std::string module = text_of(attribute(type.get(), "__module__").get());
  const std::string name = text_of(attribute(type.get(), "__qualname__").get());
  return module.empty() || module == "builtins" || module == "__main__" ? name : module + "." + name;
}

Raised raised_of(Object exception) {
  Raised raised{type_name(exception), text_of(exception), {}};
  for (Strong entry = attribute(exception, "__traceback__"); entry; entry = attribute(entry.get(), "tb_next")) {
    if (raised.frames.size() == kMostFrames) raised.frames.erase(raised.frames.begin());
    raised.frames.push_back(
        frame_of(attribute(entry.get(), "tb_frame").get(), attribute(entry.get(), "tb_lineno").get()));
  }
  std::reverse(raised.frames.begin(), raised.frames.end());
  return raised;
}

// The exception and its causes, without exceptions that were already being handled when the capture began.
std::vector<Raised> chain_of(Object exception, Object before) {
  constexpr size_t kMost = 4;
  std::vector<Raised> chain;
  if (exception) api.keep(exception);
  for (Strong at(exception); at && at.get() != before && chain.size() < kMost;) {
    chain.push_back(raised_of(at.get()));
    Strong from = attribute(at.get(), "__cause__");
    const std::string suppressed = text_of(attribute(at.get(), "__suppress_context__").get());
    if (!from && suppressed != "True") from = attribute(at.get(), "__context__");
    at = std::move(from);
  }
  return chain;
}

// The exception that an except or a with block of this thread is handling.
Strong handled_here() {
  Object type = nullptr, value = nullptr, traceback = nullptr;
  api.handled(&type, &value, &traceback);
  const Strong of_type(type), of_traceback(traceback);
  return Strong(value);
}

// Saves a raised, uncaught exception during its lifetime.
class Pending {
 public:
  Pending() {
    api.take(&type_, &value_, &traceback_);
    if (type_) api.complete(&type_, &value_, &traceback_);
    if (value_ && traceback_) api.set_attribute(value_, "__traceback__", traceback_);
  }
  ~Pending() { api.put(type_, value_, traceback_); }
  Pending(const Pending&) = delete;
  Pending& operator=(const Pending&) = delete;
  Object exception() const { return value_; }

 private:
  Object type_ = nullptr, value_ = nullptr, traceback_ = nullptr;
};

// The open captures, by graph. Objects are stored as addresses, which extends no lifetime; an exception that is being
// handled stays alive as long as it is needed.
struct Begun {
  Object graph = nullptr, handled = nullptr;
  size_t failed_before = 0;
  std::vector<Frame> frames;
};
constexpr size_t kMostOpen = 64;
std::mutex open_mutex;
auto& open_captures = *new std::vector<Begun>();

Begun take_open(Object graph) {
  const std::lock_guard<std::mutex> lock(open_mutex);
  const auto found = std::find_if(open_captures.begin(), open_captures.end(),
                                  [&](const Begun& begun) { return begun.graph == graph; });
  if (found == open_captures.end()) return {};
  Begun begun = std::move(*found);
  open_captures.erase(found);
  return begun;
}

void report(GivenUp::At at, Object exception, const Begun& begun) {
  std::vector<Raised> raised = chain_of(exception, begun.handled);
  const bool is_passing = at == GivenUp::At::Begin || at == GivenUp::At::End;
  if (is_passing && !raised.empty()) {  // It has not reached our caller, so its traceback ends below.
    std::vector<Frame>& frames = raised.front().frames;
    for (Frame& frame : frames_here()) frames.push_back(std::move(frame));
  }
  report_given_up({at, std::move(raised), begun.frames, begun.failed_before});
}

// The names in python/recapture/_features.py, which observes a program's features, if requested: a dict that the
// program cannot find.
Object features = nullptr;

template <class... Arguments>
void tell_features(const char* what, Arguments... arguments) {
  const Object function = features ? api.at_key(features, what) : nullptr;
  if (!function) return;
  const Strong result(api.call_with(function, arguments..., nullptr));
  api.clear();
}

void load_features() {
  if (!std::getenv("RECAPTURE_FEATURES") || features) return;
  const Strong builtins(api.import("builtins")), run = attribute(builtins.get(), "exec");
  const Strong code(
      api.new_text("path = __import__('os').environ['RECAPTURE_FEATURES']\n"
                   "with open(path, 'rb') as file: exec(compile(file.read(), path, 'exec'))\n"));
  features = api.new_dict();
  const Strong done(run && code && features ? api.call_with(run.get(), code.get(), features, nullptr) : nullptr);
  api.clear();
}

// The rank in torch's process group, once: processes that torch.multiprocessing starts have no RANK.
void tell_rank() {
  static std::atomic<pid_t> told{0};
  if (told == getpid() || std::getenv("RANK")) return;
  const Object module = api.at_key(api.modules(), "torch.distributed.distributed_c10d");
  const Strong has_group = attribute(module, "is_initialized"), rank_of = attribute(module, "get_rank");
  if (!has_group || !rank_of) return;
  const Strong answer(api.call_with(has_group.get(), nullptr));
  if (text_of(answer.get()) == "True") {
    const Strong rank(api.call_with(rank_of.get(), nullptr));
    if (rank) report_rank(text_of(rank.get()));
    told = getpid();
  }
  api.clear();
}

Object begin_capture(Object original, Object arguments, Object keywords) {
  Begun begun{api.item(arguments, 0), handled_here().get(), failed_calls(), frames_here()};
  if (!begun.graph) api.clear();
  take_open(begun.graph);  // It may have been left open.
  tell_rank();
  tell_features("begins", arguments, keywords ? keywords : api.none);
  const Object result = api.call(original, arguments, keywords);
  if (!result) {
    const Pending pending;
    report(GivenUp::At::Begin, pending.exception(), begun);
    return nullptr;
  }
  tell_features("begun");
  const std::lock_guard<std::mutex> lock(open_mutex);
  if (open_captures.size() < kMostOpen) open_captures.push_back(std::move(begun));
  return result;
}

// Whether an exception leaves the captured region. A handled one such as StopIteration, which only signals the end, is
// intended, unless it leaves a with block.
bool is_leaving(Object handled, const Begun& begun) {
  if (!handled || handled == begun.handled) return false;
  const std::string type = type_name(handled);
  if (type != "StopIteration" && type != "StopAsyncIteration") return true;
  const std::vector<Frame> frames = frames_here();
  return !frames.empty() && frames.front().function == "__exit__";
}

// Reads the exception after the capture: its text may need a tensor.
Object end_capture(Object original, Object arguments, Object keywords) {
  const Object graph = api.item(arguments, 0);
  if (!graph) api.clear();
  tell_features("ends");
  const Object result = api.call(original, arguments, keywords);
  const Begun begun = take_open(graph);
  const Strong handled = handled_here();
  const bool leaves = is_leaving(handled.get(), begun);
  if (result) tell_features("ended");
  if (result && !leaves) return result;
  const Pending pending;
  if (leaves) {
    report(GivenUp::At::Inside, handled.get(), begun);
  } else {
    report(GivenUp::At::End, pending.exception(), begun);
  }
  return result;
}

// At the interpreter's exit: sys.last_value is the exception that ended the program.
Object leave(Object, Object, Object) {
  const Object last = api.of_sys("last_value");
  std::vector<Begun> left;
  {
    const std::lock_guard<std::mutex> lock(open_mutex);
    left.swap(open_captures);
  }
  for (const Begun& begun : left) report(GivenUp::At::Exit, last == api.none ? nullptr : last, begun);
  api.keep(api.none);
  return api.none;
}

Method begin_method{"capture_begin", begin_capture, kWithKeywords, nullptr};
Method end_method{"capture_end", end_capture, kWithKeywords, nullptr};
Method leave_method{"leave", leave, kWithKeywords, nullptr};

bool find_api(void* library) {
  const auto find = [&](auto& function, const char* symbol) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, symbol));
    return function != nullptr;
  };
  return find(api.attribute, "PyObject_GetAttrString") && find(api.set_attribute, "PyObject_SetAttrString") &&
         find(api.call, "PyObject_Call") && find(api.text, "PyObject_Str") && find(api.utf8, "PyUnicode_AsUTF8") &&
         find(api.number, "PyLong_AsLong") && find(api.keep, "Py_IncRef") && find(api.release, "Py_DecRef") &&
         find(api.item, "PyTuple_GetItem") && find(api.type, "PyObject_Type") &&
         find(api.function, "PyCFunction_NewEx") && find(api.method, "PyInstanceMethod_New") &&
         find(api.modules, "PyImport_GetModuleDict") && find(api.at_key, "PyDict_GetItemString") &&
         find(api.of_sys, "PySys_GetObject") && find(api.frame, "PyEval_GetFrame") && find(api.clear, "PyErr_Clear") &&
         find(api.take, "PyErr_Fetch") && find(api.put, "PyErr_Restore") &&
         find(api.complete, "PyErr_NormalizeException") && find(api.handled, "PyErr_GetExcInfo") &&
         find(api.call_with, "PyObject_CallFunctionObjArgs") && find(api.import, "PyImport_ImportModule") &&
         find(api.new_dict, "PyDict_New") && find(api.new_text, "PyUnicode_FromString") &&
         find(api.none, "_Py_NoneStruct");
}

bool follow(Object graphs, const char* name, Method& method) {
  const Strong original = attribute(graphs, name);
  const Strong function(original ? api.function(&method, original.get(), nullptr) : nullptr);
  const Strong bound(function ? api.method(function.get()) : nullptr);
  return bound && api.set_attribute(graphs, name, bound.get()) == 0;
}

void follow_exit() {
  const Strong module(api.import("atexit"));
  const Strong add = attribute(module.get(), "register"), function(api.function(&leave_method, nullptr, nullptr));
  const Strong added(add && function ? api.call_with(add.get(), function.get(), nullptr) : nullptr);
  api.clear();
}

}  // namespace

bool follow_captures(void* library) {
  if (!api.none && !find_api(library)) return true;
  const Object module = api.at_key(api.modules(), "torch.cuda.graphs");
  const Strong graphs = attribute(module, "CUDAGraph");
  if (!graphs) return false;
  const bool followed =
      follow(graphs.get(), begin_method.name, begin_method) && follow(graphs.get(), end_method.name, end_method);
  if (!followed) api.clear();
  load_features();
  follow_exit();
  report_torch(text_of(attribute(api.at_key(api.modules(), "torch"), "__version__").get()));
  return true;
}

}  // namespace recapture::python
