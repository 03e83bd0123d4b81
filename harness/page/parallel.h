// Work of which no part waits for another.
#pragma once
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <future>
#include <thread>
#include <vector>

namespace recapture {

// Calls `work(i)` for each i below `count`, on all processors. What a call throws is thrown here.
template <class Work>
void in_parallel(size_t count, const Work& work) {
  std::atomic<size_t> next{0};
  const auto take = [&] {
    for (size_t i = next++; i < count; i = next++) work(i);
  };
  std::vector<std::future<void>> others;
  const size_t threads = std::min<size_t>(count, std::thread::hardware_concurrency());
  for (size_t i = 1; i < threads; ++i) others.push_back(std::async(std::launch::async, take));
  take();
  for (std::future<void>& other : others) other.get();
}

}  // namespace recapture
