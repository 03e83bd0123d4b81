// The cost of remedies, and the duration of each stage of a graph's life. A price is one piece of work with and without
// a remedy, measured in turn in one process; the other files here define the work, and main.cpp measures it with Google
// Benchmark.
//
// Up to 2.6 LibTorch's std::string differs from that of Debian's Google Benchmark, so none crosses this header:
// main.cpp is compiled with one of them and all other files with LibTorch's.
#pragma once
#include <functional>
#include <initializer_list>

namespace recapture {

using Work = std::function<void()>;
using Make = std::function<Work()>;  // Throws if the release or the machine cannot do it.

// How time is measured: CUDA events on the current stream, or the host's clock until that stream is idle.
enum class Clock { Gpu, Host };

// The Fix tests with this remedy ("case.FixName"), the work in words, and the work without and with the remedy.
void price(std::initializer_list<const char*> fixes, const char* what, Clock clock, Make without, Make with);

// A stage in the life of a graph with that many nodes ("capture"): `measure` executes it once and returns microseconds.
using Measurement = std::function<double()>;
void stage(const char* what, int nodes, Measurement measure);

// In clock.cpp, without effect if there is no GPU: makes a stream from LibTorch's pool the current one; and makes
// LibTorch free its caches, such as the memory of destroyed graphs, so that all repetitions start alike.
void use_side_stream();
void give_memory_back();

double microseconds(Clock clock, const Work& work, int times);

struct Machine {
  const char *libtorch, *gpu, *cuda_runtime;  // "" if unavailable.
};
Machine machine();

}  // namespace recapture
