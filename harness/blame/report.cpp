#include "harness/blame/report.h"

#include <algorithm>
#include <iterator>

#include "harness/record/json.h"
#include "harness/recorder/report.h"

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
  call.unreported = number_at(line, "unreported");
  call.capture = number_at(line, "capture");
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

// Arguments are separated by zeros.
std::string command_line(std::string text) {
  while (!text.empty() && text.back() == '\0') text.pop_back();
  std::replace(text.begin(), text.end(), '\0', ' ');
  return text;
}

// Puts the calls of one process, as they come, to the captures that they belong to. The log does not tell when a
// capture begins. It ends with an error if it was broken, and that is in the log: so what failed since the last such
// end is of the capture that ends now, and the first call of these that breaks captures is the culprit.
class Judge {
 public:
  explicit Judge(Process& process) : process_(process) {}

  void take(Call call) {
    if (process_.by == "CUPTI" && call.part != Part::Refused) {  // It has decided already.
      process_.failures.push_back({std::move(call), {}, std::nullopt, 1, 0});
      return;
    }
    switch (call.part) {
      case Part::None:
        return;
      case Part::Refused:
        process_.refused.push_back(std::move(call));
        return;
      case Part::Suspect:
      case Part::Victim:
        open_.push_back(std::move(call));
        return;
      case Part::Ended:
        take_end(std::move(call));
        return;
      case Part::EndedBy:
        // This capture was whole until here, so what failed before has broken none, or another one that is still open.
        process_.failures.push_back({std::move(call), {}, std::nullopt, 1, 0});
        process_.failures.back().end = process_.failures.back().culprit;
        return;
    }
  }

  // What failed and no capture has ended since: the process came to its end before, or no capture was broken.
  void finish() {
    if (std::any_of(open_.begin(), open_.end(), is_suspect)) close(std::nullopt);
  }

 private:
  static bool is_suspect(const Call& call) { return call.part == Part::Suspect; }

  void take_end(Call end) {
    std::vector<Failure>& failures = process_.failures;
    const bool other_thread =
        !failures.empty() && failures.back().end && failures.back().end->thread.id != end.thread.id;
    if (other_thread && std::none_of(open_.begin(), open_.end(), is_suspect)) {
      // A second capture that the same call has broken. One thread's next capture is a new one.
      ++failures.back().ends;
      failures.back().victims.insert(failures.back().victims.end(), open_.begin(), open_.end());
      open_.clear();
    } else {
      close(std::move(end));
    }
  }

  void close(std::optional<Call> end) {
    Failure failure;
    // What follows a victim came too late to be the culprit.
    if (!open_.empty() && is_suspect(open_.front())) {
      failure.culprit = std::move(open_.front());
      open_.erase(open_.begin());
    }
    // A capture is ended by the thread that captured, but for 908, and relaxed ones that nobody else can break.
    if (failure.culprit && end && !failure.culprit->capturing) {
      failure.culprit->capturing = failure.culprit->thread.id == end->thread.id;
    }
    failure.victims = std::move(open_);
    failure.ends = end ? 1 : 0;
    failure.unreported = end ? end->unreported : 0;
    failure.end = std::move(end);
    open_.clear();
    process_.failures.push_back(std::move(failure));
  }

  Process& process_;
  std::vector<Call> open_;
};

}  // namespace

const python::Thread* Call::python_of(uintptr_t handle) const {
  const auto found =
      std::find_if(python.begin(), python.end(), [&](const python::Thread& t) { return t.handle == handle; });
  return found == python.end() ? nullptr : &*found;
}

std::optional<Thread> Failure::capturing() const {
  constexpr int kWrongThread = 908;
  if (culprit && culprit->capturing.value_or(false)) return culprit->thread;
  if (end && end->code != kWrongThread) return end->thread;
  return std::nullopt;
}

namespace {

// Whether two calls were made by the same line, of the same loop.
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
  const auto found = std::find_if(all.begin(), all.end(), [&](const Silent& one) { return is_alike(one.call, call); });
  if (found != all.end()) {
    ++found->times;
  } else {
    all.push_back({std::move(call), 1, std::nullopt});
  }
}

std::optional<Call> begun_by(const std::vector<Call>& begun, size_t capture) {
  const auto found = std::find_if(begun.begin(), begun.end(), [&](const Call& c) { return c.capture == capture; });
  return capture == 0 || found == begun.end() ? std::nullopt : std::optional<Call>(*found);
}

struct Heard {
  Process process;
  std::vector<Call> failed, begun;
};

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
    // A program that another one has become by exec has the same number.
    auto heard = std::find_if(all.rbegin(), all.rend(), [&](const Heard& one) { return one.process.pid == pid; });
    if (event == "heard" || heard == all.rend()) {
      all.push_back({{pid,
                      text_at(line, "rank"),
                      text_at(line, "local_rank"),
                      command_line(text_at(line, "program")),
                      text_at(line, "by"),
                      text_at(line, "why_not"),
                      {},
                      {},
                      text_at(line, "why_not_deep"),
                      {}},
                     {},
                     {}});
      heard = all.rbegin();
    }
    if (event == "failed") heard->failed.push_back(call_in(line));
    if (event == "begun") heard->begun.push_back(call_in(line));
    if (event == "silent") add(heard->process.silent, call_in(line));
  }
  std::vector<Process> processes;
  for (auto& [process, calls, begun] : all) {
    process.cut = calls.size() >= kMostCalls;
    Judge judge(process);
    for (Call& call : calls) judge.take(std::move(call));
    judge.finish();
    for (Failure& failure : process.failures) {
      const bool has_end = failure.end && failure.end->capture != 0;
      failure.begun = begun_by(begun, has_end ? failure.end->capture : failure.culprit ? failure.culprit->capture : 0);
    }
    for (Silent& silent : process.silent) silent.begun = begun_by(begun, silent.call.capture);
    processes.push_back(std::move(process));
  }
  return processes;
}

}  // namespace recapture::blame
