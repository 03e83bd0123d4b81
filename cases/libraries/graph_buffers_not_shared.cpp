// A captured all-reduce reads buffers of other processes, and each step of sharing them can fail.
//
// The custom all-reduce of vLLM and SGLang captures a kernel that reads the addresses of all ranks' buffers from a
// table. The table is filled after the capture: each rank exports the buffers that it recorded, with
// cudaIpcGetMemHandle(), and opens those of the other ranks, in the order of recording. Memory of expandable segments
// or of a memory saver cannot be exported this way. If the table is not filled, the replay faults. If a rank recorded
// other buffers than its peer, the table has the wrong ones, and the sums are wrong. A handle of freed memory cannot be
// opened.
//
// In the tests two processes share one GPU, and the kernel adds one number of each. Both are forks that use CUDA on
// their own.
//
// Alone:  g++ cases/libraries/graph_buffers_not_shared.cpp $(tools/libtorch --flags) -o graph_buffers_not_shared

#include <cuda.h>
#include <dlfcn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <string>
#include <utility>

#include "fixtures/cuda/capture.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "A captured all-reduce fails, or adds the wrong buffers, if processes cannot share the graph's memory",
    .sources = {{"upstream", "vllm#42609"},
                {"upstream", "vllm#51903"},
                {"upstream", "sglang#14193"},
                {"upstream", "vllm#39791"},
                {"upstream", "aiter#3838"},
                {"CUDA runtime API", "Device Management: cudaIpcGetMemHandle"}},
    .documented =
        "Failed: Cuda error custom_all_reduce.cuh:455 'invalid argument'; an illegal memory access was encountered; "
        "out-of-bounds IPC handle access and silent data corruption",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Modelled,
    .tags = {"extensions", "memory pools", "raw CUDA calls", "expandable segments"},
    .features = {"extensions"},
    .deadline_s = 120,
    .effects = {{"ReproducesOtherBuffer", Effect::SilentlyWrong}},
    .fixes =
        {{"FixWithoutExpandableSegments",
          "Capture without expandable_segments:True and outside a memory saver, so that the graph's buffers come from "
          "cudaMalloc."},
         {"FixCopyToASharedBuffer",
          "Copy the all-reduce's input, inside the graph, to a buffer from cudaMalloc that was shared before."},
         {"FixRegisterAfterTheCapture",
          "Exchange and open the handles of the graph's buffers after each capture and before the first replay: "
          "register_graph_buffers()."},
         {"FixRecordEveryBuffer",
          "Record the buffer of every captured all-reduce on every rank, known or not, and compare the counts."},
         {"FixKeepTheBuffers", "Keep the input of each captured all-reduce until every rank has opened its handle."}},
    .connections = 8,
};

namespace {

// out = *table[0] + *table[1]
constexpr char kSum[] = R"(
.version 7.0
.target sm_70
.address_size 64
.visible .entry sum(.param .u64 out, .param .u64 table) {
  .reg .b64 %rd<5>;
  .reg .b32 %r<4>;
  ld.param.u64 %rd1, [out];
  ld.param.u64 %rd2, [table];
  ld.global.u64 %rd3, [%rd2];
  ld.global.u64 %rd4, [%rd2+8];
  ld.global.u32 %r1, [%rd3];
  ld.global.u32 %r2, [%rd4];
  add.u32 %r3, %r1, %r2;
  st.global.u32 [%rd1], %r3;
  ret;
}
)";

constexpr size_t kBytes = 4 << 20;  // An allocation that shares its memory with no other one.
constexpr int kOther = 100;         // What the owner's other buffer holds.
constexpr char kSums[] = "15, 21, 27";

struct Program {
  bool is_expandable = false;  // The owner's buffer is mapped memory.
  bool copies = false;         // It copies that to a buffer from cudaMalloc, which it shares.
  bool registers = true;
  bool records_another = false;  // A buffer that the reader's capture has not met.
  bool frees = false;            // The buffer, before it is opened.
};

struct Exported {
  int error = 0;
  cudaIpcMemHandle_t first = {};  // Of the buffers in the order in which they were recorded.
};

template <class T>
bool send(int link, const T& value) {
  return write(link, &value, sizeof value) == static_cast<ssize_t>(sizeof value);
}
template <class T>
bool receive(int link, T& value) {
  return read(link, &value, sizeof value) == static_cast<ssize_t>(sizeof value);
}

template <class F>
F driver(const char* name) {
  return reinterpret_cast<F>(dlsym(dlopen("libcuda.so.1", RTLD_NOW), name));
}

// As a segment that can grow is made: an address, and memory that is mapped there.
void* mapped_memory() {
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  CUmemAccessDesc access = {};
  access.location = properties.location;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  CUdeviceptr address = 0;
  CUmemGenericAllocationHandle memory = 0;
  const bool mapped =
      driver<decltype(&cuMemAddressReserve)>("cuMemAddressReserve")(&address, kBytes, 0, 0, 0) == CUDA_SUCCESS &&
      driver<decltype(&cuMemCreate)>("cuMemCreate")(&memory, kBytes, &properties, 0) == CUDA_SUCCESS &&
      driver<decltype(&cuMemMap)>("cuMemMap")(address, kBytes, 0, memory, 0) == CUDA_SUCCESS &&
      driver<decltype(&cuMemSetAccess)>("cuMemSetAccess")(address, kBytes, &access, 1) == CUDA_SUCCESS;
  return mapped ? reinterpret_cast<void*>(address) : nullptr;
}

// The rank whose memory the other one reads. It holds twice the number that it is told.
int own(int link, const Program& program) {
  void *buffer = nullptr, *other = nullptr, *shared = nullptr;
  if (cudaMalloc(&other, kBytes) || cudaMemcpy(other, &kOther, sizeof kOther, cudaMemcpyHostToDevice)) return 1;
  if (program.is_expandable) {
    buffer = mapped_memory();
  } else if (cudaMalloc(&buffer, kBytes)) {
    return 1;
  }
  if (!buffer) return 1;
  shared = buffer;
  if (program.copies && cudaMalloc(&shared, kBytes)) return 1;
  Exported exported;
  exported.error = cudaIpcGetMemHandle(&exported.first, program.records_another ? other : shared);
  if (program.frees && cudaFree(std::exchange(shared, nullptr))) return 1;
  if (!send(link, exported)) return 1;
  for (int value = 0; receive(link, value);) {
    value *= 2;
    if (!program.frees && cudaMemcpy(buffer, &value, sizeof value, cudaMemcpyHostToDevice)) return 1;
    if (program.copies && cudaMemcpy(shared, buffer, sizeof value, cudaMemcpyDeviceToDevice)) return 1;
    if (cudaDeviceSynchronize() || !send(link, value)) return 1;
  }
  return 0;
}

// The rank that captures. Returns three sums, or where and how it failed.
std::string add_up(int link, const Program& program) {
  const auto at = [](const char* place, int error) { return std::string(place) + ": " + std::to_string(error); };
  CUmodule module = nullptr;
  CUfunction sum = nullptr;
  cudaStream_t stream = nullptr;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  void *mine = nullptr, *out = nullptr, *table = nullptr;
  for (const cudaError_t error :
       {cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaMalloc(&mine, kBytes), cudaMalloc(&out, kBytes),
        cudaMalloc(&table, kBytes), cudaMemset(table, 0, kBytes), cudaDeviceSynchronize()}) {
    if (error != cudaSuccess) return at("set-up", error);
  }
  if (const CUresult error = driver<decltype(&cuModuleLoadData)>("cuModuleLoadData")(&module, kSum)) {
    return at("set-up", error);
  }
  if (const CUresult error = driver<decltype(&cuModuleGetFunction)>("cuModuleGetFunction")(&sum, module, "sum")) {
    return at("set-up", error);
  }
  void* arguments[] = {&out, &table};
  if (const cudaError_t error = cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal)) return at("begin", error);
  const CUresult launched =
      driver<decltype(&cuLaunchKernel)>("cuLaunchKernel")(sum, 1, 1, 1, 1, 1, 1, 0, stream, arguments, nullptr);
  if (launched) return at("launch", launched);
  if (const cudaError_t error = cudaStreamEndCapture(stream, &graph)) return at("end", error);
  if (const cudaError_t error = cudaGraphInstantiateWithFlags(&exec, graph, 0)) return at("instantiate", error);
  Exported exported;
  if (!receive(link, exported)) return "the other rank is gone";
  if (exported.error) return at("export", exported.error);
  if (program.registers) {
    void* ranks[] = {mine, nullptr};
    if (const cudaError_t error = cudaIpcOpenMemHandle(&ranks[1], exported.first, cudaIpcMemLazyEnablePeerAccess)) {
      return at("open", error);
    }
    if (const cudaError_t error = cudaMemcpy(table, ranks, sizeof ranks, cudaMemcpyHostToDevice)) {
      return at("register", error);
    }
  }
  std::string sums;
  for (const int value : {5, 7, 9}) {
    int answer = 0, left = 0;
    if (!send(link, value) || !receive(link, answer)) return "the other rank is gone";
    for (const cudaError_t error :
         {cudaMemcpy(mine, &value, sizeof value, cudaMemcpyHostToDevice), cudaGraphLaunch(exec, stream),
          cudaStreamSynchronize(stream), cudaMemcpy(&left, out, sizeof left, cudaMemcpyDeviceToHost)}) {
      if (error != cudaSuccess) return at("replay", error);
    }
    sums += (sums.empty() ? "" : ", ") + std::to_string(left);
  }
  return sums;
}

// A process of its own.
pid_t forked(const std::function<int()>& body) {
  const pid_t child = fork();
  if (child == 0) _exit(body());
  return child;
}

bool ends_well(pid_t child) {
  int status = -1;
  return waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

// What the rank that captures saw.
std::string seen_by_both(const Program& program) {
  int link[2] = {}, said[2] = {};
  EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, link), 0);
  EXPECT_EQ(pipe(said), 0);
  const pid_t owner = forked([&] {
    close(link[0]);
    return own(link[1], program);
  });
  const pid_t reader = forked([&] {
    close(link[1]);
    const std::string text = add_up(link[0], program);
    return write(said[1], text.data(), text.size()) == static_cast<ssize_t>(text.size()) ? 0 : 1;
  });
  for (const int end : {link[0], link[1], said[1]}) close(end);
  std::string text;
  char part[256];
  for (ssize_t n; (n = read(said[0], part, sizeof part)) > 0;) text.append(part, static_cast<size_t>(n));
  close(said[0]);
  EXPECT_TRUE(ends_well(reader));
  EXPECT_TRUE(ends_well(owner));
  return text;
}

}  // namespace

class GraphBuffersNotShared : public ::testing::Test {
 protected:
  // This process must not touch CUDA, or its forks could not use it.
  void SetUp() override {
    const bool has_gpu = ends_well(forked([] {
      int count = 0;
      return cudaGetDeviceCount(&count) == cudaSuccess && count > 0 ? 0 : 1;
    }));
    if (!has_gpu) GTEST_SKIP() << "no GPU";
    const std::string shared = seen_by_both(Program());
    if (shared.rfind("export", 0) == 0 || shared.rfind("open", 0) == 0) {
      GTEST_SKIP() << "processes cannot share the GPU's memory here: " << shared;
    }
  }

  Program program;
};

TEST_F(GraphBuffersNotShared, Control) { EXPECT_EQ(seen_by_both(program), kSums); }

TEST_F(GraphBuffersNotShared, Reproduces) {
  TRIGGER(program.is_expandable = true);
  REPRODUCES(seen_by_both(program), "export: 1", kSums);
}

TEST_F(GraphBuffersNotShared, ReproducesNotRegistered) {
  TRIGGER(program.registers = false);
  REPRODUCES(seen_by_both(program), "replay: 700", kSums);
}

TEST_F(GraphBuffersNotShared, ReproducesOtherBuffer) {
  TRIGGER(program.records_another = true);
  REPRODUCES(seen_by_both(program), "105, 107, 109", kSums);
}

TEST_F(GraphBuffersNotShared, ReproducesStaleHandle) {
  TRIGGER(program.frees = true);
  REPRODUCES(seen_by_both(program), "open: *", kSums);
}

TEST_F(GraphBuffersNotShared, FixWithoutExpandableSegments) {
  program.is_expandable = true;
  REMEDY(program.is_expandable = false);
  EXPECT_EQ(seen_by_both(program), kSums);
}

TEST_F(GraphBuffersNotShared, FixCopyToASharedBuffer) {
  program.is_expandable = true;
  REMEDY(program.copies = true);
  EXPECT_EQ(seen_by_both(program), kSums);
}

TEST_F(GraphBuffersNotShared, FixRegisterAfterTheCapture) {
  program.registers = false;
  REMEDY(program.registers = true);
  EXPECT_EQ(seen_by_both(program), kSums);
}

TEST_F(GraphBuffersNotShared, FixRecordEveryBuffer) {
  program.records_another = true;
  REMEDY(program.records_another = false);
  EXPECT_EQ(seen_by_both(program), kSums);
}

TEST_F(GraphBuffersNotShared, FixKeepTheBuffers) {
  program.frees = true;
  REMEDY(program.frees = false);
  EXPECT_EQ(seen_by_both(program), kSums);
}
