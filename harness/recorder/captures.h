// The recorder's state of the open captures: which thread began each, in which mode, and whether its culprit is known,
// so that only one of all the failed calls of a broken capture is named.
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace recapture {

// The first three have the driver's values, ordered from strict to lax. The driver's log has no mode.
enum class CaptureMode { Global = 0, ThreadLocal = 1, Relaxed = 2, None = 3, Unknown = 4 };

inline const char* name(CaptureMode mode) {
  switch (mode) {
    case CaptureMode::Global:
      return "global";
    case CaptureMode::ThreadLocal:
      return "thread_local";
    case CaptureMode::Relaxed:
      return "relaxed";
    case CaptureMode::Unknown:
      return "unknown";
    default:
      return "none";
  }
}

// The open captures, by stream. Each stream is listed at most once, so a capture that ends unseen, because its stream
// or context is destroyed, leaves one stale entry and never a wrong count. Allocates nothing; the caller holds a lock.
class Captures {
 public:
  static constexpr size_t kMost = 64;               // Further captures are not followed.
  static constexpr uintptr_t kPerThreadStream = 2;  // One handle for each thread's own default stream.

  struct Capture {
    uintptr_t stream;
    CaptureMode mode;
    long thread;
    bool has_culprit;
    size_t number;  // From 1, in order of begin.

    bool is(uintptr_t other_stream, long other_thread) const {
      return stream == other_stream && (stream != kPerThreadStream || thread == other_thread);
    }
  };

  // Returns its number.
  size_t begun(uintptr_t stream, CaptureMode mode, long thread) {
    remove(stream, thread);
    ++begun_;
    if (open_ < kMost) captures_[open_++] = {stream, mode, thread, false, begun_};
    culprit_outside_capture_ = false;
    return begun_;
  }

  // Only an end on the wrong stream (903) leaves the capture open; one on the wrong thread (908) ends it.
  void ended(uintptr_t stream, long thread, int code) {
    if (code != kUnmatched) remove(stream, thread);
  }

  void destroyed(uintptr_t stream) { remove(stream, 0); }

  // Whether to name the call that failed with this capture error. It is unknown which of the open captures it broke, so
  // all of them count as having their culprit. Later failures in a broken capture are victims. Outside captures, a
  // failing call may be repeated, and is named once until the next capture.
  bool mark_culprit(int code) {
    if (open_ == 0) return !std::exchange(culprit_outside_capture_, true);
    if (!lack_culprit() || (code == kInvalidated && std::any_of(begin(), end(), has_culprit))) return false;
    for (size_t i = 0; i < open_; ++i) captures_[i].has_culprit = true;
    return true;
  }

  // The same for the call that ends a capture; if the capture is already broken, the call is not the culprit.
  bool accuse_end(uintptr_t stream, long thread, int code) {
    const bool news =
        std::any_of(begin(), end(), [&](const Capture& c) { return c.is(stream, thread) && c.has_culprit; });
    return !news && mark_culprit(code);
  }

  // For blame, which gets all failures and no name: a call of this thread broke a capture, so later ones that break it
  // need not be reported. A thread breaks its own captures, and of other threads' only those in global mode. A capture
  // missed here by mistake is only followed for longer. Returns whether any of them was valid.
  bool broken_by(long thread) {
    bool news = false;
    for (size_t i = 0; i < open_; ++i) {
      Capture& c = captures_[i];
      if (c.thread != thread && c.mode != CaptureMode::Global) continue;
      news = news || !c.has_culprit;
      c.has_culprit = true;
    }
    return news;
  }

  // Whether an open capture has no culprit yet.
  bool lack_culprit() const { return !std::all_of(begin(), end(), has_culprit); }

  size_t open() const { return open_; }

  // The number of the capture that began last, even if it has ended; 0 before the first.
  size_t latest() const { return begun_; }

  // The open capture that began on this stream, or none.
  const Capture* on(uintptr_t stream, long thread) const {
    const Capture* found = std::find_if(begin(), end(), [&](const Capture& c) { return c.is(stream, thread); });
    return found == end() ? nullptr : found;
  }

  bool capturing(long thread) const { return latest_of(thread) != nullptr; }

  // This thread's own latest capture, or none.
  const Capture* latest_of(long thread) const {
    const Capture* latest = nullptr;
    for (const Capture& c : *this) latest = c.thread == thread ? &c : latest;
    return latest;
  }

  const Capture* begin() const { return captures_.data(); }
  const Capture* end() const { return captures_.data() + open_; }

  // The mode that applies to a thread: that of its own latest capture, else of the strictest open one, relaxed if the
  // thread has exchanged its own mode for a laxer one.
  CaptureMode mode(long thread, CaptureMode exchanged) const {
    CaptureMode own = CaptureMode::None, strictest = CaptureMode::None;
    for (const Capture& c : *this) {
      if (c.thread == thread) own = c.mode;
      strictest = std::min(strictest, c.mode);
    }
    if (open_ == 0) return CaptureMode::None;
    return std::max(own != CaptureMode::None ? own : strictest, exchanged);
  }

 private:
  static constexpr int kInvalidated = 901, kUnmatched = 903;

  static bool has_culprit(const Capture& capture) { return capture.has_culprit; }

  void remove(uintptr_t stream, long thread) {
    Capture* first = captures_.data();
    const auto same = [&](const Capture& c) { return c.is(stream, thread); };
    open_ = static_cast<size_t>(std::remove_if(first, first + open_, same) - first);
  }

  std::array<Capture, kMost> captures_{};
  size_t open_ = 0, begun_ = 0;
  bool culprit_outside_capture_ = false;  // Since the last begin of a capture.
};

}  // namespace recapture
