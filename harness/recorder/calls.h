// What a driver call means to the recorder, by the call's name.
#pragma once
#include <string_view>

namespace recapture {

enum class CallKind : unsigned char {
  Other,
  Begin,
  BeginToGraph,
  BeginGlobal,  // The first version of Begin, which had no mode.
  End,
  Destroy,
  Exchange,
  Event,  // May fail with 907 for an event recorded in a capture, also after it.
  Query,  // Answers a question about a capture, or about a code, and breaks nothing.
};

struct Call {
  CallKind kind = CallKind::Other;
  bool per_thread = false;  // The variant in which the stream 0 is the thread's own default stream.
};

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
  return CallKind::Other;
}

inline Call call_of(std::string_view api) {
  constexpr std::string_view kPerThread = "_ptsz";
  const bool per_thread = api.size() > kPerThread.size() && api.substr(api.size() - kPerThread.size()) == kPerThread;
  return {kind_of_call(api), per_thread};
}

// Heard also while nothing else is: what opens and closes captures, and what may meet an event of one after it.
inline bool is_always_heard(CallKind kind) { return kind != CallKind::Other && kind != CallKind::Query; }

}  // namespace recapture
