// A launcher that keeps the stream of its first call records nothing in a capture, but only if a warm-up came first.
//
// Launchers of compiled kernels keep what a launch needs for each shape, type and stride, since making it takes longer
// than the launch. Where the stream is part of it, a warm-up fills the cache with the stream of eager work, and a
// capture, which has a stream of its own, finds that entry: the kernel runs at once, beside the capture, and no replay
// has it. What the graph reads of its output is what that run left. Without a warm-up the same launcher is captured. A
// graph with no other work is empty, of which PyTorch warns; with other work nothing is reported. Here the launcher is
// a function of a few lines that doubles its input; library_work_outside_graph has a library that never asks for the
// stream.
//
// Only Python states it: the program is launcher_keeps_stream.py.
//
// Alone:  g++ cases/libraries/launcher_keeps_stream.cpp $(tools/libtorch --flags) -o launcher_keeps_stream

#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "In Python, a launcher that keeps the stream of its first call is missing from the graph after a warm-up",
    .sources = {{"upstream", "helion#2817"}},
    .documented =
        "kernels launched during capture ran on a stale (eager) stream, so the graph recorded no work and replayed as "
        "a "
        "no-op",
    .nature = Nature::Defect,
    .fidelity = Fidelity::Modelled,
    .tags = {"extensions", "default stream", "side streams"},
    .needs = "gpu python",
    .effect = Effect::SilentlyWrong,
    .fixes = {{"FixAskForTheStreamAtEachLaunch",
               "Keep everything but the stream, and launch on torch.cuda.current_stream() as it is at each call."},
              {"FixWarmUpOnTheStreamOfTheCapture",
               "Warm up on the stream that captures: with torch.cuda.stream(s), then torch.cuda.graph(graph, "
               "stream=s)."}},
};
