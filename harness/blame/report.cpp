#include "harness/blame/report.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <utility>

#include "harness/base/exit.h"
#include "harness/base/file.h"
#include "harness/base/json.h"
#include "harness/base/regex.h"
#include "harness/base/text.h"

namespace recapture::blame {
namespace {

bool flag_at(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_boolean() && found->get<bool>();
}

uintptr_t number_at(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number_unsigned() ? found->get<uintptr_t>() : 0;
}

Call call_in(const Json& line) {
  Call call;
  call.api = text_at(line, "api");
  call.code = int_at(line, "code").value_or(0);
  call.part = part_of(call.api, call.code);
  call.sentence = text_at(line, "sentence");
  call.mode = text_at(line, "mode");
  if (line.contains("capturing")) call.capturing = flag_at(line, "capturing");
  call.in_log = flag_at(line, "in_log");
  call.on_capture = flag_at(line, "on_capture");
  call.unreported = number_at(line, "unreported");
  call.capture = number_at(line, "capture");
  if (line.contains("latest")) call.latest = number_at(line, "latest");
  call.stream = number_at(line, "stream");
  call.kernel = text_at(line, "kernel");
  call.waited = flag_at(line, "waited");
  const Json thread = line.value("thread", Json::object());
  call.thread = {int_at(thread, "id").value_or(0), number_at(thread, "handle"), text_at(thread, "name"),
                 flag_at(thread, "main")};
  for (const Json& frame : line.value("frames", Json::array())) {
    call.frames.push_back({text_at(frame, "function"), text_at(frame, "module"), number_at(frame, "offset")});
  }
  call.python = python::read_threads(text_at(line, "python"), call.thread.handle);
  return call;
}

std::vector<python::Frame> frames_at(const Json& object, const char* key) {
  std::vector<python::Frame> frames;
  for (const Json& frame : object.value(key, Json::array())) {
    frames.push_back({text_at(frame, "file"), int_at(frame, "line").value_or(0), text_at(frame, "function")});
  }
  return frames;
}

GivenUp given_up_in(const Json& line) {
  const Call by = call_in(line);
  GivenUp given_up{text_at(line, "at"), by.thread, {}, frames_at(line, "begun"), {}, 0, 0};
  if (given_up.at == "terminate" || given_up.at == "abort")
    given_up.stack = by.frames;  // A Python exception has Python frames.
  given_up.failed_before = number_at(line, "failed_before");
  for (const Json& one : line.value("raised", Json::array())) {
    given_up.raised.push_back({text_at(one, "type"), text_at(one, "text"), frames_at(one, "frames")});
  }
  return given_up;
}

// The release of the LibTorch that this library belongs to: from torch/version.py in a Python package, else from
// build-version.
std::string release_beside(const std::string& library) {
  namespace fs = std::filesystem;
  if (library.empty()) return {};
  const fs::path folder = fs::path(library).parent_path().parent_path();
  static const RE2 kVersion(R"(__version__ *=[^'"\n]*['"]([^'"]+))", RE2::Latin1);
  try {
    if (const fs::path file = folder / "version.py"; fs::is_regular_file(file)) {
      const std::string text = contents_of(file.string());
      std::string version;
      RE2::PartialMatch(text, kVersion, &version);
      return version;
    }
    if (const fs::path file = folder / "build-version"; fs::is_regular_file(file)) {
      const std::string text = contents_of(file.string());
      return text.substr(0, text.find_first_of(" \r\n"));
    }
  } catch (const ExitError&) {  // Not readable.
  }
  return {};
}

// Arguments are separated by zeros.
std::string command_line(std::string text) {
  while (!text.empty() && text.back() == '\0') text.pop_back();
  std::replace(text.begin(), text.end(), '\0', ' ');
  return text;
}

// Assigns the calls of one process, in order, to captures. The log has no line for the begin of a capture. A broken
// capture ends with an error, which is in the log: so all failures since the previous such end belong to the capture
// that ends now, and the first of them that can break a capture is the culprit. With several captures at once, a
// capturing thread has broken its own.
class Judge {
 public:
  explicit Judge(Process& process) : process_(process) {}

  void take(Call call) {
    switch (call.part) {
      case Part::None:
        return;
      case Part::Refused:
        process_.refused.push_back(std::move(call));
        return;
      case Part::Suspect:
      case Part::Possible:
      case Part::Victim:
        open_.push_back(std::move(call));
        return;
      case Part::Ended:
        take_end(std::move(call));
        return;
      case Part::EndedBy:
        // This capture was valid until here: earlier failures broke no capture, or another one that is still open.
        process_.failures.push_back({std::move(call), {}, std::nullopt, 1, 0});
        process_.failures.back().end = process_.failures.back().culprit;
        return;
    }
  }

  // Failures after the last end of a capture: the process ended first, or no capture was broken.
  void finish() {
    while (!open_.empty()) {
      Call first = std::move(open_.front());
      open_.erase(open_.begin());
      std::vector<Call> calls = first.capturing.value_or(false) ? take_open(first) : std::exchange(open_, {});
      calls.insert(calls.begin(), std::move(first));
      if (std::ranges::any_of(calls, is_suspect)) {
        close(std::move(calls), std::nullopt);
        continue;
      }
      // 901 means that a capture was broken, by a known or an unknown call.
      const auto victim = std::ranges::find_if(calls, is_victim);
      if (victim == calls.end()) continue;
      std::vector<Failure>& failures = process_.failures;
      const auto known =
          std::ranges::find_if(failures, [&](const Failure& failure) { return has_broken_too(failure, *victim); });
      if (known == failures.end()) {
        close(std::move(calls), std::nullopt);
      } else {
        known->victims.insert(known->victims.end(), calls.begin(), calls.end());
      }
    }
  }

 private:
  static bool is_suspect(const Call& call) { return call.part == Part::Suspect; }
  static bool is_victim(const Call& call) { return call.part == Part::Victim; }
  static bool may_be_global(const Call& call) { return call.mode != "thread_local" && call.mode != "relaxed"; }

  // Whether it failed before the other call's capture began.
  static bool is_earlier(const Call& call, const Call& other) { return call.latest && *call.latest < other.capture; }

  // Whether a call concerns another capture than `of`, which ends the capture or is a call by its thread.
  static bool is_of_another(const Call& call, const Call& of) {
    if (is_earlier(call, of)) return true;
    if (!call.capturing.value_or(false) || call.thread.id == of.thread.id) return false;  // It may be of any.
    return call.capture == 0 || call.capture != of.capture;  // Any thread may end a relaxed capture.
  }

  // Whether the culprit of that failure may also have broken the capture of this later call. A thread's next capture is
  // a new one, unless it is known to have been open by then.
  static bool has_broken_too(const Failure& failure, const Call& later) {
    if (!failure.culprit || !is_suspect(*failure.culprit) || is_earlier(*failure.culprit, later)) return false;
    const Call& culprit = *failure.culprit;
    const bool was_open = culprit.latest && later.capture != 0;
    if (!was_open && failure.end && failure.end->thread.id == later.thread.id) return false;
    if (was_open && culprit.thread.id == later.thread.id) return true;
    const bool is_beside = culprit.sentence.find("from another thread") != culprit.sentence.npos;
    return is_beside || !culprit.capturing.value_or(true) || (culprit.mode == "global" && may_be_global(later));
  }

  // Removes and returns, in order, those that may concern the capture of `of`.
  std::vector<Call> take_open(const Call& of) {
    std::vector<int> elsewhere;  // Threads that capture something else. The log does not show this for victims.
    for (const Call& call : open_) {
      if (call.capturing.value_or(false) && is_of_another(call, of)) elsewhere.push_back(call.thread.id);
    }
    const auto others = std::stable_partition(open_.begin(), open_.end(), [&](const Call& call) {
      const bool is_elsewhere = !call.capturing && contains(elsewhere, call.thread.id);
      return !is_elsewhere && !is_of_another(call, of);
    });
    std::vector<Call> taken(std::make_move_iterator(open_.begin()), std::make_move_iterator(others));
    open_.erase(open_.begin(), others);
    return taken;
  }

  void take_end(Call end) {
    std::vector<Failure>& failures = process_.failures;
    std::vector<Call> calls = take_open(end);
    const bool is_second = !failures.empty() && failures.back().end && has_broken_too(failures.back(), end);
    if (is_second && std::ranges::none_of(calls, is_suspect)) {
      ++failures.back().ends;
      failures.back().victims.insert(failures.back().victims.end(), calls.begin(), calls.end());
    } else {
      close(std::move(calls), std::move(end));
    }
  }

  // The call that broke the capture, or the end iterator. Calls after the first victim are too late.
  static std::vector<Call>::iterator culprit_of(std::vector<Call>& calls, const std::optional<Call>& end) {
    const auto late = std::ranges::find_if(calls, is_victim);
    const auto first = [&](auto condition) { return std::find_if(calls.begin(), late, condition); };
    // If capture numbers are known, a call in this capture goes before one that may have been beside it.
    auto found =
        first([&](const Call& c) { return is_suspect(c) && end && c.capture != 0 && c.capture == end->capture; });
    if (found == late) found = first(is_suspect);
    if (found == late) found = calls.begin();
    return found == late ? calls.end() : found;
  }

  void close(std::vector<Call> calls, std::optional<Call> end) {
    Failure failure;
    if (const auto culprit = culprit_of(calls, end); culprit != calls.end()) {
      failure.culprit = std::move(*culprit);
      calls.erase(culprit);
    }
    // The capturing thread ends its capture. Exceptions: 908, and relaxed captures, which no other thread can break.
    if (failure.culprit && end && !failure.culprit->capturing) {
      failure.culprit->capturing = failure.culprit->thread.id == end->thread.id;
    }
    failure.victims = std::move(calls);
    failure.ends = end ? 1 : 0;
    failure.unreported = end ? end->unreported : 0;
    failure.end = std::move(end);
    process_.failures.push_back(std::move(failure));
  }

  Process& process_;
  std::vector<Call> open_;
};

}  // namespace

const python::Thread* Call::python_of(uintptr_t handle) const {
  const auto found = std::ranges::find_if(python, [&](const python::Thread& t) { return t.handle == handle; });
  return found == python.end() ? nullptr : &*found;
}

std::optional<Thread> Failure::capturing() const {
  constexpr int kWrongThread = 908;
  if (culprit && culprit->capturing.value_or(false)) return culprit->thread;
  if (end && end->code != kWrongThread) return end->thread;
  if (given_up) return given_up->thread;
  return std::nullopt;
}

namespace {

// Whether the same line, of the same loop, made both calls.
bool is_alike(const Call& one, const Call& other) {
  const auto same = [](const auto& a, const auto& b, const auto&... members) {
    return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(), [&](const auto& x, const auto& y) {
             return ((x.*members == y.*members) && ...);
           });
  };
  if (one.api != other.api || one.kernel != other.kernel || one.waited != other.waited) return false;
  if (!same(one.frames, other.frames, &Frame::module, &Frame::offset)) return false;
  const python::Thread *mine = one.python_of(one.thread.handle), *its = other.python_of(other.thread.handle);
  if (mine == nullptr || its == nullptr) return mine == its;
  return same(mine->frames, its->frames, &python::Frame::file, &python::Frame::line);
}

void add(std::vector<Silent>& all, Call call) {
  const auto found = std::ranges::find_if(all, [&](const Silent& one) { return is_alike(one.call, call); });
  if (found != all.end()) {
    ++found->times;
  } else {
    all.push_back({std::move(call), 1, std::nullopt});
  }
}

std::optional<Call> begun_by(const std::vector<Call>& begun, size_t capture) {
  const auto found = std::ranges::find_if(begun, [&](const Call& c) { return c.capture == capture; });
  return capture == 0 || found == begun.end() ? std::nullopt : std::optional<Call>(*found);
}

struct Heard {
  Process process;
  std::vector<Call> failed, begun;
  std::vector<GivenUp> given_up;
  bool is_begun = false;  // Its own first line was read: another thread's may come before.
};

bool is_same(const GivenUp& one, const GivenUp& other) {
  const auto same = [](const std::vector<python::Frame>& a, const std::vector<python::Frame>& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const python::Frame& x, const python::Frame& y) {
      return x.file == y.file && x.line == y.line;
    });
  };
  if (one.at != other.at || (one.root() == nullptr) != (other.root() == nullptr)) return false;
  if (one.root() == nullptr) return same(one.begun, other.begun);
  return one.root()->type == other.root()->type && one.root()->text == other.root()->text &&
         same(one.root()->frames, other.root()->frames);
}

// Assigns an exception to the capture that it ended. If a call had already broken the capture, the exception is a
// consequence; otherwise the exception is the culprit.
void take(GivenUp given_up, std::vector<Failure>& failures) {
  constexpr int kUnjoined = 904;
  const auto is_meanwhile = [&](const std::optional<Call>& call) {
    return call && call->order >= given_up.failed_before && call->order < given_up.failed_after;
  };
  const auto find = [&](const auto& condition) { return std::ranges::find_if(failures, condition); };
  const bool never_ended = given_up.at == "exit" || given_up.at == "terminate" || given_up.at == "abort";
  auto of = find([&](const Failure& failure) {
    return !never_ended && is_meanwhile(failure.end) && failure.end->thread.id == given_up.thread.id;
  });
  if (of == failures.end()) {
    of = find([&](const Failure& failure) { return is_meanwhile(failure.culprit) && !failure.end; });
  }
  if (of == failures.end()) {
    const auto same = find([&](const Failure& failure) {
      return failure.is_by_exception() && !failure.end && is_same(*failure.given_up, given_up);
    });
    if (same != failures.end()) {
      ++same->times;
    } else {
      failures.push_back({});
      failures.back().given_up = std::move(given_up);
    }
    return;
  }
  // The capture region was left before its side streams were joined.
  const bool is_left = given_up.at == "inside" && of->culprit && of->culprit->code == kUnjoined;
  if (is_left && of->culprit->part == Part::EndedBy) of->culprit.reset();
  if (!of->given_up) of->given_up = std::move(given_up);
}

}  // namespace

std::vector<Process> read_report(std::string_view text) {
  std::vector<Heard> all;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const Json line = try_parse_json(text.substr(at, end - at)).value_or(Json());
    at = end + 1;
    if (!line.is_object()) continue;
    const int pid = int_at(line, "pid").value_or(0);
    const std::string event = text_at(line, "event");
    // After exec, the new program has the same process number.
    auto heard = std::find_if(all.rbegin(), all.rend(), [&](const Heard& one) { return one.process.pid == pid; });
    if (heard == all.rend() || (event == "heard" && heard->is_begun)) {
      all.emplace_back();
      heard = all.rbegin();
      heard->process.pid = pid;
    }
    if (event == "heard") {
      heard->is_begun = true;
      Process& process = heard->process;
      process.rank = text_at(line, "rank");
      process.local_rank = text_at(line, "local_rank");
      process.program = command_line(text_at(line, "program"));
      process.by = text_at(line, "by");
      process.why_not = text_at(line, "why_not");
      process.why_not_deep = text_at(line, "why_not_deep");
      if (process.torch.empty()) process.torch = release_beside(text_at(line, "torch"));
    }
    if (event == "failed") {
      heard->failed.push_back(call_in(line));
      heard->failed.back().order = heard->failed.size() - 1;
    }
    if (event == "torch") heard->process.torch = text_at(line, "version");
    if (event == "rank" && heard->process.rank.empty()) heard->process.rank = text_at(line, "rank");
    if (event == "given up") {
      heard->given_up.push_back(given_up_in(line));
      heard->given_up.back().failed_after = heard->failed.size();
    }
    if (event == "begun") heard->begun.push_back(call_in(line));
    if (event == "silent") add(heard->process.silent, call_in(line));
    if (event == "cut") {
      Cut& cut = heard->process.cut;
      const std::string what = text_at(line, "what");
      (what == "silent"     ? cut.silent
       : what == "refused"  ? cut.refused
       : what == "given up" ? cut.given_up
                            : cut.failed) = number_at(line, "number");
    }
  }
  std::vector<Process> processes;
  for (auto& [process, calls, begun, given_up, is_begun] : all) {
    Judge judge(process);
    for (Call& call : calls) judge.take(std::move(call));
    judge.finish();
    for (GivenUp& one : given_up) take(std::move(one), process.failures);
    for (Failure& failure : process.failures) {
      const bool has_end = failure.end && failure.end->capture != 0;
      failure.begun = begun_by(begun, has_end ? failure.end->capture : failure.culprit ? failure.culprit->capture : 0);
    }
    for (Silent& silent : process.silent) silent.begun = begun_by(begun, silent.call.capture);
    processes.push_back(std::move(process));
  }
  return processes;
}

bool is_whole(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const size_t end = text.find('\n', at);
    if (end == text.npos || !try_parse_json(text.substr(at, end - at)).value_or(Json()).is_object()) return false;
    at = end + 1;
  }
  return true;
}

}  // namespace recapture::blame
