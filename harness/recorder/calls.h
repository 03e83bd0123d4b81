// What a driver call means to the recorder, by the call's name.
#pragma once
#include <cstddef>
#include <string_view>

#include "harness/case/cuda_errors.h"

namespace recapture {

enum class CallKind : unsigned char {
  Other,
  Begin,
  BeginToGraph,
  BeginGlobal,  // The first version of Begin, which had no mode.
  End,
  Destroy,
  Exchange,
  Event,  // May fail with 907 for an event recorded in a capture that is open; after it such an event gives 1.
  Query,  // Answers a question about a capture, or about a code, and breaks nothing.
  Work,   // A kernel, a copy, a memset or a graph, on a stream.
};

struct Call {
  CallKind kind = CallKind::Other;
  bool per_thread = false;           // The variant in which the stream 0 is the thread's own default stream.
  unsigned char stream = kNoStream;  // Of work: where among the parameters its stream is.

  static constexpr unsigned char kNoStream = 255, kInConfig = 254;  // In the struct that the first one points to.
};

// Where a call that queues work has its stream, in bytes; all are calls that return before the work is done.
inline unsigned char stream_offset(std::string_view api) {
  constexpr std::string_view kPerThread[] = {"_ptsz", "_v2"};
  for (const std::string_view end : kPerThread) {
    if (api.size() > end.size() && api.substr(api.size() - end.size()) == end) api.remove_suffix(end.size());
  }
  struct Place {
    std::string_view api;
    unsigned char offset;
  };
  constexpr Place kPlaces[] = {
      {"cuLaunchKernel", 40},
      {"cuLaunchCooperativeKernel", 40},
      {"cuLaunchKernelEx", Call::kInConfig},
      {"cuGraphLaunch", 8},
      {"cuMemcpyAsync", 24},
      {"cuMemcpyHtoDAsync", 24},
      {"cuMemcpyDtoHAsync", 24},
      {"cuMemcpyDtoDAsync", 24},
      {"cuMemcpyPeerAsync", 40},
      {"cuMemcpyHtoAAsync", 32},
      {"cuMemcpyAtoHAsync", 32},
      {"cuMemcpy2DAsync", 8},
      {"cuMemcpy3DAsync", 8},
      {"cuMemcpy3DPeerAsync", 8},
      {"cuMemsetD8Async", 24},
      {"cuMemsetD16Async", 24},
      {"cuMemsetD32Async", 24},
      {"cuMemsetD2D8Async", 40},
      {"cuMemsetD2D16Async", 40},
      {"cuMemsetD2D32Async", 40},
  };
  for (const Place& place : kPlaces) {
    if (place.api == api) return place.offset;
  }
  return Call::kNoStream;
}

inline CallKind kind_of_call(std::string_view api) {
  const auto starts = [&](std::string_view start) { return api.substr(0, start.size()) == start; };
  if (api.find("ToCig") != api.npos) return CallKind::Other;  // These captures make no graph.
  if (starts("cuStreamBeginCaptureToGraph")) return CallKind::BeginToGraph;
  if (starts("cuStreamBeginCapture_v2")) return CallKind::Begin;
  if (starts("cuStreamBeginCapture")) return CallKind::BeginGlobal;
  if (starts("cuStreamEndCapture")) return CallKind::End;
  if (starts("cuStreamDestroy")) return CallKind::Destroy;
  if (starts("cuThreadExchangeStreamCaptureMode")) return CallKind::Exchange;
  for (std::string_view start : {"cuEventQuery", "cuEventSynchronize", "cuEventElapsedTime", "cuStreamWaitEvent"}) {
    if (starts(start)) return CallKind::Event;
  }
  for (std::string_view start : {"cuStreamIsCapturing", "cuStreamGetCaptureInfo", "cuGetError"}) {
    if (starts(start)) return CallKind::Query;
  }
  if (stream_offset(api) != Call::kNoStream) return CallKind::Work;
  return CallKind::Other;
}

inline Call call_of(std::string_view api) {
  constexpr std::string_view kPerThread = "_ptsz";
  const bool per_thread = api.size() > kPerThread.size() && api.substr(api.size() - kPerThread.size()) == kPerThread;
  return {kind_of_call(api), per_thread, stream_offset(api)};
}

// Heard also while nothing else is: what opens and closes captures, and what may meet an event of one.
inline bool is_always_heard(CallKind kind) {
  return kind != CallKind::Other && kind != CallKind::Query && kind != CallKind::Work;
}

// What a call that failed says about a capture, by its name and its code alone; the driver's log has no more.
enum class Part : unsigned char {
  None,      // Nothing.
  Suspect,   // It breaks a capture that it is in, or beside.
  Possible,  // It may, but the same code also says what has to do with no capture.
  Refused,   // It failed, and no capture by it.
  Victim,    // 901: the capture was broken before.
  EndedBy,   // The end of a capture that fails by itself,
  Ended,     // and the end of a broken one.
};
constexpr size_t kParts = 7;

inline Part part_of(std::string_view api, int code) {
  constexpr int kInvalidValue = 1, kIllegalState = 401, kUnsupported = 900, kInvalidated = 901, kUnmatched = 903,
                kTimeout = 909, kUpdate = 910;
  const auto starts = [&](std::string_view start) { return api.substr(0, start.size()) == start; };
  const CallKind kind = kind_of_call(api);
  // Measured, as what follows: so fails a wait for an event of another capture, but also one for what is no event.
  if (code == kInvalidValue) return starts("cuStreamWaitEvent") ? Part::Possible : Part::None;
  if (kind == CallKind::Query || (code != kIllegalState && !is_capture_error(code))) return Part::None;
  if (code == kTimeout || code == kUpdate) return Part::None;  // Of a wait, and of a graph that was captured long ago.
  if (code == kInvalidated) return kind == CallKind::End ? Part::Ended : Part::Victim;
  if (code == kIllegalState) return Part::Refused;
  // On the default stream a begin is refused; beside the capture of a blocking stream it breaks that one, with 906.
  const bool begins = kind == CallKind::Begin || kind == CallKind::BeginToGraph || kind == CallKind::BeginGlobal;
  if (begins && code == kUnsupported) return Part::Refused;
  // The copies are refused, and the capture goes on without them.
  if (starts("cuMemcpyBatchAsync") || starts("cuMemcpy3DBatchAsync")) return Part::Refused;
  // An end on a stream that only takes part breaks the capture and leaves it open.
  return kind != CallKind::End || code == kUnmatched ? Part::Suspect : Part::EndedBy;
}

inline const char* name(Part part) {
  constexpr const char* kNames[kParts] = {"none", "suspect", "possible", "refused", "victim", "ended by", "ended"};
  return kNames[static_cast<int>(part)];
}

}  // namespace recapture
