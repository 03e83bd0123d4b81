// A device array of pointers that is filled, in the capture, from a host array gets whatever the host array's memory
// holds at the replay.
//
// Grouped products take their operands as an array of pointers on the device. A library that builds it in a temporary
// host array, and uploads it while a graph is captured, leaves the host array's address in the graph. After the call
// the array is gone, and each replay uploads its memory's next content as pointers: wrong results, or an illegal
// access. From 2.11 on LibTorch refuses its own copies from pageable memory in a capture (pageable_copy_in_capture); a
// library's own cudaMemcpyAsync it can't see. The test reads the pointers back and follows none.
//
// Alone:  g++ cases/replay/pointer_array_from_host_array.cpp $(tools/libtorch --flags) -o pointer_array_from_host_array

#include "fixtures/torch/gpu.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "A device array of pointers that a capture uploads from a host array has foreign pointers in a replay",
    .sources = {{"CUDA graph guide", "Handling Dynamic Patterns"}},
    .documented = "once the host array is gone: wrong pointers, an illegal access or a wrong result",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Modelled,
    .tags = {"extensions", "raw CUDA calls"},
    .effect = Effect::SilentlyWrong,
    .fixes = {{"FixKeepThePinnedArray",
               "Build the array of pointers in pinned memory, and keep it for as long as the graph may be replayed."},
              {"FixUploadBeforeTheCapture",
               "Upload the array of pointers once, before the capture, and keep the device array."}},
};

class PointerArrayFromHostArray : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    a = at::full({1}, 3.0, at::kCUDA), b = at::full({1}, 4.0, at::kCUDA);
    table = at::zeros({2}, at::device(at::kCUDA).dtype(at::kLong));
    pinned = at::zeros({2}, at::TensorOptions().dtype(at::kLong).pinned_memory(true));
    memory.resize(2);
  }

  // The library's part: the pointers in `array`, and from there to the device.
  void upload(int64_t* array) {
    array[0] = reinterpret_cast<int64_t>(a.data_ptr()), array[1] = reinterpret_cast<int64_t>(b.data_ptr());
    ASSERT_CUDA(cudaMemcpyAsync(table.data_ptr(), array, 2 * sizeof *array, cudaMemcpyHostToDevice, stream));
  }

  // The graph reads the table, as a grouped product would.
  void capture(int64_t* array) {
    graph->capture_begin();
    if (array) upload(array);
    pointers = table.clone();
    EXPECT_GT(captured_nodes(stream), 0);
    graph->capture_end();
  }

  // What the graph finds in each of three replays, while the array's memory has other owners.
  std::string three_replays() {
    std::string all;
    for (const int64_t foreign : {0, 1, 2}) {
      memory.assign(2, foreign);
      graph->replay();
      const at::Tensor found = pointers.cpu();
      for (const int64_t one : {found.data_ptr<int64_t>()[0], found.data_ptr<int64_t>()[1]}) {
        const auto* address = reinterpret_cast<const void*>(one);
        all += address == a.data_ptr() ? "a" : address == b.data_ptr() ? "b" : std::to_string(one);
      }
      all += " ";
    }
    return all;
  }

  at::Tensor a, b, table, pinned, pointers;
  std::vector<int64_t> memory;  // Where the temporary array lies, and later something else.
};

TEST_F(PointerArrayFromHostArray, ControlEager) {
  for (const int64_t foreign : {0, 1, 2}) {
    upload(memory.data());
    stream.synchronize();
    memory.assign(2, foreign);
    EXPECT_EQ(table.cpu().data_ptr<int64_t>()[1], reinterpret_cast<int64_t>(b.data_ptr()));
  }
}

TEST_F(PointerArrayFromHostArray, Control) {
  capture(pinned.data_ptr<int64_t>());
  EXPECT_EQ(three_replays(), "ab ab ab ");
}

TEST_F(PointerArrayFromHostArray, Reproduces) {
  auto* array = pinned.data_ptr<int64_t>();
  TRIGGER(array = memory.data());
  capture(array);
  REPRODUCES(three_replays(), "00 11 22 ", "ab ab ab ");
}

TEST_F(PointerArrayFromHostArray, FixKeepThePinnedArray) {
  auto* array = memory.data();
  REMEDY(array = pinned.data_ptr<int64_t>());
  capture(array);
  EXPECT_EQ(three_replays(), "ab ab ab ");
}

TEST_F(PointerArrayFromHostArray, FixUploadBeforeTheCapture) {
  auto* array = memory.data();
  REMEDY(upload(array); stream.synchronize(); array = nullptr);
  capture(array);
  EXPECT_EQ(three_replays(), "ab ab ab ");
}
