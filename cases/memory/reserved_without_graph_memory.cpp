// With the cudaMallocAsync backend, memory_reserved() does not count what graphs hold.
//
// There a capture's allocations are nodes of the graph, and their memory comes from a pool of the driver's for graphs.
// The statistics asked only for the pool of eager work, so a program that captures looks as if it needed nothing. Later
// releases count both; the driver can be asked in every release. LibTorch's own backend counts the pools of graphs.
//
// The backend is chosen as LibTorch is loaded, so each test runs its program in a process that begins with it.
//
// Alone:  g++ cases/memory/reserved_without_graph_memory.cpp $(tools/libtorch --flags) -o reserved_without_graph_memory

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <string>

#include "fixtures/torch/gpu.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "With backend:cudaMallocAsync, memory_reserved() leaves out the memory of graphs",
    .sources = {{"upstream", "pytorch#186809"}},
    .documented = "memory_reserved() / memory_stats() silently undercounted every graph-capturing workload",
    .nature = Nature::Defect,
    .fidelity = Fidelity::Translated,
    .tags = {"memory pools", "cudaMallocAsync"},
    .features = {"cudaMallocAsync"},
    .effect = Effect::SilentlyWrong,
    .fixes = {{"FixAskTheDriver",
               "Ask cudaDeviceGetGraphMemAttribute(cudaGraphMemAttrReservedMemCurrent) for the memory of graphs."}},
};

namespace {

constexpr int64_t kBytes = int64_t{256} << 20;
constexpr char kProgram[] = "RESERVED_WITHOUT_GRAPH_MEMORY";  // What the new process is to do.

int64_t reserved() { return c10::cuda::CUDACachingAllocator::getDeviceStats(0).reserved_bytes[0].current; }

int64_t reserved_for_graphs() {
  uint64_t size = 0;
  EXPECT_EQ(cudaDeviceGetGraphMemAttribute(0, cudaGraphMemAttrReservedMemCurrent, &size), cudaSuccess);
  return static_cast<int64_t>(size);
}

}  // namespace

class ReservedWithoutGraphMemory : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    const char* const program = getenv(kProgram);
    if (IsSkipped() || !program) return;
    std::string seen = "failed";
    failure_of([&] { seen = counted(program); });
    _exit(write(STDERR_FILENO, seen.data(), seen.size()) < 0);
  }

  // Doubles four bytes by way of a large block, without a graph or in three
  // replays. Says whether the block is counted.
  std::string counted(const std::string& program) {
    const auto bytes = at::device(at::kCUDA).dtype(at::kByte);
    const at::Tensor data = at::full({4}, 3, bytes);
    values(data);
    const int64_t before = reserved();
    at::Tensor block;
    const auto double_data = [&] {
      block = at::zeros({kBytes}, bytes);
      block.slice(0, 0, 4).add_(data, 2);
    };
    if (program == "eager") {
      double_data();
    } else {
      graph->capture_begin();
      double_data();
      graph->capture_end();
    }
    for (const int value : {5, 7, 9}) {
      data.fill_(value);
      program == "eager" ? double_data() : graph->replay();
      if (values(block.slice(0, 0, 4)) != std::vector<double>(4, 2 * value)) return "wrong values";
    }
    const int64_t more = program == "graph, asking the driver" ? reserved_for_graphs() : reserved() - before;
    return more >= kBytes ? "counted" : "left out";
  }

  // This very test, in a process that has the backend from the beginning.
  static std::string in_new_process(const char* program) {
    const std::string filter =
        std::string("--gtest_filter=*.") + ::testing::UnitTest::GetInstance()->current_test_info()->name();
    std::array<int, 2> ends{};
    EXPECT_EQ(pipe(ends.data()), 0);
    const pid_t child = fork();
    if (child == 0) {
      dup2(ends[1], STDERR_FILENO);
      for (const char* name : {"PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"}) {
        setenv(name, "backend:cudaMallocAsync", 1);
      }
      setenv(kProgram, program, 1);
      unsetenv(kEventsVariable);  // The runner listens to this process alone.
      execl("/proc/self/exe", "reserved_without_graph_memory", filter.c_str(), nullptr);
      _exit(1);
    }
    close(ends[1]);
    std::string said;
    std::array<char, 256> part{};
    for (ssize_t got = 0; (got = read(ends[0], part.data(), part.size())) > 0;) {
      said.append(part.data(), static_cast<size_t>(got));
    }
    int ending = 0;
    EXPECT_EQ(waitpid(child, &ending, 0), child);
    EXPECT_EQ(ending, 0) << said;
    record("said", said);
    const size_t last = said.rfind('\n');  // Warnings come before.
    return last == std::string::npos ? said : said.substr(last + 1);
  }
};

TEST_F(ReservedWithoutGraphMemory, ControlEager) { EXPECT_EQ(in_new_process("eager"), "counted"); }

TEST_F(ReservedWithoutGraphMemory, Reproduces) {
  const char* program = "eager";
  TRIGGER(program = "graph");
  REPRODUCES(in_new_process(program), "left out", "counted");
}

TEST_F(ReservedWithoutGraphMemory, FixAskTheDriver) {
  const char* program = "graph";
  REMEDY(program = "graph, asking the driver");
  EXPECT_EQ(in_new_process(program), "counted");
}
