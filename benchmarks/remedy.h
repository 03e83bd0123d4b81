// What remedies cost, and how long each stage of a graph's life takes. A price is one piece of work with a remedy and
// without it, measured in turn in one process; the files beside this one name the work, and main.cpp measures it with
// Google Benchmark.
//
// Up to 2.6 LibTorch has another std::string than Debian's Google Benchmark, so none crosses this header: main.cpp is
// compiled with one of them and all other files with LibTorch's.
#pragma once
#include <functional>
#include <initializer_list>

namespace recapture {

using Work = std::function<void()>;
using Make = std::function<Work()>;  // Throws where the release or the machine cannot do it.

// What tells the time: events of CUDA's on the current stream, or the host's clock until that stream has come to rest.
enum class Clock { Gpu, Host };

// The Fix tests whose remedy it is ("case.FixName"), the work in words, and the work without and with the remedy.
void price(std::initializer_list<const char*> fixes, const char* what, Clock clock, Make without, Make with);

// What a stage of the life of a graph with so many nodes takes ("capture"): `measure` does it once and returns
// microseconds.
using Measurement = std::function<double()>;
void stage(const char* what, int nodes, Measurement measure);

// Of clock.cpp, nothing where there is no GPU: makes a stream from LibTorch's pool the current one; and has LibTorch
// free what it keeps, such as the memory of graphs that are gone, so that all repetitions find the same.
void use_side_stream();
void give_memory_back();

double microseconds(Clock clock, const Work& work, int times);

struct Machine {
  const char *libtorch, *gpu, *cuda_runtime;  // "" for what is not there.
};
Machine machine();

}  // namespace recapture
