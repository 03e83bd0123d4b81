// Runs independent work in parallel.
#pragma once
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <system_error>
#include <thread>
#include <vector>

namespace recapture {

// Calls `work(i)` for each i below `count`, on all processors. After an exception no further call starts; the exception
// of the smallest i is rethrown.
template <class Work>
void in_parallel(size_t count, const Work& work) {
  std::atomic<size_t> next{0};
  std::vector<std::exception_ptr> thrown(count);
  const auto take = [&] {
    for (size_t i = next++; i < count; i = next++) {
      try {
        work(i);
      } catch (...) {
        thrown[i] = std::current_exception();
        next = count;
      }
    }
  };
  {
    std::vector<std::jthread> others;
    const size_t threads = std::min<size_t>(count, std::thread::hardware_concurrency());
    try {
      for (size_t i = 1; i < threads; ++i) others.emplace_back(take);
    } catch (const std::system_error&) {
      // The user's thread limit is reached. The existing threads do all the work.
    }
    take();
  }
  const auto first = std::ranges::find_if(thrown, [](const auto& each) { return each != nullptr; });
  if (first != thrown.end()) std::rethrow_exception(*first);
}

}  // namespace recapture
