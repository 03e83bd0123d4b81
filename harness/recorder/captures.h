// What the recorder of CUDA calls keeps in mind: the captures that are open, who began them and in which mode, and
// which of them have their culprit, so that of all the calls that fail in a broken capture one is named.
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace recapture {

// The first three carry the driver's numbers and stand in the order from strict to lax. The driver's log has no mode.
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

// The open captures, by stream. A stream stands here at most once, so that a capture that ends unseen, because its
// stream or its context is gone, costs one stale entry and never a wrong count. It allocates nothing; its caller holds
// a lock.
class Captures {
 public:
  static constexpr size_t kMost = 64;               // What is begun beyond that is not followed.
  static constexpr uintptr_t kPerThreadStream = 2;  // One handle for every thread's own default stream.

  struct Capture {
    uintptr_t stream;
    CaptureMode mode;
    long thread;
    bool has_culprit;
    size_t number;  // From 1, in the order in which they began.

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

  // Only a call that reached the wrong stream (903) leaves the capture open; the wrong thread's (908) ends it, on
  // record.
  void ended(uintptr_t stream, long thread, int code) {
    if (code != kUnmatched) remove(stream, thread);
  }

  void destroyed(uintptr_t stream) { remove(stream, 0); }

  // Whether the call that failed with this capture error is to be named. A call can't tell which of the open captures
  // it broke, so all of them have their culprit then. What fails later in a broken capture is its victim. Outside of
  // captures the same call may fail again and again, and is named once until the next capture.
  bool mark_culprit(int code) {
    if (open_ == 0) return !std::exchange(culprit_outside_capture_, true);
    if (!lack_culprit() || (code == kInvalidated && std::any_of(begin(), end(), has_culprit))) return false;
    for (size_t i = 0; i < open_; ++i) captures_[i].has_culprit = true;
    return true;
  }

  // The same for the call that was to end a capture; of a broken one it only brings the news.
  bool accuse_end(uintptr_t stream, long thread, int code) {
    const bool news =
        std::any_of(begin(), end(), [&](const Capture& c) { return c.is(stream, thread) && c.has_culprit; });
    return !news && mark_culprit(code);
  }

  // For blame, which is told of all that fails and needs no name: a call of this thread has broken a capture, and what
  // breaks it later need not be heard. A thread breaks its own captures, and of the others' only those in global mode;
  // one that is left out here by mistake is only heard for longer. Returns whether any of them was whole.
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

  // Whether a capture is open whose culprit may still come.
  bool lack_culprit() const { return !std::all_of(begin(), end(), has_culprit); }

  size_t open() const { return open_; }

  // The number of the capture that has begun last, also if it is over; 0 before the first.
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

  // The mode that binds a thread: that of its own latest capture, otherwise of the strictest open one, made laxer where
  // the thread has exchanged its own mode for a laxer one.
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
  bool culprit_outside_capture_ = false;  // Since a capture last began.
};

}  // namespace recapture
