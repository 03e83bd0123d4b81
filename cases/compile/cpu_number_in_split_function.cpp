// A function compiled with mode="reduce-overhead" that computes a number on the CPU and uses it on the GPU fails in its
// second call.
//
// A tensor of no dimensions on the CPU may take part in work on the GPU: Inductor hands its value to the kernel as an
// argument, with item(). With graph_partition, which is on by default from 2.9 on, Inductor leaves an operator on the
// CPU out of the graphs and records the kernel behind it, since what that returns is on the GPU. So the number is an
// input of a recorded part: the recording would keep its value, but an assertion, which looks for each input in the
// memory of the graphs, fails first. An input of the function that is such a number is copied to the GPU before
// (pytorch#154464); one that the function computes is not. With
// torch._inductor.config.triton.slow_path_cudagraph_asserts = False nothing fails, and the replays go on with the
// number of the second call. Without graph_partition one operator on the CPU leaves the whole function without graphs,
// which is right.
//
// pytorch#154013 is about inputs. That computed numbers fail we found by reading.
//
// Only Python can state it: the program is cpu_number_in_split_function.py.
//
// Alone:  g++ cases/compile/cpu_number_in_split_function.cpp $(tools/libtorch --flags) -o cpu_number_in_split_function

#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "In Python, a compiled function fails that computes a number on the CPU and uses it on the GPU",
    .sources = {{"upstream", "pytorch#154013"}, {"upstream", "pytorch#154464"}},
    .documented = "a kernel that accesses item() of a cpu scalar tensor is put into a graph partition, which is wrong",
    .nature = Nature::Defect,
    .fidelity = Fidelity::Translated,
    .tags = {"torch.compile", "host reads"},
    .features = {"torch.compile"},
    .needs = "gpu python",
    .deadline_s = 240,
    .fixes = {{"FixCopyItToTheGpu",
               "Copy the number to the GPU in the function, with cuda(), before it is used there."},
              {"FixComputeItOutside",
               "Compute the number before the compiled function is called, and pass it as a CUDA tensor."},
              {"FixDoNotSplit",
               "Set torch._inductor.config.graph_partition = False: the function is right, and runs without CUDA "
               "graphs."}},
};
