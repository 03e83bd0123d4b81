#include "harness/report/blame.h"

#include <cxxabi.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <vector>

#include "harness/base/escape.h"
#include "harness/base/letter_case.h"
#include "harness/blame/source.h"
#include "harness/case/cuda_errors.h"
#include "harness/recorder/captures.h"

namespace recapture::blame {
namespace {

const CudaError* error_of(int code) {
  const auto* found =
      std::find_if(std::begin(kCudaErrors), std::end(kCudaErrors), [&](const CudaError& e) { return e.code == code; });
  return found == std::end(kCudaErrors) ? nullptr : found;
}

std::string driver_name_of(int code) {
  const CudaError* error = error_of(code);
  return driver_name(error == nullptr ? "cudaErrorUnknown" : error->name);
}

std::string returned(const blame::Call& call) {
  const CudaError* error = error_of(call.code);
  return fmt::format("{} returned {}{}", escape_control(call.api), call.code,
                     error == nullptr ? "" : fmt::format(" ({})", error->text));
}

std::string text_of(const blame::Thread& thread) {
  return fmt::format("{} \"{}\"{}", thread.id, escape_control(thread.name), thread.main ? ", the main one" : "");
}

std::string line(std::string_view label, const std::string& text) { return fmt::format("  {:<9}{}\n", label, text); }

std::vector<blame::SourceFrame> python_frames_of(const blame::Call& call, const blame::Thread& thread) {
  const python::Thread* found = call.python_of(thread.handle);
  return found == nullptr ? std::vector<blame::SourceFrame>() : blame::python_frames(*found);
}

// As one would name the file here: without the folder that we are in, which Python puts before a script's name.
std::string text_here(blame::SourceFrame frame) {
  std::error_code error;
  const std::string here = std::filesystem::current_path(error).string() + "/";
  if (!error && frame.file.rfind(here, 0) == 0) frame.file.erase(0, here.size());
  return escape_control(text(frame));
}

// A stack, innermost first: the program's own frames a line each, with the source of the innermost, and between them
// how many frames of libraries.
std::string stack(std::string_view label, const std::vector<blame::SourceFrame>& frames) {
  constexpr size_t kMost = 6;
  std::string words;
  size_t folded = 0, shown = 0;
  std::string first_folded;
  const auto add = [&](const std::string& text) { words += line(words.empty() ? label : "", text); };
  const auto unfold = [&] {
    if (folded != 0)
      add(fmt::format("  {} of libraries, {}", folded == 1 ? "a frame" : fmt::format("{} frames", folded),
                      first_folded));
    folded = 0;
  };
  const auto last_own = std::find_if(frames.rbegin(), frames.rend(), [](const blame::SourceFrame& f) { return f.own; });
  for (const blame::SourceFrame& frame : frames) {
    if (!frame.own) {
      if (folded++ == 0) first_folded = escape_control(text(frame));
      continue;
    }
    if (shown == kMost) continue;
    if (shown != 0) unfold();
    folded = 0;
    add(text_here(frame));
    if (const std::string source = shown++ == 0 ? blame::source_line(frame) : ""; !source.empty()) {
      add("    " + escape_control(source));
    }
  }
  if (last_own == frames.rend()) unfold();
  return words;
}

// The libraries between the program and the driver, which may tell what the program asked for.
std::string through(const std::vector<blame::SourceFrame>& frames) {
  constexpr size_t kMost = 3;
  std::string words;
  size_t named = 0;
  for (const blame::SourceFrame& frame : frames) {
    const std::string_view library = base_name(frame.module);
    const bool is_python = library.find("python") != library.npos || library.substr(0, 6) == "libffi";
    if (frame.own || is_python || named == kMost) break;
    if (frame.function.find("+0x") != frame.function.npos) continue;
    words += (named++ == 0 ? "" : " < ") + escape_control(frame.function);
  }
  return words;
}

std::string where(const blame::Call& call) {
  const std::vector<blame::SourceFrame> python = python_frames_of(call, call.thread),
                                        native = blame::native_frames(call.frames);
  std::string words = stack("python", python);
  const bool some_own = std::any_of(native.begin(), native.end(), [](const blame::SourceFrame& f) { return f.own; });
  if (some_own || python.empty()) words += stack("c++", native);
  if (const std::string libraries = through(native); !libraries.empty() && !python.empty()) {
    words += line("through", libraries);
  }
  return words;
}

std::string on_thread(const blame::Call& call) {
  std::string text = text_of(call.thread);
  if (call.capturing) text += *call.capturing ? ", which captures" : ", which does not capture";
  if (call.mode != "unknown" && call.mode != "none" && !call.mode.empty()) text += "; capture mode " + call.mode;
  return text;
}

// Where the other threads stood, if one of them captured.
std::string capture(const blame::Failure& failure) {
  const blame::Call& culprit = *failure.culprit;
  if (const auto thread = failure.capturing()) {
    if (thread->handle == culprit.thread.handle) return "";
    const std::string stood = stack("", python_frames_of(culprit, *thread));
    return line("capture", "on thread " + text_of(*thread) + (stood.empty() ? "" : ", which stood at")) + stood;
  }
  std::string words;
  for (const python::Thread& thread : culprit.python) {
    if (thread.handle != culprit.thread.handle)
      words += stack(words.empty() ? "others" : "", blame::python_frames(thread));
  }
  return words;
}

std::string stream_text(uintptr_t stream) {
  if (stream == 0) return "the default stream";
  return stream == Captures::kPerThreadStream ? "the thread's own default stream" : fmt::format("stream {:#x}", stream);
}

// How the capture began, and where.
std::string begun_in_words(const std::optional<blame::Call>& begun) {
  if (!begun) return "";
  return line("begun", fmt::format("on {}, capture mode {}, by thread {}", stream_text(begun->stream),
                                   escape_control(begun->mode), text_of(begun->thread))) +
         where(*begun);
}

std::string demangled(const std::string& symbol) {
  constexpr size_t kLongest = 200;
  char* plain = abi::__cxa_demangle(symbol.c_str(), nullptr, nullptr, nullptr);
  const std::string text = escape_control(plain == nullptr ? symbol : plain);
  std::free(plain);
  return text.size() <= kLongest ? text : text.substr(0, kLongest) + "…";
}

std::string victims(const blame::Failure& failure) {
  std::vector<std::pair<std::string, size_t>> kinds;
  for (const blame::Call& call : failure.victims) {
    const std::string text = returned(call);
    const auto same = std::find_if(kinds.begin(), kinds.end(), [&](const auto& kind) { return kind.first == text; });
    if (same == kinds.end()) {
      kinds.emplace_back(text, 1);
    } else {
      ++same->second;
    }
  }
  std::string words;
  for (const auto& [text, times] : kinds) {
    words += line(words.empty() ? "victims" : "", times == 1 ? text : fmt::format("{}, {} times", text, times));
  }
  if (failure.unreported != 0) words += line("", fmt::format("and {} calls more", failure.unreported));
  return words;
}

}  // namespace

std::string render_log(const blame::Failure& failure) {
  std::string log;
  const auto add = [&](const blame::Call& call) {
    std::string sentence = call.sentence;
    if (sentence.empty() && call.capturing) {  // What the log would say where CUPTI has heard it, or the end has told.
      sentence = "API call conflicts with a stream capture sequence initiated from ";
      sentence += beside_another(call) == true ? "another thread" : "the calling thread";
    }
    if (!sentence.empty()) log += "[CUDA][E] " + sentence + "\n";
    log += fmt::format("[CUDA][E] Returning {} ({}) from {}\n", call.code, driver_name_of(call.code), call.api);
  };
  if (failure.culprit) {
    add(*failure.culprit);
    for (const blame::SourceFrame& frame : python_frames_of(*failure.culprit, failure.culprit->thread)) {
      log += text(frame) + "\n" + blame::source_line(frame) + "\n";
    }
    for (const Frame& frame : failure.culprit->frames) log += frame.function + "\n";
  }
  for (const blame::Call& call : failure.victims) add(call);
  if (failure.end && failure.end->part == Part::Ended) add(*failure.end);
  return log;
}

std::optional<bool> beside_another(const blame::Call& call) {
  if (call.sentence.find("from another thread") != call.sentence.npos) return true;
  if (call.in_log || call.mode == "unknown") return false;  // The log has said all that it says of it.
  if (call.on_capture) return false;
  return call.capturing ? std::optional(!*call.capturing) : std::nullopt;
}

std::string path_of(const blame::Call& culprit) {
  std::string path;
  for (const blame::SourceFrame& frame : python_frames_of(culprit, culprit.thread)) {
    path += text(frame) + "\n" + blame::source_line(frame) + "\n";
    if (frame.own) break;
  }
  for (const Frame& frame : culprit.frames) path += frame.function + "\n";
  return path;
}

std::string name(const blame::Process& process) {
  std::string words = fmt::format("process {}", process.pid);
  if (!process.rank.empty()) words += ", rank " + escape_control(process.rank);
  if (!process.local_rank.empty()) words += ", local rank " + escape_control(process.local_rank);
  if (!process.program.empty())
    words += fmt::format(" ({})", escape_control(process.program));  // None in a fork of one.
  return words;
}

std::string render_text(const blame::Failure& failure, std::string_view heard_by) {
  std::string words;
  if (failure.culprit) {
    const blame::Call& culprit = *failure.culprit;
    words = returned(culprit) + (culprit.part == Part::EndedBy ? ", and the capture failed\n"
                                 : failure.end                 ? " and broke the capture\n"
                                                               : "\n");
    if (!culprit.sentence.empty()) words += line("driver", escape_control(culprit.sentence));
    words += line("thread", on_thread(culprit)) + where(culprit) + capture(failure);
  } else {
    words = "a capture was broken by a call that was not recorded";
    words += heard_by == "the driver's log" ? "; RECAPTURE_RECORDER=cupti hears more\n" : "\n";
    const blame::Call* seen = failure.end               ? &*failure.end
                              : failure.victims.empty() ? nullptr
                                                        : &failure.victims.front();
    if (seen != nullptr) words += line("thread", text_of(seen->thread)) + where(*seen);
  }
  if (failure.ends > 1) words += line("", fmt::format("it broke {} captures", failure.ends));
  words += begun_in_words(failure.begun) + victims(failure);
  if (failure.end && failure.end->part == Part::Ended) words += line("end", returned(*failure.end));
  if (!failure.end && !failure.ends)
    words += line("end", "none was seen: the process ended before its capture, or the capture lives");
  return words;
}

std::string render_text(const blame::Call& refused) {
  std::string words = returned(refused) + "; it broke no capture";
  words += refused.mode == "none" ? "\n" : ", which goes on without it\n";  // None was open.
  if (!refused.sentence.empty()) words += line("driver", escape_control(refused.sentence));
  return words + line("thread", on_thread(refused)) + where(refused);
}

std::string render_text(const blame::Silent& silent) {
  const blame::Call& call = silent.call;
  std::string words = escape_control(call.api);
  if (silent.is_empty_graph()) {
    words += " ended a capture that recorded nothing: its graph is empty\n";
    return words + line("thread", text_of(call.thread)) + where(call) + begun_in_words(silent.begun);
  }
  words += " was done at once and is in no graph, though a capture was open";
  words += silent.times == 1 ? "\n" : fmt::format("; {} times\n", silent.times);
  if (!call.kernel.empty()) words += line("kernel", demangled(call.kernel));
  words += line("on", stream_text(call.stream) + ", which did not capture");
  words += line("thread", text_of(call.thread) + (call.waited ? ", which does not capture" : ", which captures")) +
           where(call);
  if (call.waited && silent.begun) {
    const blame::Thread& thread = silent.begun->thread;
    const std::string stood = stack("", python_frames_of(call, thread));
    words +=
        line("capture", fmt::format("on thread {}, which stood still{}", text_of(thread), stood.empty() ? "" : " at")) +
        stood;
  }
  return words + begun_in_words(silent.begun);
}

std::string without_deep(const std::string& why_not) {
  const bool missing = why_not.find("not to be found") != why_not.npos;
  return fmt::format("--deep told nothing: {}; {}", escape_control(why_not),
                     missing
                         ? "install nvidia-cuda-cupti (nvidia-cuda-cupti-cu12 for CUDA 12) and name the folder of its "
                           "libcupti.so in LD_LIBRARY_PATH"
                         : "captures that fail are reported all the same");
}

namespace {

Json render_json(const std::vector<blame::SourceFrame>& frames) {
  Json all = Json::array();
  for (const blame::SourceFrame& frame : frames) {
    all.push_back({{"file", frame.file},
                   {"line", frame.line},
                   {"function", frame.function},
                   {"own", frame.own},
                   {"source", frame.own ? blame::source_line(frame) : ""}});
  }
  return all;
}

Json render_json(const blame::Thread& thread) {
  return {{"id", thread.id}, {"name", thread.name}, {"main", thread.main}};
}

Json begun_as_json(const std::optional<blame::Call>& begun) {
  if (!begun) return {};
  return {{"stream", fmt::format("{:#x}", begun->stream)},
          {"mode", begun->mode},
          {"thread", render_json(begun->thread)},
          {"python", render_json(python_frames_of(*begun, begun->thread))},
          {"stack", render_json(blame::native_frames(begun->frames))}};
}

}  // namespace

Json render_json(const blame::Call& call) {
  return {{"api", call.api},
          {"code", call.code},
          {"sentence", call.sentence},
          {"mode", call.mode},
          {"thread", render_json(call.thread)},
          {"capturing", call.capturing ? Json(*call.capturing) : Json()},
          {"python", render_json(python_frames_of(call, call.thread))},
          {"stack", render_json(blame::native_frames(call.frames))}};
}

Json render_json(const blame::Silent& silent) {
  const blame::Call& call = silent.call;
  return {{"what", silent.is_empty_graph() ? "empty graph" : "not in the graph"},
          {"api", call.api},
          {"kernel", call.kernel.empty() ? "" : demangled(call.kernel)},
          {"stream", fmt::format("{:#x}", call.stream)},
          {"times", silent.times},
          {"thread", render_json(call.thread)},
          {"capturing", !call.waited},
          {"python", render_json(python_frames_of(call, call.thread))},
          {"stack", render_json(blame::native_frames(call.frames))},
          {"begun", begun_as_json(silent.begun)}};
}

Json render_json(const blame::Failure& failure) {
  Json victims = Json::array(), capture = Json();
  for (const blame::Call& call : failure.victims) victims.push_back(render_json(call));
  if (const auto thread = failure.capturing()) {
    const blame::Call* seen = failure.culprit ? &*failure.culprit : &*failure.end;
    capture = {{"thread", render_json(*thread)}, {"python", render_json(python_frames_of(*seen, *thread))}};
  }
  return {{"culprit", failure.culprit ? render_json(*failure.culprit) : Json()},
          {"capture", capture},
          {"begun", begun_as_json(failure.begun)},
          {"victims", victims},
          {"unreported", failure.unreported},
          {"end", failure.end ? render_json(*failure.end) : Json()},
          {"ends", failure.ends}};
}

}  // namespace recapture::blame
