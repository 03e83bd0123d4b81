#include "harness/report/blame.h"

#include <cxxabi.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <vector>

#include "harness/base/escape.h"
#include "harness/blame/source.h"
#include "harness/case/cuda_errors.h"
#include "harness/recorder/captures.h"
#include "harness/recorder/report.h"
#include "harness/report/explanation.h"

namespace recapture::report {
namespace {

std::string returned(const blame::Call& call) {
  const CudaError* error = find_cuda_error(call.code);
  return fmt::format("{} returned {}{}", escape_control(call.api), call.code,
                     error == nullptr ? "" : fmt::format(" ({})", error->text));
}

std::string text_of(const blame::Thread& thread) {
  return fmt::format("{} \"{}\"{}", thread.id, escape_control(thread.name), thread.main ? ", the main one" : "");
}

std::string line(std::string_view label, const std::string& text) { return fmt::format("  {:<9}{}\n", label, text); }

// A file's path relative to the current folder, which Python puts before a script's name.
std::string text_here(blame::SourceFrame frame) {
  std::error_code error;
  const std::string here = std::filesystem::current_path(error).string() + "/";
  if (!error && frame.file.rfind(here, 0) == 0) frame.file.erase(0, here.size());
  return escape_control(text(frame));
}

// Whether a frame's text is more than a library and an offset in it.
bool is_named(const std::string& text) { return text.find("+0x") == text.npos; }

// A stack, innermost first: a line for each frame of the program, with the source of the innermost, and in between the
// number of library frames.
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
      if (folded++ == 0 || !is_named(first_folded)) first_folded = escape_control(text(frame));
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

// The libraries between the program and the driver, which show what the program requested.
std::string through(const std::vector<blame::SourceFrame>& frames) {
  constexpr size_t kMost = 3;
  std::string words;
  size_t named = 0;
  for (const blame::SourceFrame& frame : frames) {
    const std::string_view library = base_name(frame.module);
    const bool is_python = library.find("python") != library.npos || library.substr(0, 6) == "libffi";
    if (frame.own || is_python || named == kMost) break;
    if (!is_named(frame.function)) continue;
    words += (named++ == 0 ? "" : " < ") + escape_control(frame.function);
  }
  return words;
}

std::string where(const blame::Call& call) {
  const std::vector<blame::SourceFrame> python = python_frames_of(call, call.thread),
                                        native = blame::native_frames(call.frames);
  std::string words = stack("python", python);
  const bool some_own = std::ranges::any_of(native, [](const blame::SourceFrame& f) { return f.own; });
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

// The stacks of the other threads, if one of them captured.
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
      words += stack(words.empty() ? "others" : "", blame::python_frames(thread.frames));
  }
  return words;
}

std::string stream_text(uintptr_t stream) {
  if (stream == 0) return "the default stream";
  return stream == Captures::kPerThreadStream ? "the thread's own default stream" : fmt::format("stream {:#x}", stream);
}

// The call that began the capture, and its place.
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
    const auto same = std::ranges::find_if(kinds, [&](const auto& kind) { return kind.first == text; });
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
  if (failure.unreported != 0) words += line("", fmt::format("and {} more calls", failure.unreported));
  return words;
}

std::string process_name(const blame::Process& process) {
  std::string words = fmt::format("process {}", process.pid);
  if (!process.rank.empty()) words += ", rank " + escape_control(process.rank);
  if (!process.local_rank.empty()) words += ", local rank " + escape_control(process.local_rank);
  if (!process.program.empty())
    words += fmt::format(" ({})", escape_control(process.program));  // A forked process has none.
  return words;
}

constexpr size_t kLongestMessage = 200;

std::string message_of(const blame::Raised& raised) {
  return escape_control(raised.type) + (raised.text.empty() ? "" : ": " + truncated(raised.text, kLongestMessage));
}

// The exception's effect on the capture.
std::string by_exception(const blame::Failure& failure) {
  const blame::GivenUp& given_up = *failure.given_up;
  std::string words = "an exception ended the capture, and no CUDA call had failed";
  if (given_up.raised.empty()) words = "a capture never ended";
  if (failure.end) words = fmt::format("an exception ended the capture, so that {}", returned(*failure.end));
  if (given_up.at == "begin") words = "an exception kept the capture from beginning, and no CUDA call had failed";
  if (given_up.at == "end") words = "the end of the capture raised an exception, and no CUDA call had failed";
  if (given_up.at == "exit" && !given_up.raised.empty())
    words = "an exception ended the program, and a capture never ended";
  const bool is_uncaught = given_up.at == "terminate" || (given_up.at == "abort" && blame::is_thrown(given_up.stack));
  if (given_up.at == "abort") words = "abort() ended the program while a capture was open";
  if (is_uncaught) words = "an uncaught exception ended the program while a capture was open";
  if (failure.end && failure.end->part == Part::Ended) {
    words = "a capture was broken by a call that was not recorded, and raised an exception";
  }
  return failure.times == 1 ? words : fmt::format("{}; {} times", words, failure.times);
}

std::string without_culprit(std::string_view heard_by) {
  const bool is_log = heard_by == "the driver's log";
  return fmt::format("a capture was broken by a call that was not recorded{}\n",
                     is_log ? "; RECAPTURE_RECORDER=cupti records more" : "");
}

// A call that shows that a capture was broken, if the culprit is unknown; or none.
const blame::Call* seen_of(const blame::Failure& failure) {
  return failure.end ? &*failure.end : failure.victims.empty() ? nullptr : &failure.victims.front();
}

// The first of the program's own frames, else the innermost frame; none if there are no frames.
const blame::SourceFrame* place(const std::vector<blame::SourceFrame>& frames) {
  const auto own = std::ranges::find_if(frames, [](const blame::SourceFrame& f) { return f.own; });
  if (own != frames.end()) return &*own;
  return frames.empty() ? nullptr : &frames.front();
}

std::string at_place(std::string_view label, const std::vector<blame::SourceFrame>& frames, bool with_source) {
  const blame::SourceFrame* frame = place(frames);
  if (frame == nullptr) return "";
  std::string words = line(label, text_here(*frame));
  const std::string source = with_source ? blame::source_line(*frame) : "";
  if (!source.empty()) words += line("", "    " + truncated(source, 100));
  return words;
}

// The frames of the original exception; of a later one if those are unknown.
std::vector<blame::SourceFrame> frames_of(const blame::GivenUp& given_up) {
  for (auto raised = given_up.raised.rbegin(); raised != given_up.raised.rend(); ++raised) {
    if (!raised->frames.empty()) return blame::python_frames(raised->frames);
  }
  return blame::native_frames(given_up.stack);
}

std::string raised(const blame::GivenUp& given_up) {
  std::string words;
  for (const blame::Raised& one : given_up.raised) words += line(words.empty() ? "raised" : "from", message_of(one));
  return words;
}

}  // namespace

std::string render_text(const blame::Failure& failure, std::string_view heard_by) {
  std::string words;
  if (failure.is_by_exception()) {
    const blame::GivenUp& given_up = *failure.given_up;
    words = by_exception(failure) + "\n" + raised(given_up) + line("thread", text_of(given_up.thread));
    words += stack(given_up.stack.empty() ? "python" : "c++", frames_of(given_up));
    words += stack("begun", blame::python_frames(given_up.begun));
    return words + victims(failure);
  }
  if (failure.culprit) {
    const blame::Call& culprit = *failure.culprit;
    words = returned(culprit) + (culprit.part == Part::EndedBy ? ", and the capture failed\n"
                                 : failure.end                 ? " and broke the capture\n"
                                                               : "\n");
    if (!culprit.sentence.empty()) words += line("driver", escape_control(culprit.sentence));
    words += line("thread", on_thread(culprit)) + where(culprit) + capture(failure);
  } else {
    words = without_culprit(heard_by);
    const blame::Call* seen = seen_of(failure);
    if (seen != nullptr) words += line("thread", text_of(seen->thread)) + where(*seen);
  }
  if (failure.ends > 1) words += line("", fmt::format("it broke {} captures", failure.ends));
  words += begun_in_words(failure.begun) + victims(failure);
  if (failure.end && failure.end->part == Part::Ended) words += line("end", returned(*failure.end));
  if (failure.given_up) words += raised(*failure.given_up);
  if (!failure.end && !failure.ends)
    words += line("end", "none was seen: the process ended before its capture, or the capture lives");
  return words;
}

namespace {

std::string render_text(const blame::Call& refused) {
  std::string words = returned(refused) + "; it broke no capture";
  words += refused.mode == "none" ? "\n" : ", which goes on without it\n";  // No capture was open.
  if (!refused.sentence.empty()) words += line("driver", escape_control(refused.sentence));
  return words + line("thread", on_thread(refused)) + where(refused);
}

}  // namespace

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

namespace {

// One line of advice if --deep is not possible.
std::string without_deep(const std::string& why_not) {
  const bool missing = why_not.find("not to be found") != why_not.npos;
  return fmt::format("--deep reported nothing: {}; {}", escape_control(why_not),
                     missing
                         ? "install nvidia-cuda-cupti (nvidia-cuda-cupti-cu12 for CUDA 12) and name the folder of its "
                           "libcupti.so in LD_LIBRARY_PATH"
                         : "captures that fail are reported all the same");
}

class Painter {
 public:
  explicit Painter(bool colour) : colour_(colour) {}
  std::string bold(const std::string& text) const { return paint("1", text); }
  std::string red(const std::string& text) const { return paint("1;31", text); }
  std::string green(const std::string& text) const { return paint("32", text); }

 private:
  // Ends the colour before the line end, so that it does not extend to the next line.
  std::string paint(const char* how, const std::string& text) const {
    const size_t end = text.find_last_not_of('\n') + 1;
    return colour_ ? fmt::format("\x1b[{}m{}\x1b[0m{}", how, text.substr(0, end), text.substr(end)) : text;
  }

  bool colour_;
};

// The remedy to show if only one is shown: one that holds, or that has no record.
const explain::FixAdvice* remedy_of(const explain::Explanation& explanation) {
  const explain::FixAdvice* best = nullptr;
  for (const explain::FixAdvice& remedy : explanation.remedies) {
    if (remedy.useless || remedy.holds == false) continue;
    if (best == nullptr || (remedy.holds == true && best->holds != true && remedy.cause == best->cause)) best = &remedy;
  }
  return best;
}

// Where a call was made: the Python frames, and those below, down to the program's own line.
struct Site {
  std::vector<blame::SourceFrame> frames;
  std::string libraries;  // Between the program and the driver, if no line of the program is known.
};

Site site_of(const blame::Call& call) {
  std::vector<blame::SourceFrame> python = blame::python_frames_of(call, call.thread),
                                  native = blame::native_frames(call.frames);
  const blame::SourceFrame* own = place(native);
  const bool is_own = own != nullptr && own->own;
  if (!python.empty() && !(is_own && !place(python)->own)) return {std::move(python), ""};
  const std::string libraries = is_own ? "" : through(native);
  return {std::move(native), libraries};
}

std::string culprit_in_short(const blame::Failure& failure, const Painter& painter) {
  const blame::Call& culprit = *failure.culprit;
  const std::string broken = failure.ends > 1 ? fmt::format(" and broke {} captures\n", failure.ends)
                             : failure.end    ? " and broke the capture\n"
                                              : "\n";
  std::string words =
      painter.red(returned(culprit) + (culprit.part == Part::EndedBy ? ", and the capture failed\n" : broken));
  const Site site = site_of(culprit);
  words += at_place("at", site.frames, true);
  if (!site.libraries.empty()) words += line("through", site.libraries);
  const auto capturing = failure.capturing();
  const bool is_other = capturing && capturing->handle != culprit.thread.handle;
  if (is_other || !culprit.thread.main) words += line("thread", on_thread(culprit));
  if (is_other) {
    const std::vector<blame::SourceFrame> stood = blame::python_frames_of(culprit, *capturing);
    const blame::SourceFrame* there = place(stood);
    words += line("capture", fmt::format("on thread {}{}", text_of(*capturing),
                                         there == nullptr ? "" : ", which stood at " + text_here(*there)));
  } else if (failure.begun) {
    const std::vector<blame::SourceFrame> stood = blame::python_frames_of(*failure.begun, failure.begun->thread);
    const blame::SourceFrame* there = place(stood);
    words += line("begun", "capture mode " + escape_control(failure.begun->mode) +
                               (there == nullptr ? "" : ", at " + text_here(*there)));
  }
  return words;
}

std::string exception_in_short(const blame::Failure& failure, const Painter& painter) {
  const blame::GivenUp& given_up = *failure.given_up;
  std::string words = painter.red(by_exception(failure) + "\n");
  if (!given_up.raised.empty()) words += line("raised", message_of(given_up.raised.front()));
  if (given_up.raised.size() > 1) words += line("from", message_of(given_up.raised.back()));
  words += at_place("at", frames_of(given_up), true);
  if (!given_up.thread.main) words += line("thread", text_of(given_up.thread));
  return words + at_place("begun", blame::python_frames(given_up.begun), false);
}

std::string unknown_in_short(const blame::Failure& failure, std::string_view heard_by, const Painter& painter) {
  std::string words = painter.red(without_culprit(heard_by));
  const blame::Call* seen = seen_of(failure);
  if (seen == nullptr) return words;
  const std::vector<blame::SourceFrame> python = blame::python_frames_of(*seen, seen->thread);
  return words + at_place("at", python.empty() ? blame::native_frames(seen->frames) : python, true) +
         line("thread", text_of(seen->thread));
}

// At most nine lines; the head adds one.
std::string in_short(const blame::Failure& failure, std::string_view heard_by, const blame::Causes& causes,
                     const std::string& release, const Painter& painter) {
  const explain::Explanation& explanation = causes.explanation;
  constexpr size_t kMostCauses = 2;
  std::string words;
  if (failure.is_by_exception()) {
    words = exception_in_short(failure, painter);
  } else if (failure.culprit) {
    words = culprit_in_short(failure, painter);
  } else {
    words = unknown_in_short(failure, heard_by, painter);
  }
  for (size_t i = 0; i < std::min(explanation.causes.size(), kMostCauses); ++i) {
    const explain::Found& cause = explanation.causes[i];
    words += line(i == 0 ? "cause" : "or", painter.bold(fmt::format("{} ({})", cause.title, cause.id)));
  }
  for (const OperatorAnswer& one : explanation.operators) words += line("operator", painter.green(one.line));
  if (explanation.causes.empty()) return words + line("cause", "not known");
  const explain::FixAdvice* remedy = remedy_of(explanation);
  // A recorded result of the operator is better advice than an untried remedy.
  if (remedy != nullptr && (explanation.operators.empty() || remedy->holds == true)) {
    const std::string holds = remedy->holds == true ? fmt::format("holds in {}: ", release) : "try: ";
    words += line("fix", painter.green(holds + remedy->text));
  }
  if (!causes.case_to_read.empty()) words += line("read", "recapture show " + causes.case_to_read);
  return words;
}

// "train.py:15 in evaluate"; "" if unknown.
std::string at_in_short(const blame::Failure& failure) {
  std::vector<blame::SourceFrame> frames;
  if (failure.is_by_exception()) {
    frames = frames_of(*failure.given_up);
  } else if (const blame::Call* call = failure.culprit ? &*failure.culprit : seen_of(failure); call != nullptr) {
    frames = site_of(*call).frames;
  }
  const blame::SourceFrame* there = place(frames);
  return there == nullptr ? "" : text_here(*there);
}

std::string causes_in_full(const explain::Explanation& explanation, const std::string& release) {
  std::string words;
  for (const explain::Found& cause : explanation.causes) {
    words += fmt::format("  cause    {} ({})\n", cause.title, cause.id);
    for (const explain::FixAdvice& remedy : explanation.remedies) {
      if (remedy.cause == cause.id) words += report::render_text(remedy, release, 11);
    }
  }
  if (words.empty()) words = line("cause", "not known");
  for (const OperatorAnswer& one : explanation.operators) words += line("operator", one.line);
  return words;
}

// Each of them with that head, as far as there is room.
template <class All, class InWords>
std::string list_in_words(const std::string& head, const All& all, const InWords& in_words_of) {
  constexpr size_t kMost = 10;
  std::string words;
  for (size_t i = 0; i < std::min(all.size(), kMost); ++i) words += fmt::format("{}:\n{}\n", head, in_words_of(i));
  if (all.size() > kMost) words += fmt::format("and {} more\n", all.size() - kMost);
  return words;
}

// What the recorder left out. It writes the number from time to time, since the program may end at any moment.
std::string cut_in_words(const std::string& head, const blame::Cut& cut) {
  std::string words;
  const auto add = [&](size_t number, const std::string& what) {
    if (number != 0) {
      words += fmt::format("{}: only its first {} were kept, and at least {} more were not\n", head, what, number);
    }
  };
  add(cut.failed, fmt::format("{} calls that failed", kMostCalls));
  add(cut.refused, "calls that were refused");
  add(cut.given_up, "exceptions that ended a capture");
  add(cut.silent, fmt::format("{} calls that are in no graph", kMostCalls));
  return words;
}

}  // namespace

std::string render_text(const blame::Answer& answer, BlameStyle style) {
  const Painter painter(style.colour);
  std::string words;
  size_t recorded = 0, failures = 0;
  for (const blame::Answer::OfProcess& one : answer.processes) {
    const blame::Process& process = one.process;
    recorded += process.why_not.empty() ? 1 : 0;
    failures += process.failures.size();
    const std::string head = fmt::format("recapture blame: {}", process_name(process));
    if (!process.why_not.empty())
      words += fmt::format("{}: nothing was recorded, {}\n", head, escape_control(process.why_not));
    if (!process.why_not_deep.empty()) words += fmt::format("{}: {}\n", head, without_deep(process.why_not_deep));
    words += list_in_words(head, process.failures, [&](size_t i) {
      const blame::Failure& failure = process.failures[i];
      return style.verbose ? render_text(failure, process.by) + causes_in_full(one.causes[i].explanation, one.release)
                           : in_short(failure, process.by, one.causes[i], one.release, painter);
    });
    words += list_in_words(head, process.refused, [&](size_t i) { return render_text(process.refused[i]); });
    words += list_in_words(head, process.silent, [&](size_t i) { return render_text(process.silent[i]); });
    words += cut_in_words(head, process.cut);
  }
  if (!answer.not_whole.empty())
    return words + fmt::format("recapture blame: the report is incomplete: {}\n", answer.not_whole);
  if (answer.processes.empty()) {
    return fmt::format("recapture blame: nothing was recorded: {}\n", answer.why_nothing);
  }
  if (failures == 0 && recorded != 0) {
    words += fmt::format(
        "recapture blame: no capture has failed in {}\n",
        recorded == 1 ? "the process that used CUDA" : fmt::format("{} processes that used CUDA", recorded));
  }
  return words;
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

Json given_up_as_json(const std::optional<blame::GivenUp>& given_up) {
  if (!given_up) return {};
  Json raised = Json::array();
  for (const blame::Raised& one : given_up->raised) {
    raised.push_back(
        {{"type", one.type}, {"text", one.text}, {"python", render_json(blame::python_frames(one.frames))}});
  }
  return {{"at", given_up->at},
          {"thread", render_json(given_up->thread)},
          {"raised", raised},
          {"stack", render_json(blame::native_frames(given_up->stack))},
          {"begun", render_json(blame::python_frames(given_up->begun))}};
}

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
    // A capture that an exception ended may have neither a culprit nor a failed end.
    const blame::Call* seen = failure.culprit ? &*failure.culprit : failure.end ? &*failure.end : nullptr;
    capture = {{"thread", render_json(*thread)},
               {"python", seen == nullptr ? Json::array() : render_json(python_frames_of(*seen, *thread))}};
  }
  return {{"culprit", failure.culprit ? render_json(*failure.culprit) : Json()},
          {"capture", capture},
          {"begun", begun_as_json(failure.begun)},
          {"victims", victims},
          {"unreported", failure.unreported},
          {"end", failure.end ? render_json(*failure.end) : Json()},
          {"ends", failure.ends},
          {"given_up", given_up_as_json(failure.given_up)},
          {"times", failure.times}};
}

}  // namespace

Json render_json(const blame::Answer& answer) {
  Json all = Json::array();
  for (const blame::Answer::OfProcess& one : answer.processes) {
    const blame::Process& process = one.process;
    Json failures = Json::array(), refused = Json::array(), silent = Json::array();
    for (size_t i = 0; i < process.failures.size(); ++i) {
      failures.push_back(render_json(process.failures[i]));
      failures.back()["explanation"] = report::render_json(one.causes[i].explanation);
      failures.back()["at"] = at_in_short(process.failures[i]);
      failures.back()["text"] = in_short(process.failures[i], process.by, one.causes[i], one.release, Painter(false));
    }
    for (const blame::Call& call : process.refused) refused.push_back(render_json(call));
    for (const blame::Silent& each : process.silent) silent.push_back(render_json(each));
    all.push_back({{"pid", process.pid},
                   {"rank", process.rank},
                   {"local_rank", process.local_rank},
                   {"program", process.program},
                   {"heard_by", process.by},
                   {"torch", process.torch},
                   {"release", one.release},
                   {"why_not", process.why_not},
                   {"why_not_deep", process.why_not_deep},
                   {"failures", failures},
                   {"refused", refused},
                   {"silent", silent},
                   {"cut",
                    {{"failed", process.cut.failed},
                     {"refused", process.cut.refused},
                     {"silent", process.cut.silent},
                     {"given_up", process.cut.given_up}}}});
  }
  return {{"schema", 1},  // docs/reference/blame-json.md
          {"processes", all},
          {"not_whole", answer.not_whole},
          {"why_nothing", answer.why_nothing},
          {"text", render_text(answer, {})}};
}

}  // namespace recapture::report
