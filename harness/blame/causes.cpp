#include "harness/blame/causes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <functional>
#include <initializer_list>
#include <iterator>
#include <string_view>

#include "harness/base/exit.h"
#include "harness/base/letter_case.h"
#include "harness/base/text.h"
#include "harness/base/toml.h"
#include "harness/case/cuda_errors.h"

namespace recapture::blame {
namespace {

using explain::Explanation;

constexpr int kUnsupported = 900, kIsolation = 905, kImplicit = 906, kWrongThread = 908;
constexpr char kGraphs[] = "torch/cuda/graphs.py";
constexpr char kScalar[] = "_local_scalar_dense";  // All reads of one value.
constexpr char kWaitingLibrary[] = "library_that_synchronises_in_capture", kException[] = "exception_in_capture";

std::string driver_name_of(int code) {
  const CudaError* found = find_cuda_error(code);
  return driver_name(found == nullptr ? "cudaErrorUnknown" : found->name);
}

void add_line(std::string& text, const SourceFrame& frame) {
  text += blame::text(frame) + "\n" + source_line(frame) + "\n";
}

// The failed calls as the driver's log shows them, with the program's lines that led to the culprit.
std::string log_of(const Failure& failure) {
  std::string log;
  const auto add = [&](const Call& call) {
    std::string sentence = call.sentence;
    if (sentence.empty() && call.capturing) {  // What the log shows where CUPTI or the capture's end reports it.
      sentence = "API call conflicts with a stream capture sequence initiated from ";
      sentence += beside_another(call) == true ? "another thread" : "the calling thread";
    }
    if (!sentence.empty()) log += "[CUDA][E] " + sentence + "\n";
    log += fmt::format("[CUDA][E] Returning {} ({}) from {}\n", call.code, driver_name_of(call.code), call.api);
  };
  if (failure.culprit) {
    add(*failure.culprit);
    for (const SourceFrame& frame : python_frames_of(*failure.culprit, failure.culprit->thread)) add_line(log, frame);
    for (const Frame& frame : failure.culprit->frames) log += frame.function + "\n";
  }
  for (const Call& call : failure.victims) add(call);
  if (failure.end && failure.end->part == Part::Ended) add(*failure.end);
  return log;
}

// The culprit's call path: C++ functions, and Python lines down to the program's own.
std::string path_of(const std::vector<SourceFrame>& python, const std::vector<Frame>& stack) {
  std::string path;
  for (const SourceFrame& frame : python) {
    add_line(path, frame);
    if (frame.own) break;
  }
  for (const Frame& frame : stack) path += frame.function + "\n";
  return path;
}

// Calls that wait until the GPU has done something.
bool is_wait(const std::string& api) {
  return begins_with_any(api, {"cuStreamSynchronize", "cuEventSynchronize", "cuCtxSynchronize", "cuMemcpy",
                               "cuStreamQuery", "cuEventQuery"}) &&
         api.find("Async") == api.npos;
}
bool is_wait(const Call& call) { return is_wait(call.api); }

bool is_allocation(const Call& call) {
  return begins_with_any(call.api, {"cuMemAlloc_v2", "cuMemAlloc", "cuMemCreate", "cuMemMap", "cuMemAddressReserve"}) &&
         !begins_with_any(call.api, {"cuMemAllocHost", "cuMemAllocManaged"});
}

// Frames that every capture has are no evidence.
bool is_of_capture(const SourceFrame& frame) { return frame.file.ends_with(kGraphs); }

// Whether a line of Python branches on a value that it does not read itself.
bool is_branch(std::string_view line) {
  return (begins_with_any(line, {"if ", "elif ", "while ", "assert "}) || line.find("bool(") != line.npos) &&
         line.find(".item(") == line.npos;
}

// The allocator's functions are not exported, but nothing else in its library allocates.
bool is_of_allocator(const Call& call) {
  return !call.frames.empty() && begins_with_any(base_name(call.frames.front().module), {"libc10_cuda"});
}

// Whether the program calls the driver or the runtime directly, without a library in between.
bool is_by_program(const Call& call) { return !call.frames.empty() && !is_library(call.frames.front().module); }

// "cuGraphExecDestroy", and not "cudaGraphExecDestroy".
bool is_driver_call(std::string_view name) {
  return begins_with_any(name, {"cu"}) && name.size() > 2 && std::isupper(static_cast<unsigned char>(name[2])) != 0;
}

class Finder {
 public:
  Finder(const Process& process, const Failure& failure, const Knowledge& knowledge)
      : process_(process), failure_(failure), knowledge_(knowledge) {}

  Causes causes() {
    if (failure_.is_by_exception()) {
      of_exception();
    } else if (failure_.culprit) {
      of_call(*failure_.culprit);
    }
    found_.answer = found_.causes.empty() ? explain::Answer::CannotTell : explain::Answer::CaptureFailure;
    found_.summary = found_.causes.empty() ? "the cause is not known" : found_.causes.front().title;
    found_.operators = answers();
    Causes causes{std::move(found_), ""};
    for (const explain::Found& one : causes.explanation.causes) {
      if (causes.case_to_read.empty() && case_of(one.id) != nullptr) causes.case_to_read = one.id;
    }
    return causes;
  }

 private:
  // The recorded answers for the operator that waited or was refused: the outermost on the stack, else one that the
  // program's own line calls.
  std::vector<OperatorAnswer> answers() const {
    const bool is_refused = failure_.is_by_exception() && !found_.causes.empty() && !has(kException);
    const Call* call = failure_.culprit ? &*failure_.culprit : nullptr;
    if (call == nullptr ? !is_refused : !is_wait(*call) || beside_another(*call) == true) return {};
    const std::vector<recapture::Operator>& known = knowledge_.answers.known;
    if (call != nullptr) {
      const std::vector<std::string> on_stack = operators_on(call->frames);
      if (!on_stack.empty()) {
        const recapture::Operator* one = aten_operator(on_stack.back(), known);
        std::vector<OperatorAnswer> some = knowledge_.answers.of({one});
        if (!some.empty()) return some;
      }
    }
    const auto frames = call != nullptr
                            ? python_frames_of(*call, call->thread)
                            : python_frames(failure_.given_up->root() == nullptr ? std::vector<python::Frame>()
                                                                                 : failure_.given_up->root()->frames);
    for (const SourceFrame& frame : frames) {
      std::vector<OperatorAnswer> some = knowledge_.answers.of(called_operators(source_line(frame), known));
      if (frame.own || !some.empty()) return some;
    }
    return {};
  }

  void of_call(const Call& call) {
    const std::optional<bool> beside = beside_another(call);
    const std::vector<SourceFrame> python = python_frames_of(call, call.thread);
    if (call.code == kImplicit && is_autograd_thread(call)) {
      // Autograd's nodes, or DDP's, run on the default stream. A rank of several usually uses DDP.
      const bool is_rank = !process_.rank.empty();
      add_case(is_rank ? "ddp_on_default_stream" : "gradient_tape_on_default_stream");
      add_case(is_rank ? "gradient_tape_on_default_stream" : "ddp_on_default_stream");
      return;
    }
    if (is_allocation(call) && is_of_allocator(call) && beside != true) {
      // On the capturing stream it allocates under a guard, which permits that.
      add_case("side_stream_without_fork");
      add_case("allocation_on_uncaptured_stream");
      return;
    }
    if (call.code == kIsolation && !python.empty() && calls_wait_stream(python)) {
      add_case("side_stream_without_fork");
      add_case("capture_waits_for_earlier_work");
      return;
    }
    if (begins_capture(python)) add_case("capture_inside_capture");
    if (begins_with_any(call.api, {"cuCtxSynchronize"}) && beside == true) {
      add_case("device_synchronize_in_capture");  // Every capture mode forbids it, on any thread.
      return;
    }
    if (call.code == kWrongThread) add_case("capture_ended_by_other_thread");
    if (beside != true) of_operator(call, python);
    if (beside != true && is_by_program(call) && begins_with_any(call.api, {"cuStreamSynchronize"})) {
      add_case("stream_synchronize_in_capture");
    }
    of_words(log_of(failure_), path_of(python, call.frames), call.api, beside);
    if (call.code == kImplicit) add_case("default_stream_work_beside_blocking_capture");
    if (call.code == kUnsupported && beside != true && found_.causes.empty() && is_wait(call))
      of_unknown_operator(call);
  }

  void of_exception() {
    const GivenUp& given_up = *failure_.given_up;
    if (given_up.raised.empty()) {
      if (given_up.at == "exit") add_case("capture_left_open");
      if (given_up.at == "abort" && is_thrown(given_up.stack)) add_case(kException);
      return;
    }
    std::string words, lines;
    std::vector<SourceFrame> python;
    for (auto raised = given_up.raised.rbegin(); raised != given_up.raised.rend(); ++raised) {
      words += raised->type + ": " + raised->text + "\n";
      std::vector<SourceFrame> frames = python_frames(raised->frames);
      std::erase_if(frames, is_of_capture);
      for (auto frame = frames.rbegin(); frame != frames.rend(); ++frame) add_line(lines, *frame);
      lines += raised->type + ": " + raised->text + "\n";
      if (python.empty()) python = std::move(frames);
    }
    // A program's lines mention many things: they count only if a case prints the exception's own text.
    const explain::ErrorText own = explain::parse_error_text(words);
    const auto prints = [&](const explain::Cause& cause) {
      return cause.scope == explain::Scope::Capture && std::ranges::any_of(cause.says, [&](const std::string& cue) {
               return explain::find_evidence(own, cue.substr(0, cue.find(" + "))) != 0;
             });
    };
    if (std::ranges::any_of(knowledge_.causes, prints)) {
      of_called_operator(python);
      of_words(lines, path_of(python, {}), "", std::nullopt, prints);
    }
    if (found_.causes.empty() && given_up.at != "begin" && given_up.at != "end") add_case(kException);
  }

  // Adds the causes of the operators table that name a file on the thread's stack.
  bool of_file(const std::vector<SourceFrame>& python) {
    for (const Operator& one : knowledge_.operators) {
      const auto is_in_file = [&](const SourceFrame& frame) { return frame.file.ends_with(one.file); };
      if (one.file.empty() || std::ranges::none_of(python, is_in_file)) continue;
      add(one);
      return true;
    }
    return false;
  }

  // Adds the outermost operator of the stack if it is known to wait.
  void of_operator(const Call& call, const std::vector<SourceFrame>& python) {
    if (of_file(python)) return;
    const std::vector<std::string> operators = operators_on(call.frames);
    if (operators.empty() || !is_wait(call)) return;
    if (contains(operators, kScalar) && !python.empty() && is_branch(source_line(python.front()))) {
      add_case("host_branch_in_capture");
    }
    for (const Operator& one : knowledge_.operators) {
      if (contains(one.aten, operators.back()) && (one.through.empty() || contains(operators, one.through))) {
        return add(one);
      }
    }
  }

  // The same without a stack: by the line that called it.
  void of_called_operator(const std::vector<SourceFrame>& python) {
    if (of_file(python)) return;
    for (const SourceFrame& frame : python) {
      const std::string line = source_line(frame);
      for (const Operator& one : knowledge_.operators) {
        const size_t open = one.name.find('('), dot = one.name.rfind('.', open);
        if (open == one.name.npos || dot == one.name.npos) continue;
        if (line.find(one.name.substr(dot, open + 1 - dot)) != line.npos) return add(one);
      }
      if (frame.own) return;
    }
  }

  void of_unknown_operator(const Call& call) {
    const std::vector<std::string> operators = operators_on(call.frames);
    if (operators.empty()) return;
    add_case(kWaitingLibrary);
    if (found_.causes.empty()) return;
    found_.causes.back().title =
        fmt::format("aten::{} waits for the GPU inside, and cannot be captured", operators.back());
  }

  // Adds the causes that `explain` finds, filtered by what is known beyond the words: first those of the right thread,
  // then the certain ones, then those that name the call path, else those that name the call. A filter that would leave
  // none is skipped.
  void of_words(const std::string& words, const std::string& path_text, const std::string& api,
                std::optional<bool> beside, const std::function<bool(const explain::Cause&)>& is_sure = nullptr) {
    Explanation explanation = diagnose(words);
    std::vector<explain::Found>& causes = explanation.causes;
    std::erase_if(causes, [](const explain::Found& one) { return !one.likely; });
    const auto keep = [&](const auto& condition) {
      const auto holds = [&](const explain::Found& one) { return condition(*cause_of(one.id)); };
      if (std::ranges::none_of(causes, holds)) return false;
      std::erase_if(causes, [&](const explain::Found& one) { return !holds(one); });
      return true;
    };
    if (beside) keep([&](const explain::Cause& cause) { return cause.other_thread == *beside; });
    if (is_sure) keep(is_sure);
    const explain::ErrorText path = explain::parse_error_text(path_text);
    const auto in_path = [&](const std::string& name) { return explain::find_evidence(path, name) != 0; };
    const std::string any_version = api.substr(0, api.find("_v"));
    const auto of_call = [&](const std::string& name) { return !api.empty() && name.find(any_version) != name.npos; };
    const auto some = [](const std::vector<std::string>& all, const auto& condition) {
      return std::ranges::any_of(all, condition);
    };
    // A cause by other driver calls does not apply, however well its names fit; but many calls wait internally.
    std::erase_if(causes, [&](const explain::Found& one) {
      const std::vector<std::string>& calls = cause_of(one.id)->calls;
      return !api.empty() && !is_wait(api) && some(calls, is_driver_call) && !some(calls, of_call);
    });
    if (!keep([&](const explain::Cause& cause) { return some(cause.names, in_path); })) {
      keep([&](const explain::Cause& cause) { return some(cause.calls, of_call) || some(cause.names, of_call); });
    }
    for (const explain::Found& one : causes) {
      if (has(one.id)) continue;
      found_.causes.push_back(one);
      std::ranges::copy_if(explanation.remedies, std::back_inserter(found_.remedies),
                           [&](const explain::FixAdvice& remedy) { return remedy.cause == one.id; });
    }
  }

  // A cause with evidence other than words.
  void add_case(const std::string& id) {
    if (has(id)) return;
    constexpr char kSure[] = "this is the cause";
    explain::Cause cause;
    cause.id = id;
    cause.says = {kSure};
    if (const explain::Cause* known = cause_of(id)) {
      cause.title = known->title;
      cause.fixes = known->fixes;
      cause.useless = known->useless;
    } else if (const CatalogueCase* its_case = case_of(id)) {
      cause.title = its_case->title;
    } else {
      return;
    }
    const Explanation sure = explain::diagnose(explain::parse_error_text(kSure), {cause}, knowledge_.catalogue,
                                               knowledge_.rows, knowledge_.prices);
    std::ranges::copy_if(sure.causes, std::back_inserter(found_.causes),
                         [&](const explain::Found& one) { return one.id == id; });
    found_.remedies.insert(found_.remedies.end(), sure.remedies.begin(), sure.remedies.end());
  }

  void add(const Operator& one) {
    if (!one.case_id.empty()) return add_case(one.case_id);
    explain::Found found;
    found.id = kWaitingLibrary;
    found.title = one.name + " waits for the GPU inside, and cannot be captured";
    found.role = explain::Role::Culprit;
    found_.causes.push_back(found);
    found_.remedies.push_back({found.id, one.instead, std::nullopt, false});
  }

  Explanation diagnose(const std::string& words) const {
    return explain::diagnose(explain::parse_error_text(words), knowledge_.causes, knowledge_.catalogue, knowledge_.rows,
                             knowledge_.prices);
  }

  bool calls_wait_stream(const std::vector<SourceFrame>& python) const {
    return std::ranges::any_of(python, [](const SourceFrame& frame) { return frame.function == "wait_stream"; });
  }

  // torch.cuda.graph() synchronizes the device before its own capture begins.
  bool begins_capture(const std::vector<SourceFrame>& python) const {
    return std::ranges::any_of(
        python, [](const SourceFrame& frame) { return frame.function == "__enter__" && is_of_capture(frame); });
  }

  bool has(const std::string& id) const {
    return std::ranges::any_of(found_.causes, [&](const explain::Found& one) { return one.id == id; });
  }

  const CatalogueCase* case_of(const std::string& id) const { return find_case(knowledge_.catalogue, id); }

  const explain::Cause* cause_of(const std::string& id) const {
    const auto found =
        std::ranges::find_if(knowledge_.causes, [&](const explain::Cause& cause) { return cause.id == id; });
    return found == knowledge_.causes.end() ? nullptr : &*found;
  }

  const Process& process_;
  const Failure& failure_;
  const Knowledge& knowledge_;
  Explanation found_;
};

}  // namespace

std::vector<Operator> read_operators(const std::string& root, const Catalogue& catalogue) {
  const std::string path = root + "/cases/operators.toml";
  const toml::table file = parse_toml(path);
  only_keys(file, {"operator", "untried", "later"}, path);
  const toml::array* entries = tables_in(file, "operator", path, "[[operator]]");
  if (entries == nullptr) throw ExitError(Exit::Usage, path + ": has no [[operator]]");
  std::vector<Operator> operators;
  for (const auto& entry : *entries) {
    const std::string place = place_of(path, entry);
    const toml::table& table = *entry.as_table();
    only_keys(table, {"name", "aten", "through", "file", "case", "instead"}, place);
    const auto text = [&](const char* key) { return text_in(table, key, place, false); };
    Operator one{text_in(table, "name", place),
                 texts_in(table, "aten", place),
                 text("through"),
                 text("file"),
                 text("case"),
                 text("instead")};
    if (one.aten.empty() == one.file.empty()) throw ExitError(Exit::Usage, place + ": it needs either aten or file");
    if (one.case_id.empty() == one.instead.empty()) {
      throw ExitError(Exit::Usage, place + ": it needs either case or instead");
    }
    if (!one.case_id.empty() && find_case(catalogue, one.case_id) == nullptr) {
      throw ExitError(Exit::Usage, fmt::format("{}: there is no case '{}'", place, one.case_id));
    }
    operators.push_back(std::move(one));
  }
  return operators;
}

Answer answer_of(std::vector<Process> processes, std::string not_whole,
                 const std::function<const Knowledge&(const Process&)>& knowledge_of) {
  Answer answer{{}, std::move(not_whole)};
  for (Process& process : processes) {
    std::vector<Causes> causes;
    for (const Failure& failure : process.failures) {
      causes.push_back(causes_of(process, failure, knowledge_of(process)));
    }
    const std::string release = causes.empty() ? "" : knowledge_of(process).release;
    answer.processes.push_back({std::move(process), release, std::move(causes)});
  }
  return answer;
}

Causes causes_of(const Process& process, const Failure& failure, const Knowledge& knowledge) {
  return Finder(process, failure, knowledge).causes();
}

std::vector<std::string> operators_on(const std::vector<Frame>& stack) {
  constexpr std::string_view kOperators = "at::_ops::";
  std::vector<std::string> operators;
  for (const Frame& frame : stack) {
    if (base_name(frame.module).find("python") != std::string_view::npos) break;
    if (!begins_with_any(frame.function, {kOperators})) continue;
    const std::string after = frame.function.substr(kOperators.size());
    operators.push_back(after.substr(0, after.find("::")));
  }
  return operators;
}

bool is_autograd_thread(const Call& call) {
  if (begins_with_any(call.thread.name, {"pt_autograd"})) return true;
  return std::ranges::any_of(call.frames, [](const Frame& frame) {
    return begins_with_any(frame.function,
                           {"torch::autograd::Engine::thread_main", "torch::autograd::Engine::thread_init"});
  });
}

std::optional<bool> beside_another(const Call& call) {
  if (call.sentence.find("from another thread") != call.sentence.npos) return true;
  if (call.in_log || call.mode == "unknown") return false;  // The log already has it.
  if (call.on_capture) return false;
  return call.capturing ? std::optional(!*call.capturing) : std::nullopt;
}

std::vector<SourceFrame> python_frames_of(const Call& call, const Thread& thread) {
  const python::Thread* found = call.python_of(thread.handle);
  return found == nullptr ? std::vector<SourceFrame>() : python_frames(found->frames);
}

}  // namespace recapture::blame
