"""`with check():` on the host: captures and replays are reported by hand."""
import _thread
import threading

import pytest

torch = pytest.importorskip("torch")

from torch.utils._python_dispatch import _len_torch_dispatch_stack  # noqa: E402

from recapture._check import Kind  # noqa: E402
from recapture._check.recording import Recorder  # noqa: E402
from recapture._check.watching import Clocks, CudaEvents, Watch  # noqa: E402

HERE = __file__


def line_with(mark):
    return next(n for n, line in enumerate(open(HERE).read().splitlines(), 1) if line.endswith(f"# {mark}"))


class Graph:
    pass


class Event:
    """Without weak references, because those to torch.cuda.Event dangle in PyTorch 2.11."""

    __slots__ = ("__dict__",)


class Events:
    """0-dim tensors count as host memory; everything runs on the stream `stream`."""

    def __init__(self):
        self.stream, self.pools, self.capturing = 1, {}, False

    def install(self, watch):
        self.watch = watch

    def remove(self):
        pass

    def current(self):
        return self.stream

    def on_device(self, tensor):
        return tensor.dim() > 0

    def is_capturing(self):
        return self.capturing

    def pool_ranges(self, graph):
        return self.pools.get(graph, [])


class Program:
    """A program under a watch."""

    def __init__(self):
        self.events = Events()
        self.watch = Watch(self.events)

    def __enter__(self):
        self.report = self.watch.__enter__()
        return self

    def __exit__(self, *exception):
        self.watch.__exit__(*exception)

    def capture(self, body):
        graph = Graph()
        self.watch.begin(graph)
        self.events.capturing = True
        result = body()
        self.events.capturing = False
        self.watch.ending(graph)
        self.watch.end(graph)
        return graph, result

    def replay(self, graph, stream=1):
        self.events.stream = stream
        self.watch.replaying(graph)
        self.watch.replayed(graph)


def kinds(program):
    return [(finding.kind, finding.line.number) for finding in program.report.findings]


def test_input_that_lives_is_none():
    with Program() as program:
        x = torch.ones(4)
        graph, y = program.capture(lambda: x * 2)
        program.replay(graph)
        y.clone()
    assert kinds(program) == [] and program.report.compared == {"graphs": 1, "replays": 1, "operators": 1}


def test_input_that_died_is_freed():
    with Program() as program:
        held = [torch.ones(4)]
        graph, y = program.capture(lambda: held[0] * 2)  # read
        program.replay(graph)
        held.clear()
        program.replay(graph)
    assert kinds(program) == [(Kind.FREED, line_with("read"))]


def test_input_without_memory_may_die():
    with Program() as program:
        held = [torch.ones(0)]
        graph, y = program.capture(lambda: torch.cat([held[0], torch.ones(4)]))
        held.clear()
        program.replay(graph)
    assert kinds(program) == []


def test_intermediate_that_died_is_the_graphs_own():
    with Program() as program:
        x = torch.ones(4)
        graph, y = program.capture(lambda: (x * 2).exp() + 1)
        program.replay(graph)
    assert kinds(program) == []


def test_copy_on_another_stream_must_be_waited_for():
    for wait in (False, True):
        with Program() as program:
            x = torch.zeros(4)
            graph, y = program.capture(lambda: x * 2)
            program.watch.clocks.synchronize()
            program.events.stream = 2
            x.copy_(torch.ones(4))  # copied
            if wait:
                event = Event()
                program.watch.clocks.record(event, 2)
                program.watch.clocks.wait(event, 1)
            program.replay(graph)
        assert kinds(program) == ([] if wait else [(Kind.UNORDERED, line_with("copied"))])


@pytest.mark.parametrize("wait", [False, True])
def test_graph_can_wait_for_an_external_event(wait):
    with Program() as program:
        x, event = torch.zeros(4), Event()

        def body():
            if wait:
                program.watch.waited(event, 1)
            return x * 2

        graph, y = program.capture(body)
        program.watch.clocks.synchronize()
        program.events.stream = 2
        x.copy_(torch.ones(4))  # loaded
        program.watch.recorded(event, 2)
        program.replay(graph)
    assert kinds(program) == ([] if wait else [(Kind.UNORDERED, line_with("loaded"))])


@pytest.mark.parametrize("again", [False, True])
def test_graph_records_an_external_event_in_each_replay(again):
    """Another stream that waits for it comes after the replay, and one that waited before does not."""
    with Program() as program:
        x, y, event = torch.ones(4), torch.zeros(4), Event()

        def body():
            y.copy_(x)
            program.watch.recorded(event, 1)

        first, _ = program.capture(body)
        second, _ = program.capture(lambda: y * 2)
        program.watch.waited(event, 2)
        program.replay(first, stream=1)
        if again:
            program.watch.waited(event, 2)
        program.replay(second, stream=2)
    assert [kind for kind, _ in kinds(program)] == ([] if again else [Kind.UNORDERED])


def test_output_of_another_graph_is_overwritten():
    x = torch.ones(4)
    for clone in (False, True):
        with Program() as program:
            first, y1 = program.capture(lambda: x + 1)
            second, y2 = program.capture(lambda: x * 2)
            storage = y2.untyped_storage()
            program.watch.all[0].ranges.append((storage.data_ptr(), storage.data_ptr() + 16))  # As in a pool that both share.
            program.replay(second)
            result = y2.clone() if clone else y2
            program.replay(first)
            result.sum()  # lost
        assert kinds(program) == ([] if clone else [(Kind.OVERWRITTEN, line_with("lost"))])


def test_replay_restores_what_another_one_overwrote():
    x = torch.ones(4)
    with Program() as program:
        first, y1 = program.capture(lambda: x + 1)
        second, y2 = program.capture(lambda: x * 2)
        storage = y2.untyped_storage()
        program.watch.all[0].ranges.append((storage.data_ptr(), storage.data_ptr() + 16))
        for _ in range(2):
            program.replay(first)
            program.replay(second)
            y2.sum()
    assert kinds(program) == []


def test_replays_that_share_memory_must_not_run_at_once():
    x, y1, y2 = torch.ones(4), torch.zeros(4), torch.zeros(4)
    for wait in (False, True):
        with Program() as program:
            first, _ = program.capture(lambda: y1.copy_(x * 2))
            second, _ = program.capture(lambda: y2.copy_(x + 2))
            program.watch.all[1].ranges = list(program.watch.all[0].ranges)
            program.replay(first, stream=1)
            if wait:
                event = Event()
                program.watch.clocks.record(event, 1)
                program.watch.clocks.wait(event, 2)
            program.replay(second, stream=2)
        assert [kind for kind, _ in kinds(program)] == ([] if wait else [Kind.UNORDERED])


def test_collected_output_is_one_tensor():
    x = torch.ones(4)
    for clone in (False, True):
        with Program() as program:
            graph, y = program.capture(lambda: x * 2)
            outputs = []
            for _ in range(3):
                program.replay(graph)
                outputs.append(y.clone() if clone else y)
            torch.stack(outputs)  # stacked
        assert kinds(program) == ([] if clone else [(Kind.OVERWRITTEN, line_with("stacked"))])


def test_parts_of_one_output_are_several_tensors():
    with Program() as program:
        x = torch.ones(4)
        graph, y = program.capture(lambda: x * 2)
        program.replay(graph)
        torch.stack([y[:2], y[2:]])
    assert kinds(program) == []


def test_tensor_that_takes_a_storage_has_not_made_it():
    """A recurrent layer makes a tensor of all its weights so, in each call."""
    with Program() as program:
        weights = torch.ones(8)
        graph, y = program.capture(lambda: torch.empty(0).set_(weights.untyped_storage(), 0, (8,)) * 2)
        weights.clone()
        program.replay(graph)
    assert kinds(program) == []


def test_operator_on_a_stream_that_does_not_capture_is_outside():
    with Program() as program:
        x, staged = torch.ones(4), torch.zeros(4)

        def body():
            program.events.capturing = False
            staged.copy_(x)  # outside
            program.events.capturing = True
            return staged * 2

        program.capture(body)
    assert kinds(program) == [(Kind.OUTSIDE, line_with("outside"))]


def test_storages_are_forgotten_when_dead():
    with Program() as program:
        x = torch.ones(4)
        graph, y = program.capture(lambda: x * 2)
        program.watch.limit = 10
        for _ in range(50):
            torch.ones(4) + 1
        program.replay(graph)
    assert len(program.watch.storages) < 50 and kinds(program) == []


class FakeGraph:
    """The methods of torch.cuda.CUDAGraph that a watch replaces."""

    def __init__(self, broken=False):
        self.broken = broken

    def capture_begin(self, **_):
        pass

    def capture_end(self):
        if self.broken:
            raise RuntimeError("CUDA error: operation failed due to a previous error during capture\nCompile")  # ends

    def replay(self):
        pass

    def pool(self):
        return 0, 0


@pytest.fixture
def cuda_events(monkeypatch):
    """The classes of torch.cuda that a watch follows, on the host and on stream 1."""
    monkeypatch.setattr(torch.cuda, "CUDAGraph", FakeGraph)
    events = CudaEvents()
    events.capturing = False
    monkeypatch.setattr(CudaEvents, "number", staticmethod(lambda stream=None: 1))
    monkeypatch.setattr(events, "on_device", lambda tensor: tensor.dim() > 0)
    monkeypatch.setattr(events, "is_capturing", lambda: events.capturing)
    monkeypatch.setattr(events, "pool_ranges", lambda graph: [])
    return events


def test_capture_that_fails_is_refused_and_the_next_one_is_watched(cuda_events):
    before = dict(FakeGraph.__dict__)
    held, broken, graph = [torch.ones(4)], FakeGraph(broken=True), FakeGraph()
    with Watch(cuda_events) as report:
        for each in (broken, graph):
            each.capture_begin()
            cuda_events.capturing = True
            try:
                held[0] * 2
                each.capture_end()
            except RuntimeError:
                pass
            cuda_events.capturing = False
        graph.replay()
        held.clear()
        graph.replay()
    assert [(finding.kind, finding.line.number) for finding in report.findings if finding.kind == Kind.REFUSED] == [
        (Kind.REFUSED, line_with("ends"))]
    assert report.findings[0].graph == "RuntimeError: CUDA error: operation failed due to a previous error during capture"
    assert [finding.kind for finding in report.findings[1:]] == [Kind.FREED]
    assert report.compared["graphs"] == 1 and report.compared["replays"] == 2
    assert dict(FakeGraph.__dict__) == before


def test_eager_code_after_a_capture_that_failed_is_watched(cuda_events):
    with Watch(cuda_events) as report:
        x, first, broken = torch.ones(4), FakeGraph(), FakeGraph(broken=True)
        first.capture_begin()
        cuda_events.capturing = True
        y = x * 2
        cuda_events.capturing = False
        first.capture_end()
        broken.capture_begin()
        with pytest.raises(RuntimeError):
            broken.capture_end()
        outputs = []
        for _ in range(2):
            first.replay()
            outputs.append(y)
        torch.stack(outputs)  # collected
    assert [(finding.kind, finding.line.number) for finding in report.findings[1:]] == [
        (Kind.OVERWRITTEN, line_with("collected"))]


def test_capture_that_never_ends_is_named(cuda_events):
    with Watch(cuda_events) as report:
        FakeGraph().capture_begin()
    assert "The capture that began last, which has not ended in this block." in report.unknown


def test_block_without_a_capture_says_so(cuda_events):
    with Watch(cuda_events) as report:
        torch.ones(4) + 1
    assert report.unknown[0] == "Anything: nothing was captured in this block."
    assert "compared:" not in str(report)
    with Watch(cuda_events) as report:
        graph = FakeGraph()
        graph.capture_begin()
        graph.capture_end()
    assert report.unknown[0] == "Replays: none ran in this block."


def test_watch_that_cannot_begin_leaves_nothing_behind(cuda_events, monkeypatch):
    before = dict(FakeGraph.__dict__)
    monkeypatch.setattr(torch.cuda, "Stream", type("Stream", (), {}))  # Without synchronize(), which is replaced late.
    with pytest.raises(AttributeError):
        Watch(cuda_events).__enter__()
    assert dict(FakeGraph.__dict__) == before
    assert _len_torch_dispatch_stack() == 0


def test_clocks_know_what_was_waited_for():
    clocks, event = Clocks(), Event()
    work = clocks.work(1)
    assert clocks.comes_before(work, 1) and not clocks.comes_before(work, 2) and not clocks.is_done(work)
    clocks.record(event, 1)
    later = clocks.work(1)
    clocks.wait(event, 2)
    assert clocks.comes_before(work, 2) and not clocks.comes_before(later, 2)
    clocks.wait_on_host(event)
    assert clocks.is_done(work) and not clocks.is_done(later) and clocks.comes_before(work, 3)
    clocks.synchronize()
    assert clocks.is_done(later)


def test_operator_of_a_thread_without_lines_has_the_line_that_waits():
    """Autograd's thread runs operators below no line of Python."""
    recorder = Recorder(lambda tensor: True)
    call = recorder.begin([])
    done = threading.Lock()
    done.acquire()
    recorder.after = lambda operator, given: done.release()
    _thread.start_new_thread(recorder.__torch_dispatch__, (torch.ops.aten.neg.default, (), (torch.ones(2),)))
    assert done.acquire(timeout=60)  # waits
    assert [operator.line.number for operator in call.operators] == [line_with("waits")]
