// Classifies driver calls by name.
#pragma once
#include <cstddef>
#include <string_view>

#include "harness/case/cuda_errors.h"

namespace recapture {

enum class CallKind : unsigned char {
  Other,
  Begin,
  BeginToGraph,
  BeginGlobal,  // The first version of Begin, without a mode.
  End,
  Destroy,
  Exchange,
  Event,  // Fails with 907 for an event recorded in an open capture; afterwards such an event gives 1.
  Query,  // Queries a capture or an error code, and breaks nothing.
  Work,   // A kernel, a copy, a memset or a graph, on a stream.
};

struct Call {
  CallKind kind = CallKind::Other;
  bool per_thread = false;           // Variant in which stream 0 is the thread's own default stream.
  unsigned char stream = kNoStream;  // Of work: the index of its stream among the parameters.

  static constexpr unsigned char kNoStream = 255, kInConfig = 254;  // In the struct of the first parameter.
};

// The offset of a call's stream in bytes; all of these calls return before the work is done.
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

// Calls always followed: they open or close captures, or may use an event of one.
inline bool is_always_heard(CallKind kind) {
  return kind != CallKind::Other && kind != CallKind::Query && kind != CallKind::Work;
}

// What a failed call means for a capture, by its name and its code, which is all that the driver's log has.
enum class Part : unsigned char {
  None,      // Nothing.
  Suspect,   // It breaks a capture that it is in or beside.
  Possible,  // It may, but the code has causes unrelated to captures.
  Refused,   // It failed without breaking a capture.
  Victim,    // 901: the capture was already broken.
  EndedBy,   // The end of a capture that fails by itself,
  Ended,     // and the end of a broken one.
};
constexpr size_t kParts = 7;

inline Part part_of(std::string_view api, int code) {
  constexpr int kInvalidValue = 1, kIllegalState = 401, kUnsupported = 900, kInvalidated = 901, kUnmatched = 903,
                kTimeout = 909, kUpdate = 910;
  const auto starts = [&](std::string_view start) { return api.substr(0, start.size()) == start; };
  const CallKind kind = kind_of_call(api);
  // Measured, like the rest: a wait for an event of another capture fails this way, but so does one for an invalid
  // event.
  if (code == kInvalidValue) return starts("cuStreamWaitEvent") ? Part::Possible : Part::None;
  if (kind == CallKind::Query || (code != kIllegalState && !is_capture_error(code))) return Part::None;
  if (code == kTimeout || code == kUpdate) return Part::None;  // Of a wait, or of an update of an earlier graph.
  if (code == kInvalidated) return kind == CallKind::End ? Part::Ended : Part::Victim;
  if (code == kIllegalState) return Part::Refused;
  // A begin on the default stream is refused; beside the capture of a blocking stream it breaks that one, with 906.
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
