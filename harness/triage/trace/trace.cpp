// Writes one test of a case as a Python program. Linked with the case; see python.h beside it.
//
//   trace TEST            the program
//   trace TEST ANSWER     only what it runs, if each of its programs gives that answer: a test that then behaves
//                         differently has a branch, which one program cannot show
//
// Exit status: 3 if the test cannot be written as a program, with the reason.
#include <algorithm>
#include <iostream>
#include <memory>
#include <vector>

#include "fixtures/cuda/nvrtc.h"
#include "fixtures/python/python.h"
#include "fixtures/python/python_programs.h"
#include "harness/case/case.h"

namespace recapture {
namespace {

// Why a test cannot be written as a program.
struct Impossible {
  std::string why;
};

struct Step {
  std::string line;     // As Python; "" for a program.
  std::string program;  // Its text,
  Variables given;      // its inputs,
  std::string seen;     // and the variable that holds its result.
};

std::vector<Step> steps;
std::string answer;  // "" when steps are written.
size_t programs = 0, objects = 0;
std::string documented, healthy, saw;

// Placeholder for a program's result, which is known only when it runs.
std::string mark(size_t number) { return "\x02" + std::to_string(number) + "\x03"; }
bool is_marked(const std::string& text) { return text.find('\x02') != std::string::npos; }

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (c == '\n') {
      out += "\\n";
    } else {
      out += c;
    }
  }
  return out + '"';
}

// A text with placeholders, as a Python expression.
std::string expression(const std::string& text) {
  std::string out, plain;
  const auto add = [&](const std::string& part) { out += (out.empty() ? "" : " + ") + part; };
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\x02') {
      plain += text[i];
      continue;
    }
    if (!plain.empty()) add(quoted(plain));
    plain.clear();
    const size_t end = text.find('\x03', i);
    add("seen_" + text.substr(i + 1, end - i - 1));
    i = end;
  }
  if (!plain.empty() || out.empty()) add(quoted(plain));
  return out;
}

std::string triple(const std::string& program) {
  if (program.find("'''") != std::string::npos) throw Impossible{"a program with ''' in it"};
  return "r'''" + program + "'''";
}

// Without inputs that the program does not use.
std::string without_unused_words(const std::string& program, Variables& given) {
  const std::string words = kPythonWords;
  if (program.rfind(words, 0) != 0) return program;
  const std::string rest = program.substr(words.size());
  if (rest.find("Outcome") != std::string::npos || rest.find("failure(") != std::string::npos) return program;
  given.erase("capture_errors");
  return rest;
}

std::string trimmed(std::string text) {
  text.erase(0, text.find_first_not_of('\n'));
  text.erase(text.find_last_not_of('\n') + 1);
  return text + "\n";
}

std::string assigned(const Variables& given) {
  std::string lines;
  for (const auto& [name, value] : given) {
    lines += name + " = ";
    lines += value.find('\n') == std::string::npos ? quoted(value) : "r'''" + value + "'''";
    lines += "\n";
  }
  return lines.empty() ? "" : lines + "\n";
}

constexpr char kRun[] = R"py(
import traceback


def run(program, **given):
    """Runs a program in a namespace of its own. Gives its `seen`, or the exception that it lets out."""
    space = dict(given, __name__="__main__")
    try:
        exec(compile(program, "<program>", "exec"), space)
        return str(space["seen"])
    except Exception as e:
        traceback.print_exc()
        return type(e).__name__ + ": " + str(e).split("\n")[0]
)py";

constexpr char kNvrtc[] = R"py(
import ctypes
import glob
import os

import torch

# The NVRTC that comes with torch's CUDA packages; elsewhere the loader has to know it.
site = os.path.dirname(os.path.dirname(torch.__file__))
libraries = glob.glob(site + "/nvidia/cu*/lib/libnvrtc.so.*") or ["libnvrtc.so." + (torch.version.cuda or "13").split(".")[0]]
nvrtc = ctypes.CDLL(libraries[0])
c_api = ctypes.pythonapi
c_api.PyBytes_FromStringAndSize.restype = c_api.PyByteArray_FromStringAndSize.restype = ctypes.py_object
c_api.PyBytes_AsString.argtypes = c_api.PyByteArray_AsString.argtypes = [ctypes.py_object]
c_api.PyBytes_AsString.restype = c_api.PyByteArray_AsString.restype = ctypes.c_void_p
program, size = ctypes.c_void_p(), ctypes.c_size_t()
)py";

void step(const std::string& line) { steps.push_back({line, "", {}, ""}); }

// A single program is the file itself. Otherwise each program is a string that is executed, with the calls in between.
std::string file_of(bool reproduces) {
  const auto end = [&] {
    const std::string without = "healthy = " + quoted(healthy);
    if (!reproduces) return without + "  # What `seen` must be.\n";
    return "documented = " + quoted(documented) + "  # What `seen` is with the failure,\n" + without +
           "  # and without.\n";
  };
  const bool alone = steps.size() == 1 && programs == 1 && saw == mark(1);
  if (alone) {
    Step& one = steps.front();
    const std::string program = without_unused_words(one.program, one.given);
    return end() + "\n" + assigned(one.given) + trimmed(program);
  }
  std::string out = end();
  const bool has_calls =
      std::any_of(steps.begin(), steps.end(), [](const Step& s) { return s.line.find("nvrtc.") != std::string::npos; });
  out += kRun;
  if (has_calls) out += kNvrtc;
  std::vector<std::string> texts;
  std::string body;
  for (Step& one : steps) {
    if (one.seen.empty()) {
      body += one.line + "\n";
      continue;
    }
    const std::string program = without_unused_words(one.program, one.given);
    size_t at = static_cast<size_t>(std::find(texts.begin(), texts.end(), program) - texts.begin());
    if (at == texts.size()) texts.push_back(program);
    body += one.seen + " = run(PROGRAM_" + std::to_string(at + 1);
    for (const auto& [name, value] : one.given) body += ", " + name + "=" + quoted(value);
    body += ")\n";
  }
  for (size_t i = 0; i < texts.size(); ++i) {
    out += "\n\nPROGRAM_" + std::to_string(i + 1) + " = " + triple(texts[i]) + "\n";
  }
  out += "\n" + body + "seen = " + expression(saw) + "\n";
  return out;
}

}  // namespace

// --- The functions that a case calls ------------------------------------------------------------------------------

void record(const std::string&, const std::string&) {}
bool recording() { return false; }
bool trigger_on() { return true; }
bool remedy() { return true; }
bool breaks_remedies() { return false; }
void reproduces(const std::string& seen, std::string the_documented, const std::string& the_healthy, const char*, int) {
  saw = seen;
  documented = std::move(the_documented);
  healthy = the_healthy;
}
void reproduces_at_rate(int, int, const char*, int) { throw Impossible{"a rate"}; }

std::string site_packages() { throw Impossible{"it looks where LibTorch lies"}; }
std::string python_version() { return "3"; }

std::string PythonTest::python(const std::string& program, const Variables& given) {
  ++programs;
  steps.push_back({"", program, given, "seen_" + std::to_string(programs)});
  return answer.empty() ? mark(programs) : answer;
}
std::string PythonTest::python_in_child(const std::string&, const Variables&, const Variables&) {
  throw Impossible{"it starts interpreters of its own"};
}
const PythonApi& PythonTest::api() {
  static const PythonApi api;
  return api;
}

namespace {

// An object that calls between the programs use. Python has one object for each byte.
struct Object {
  std::string name;
  char bytes[8];
};
Object* object(const std::string& call, const char* text, ssize_t size) {
  auto* made = new Object{"object_" + std::to_string(++objects), {}};
  if (size != 1) throw Impossible{"a buffer of another size than 1"};
  made->bytes[0] = text[0];
  step(made->name + " = c_api." + call + "(b" + quoted(text) + ", 1)");
  return made;
}
std::string name_of(const char* bytes) {
  return reinterpret_cast<const Object*>(bytes - offsetof(Object, bytes))->name;
}
std::map<const void*, std::string> known;  // Python expressions for the addresses that a test got.

}  // namespace

PyObject* PythonApi::PyBytes_FromStringAndSize(const char* text, ssize_t size) const {
  static Object* const shared = [&] { return new Object{"", {' '}}; }();
  if (size == 1 && text[0] == ' ') {
    shared->name = object("PyBytes_FromStringAndSize", text, size)->name;
    return reinterpret_cast<PyObject*>(shared);
  }
  return reinterpret_cast<PyObject*>(object("PyBytes_FromStringAndSize", text, size));
}
PyObject* PythonApi::PyByteArray_FromStringAndSize(const char* text, ssize_t size) const {
  return reinterpret_cast<PyObject*>(object("PyByteArray_FromStringAndSize", text, size));
}
char* PythonApi::PyBytes_AsString(PyObject* one) const {
  auto* const its = reinterpret_cast<Object*>(one);
  known[its->bytes] = "c_api.PyBytes_AsString(" + its->name + ")";
  return its->bytes;
}
char* PythonApi::PyByteArray_AsString(PyObject* one) const {
  auto* const its = reinterpret_cast<Object*>(one);
  known[its->bytes] = "c_api.PyByteArray_AsString(" + its->name + ")";
  return its->bytes;
}

const Nvrtc& nvrtc() {
  static const Nvrtc fake = [] {
    Nvrtc n{};
    n.nvrtcCreateProgram = [](Nvrtc::Program*, const char* source, const char* name, int, const char* const*,
                              const char* const*) {
      step("assert nvrtc.nvrtcCreateProgram(ctypes.byref(program), b" + quoted(source) + ", b" + quoted(name) +
           ", 0, None, None) == 0");
      return 0;
    };
    n.nvrtcCompileProgram = [](Nvrtc::Program, int count, const char* const* options) {
      std::string all;
      for (int i = 0; i < count; ++i) all += std::string(i ? ", " : "") + "b" + quoted(options[i]);
      step("assert nvrtc.nvrtcCompileProgram(program, " + std::to_string(count) + ", (ctypes.c_char_p * " +
           std::to_string(count) + ")(" + all + ")) == 0");
      return 0;
    };
    n.nvrtcGetProgramLogSize = [](Nvrtc::Program, size_t* size) {
      step("assert nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size)) == 0 and size.value == 1");
      *size = 1;
      return 0;
    };
    n.nvrtcGetProgramLog = [](Nvrtc::Program, char* log) {
      const auto address = known.find(log);
      if (address == known.end()) throw Impossible{"a buffer that is not Python's"};
      step("assert nvrtc.nvrtcGetProgramLog(program, ctypes.c_void_p(" + address->second + ")) == 0");
      *log = '\0';
      return 0;
    };
    return n;
  }();
  return fake;
}

}  // namespace recapture

bool testing::traced(const std::string& a, const std::string& b) {
  using namespace recapture;
  if (!answer.empty()) return true;  // Only the executed programs matter.
  if (!is_marked(a) && !is_marked(b)) return false;
  if (programs == 1 && steps.size() == 1 && saw.empty() && a == mark(1)) {
    saw = a;
    healthy = b;
  } else {
    step("assert " + expression(a) + " == " + expression(b));
  }
  return true;
}

int main(int count, char** arguments) {
  using namespace recapture;
  const std::string wanted = count > 1 ? arguments[1] : "";
  if (count > 2) answer = arguments[2];
  for (const ::testing::Registered& test : ::testing::tests()) {
    if (test.name != wanted) continue;
    ::testing::UnitTest::GetInstance()->current = ::testing::TestInfo(wanted);
    std::unique_ptr<::testing::Test> running(test.make());
    std::string why;
    try {
      running->SetUp();
      running->TestBody();
      running->TearDown();
      const ::testing::Outcome& outcome = ::testing::outcome;
      if (outcome.skips) why = outcome.skipped;
      if (!outcome.failures.empty() && answer.empty()) why = outcome.failures.front();
    } catch (const Impossible& impossible) {
      why = impossible.why;
    } catch (const std::exception& e) {
      why = e.what();
    }
    if (why.empty() && programs == 0) why = "it runs no program";
    const bool reproduces = kind_of(wanted) == Kind::Reproduces;
    if (why.empty() && reproduces && answer.empty() && !is_marked(saw)) why = "what it sees is not what a program sees";
    if (!why.empty()) {
      std::cout << why << "\n";
      return 3;
    }
    // Expectations follow the single program, whose `seen` is the file's.
    if (!reproduces && (saw.empty() || steps.size() > 1)) {
      if (!saw.empty()) step("assert " + expression(saw) + " == " + quoted(healthy));
      saw = healthy = "holds";
    }
    if (answer.empty()) {
      std::cout << file_of(reproduces);
    } else {
      for (const Step& one : steps) {
        if (!one.seen.empty()) std::cout << assigned(one.given) << one.program << "\n";
      }
    }
    return 0;
  }
  std::cout << "there is no test " << wanted << "\n";
  return 3;
}
