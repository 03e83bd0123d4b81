// A replay faults while its memory is unmapped, and once new memory is mapped there, the old contents are lost.
//
// A memory saver (vLLM's sleep mode, torch_memory_saver) releases GPU memory between two phases of a program. It keeps
// the addresses, unmaps the memory behind them, and later maps new memory there. The graph stays usable, because it has
// only the addresses. But a replay in between accesses unmapped memory, and after the wake-up everything that was
// written only once, such as weights, tables and constants, is lost: the replay computes with other numbers, without an
// error. The tests make the savers' driver calls on one block of memory, from which a captured kernel copies.
//
// Alone:  g++ cases/memory/pool_unmapped_under_graph.cpp $(tools/libtorch --flags) -o pool_unmapped_under_graph

#include <cuda.h>
#include <dlfcn.h>

#include <string>
#include <type_traits>
#include <vector>

#include "fixtures/cuda/gpu.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "A replay faults while its memory is unmapped, and computes with lost contents once it is mapped again",
    .sources = {{"upstream", "vllm#55013"},
                {"upstream", "torch_memory_saver#22"},
                {"upstream", "sglang#30474"},
                {"upstream", "tokenspeed#274"}},
    .documented =
        "CUDA error: an illegal memory access; resume hands back zero pages, which would silently corrupt them",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Modelled,
    .tags = {"memory pools", "extensions"},
    .features = {"extensions"},
    .effects = {{"ReproducesContentsLost", Effect::SilentlyWrong}},
    .fixes = {{"FixMapBeforeTheReplay",
               "Wake every pool that a graph uses, resume() or wake_up() with all tags, before the next replay."},
              {"FixRestoreTheContents",
               "Keep a copy of the contents on the host while the memory is away: enable_cpu_backup=True of "
               "torch_memory_saver, level 1 of vLLM's sleep."},
              {"FixKeepItOutside",
               "Leave what is written only once, such as tables and static inputs, out of the region that is paused."}},
};

namespace {

constexpr char kCopy[] = R"(
.version 7.0
.target sm_70
.address_size 64
.visible .entry copy(.param .u64 to, .param .u64 from) {
  .reg .b64 %rd<3>;
  .reg .b16 %rs<2>;
  ld.param.u64 %rd1, [to];
  ld.param.u64 %rd2, [from];
  ld.global.u8 %rs1, [%rd2];
  st.global.u8 [%rd1], %rs1;
  ret;
}
)";

constexpr int kWritten = 5;  // Once, before the capture.

}  // namespace

class PoolUnmappedUnderGraph : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    void* const driver = dlopen("libcuda.so.1", RTLD_NOW);
    ASSERT_NE(driver, nullptr) << dlerror();
    const auto find = [&](auto& function, const char* name) {
      function = reinterpret_cast<std::decay_t<decltype(function)>>(dlsym(driver, name));
      ASSERT_NE(function, nullptr) << name;
    };
    find(load_data, "cuModuleLoadData");
    find(get_function, "cuModuleGetFunction");
    find(launch_kernel, "cuLaunchKernel");
    find(get_attribute, "cuDeviceGetAttribute");
    find(get_granularity, "cuMemGetAllocationGranularity");
    find(reserve, "cuMemAddressReserve");
    find(create, "cuMemCreate");
    find(map_memory, "cuMemMap");
    find(set_access, "cuMemSetAccess");
    find(unmap_memory, "cuMemUnmap");
    find(release, "cuMemRelease");
    int supported = 0;
    ASSERT_EQ(get_attribute(&supported, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 0), CUDA_SUCCESS);
    if (!supported) GTEST_SKIP() << "this GPU cannot map memory";
    CUmodule module = nullptr;
    if (const CUresult error = load_data(&module, kCopy)) {
      GTEST_SKIP() << "the driver cannot compile PTX: error " << error;
    }
    ASSERT_EQ(get_function(&copy, module, "copy"), CUDA_SUCCESS);
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    ASSERT_EQ(get_granularity(&size, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM), CUDA_SUCCESS);
    ASSERT_EQ(reserve(&address, size, 0, 0, 0), CUDA_SUCCESS);
    map();
    ASSERT_CUDA(cudaMalloc(&outside, 1));
    ASSERT_CUDA(cudaMalloc(&out, 1));
    for (void* const memory : {pool(), outside}) ASSERT_CUDA(cudaMemset(memory, kWritten, 1));
    ASSERT_CUDA(cudaDeviceSynchronize());
  }

  void* pool() const { return reinterpret_cast<void*>(address); }

  // New memory at the old address.
  void map() {
    CUmemAccessDesc access = {};
    access.location = properties.location;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    ASSERT_EQ(create(&memory_of_pool, size, &properties, 0), CUDA_SUCCESS);
    ASSERT_EQ(map_memory(address, size, 0, memory_of_pool, 0), CUDA_SUCCESS);
    ASSERT_EQ(set_access(address, size, &access, 1), CUDA_SUCCESS);
  }

  void unmap() {
    ASSERT_CUDA(cudaDeviceSynchronize());
    ASSERT_EQ(unmap_memory(address, size), CUDA_SUCCESS);
    ASSERT_EQ(release(memory_of_pool), CUDA_SUCCESS);
  }

  // A graph that copies the first byte of `from` to `out`.
  cudaGraphExec_t capture(void* from) {
    cudaGraph_t captured = nullptr;
    cudaGraphExec_t exec = nullptr;
    void* arguments[] = {&out, &from};
    EXPECT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), cudaSuccess);
    EXPECT_EQ(launch_kernel(copy, 1, 1, 1, 1, 1, 1, 0, stream, arguments, nullptr), CUDA_SUCCESS);
    EXPECT_EQ(captured_nodes(stream), 1);
    EXPECT_EQ(cudaStreamEndCapture(stream, &captured), cudaSuccess);
    EXPECT_EQ(cudaGraphInstantiateWithFlags(&exec, captured, 0), cudaSuccess);
    return exec;
  }

  // What a replay leaves in `out`, or its error.
  std::string replay(cudaGraphExec_t exec) {
    unsigned char left = 0;
    for (const cudaError_t error :
         {cudaMemsetAsync(out, 0xee, 1, stream), cudaGraphLaunch(exec, stream),
          cudaMemcpyAsync(&left, out, 1, cudaMemcpyDeviceToHost, stream), cudaStreamSynchronize(stream)}) {
      if (error != cudaSuccess) return "error " + failure_of_code(error).text;
    }
    return std::to_string(left);
  }

  // Of two replays.
  std::string contents(cudaGraphExec_t exec) {
    const std::string first = replay(exec), second = replay(exec);
    record("contents", first + " " + second);
    const std::string kept = std::to_string(kWritten);
    return first != second ? first + " " + second : first == kept ? "kept" : first[0] == 'e' ? first : "lost";
  }

  // The pool's memory is what each replay reads, and is written before each.
  void expect_to_follow(cudaGraphExec_t exec, void* memory) {
    for (const int value : {7, 9}) {
      ASSERT_CUDA(cudaMemset(memory, value, 1));
      ASSERT_CUDA(cudaDeviceSynchronize());
      EXPECT_EQ(replay(exec), std::to_string(value));
    }
  }

  decltype(&cuModuleLoadData) load_data = nullptr;
  decltype(&cuModuleGetFunction) get_function = nullptr;
  decltype(&cuLaunchKernel) launch_kernel = nullptr;
  decltype(&cuDeviceGetAttribute) get_attribute = nullptr;
  decltype(&cuMemGetAllocationGranularity) get_granularity = nullptr;
  decltype(&cuMemAddressReserve) reserve = nullptr;
  decltype(&cuMemCreate) create = nullptr;
  decltype(&cuMemMap) map_memory = nullptr;
  decltype(&cuMemSetAccess) set_access = nullptr;
  decltype(&cuMemUnmap) unmap_memory = nullptr;
  decltype(&cuMemRelease) release = nullptr;
  CUfunction copy = nullptr;
  CUmemAllocationProp properties = {};
  CUmemGenericAllocationHandle memory_of_pool = 0;
  CUdeviceptr address = 0;
  size_t size = 0;
  void *outside = nullptr, *out = nullptr;
};

TEST_F(PoolUnmappedUnderGraph, Control) {
  const cudaGraphExec_t exec = capture(pool());
  EXPECT_EQ(contents(exec), "kept");
  expect_to_follow(exec, pool());
}

// The addresses are the same, so the graph needs no new capture where its inputs are written before each replay.
TEST_F(PoolUnmappedUnderGraph, ControlMappedAgain) {
  const cudaGraphExec_t exec = capture(pool());
  EXPECT_EQ(replay(exec), std::to_string(kWritten));
  unmap();
  map();
  expect_to_follow(exec, pool());
}

TEST_F(PoolUnmappedUnderGraph, Reproduces) {
  const cudaGraphExec_t exec = capture(pool());
  TRIGGER(unmap());
  REPRODUCES(replay(exec), "error 700", std::to_string(kWritten));
}

TEST_F(PoolUnmappedUnderGraph, ReproducesContentsLost) {
  const cudaGraphExec_t exec = capture(pool());
  TRIGGER(unmap(); map());
  REPRODUCES(contents(exec), "lost", "kept");
}

TEST_F(PoolUnmappedUnderGraph, FixMapBeforeTheReplay) {
  const cudaGraphExec_t exec = capture(pool());
  unmap();
  REMEDY(map(); ASSERT_CUDA(cudaMemset(pool(), kWritten, 1)); ASSERT_CUDA(cudaDeviceSynchronize()));
  EXPECT_EQ(contents(exec), "kept");
}

TEST_F(PoolUnmappedUnderGraph, FixRestoreTheContents) {
  const cudaGraphExec_t exec = capture(pool());
  std::vector<unsigned char> backup(size);
  ASSERT_CUDA(cudaMemcpy(backup.data(), pool(), size, cudaMemcpyDeviceToHost));
  unmap();
  map();
  REMEDY(ASSERT_CUDA(cudaMemcpy(pool(), backup.data(), size, cudaMemcpyHostToDevice)));
  EXPECT_EQ(contents(exec), "kept");
}

TEST_F(PoolUnmappedUnderGraph, FixKeepItOutside) {
  void* constants = pool();
  REMEDY(constants = outside);
  const cudaGraphExec_t exec = capture(constants);
  unmap();
  map();
  EXPECT_EQ(contents(exec), "kept");
}
