// A value that its copies share, for one that is large and often absent or often copied.
#pragma once
#include <memory>
#include <utility>

namespace recapture {

template <class Value>
class Shared {
 public:
  Shared() = default;
  Shared(Value value) : value_(std::make_shared<const Value>(std::move(value))) {}

  const Value& operator*() const {
    static const Value kNone;
    return value_ == nullptr ? kNone : *value_;
  }
  const Value* operator->() const { return &**this; }

 private:
  std::shared_ptr<const Value> value_;
};

}  // namespace recapture
