// In Python, asking a stream or an event whether it is done, during a capture, invalidates the capture.
//
// The document's program: neither the stream nor the event has anything to do with the capture. Global mode forbids the
// query all the same, because a program could wait for its answer.
//
// Alone:  g++ cases/python/queries_in_python_capture.cpp $(tools/libtorch --flags) -o queries_in_python_capture

#include "fixtures/python/python_programs.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "In Python, stream.query() or event.query() during a capture invalidates it",
    .sources = {{"capture failures", "Direct Query: Forbidden Operations"},
                {"capture failures", "Event and Stream Query Restrictions"}},
    .documented = "cudaErrorStreamCaptureUnsupported(900): operation not permitted when stream is capturing",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Verbatim,
    .tags = {"host reads", "events", "side streams"},
    .features = {"host reads"},
    .needs = "gpu python",
    .deadline_s = 120,
    .fixes = {{"FixQueryBefore", "Call stream.query() and event.query() before the torch.cuda.graph block."},
              {"FixQueryAfter", "Call stream.query() and event.query() after the torch.cuda.graph block."},
              {"FixNoQuery",
               "Remove stream.query() and event.query() from the captured code: the graph keeps its work in order "
               "without them."}},
};

class QueriesInPythonCapture : public PythonProgramTest {
 protected:
  std::string with(const std::string& line) {
    return run(R"py(
import torch
event = torch.cuda.Event()
event.record()
stream = torch.cuda.Stream()
graph = torch.cuda.CUDAGraph()
x = torch.randn(8, device="cuda")
with Outcome() as seen:
    with torch.cuda.graph(graph):
        z = x + 1
        {line}
        z = z * 2
if str(seen) == "ok > ok":
    for value in (5, 7):
        x.fill_(value)
        graph.replay()
        seen = f"{seen} {z.unique().tolist()}"
)py",
               {{"line", line}});
  }
  std::string replayed(const std::string& before, const std::string& inside, const std::string& after) {
    return run(R"py(
import torch
event = torch.cuda.Event()
event.record()
stream = torch.cuda.Stream()
graph = torch.cuda.CUDAGraph()
x = torch.randn(8, device="cuda")
torch.cuda.synchronize()
seen = []
{before}
with torch.cuda.graph(graph):
    z = x + 1
    {inside}
    z = z * 2
{after}
for value in (5, 7):
    x.fill_(value)
    graph.replay()
    seen.append(z.unique().tolist())
)py",
               {{"before", before}, {"inside", inside}, {"after", after}});
  }
};

constexpr char kHealthy[] = "ok > ok [12.0] [16.0]";
constexpr char kQueries[] = "seen += [stream.query(), event.query()]";

TEST_F(QueriesInPythonCapture, Control) { EXPECT_EQ(with("pass"), kHealthy); }

TEST_F(QueriesInPythonCapture, ReproducesStreamQuery) {
  std::string line = "pass";
  TRIGGER(line = "stream.query()");
  RAISED_BY("cuStreamQuery*");
  REPRODUCES(with(line), "900 > 901", kHealthy);
}

TEST_F(QueriesInPythonCapture, ReproducesEventQuery) {
  std::string line = "pass";
  TRIGGER(line = "event.query()");
  RAISED_BY("cuEventQuery");
  REPRODUCES(with(line), "900 > 901", kHealthy);
}

TEST_F(QueriesInPythonCapture, FixQueryBefore) {
  std::string before = "pass", inside = kQueries;
  REMEDY(std::swap(before, inside));
  EXPECT_EQ(replayed(before, inside, "pass"), "[True, True, [12.0], [16.0]]");
}

TEST_F(QueriesInPythonCapture, FixQueryAfter) {
  std::string inside = kQueries, after = "pass";
  REMEDY(std::swap(inside, after));
  EXPECT_EQ(replayed("pass", inside, after), "[True, True, [12.0], [16.0]]");
}

TEST_F(QueriesInPythonCapture, FixNoQuery) {
  std::string inside = kQueries;
  REMEDY(inside = "pass");
  EXPECT_EQ(replayed("pass", inside, "pass"), "[[12.0], [16.0]]");
}
