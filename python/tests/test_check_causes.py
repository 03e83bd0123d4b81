"""What check() takes for evidence, and which findings it puts under another one. On the host, with a stand-in."""
import ctypes
import functools
import itertools
import random
import sys
import traceback
import types
from array import array

import pytest

torch = pytest.importorskip("torch")

from stand_in import StandIn  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode_stack  # noqa: E402

import recapture  # noqa: E402
from recapture._check import Kind, later, recording, state  # noqa: E402

torch.set_num_threads(1)


def line_with(mark):
    return next(n for n, line in enumerate(open(__file__).read().splitlines(), 1) if line.endswith(f"# {mark}"))


def filled(i):
    return torch.full((4,), 1.0 + i)


def check(fn, make_inputs=filled, backend=None, **options):
    return recapture.check(fn, make_inputs, backend=backend or StandIn(), **options)


def places(findings):
    return [(finding.kind, finding.line and finding.line.number) for finding in findings]


# A generator that is set back.

def test_operators_that_draw_nothing_are_no_rewind():
    def step(x, factor):
        y = torch.nn.functional.dropout(torch.nn.functional.dropout(x, 0.0), 0.0)
        return y * factor  # factor

    report = check(step, lambda i: (filled(i), 2.0 + i))
    assert places(report.findings) == [(Kind.HOST_VALUE, line_with("factor"))]


def test_branch_explains_the_numbers_that_are_drawn():
    def step(x, flip):
        if flip:
            return x + torch.rand(4)  # drawn
        return x.neg()

    report = check(step, lambda i: (filled(i), i == 0))
    assert places(report.findings) == [(Kind.CONTROL_FLOW, line_with("drawn"))]


def test_inputs_that_set_the_seed_are_no_rewind():
    factors = iter(range(100))

    def seeded(i):
        torch.manual_seed(0)
        return torch.rand(4)

    def step(x):
        return x * torch.rand(4) * next(factors)  # frozen

    report = check(step, seeded)
    assert places(report.findings) == [(Kind.HOST_VALUE, line_with("frozen"))]


@pytest.mark.parametrize("first", [True, False])
def test_rewind_has_the_line_that_sets_the_generator_back(first):
    def at_the_beginning(x):
        torch.manual_seed(5)  # beginning
        return x + torch.rand(4)

    def at_the_end(x):
        y = x + torch.rand(4)
        torch.manual_seed(5)  # end
        return y

    report = check(at_the_beginning if first else at_the_end)
    assert places(report.findings) == [(Kind.RANDOM, line_with("beginning" if first else "end"))]


# One storage is one tensor.

@functools.lru_cache(maxsize=None)
def table(size):
    return torch.arange(4.0) + size


@functools.lru_cache(maxsize=4)
def small_table(size):
    return torch.arange(4.0) + size


@pytest.mark.parametrize("cached", [table, small_table])
def test_table_of_a_cache_is_one_tensor(cached):
    cached.cache_clear()
    report = check(lambda x: x * cached(4))
    assert not report.findings and not report.remarks, str(report)


def test_table_that_a_library_keeps_is_one_tensor(monkeypatch):
    """A tensor that no walk finds: new in the first call that is recorded, known in the next one."""
    kept = torch.arange(4.0)
    real = state.State._visit_tensor
    monkeypatch.setattr(state.State, "_visit_tensor",
                        lambda self, path, value: None if value is kept else real(self, path, value))
    report = check(lambda x: x * kept)
    assert not report.findings and not report.remarks, str(report)


def test_cache_with_a_number_of_the_hosts_as_its_key_is_rebound():
    table.cache_clear()
    counter = [3]

    def step(x):
        counter[0] += 1  # key
        return x * table(counter[0])  # looked up

    report = check(step, warm_up=3)
    assert places(report.findings) == [(Kind.REBOUND, line_with("looked up"))]
    assert places(report.remarks) == [(Kind.SIDE_EFFECT, line_with("key"))]


def test_batches_of_an_iterator_are_other_tensors():
    batches = iter([torch.full((4,), float(number)) for number in range(100)])

    def step(x):
        return x * next(batches)  # batch

    assert places(check(step).findings) == [(Kind.REBOUND, line_with("batch"))]


def test_parameters_whose_data_are_exchanged_are_rebound():
    a, b = torch.nn.Parameter(torch.ones(4)), torch.nn.Parameter(torch.full((4,), 3.0))

    def step(x):
        y = x * a  # exchanged
        a.data, b.data = b.data, a.data
        return y

    assert places(check(step).findings)[0] == (Kind.REBOUND, line_with("exchanged"))


# One finding a cause.

def test_number_and_what_is_computed_from_it_are_one_cause():
    def mixed(x, share):
        y = x * share  # mixed
        z = y + x.flip(0) * (1 - share)
        return z.mul_(share + 0)

    report = check(mixed, lambda i: (filled(i), (0.3, 0.8, 0.55)[i]))
    assert places(report.findings) == [(Kind.HOST_VALUE, line_with("mixed"))]
    assert [finding.line.number - line_with("mixed") for finding in report.findings[0].follows] == [1, 2]
    assert str(report).count("with it   host value frozen") == 2


def test_numbers_that_are_independent_are_two_causes():
    def scaled(x, a, b):
        y = x * a  # one
        return y + b  # two

    report = check(scaled, lambda i: (filled(i), (2.0, 5.0, 3.0)[i], (1.0, 1.0, 4.0)[i]))
    assert places(report.findings) == [(Kind.HOST_VALUE, line_with("one")), (Kind.HOST_VALUE, line_with("two"))]


def test_length_and_the_shapes_after_it_are_one_cause():
    def cut(x, length):
        y = x[:length]  # cut
        return y * 2

    report = check(cut, lambda i: (filled(i), 2 + i % 2))
    assert places(report.findings) == [(Kind.HOST_VALUE, line_with("cut"))]
    assert places(report.findings[0].follows) == [(Kind.CONTROL_FLOW, line_with("cut") + 1)]


def test_work_on_another_stream_is_one_cause():
    backend, staged = StandIn(), torch.zeros(4)

    def library(x):
        with backend.side:
            staged.copy_(x)  # first
            staged.mul_(2)
        return staged * 2

    report = check(library, backend=backend)
    assert places(report.findings) == [(Kind.OUTSIDE, line_with("first"))]
    assert len(report.findings[0].follows) == 1 and "wait_stream" in report.findings[0].fix


def test_mask_of_the_host_has_the_line_that_writes_it():
    mask = torch.zeros(4)

    class Host(StandIn):
        def on_device(self, tensor):
            return tensor.untyped_storage()._cdata != mask.untyped_storage()._cdata

    def masked(x):
        mask.bernoulli_(0.5)  # written
        return x * torch.empty(4).copy_(mask)

    torch.manual_seed(0)
    report = check(masked, backend=Host())
    assert places(report.findings)[0] == (Kind.SIDE_EFFECT, line_with("written")), str(report)


def test_writer_that_is_no_operator_is_found_where_its_tensor_is_copied():
    numbers = array("f", [1.0] * 4)
    rates = torch.frombuffer(numbers, dtype=torch.float32)

    class Host(StandIn):
        def on_device(self, tensor):
            return tensor.untyped_storage()._cdata != rates.untyped_storage()._cdata

    def step(x):
        numbers[:] = array("f", [number / 2 for number in numbers])  # by Python
        return x * rates.to(torch.float64).float()

    report = check(step, backend=Host())
    assert places(report.findings) == [(Kind.SIDE_EFFECT, line_with("by Python"))], str(report)


# What makes no difference.

def test_tensor_of_the_host_that_only_the_host_reads_is_a_remark():
    count = torch.zeros(())

    def counted(x):
        count.add_(1)  # count
        return x * 2

    report = check(counted)
    assert not report.findings and places(report.remarks) == [(Kind.SIDE_EFFECT, line_with("count"))]


def test_scale_that_is_divided_out_again_is_a_remark():
    def scaled(x, scale):
        return x * scale / scale  # scale

    report = check(scaled, lambda i: (filled(i), 2.0 ** i))
    assert not report.findings and places(report.remarks) == [(Kind.HOST_VALUE, line_with("scale"))]
    assert "without effect on any value" in str(report)


def test_scale_is_a_finding_where_values_could_not_be_compared():
    report = check(lambda x, y, scale: x * scale / scale, lambda i: (filled(i), torch.ones(4 + i), 2.0 ** i))
    assert [finding.kind for finding in report.findings] == [Kind.HOST_VALUE]


def test_shape_that_changes_has_the_fix_for_shapes():
    report = check(lambda x: x * 2, lambda i: torch.ones(4 + i))
    assert report.findings[0].fix == "Capture a graph for each branch, or shape, and let the host replay the right one."


def test_random_number_of_python_is_one_cause():
    def jittered(x):
        shift = random.random()
        return (x + shift) * (1 - shift)  # jitter

    assert places(check(jittered).findings) == [(Kind.HOST_VALUE, line_with("jitter"))]


# Compiled code.

class Kernel:
    """A kernel of Inductor's: no dispatcher sees what it does."""

    fn = types.SimpleNamespace(arg_names=["in_ptr0", "out_ptr0", "xnumel"], __name__="triton_")
    inductor_meta = {"kernel_name": "triton_poi_fused_mul_0"}

    def run(self, source, target, xnumel, stream=None):
        (ctypes.c_float * xnumel).from_address(target.data_ptr())[:] = [2 * value for value in source.tolist()]


def test_kernel_of_inductor_is_named_where_its_result_differs_first(monkeypatch):
    heuristics = types.SimpleNamespace(CachingAutotuner=Kernel)
    monkeypatch.setitem(sys.modules, "torch._inductor.runtime.triton_heuristics", heuristics)
    kernel, buffer = Kernel(), torch.zeros(4)

    def step(x):
        y = x + 1
        kernel.run(y, buffer, 4)  # launched
        return buffer * 3

    original = Kernel.run
    report = check(step)
    assert places(report.findings) == [(Kind.WRONG_VALUE, line_with("launched"))], str(report)
    assert report.findings[0].operator == "inductor.triton_poi_fused_mul_0"
    assert Kernel.run is original


@pytest.mark.skipif(not hasattr(TorchDispatchMode, "ignore_compile_internals"), reason="this release has no such setting")
def test_compiled_function_stays_compiled_below_the_recorder_and_after_it():
    ran = []

    def backend(module, inputs):
        return lambda *arguments: (ran.append("compiled"), module(*arguments))[1]

    compiled, x = torch.compile(lambda x: x.sin() + 1, backend=backend), torch.ones(4)
    compiled(x)
    recorder = recording.Recorder(lambda tensor: True)
    recorder.begin([x])
    with recorder:
        compiled(x)
    compiled(x)
    assert len(ran) == 3


@pytest.mark.parametrize("path", ["/tmp/torchinductor_me/ab/cabc.py", "/home/me/.triton/cache/k.py"])
def test_generated_code_has_no_line_of_the_program(path):
    assert recording.place_of(path) == recording.SKIPPED
    assert recording.place_of("/home/me/train.py") == recording.OWN


# Higher-order operators.

def test_higher_order_operators_run_below_the_mode():
    from torch._higher_order_ops.scan import scan

    def step(x):
        state, kept = scan(lambda state, each: (state * 0.5 + each, state + 0), torch.zeros(4), x)
        return kept + state

    report = check(step, lambda i: torch.full((3, 4), 1.0 + i))
    assert not report.findings, str(report)


def test_operator_that_cannot_be_looked_into_is_named():
    flex = pytest.importorskip("torch.nn.attention.flex_attention")

    def step(x):
        return torch.ops.higher_order.flex_attention(x, x, x, lambda score, *_: score, block, 0.25, {})[0]

    block = flex._create_empty_block_mask(torch.ones(1, 1, 16, 16), torch.ones(1, 1, 16, 16)).as_tuple()
    with torch.no_grad():
        report = check(step, lambda i: torch.full((1, 1, 16, 16), 1.0 + i))
    assert not report.findings, str(report)
    assert any(line.startswith("Inside flex_attention at test_check_causes.py") for line in report.unknown), str(report)


@pytest.mark.parametrize("always", [False, True])
@pytest.mark.parametrize("factor", [1, 2])
def test_capture_that_only_the_recorder_refuses_is_no_finding(always, factor):
    """As a compiled flex_attention(), which Dynamo leaves uncompiled below a mode."""
    flex = pytest.importorskip("torch.nn.attention.flex_attention")
    backend, held = StandIn(), [1]

    def score(value, *_):
        if backend.open and (always or any(frame.filename == recording.__file__ for frame in traceback.extract_stack())):
            raise RuntimeError("Cannot copy between CPU and CUDA tensors during CUDA graph capture")
        return value

    def step(x):
        held[0] *= factor
        return torch.ops.higher_order.flex_attention(x * held[0], x, x, score, block, 0.25, {})[0]

    backend.open = False
    block = flex._create_empty_block_mask(torch.ones(1, 1, 16, 16), torch.ones(1, 1, 16, 16)).as_tuple()
    with torch.no_grad():
        report = check(step, lambda i: torch.linspace(-1.0, 1.0 + i, 256).view(1, 1, 16, 16), backend=backend)
    kinds = [finding.kind for finding in report.findings]
    assert (Kind.REFUSED in kinds) == always, str(report)
    assert (Kind.HOST_VALUE in kinds) == (factor > 1) and len(kinds) == (factor > 1) + always, str(report)
    assert any("where they are recorded" in line for line in report.unknown) != always


def held_to(value, refuses):
    """The value, by an operator that fails where `refuses` says so."""
    class Held(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

    if refuses():
        raise NotImplementedError("There was no rule registered for this mode")
    return Held.apply(value)


@pytest.mark.parametrize("factor", [1.0, 0.5])
def test_function_that_fails_where_it_is_recorded_is_compared_by_its_values(factor):
    """As an operator that has no rule for a dispatch mode."""
    def recorded():
        return any(isinstance(mode, recording.Recorder) for mode in _get_current_dispatch_mode_stack())

    held = [1.0]

    def step(x):
        held[0] *= factor
        return held_to(x * held[0], recorded)

    report = check(step, lambda i: torch.linspace(-1.0, 1.0 + i, 8))
    assert [finding.kind for finding in report.findings] == ([Kind.WRONG_VALUE] if factor < 1 else []), str(report)
    assert any(line.startswith("Which operators the function calls: recording them fails (NotImplementedError")
               for line in report.unknown), str(report)


def test_capture_that_the_recorder_breaks_is_no_refusal():
    def step(x):
        return held_to(x, lambda: backend.open and bool(_get_current_dispatch_mode_stack()[1:]))

    backend = StandIn()
    report = check(step, backend=backend)
    assert not report.findings, str(report)
    assert any("where they are recorded" in line for line in report.unknown)


# Rounding.

class Rounding(StandIn):
    """Its capture has another algorithm for a sum."""

    def replay(self):
        super().replay()
        self.after()


def test_value_that_is_rounding_alone_is_no_finding():
    torch.manual_seed(0)
    gradient, other = torch.zeros(64), torch.Generator().manual_seed(1)

    def step(x):
        gradient.copy_(x * (x.sum(0, keepdim=True) - x.flip(0).cumsum(0)[-1:]))
        return x.mean(0, keepdim=True)

    backend = Rounding()
    backend.after = lambda: gradient.add_(torch.randn(64, generator=other) * 1e-5)
    report = check(step, lambda i: torch.randn(64, generator=torch.Generator().manual_seed(i)) * 100, backend=backend)
    assert not report.findings, str(report)
    assert any("rounding alone" in line for line in report.unknown), str(report)


def test_value_that_is_not_rounding_is_found():
    state = torch.ones(64)
    backend = Rounding()
    backend.after = lambda: state.mul_(1.01)
    report = check(lambda x: state.add_(x), lambda i: torch.ones(64), backend=backend)
    assert [finding.kind for finding in report.findings] == [Kind.WRONG_VALUE]


# What an iterator or a generator of the host's gives.

def test_order_by_a_generator_of_the_hosts_is_found_where_it_is_read():
    chance, heads = random.Random(5), list(range(4))

    def step(x):
        chance.shuffle(heads)
        parts = x.unbind(0)
        return torch.stack([parts[n] for n in heads]) * 2  # shuffled

    report = check(step, lambda i: torch.arange(4.0) + i)
    assert report.findings[0].line.number == line_with("shuffled"), str(report)
    assert heads == [0, 1, 2, 3] and chance.getstate() == random.Random(5).getstate()


@pytest.mark.parametrize("make", [lambda: itertools.cycle([1.5, 2.5, 3.5]), lambda: iter([1.5, 2.5, 3.5] * 30),
                                  lambda: map(float, itertools.count()), lambda: random.Random(3)])
def test_numbers_of_an_iterator_or_a_generator_are_the_same_in_each_run(make):
    numbers, other = make(), make()

    def step(x):
        return x * (numbers.random() if isinstance(numbers, random.Random) else next(numbers))  # next

    report = check(step)
    assert places(report.findings) == [(Kind.HOST_VALUE, line_with("next"))]
    assert not any("does not repeat" in line for line in report.unknown), report.unknown
    if not isinstance(numbers, random.Random):
        assert [next(numbers) for _ in range(5)] == [next(other) for _ in range(5)]


def test_items_that_are_the_same_in_all_calls_are_no_finding():
    factors = iter([1.0] * 40)
    report = check(lambda x: x * next(factors))
    assert not report.findings and len(list(factors)) == 40


def test_method_of_a_generator_is_set_back():
    draw = random.Random(3).random
    report = check(lambda x: x * draw())
    assert [finding.kind for finding in report.findings] == [Kind.HOST_VALUE] and draw() == random.Random(3).random()


# Tensors without data.

def test_tensors_without_data_are_left_alone():
    shape, lazy = torch.nn.Linear(3, 3).to("meta"), torch.nn.LazyLinear(2)

    @torch.no_grad()
    def step(x):
        return lazy(x[None]) * shape.in_features, torch.empty(3, device="meta")

    assert not check(step).findings


# Another way below a dispatch mode.

def _below_a_mode():
    return torch._C._len_torch_dispatch_stack() > 1  # The stand-in is one.


def test_refusal_that_a_mode_hides_is_found():
    def step(x):
        if not _below_a_mode():
            raise RuntimeError("operation not permitted when stream is capturing")
        return x * 2

    backend = StandIn()
    backend.run = lambda call: _with_a_mode(call)
    report = check(step, backend=backend)
    assert [finding.kind for finding in report.findings] == [Kind.REFUSED]


def test_what_only_a_mode_shows_is_no_finding():
    def step(x):
        return (x.neg() if torch._C._len_torch_dispatch_stack() > 1 and backend.is_capturing() else x) * 3

    backend = StandIn()
    assert not check(step, backend=backend).findings


def _with_a_mode(call):
    from torch.utils._python_dispatch import TorchDispatchMode

    class Two(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            return func(*args, **(kwargs or {}))

    with Two(), Two():
        return call()


# State that only a library reaches.

def test_state_that_no_walk_finds_is_set_back(monkeypatch):
    """As that of cuDNN's dropout: an operator reads and writes it, and it is in no object of the program."""
    kept = torch.arange(4.0)
    real = state.State._visit_tensor
    monkeypatch.setattr(state.State, "_visit_tensor",
                        lambda self, path, value: None if value is kept else real(self, path, value))

    def step(x):
        kept.add_(1)
        return x * kept

    report = check(step)
    assert not report.findings and not any("does not repeat" in line for line in report.unknown), str(report)


# Noise.

def test_value_that_the_graph_does_not_repeat_is_no_finding():
    """Two runs of eager code agree by accident; the graph's first replays differ, and its next ones do not."""
    backend, replay = StandIn(), StandIn.replay
    count = [0]

    def noisy():
        replay(backend)
        count[0] += 1
        if 3 < count[0] <= 6:  # The graph that is compared, the first time.
            with torch.no_grad():
                backend.frozen.steps[-1][2].mul_(1.01)

    backend.replay = noisy
    report = check(lambda x: x * 2, backend=backend)
    assert not report.findings, str(report)


def test_value_that_the_graph_repeats_is_a_finding():
    backend, replay = StandIn(), StandIn.replay

    def wrong():
        replay(backend)
        with torch.no_grad():
            backend.frozen.steps[-1][2].mul_(1.01)

    backend.replay = wrong
    assert [finding.kind for finding in check(lambda x: x * 2, backend=backend).findings] == [Kind.WRONG_VALUE]


# Later.

@pytest.mark.parametrize("name", list(later.WORDS))
def test_action_after_which_the_graph_is_wrong_is_named(name):
    backend = StandIn()
    weights = torch.full((4,), 2.0)
    backend.planted = {name: lambda: weights.mul_(3)}
    report = later_report(backend, weights)
    assert [finding.kind for finding in report.findings] == [Kind.NOT_LATER], str(report)
    finding = report.findings[0]
    assert finding.what == f"the graph is right, but not after {later.WORDS[name][0]}"
    assert finding.operator == "aten.mul.Tensor" and finding.line.number == line_with("weights of a library")
    assert backend.asked.ended and backend.asked.did[-1] == name


def later_report(backend, weights):
    kept = [weights]
    state_of = state.State._visit_tensor

    def visit(self, path, value):
        return None if value is kept[0] else state_of(self, path, value)

    state.State._visit_tensor = visit
    hide = state.Saved.hide
    state.Saved.hide = lambda self, weak: False
    try:
        return check(lambda x: (x + 1) * weights, backend=backend, later=True)  # weights of a library
    finally:
        state.State._visit_tensor, state.Saved.hide = state_of, hide


def test_replay_that_writes_to_memory_of_others_is_found():
    backend = StandIn()
    backend.planted = {"poison": lambda: "written"}
    report = check(lambda x: x * 2, backend=backend, later=True)
    assert [finding.kind for finding in report.findings] == [Kind.NOT_LATER]
    assert "writes to memory that is not its own" in report.findings[0].what


def test_replay_that_fails_later_keeps_what_was_found_before():
    backend, replay, failing = StandIn(), StandIn.replay, [False]
    backend.planted = {"release": lambda: failing.__setitem__(0, True)}

    def fails():
        if failing[0]:
            raise RuntimeError("CUDA error: an illegal memory access was encountered")
        replay(backend)

    backend.replay = fails
    report = check(lambda x: x * 2, backend=backend, later=True)
    assert [finding.kind for finding in report.findings] == [Kind.NOT_LATER], str(report)
    assert "its replay fails after the allocator's free memory is released" in report.findings[0].what
    assert report.compared["outputs"] and report.cost["later_seconds"] >= 0


def test_graph_that_is_wrong_is_not_asked_later():
    backend = StandIn()
    backend.planted = {"release": lambda: "written"}
    report = check(lambda x, factor: x * factor, lambda i: (filled(i), 2.0 + i), backend=backend, later=True)
    assert [finding.kind for finding in report.findings] == [Kind.HOST_VALUE] and "later" not in report.compared
    assert any("it is not right now" in line for line in report.unknown)


def test_what_frees_memory_is_the_last_action():
    """A replay after it must not fail under the name of another action, as that of a second graph, which empties the cache."""
    actions = later.Actions(None, set())
    assert list(actions.all) == list(later.WORDS) and list(later.WORDS)[-2:] == ["release", "workspaces"]


def test_sound_function_is_right_later_and_fft_is_named():
    backend = StandIn()
    report = check(lambda x: torch.relu(x) * 2, backend=backend, later=True)
    assert not report.findings and report.compared["later"] == len(later.WORDS) and report.cost["later_seconds"] >= 0
    assert not check(lambda x: torch.fft.fft(x).real).findings
    found = check(lambda x: torch.fft.fft(x).real, later=True).findings  # transform
    assert places(found) == [(Kind.NOT_LATER, line_with("transform"))] and found[0].case == "fft_plan_dropped"


def test_action_that_cannot_be_done_is_told():
    backend = StandIn()
    backend.planted = {"poison": lambda: torch.zeros(2) @ torch.zeros(3)}
    report = check(lambda x: x * 2, backend=backend, later=True)
    assert not report.findings and any("given to other tensors: RuntimeError" in line for line in report.unknown), str(report)


def test_limit_of_time_is_told(monkeypatch):
    monkeypatch.setattr(later, "SECONDS", -1.0)
    report = check(lambda x: x * 2, later=True)
    assert not report.findings and any("had passed" in line for line in report.unknown)
