"""`with check():` on how a program uses its graphs, on the host with fake_cuda.py."""
import importlib.machinery
import importlib.util
import inspect
import sys
import warnings
from pathlib import Path
from unittest import mock

import pytest

torch = pytest.importorskip("torch")

import usage_programs  # noqa: E402
from fake_cuda import fake_cuda  # noqa: E402

import recapture  # noqa: E402
from recapture._check import Kind  # noqa: E402
from recapture._check.usage.gradients import register_hook  # noqa: E402
from recapture._check.watching import Watch  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent.parent
CASES, EXAMPLES = ROOT / "cases", ROOT / "examples/check"
MARK = "# found"
if not hasattr(torch._C, "_current_autograd_node") or not register_hook:
    pytest.skip("this PyTorch has no hooks for it", allow_module_level=True)


def findings(program):
    with fake_cuda() as events, Watch(events) as report:
        program()
    return report.findings


def kinds(program):
    return [finding.kind for finding in findings(program)]


def found_at_mark(program):
    """The kind of the one finding, whose line must have the mark."""
    (finding,) = findings(program)
    assert finding.line.text.endswith(MARK), finding
    return finding.kind


def capture(body):
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = body()
    return graph, result


PROGRAMS = {
    "replay/padding_rows_do_work": (Kind.PADDING, {}),
    "replay/value_cached_by_warm_up": (Kind.REBOUND, {}),
    "replay/table_made_in_capture": (Kind.EARLY, {}),
    "training/gradients_set_to_none_between_replays": (Kind.UNREAD, {}),
    # Which data are the training's own, a check cannot know.
    "training/batch_norm_trained_by_warm_up": (Kind.WARM_UP, {"fix_warm_up_on_real_batches": [Kind.WARM_UP]}),
    "training/backward_captured_under_autocast": (Kind.WRONG_VALUE, {}),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_program_of_a_case_is_found_and_its_fixes_are_not(name):
    path = CASES / f"{name}.py"
    module = load(path)
    kind, of_fixes = PROGRAMS[name]
    (finding,) = findings(module.fails)
    assert finding.kind == kind and finding.case == path.stem and finding.fix
    fixes = [name for name in dir(module) if name.startswith("fix_")]
    assert fixes
    for fix in fixes:
        assert kinds(getattr(module, fix)) == of_fixes.get(fix, []), fix


def load(path):
    loader = importlib.machinery.SourceFileLoader(path.stem, str(path))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(path.stem, loader))
    loader.exec_module(module)
    return module


JUDGE = load(ROOT / "tools/check")
VARIANTS = [variant for variant in JUDGE.variants() if variant.case in {Path(name).name for name in PROGRAMS}]


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: variant.name)
def test_example_is_found_at_its_mark(variant, monkeypatch):
    monkeypatch.setattr(sys, "path", [str(EXAMPLES), *sys.path])
    with mock.patch.dict(sys.modules):
        sys.modules.pop("programs", None)  # Other tests have a module of that name.
        program = load(variant.path)
    with fake_cuda() as events, mock.patch.object(recapture, "check", lambda: Watch(events)):
        report = getattr(program, variant.variant)()
    assert not list(JUDGE.judge(variant, [report.to_dict()]))


# By somebody who did not know the rules: nine of twelve were found at first, seven of them at their marks, and one of the 27
# fixed and sound ones was.

WRITTEN = [name for name, value in vars(usage_programs).items() if inspect.isfunction(value)]
WRONG = [name for name in WRITTEN if not name.startswith("sound__") and not name.endswith("_fixed")]
# The operator that reads the table, in a graph that is replayed too early; the mark is at the replay.
AT_ITS_READER = {"table_made_in_capture__two_graphs"}
# Operators run in a capture, too, on the host, and so BatchNorm learns a batch more.
LEARNS_MORE = {"sound__warm_up_on_first_batches", *(name for name in WRITTEN if name.startswith("batch_norm_trained"))}


@pytest.mark.parametrize("name", WRITTEN)
def test_program_of_another_author(name):
    seen = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = findings(lambda: seen.append(getattr(usage_programs, name)()))
    assert seen[0] == usage_programs.EXPECTED.get(name, seen[0]) or name in LEARNS_MORE
    if name not in WRONG:
        assert found == []
        return
    (finding,) = found
    assert finding.case == name.partition("__")[0]
    if name not in AT_ITS_READER:
        assert finding.line.text.endswith(("# found", "# or")), finding.line


def test_each_failure_has_two_programs_and_their_fixed_forms():
    assert sorted(name.partition("__")[0] for name in WRONG) == sorted(2 * [Path(name).name for name in PROGRAMS])
    assert {f"{name}_fixed" for name in WRONG} <= set(WRITTEN)


# Values that a warm-up keeps.

class Kept:
    def __init__(self, by):
        self.value, self.by = None, by

    def __call__(self, x, lengths):
        if self.value is None:
            self.value = self.by(lengths)
        return x * self.value  # found


@pytest.mark.parametrize("changes, is_found", [(("lengths",), True), (("x",), False), ((), False), (("lengths", "value"), False)])
def test_kept_value_is_found_where_its_source_changes(changes, is_found):
    def program():
        x, lengths = torch.ones(4, device="cuda"), torch.ones(4, device="cuda")
        step = Kept(lambda lengths: lengths.cumsum(0))
        step(x, lengths)
        graph, _ = capture(lambda: step(x, lengths))
        for value in (2, 3):
            if "lengths" in changes:
                lengths.fill_(value)
            if "x" in changes:
                x.fill_(value)
            if "value" in changes:
                step.value.copy_(lengths.cumsum(0))
            graph.replay()

    if is_found:
        assert found_at_mark(program) == Kind.REBOUND
    else:
        assert kinds(program) == []


def test_kept_value_without_a_source_is_none():
    def program():
        x, lengths = torch.ones(4, device="cuda"), torch.ones(4, device="cuda")
        step = Kept(lambda lengths: torch.zeros_like(lengths))
        step(x, lengths)
        graph, _ = capture(lambda: step(x, lengths))
        lengths.fill_(2)
        graph.replay()
    assert kinds(program) == []


def test_value_that_is_made_beside_the_captured_function_is_none():
    def program():
        weight = torch.ones(4, device="cuda")
        scale = weight.abs().sum(0, keepdim=True)
        graph, _ = capture(lambda: weight * scale)
        weight.fill_(2)  # The program divides by the first scale on purpose.
        graph.replay()
    assert kinds(program) == []


# Tensors of a capture, read early.

def test_reading_of_a_shape_is_none():
    def program():
        x = torch.ones(4, device="cuda")
        graph, y = capture(lambda: x * 2)
        torch.empty_like(y), torch.zeros_like(y), y.new_ones(3), y.view(2, 2), y.detach()
        graph.replay()
        y.sum()
    assert kinds(program) == []


def test_tensor_that_the_program_has_filled_is_none():
    def program():
        graph, table = capture(lambda: torch.zeros(8, device="cuda"))
        table.fill_(1)
        table.sum()
    assert kinds(program) == []


def test_other_graph_that_is_replayed_first_reads_early():
    def program():
        x = torch.ones(4, device="cuda")
        _, table = capture(lambda: x.cumsum(0))
        second, _ = capture(lambda: x * table)  # found
        second.replay()
        second.replay()
    assert found_at_mark(program) == Kind.EARLY


# Gradients.

def train(between, optimizer_of=torch.optim.SGD, parameters=2):
    def program():
        weights = [torch.zeros(4, device="cuda", requires_grad=True) for _ in range(parameters)]
        optimizer = optimizer_of(weights, lr=1.0)
        x = torch.ones(4, device="cuda")

        def loss():
            return sum((weight * x).sum() for weight in weights)

        loss().backward()
        optimizer.zero_grad()
        graph, _ = capture(lambda: loss().backward())
        gradients = [weight.grad for weight in weights]
        for value in (1, 2):
            x.fill_(value)
            between(graph, optimizer, weights, gradients, loss)
    return program


def test_gradients_that_are_dropped_by_hand_are_found():
    def between(graph, optimizer, weights, *_):
        for weight in weights:
            weight.grad = None
        graph.replay()
        optimizer.step()  # found
    (finding,) = findings(train(between))
    assert finding.kind == Kind.UNREAD and finding.what.startswith("2 parameters of 2") and finding.line.text.endswith(MARK)


def test_other_optimizer_counts_as_well():
    def between(graph, optimizer, *_):
        optimizer.zero_grad()  # found
        graph.replay()
        optimizer.step()
    assert found_at_mark(train(between, torch.optim.Adagrad)) == Kind.UNREAD


def test_gradient_that_the_program_reads_itself_is_none():
    def between(graph, optimizer, weights, gradients, _):
        optimizer.zero_grad()
        graph.replay()
        for weight, gradient in zip(weights, gradients):
            weight.grad = gradient / 2
        optimizer.step()
    assert kinds(train(between)) == []


def test_eager_step_between_is_none():
    def between(graph, optimizer, weights, gradients, loss):
        optimizer.zero_grad()
        loss().backward()  # The rest of an epoch does not fit the graph.
        optimizer.step()
        for weight, gradient in zip(weights, gradients):
            weight.grad = gradient
        graph.replay()
        optimizer.step()
    assert kinds(train(between)) == []


def test_gradients_of_a_discarded_replay_are_none():
    def between(graph, optimizer, weights, gradients, loss):
        graph.replay()
        optimizer.zero_grad()
        loss().backward()
        optimizer.step()
    assert kinds(train(between)) == []


def test_step_in_a_capture_is_none():
    def program():
        weight = torch.zeros(4, device="cuda", requires_grad=True)
        optimizer = torch.optim.SGD([weight], lr=1.0)

        def step():
            optimizer.zero_grad()
            weight.sum().backward()
            optimizer.step()

        step()
        graph, _ = capture(step)
        graph.replay()
        graph.replay()
    assert kinds(program) == []


def test_optimizer_is_as_before():
    before = torch.optim.Optimizer.zero_grad
    findings(train(lambda *_: None))
    assert torch.optim.Optimizer.zero_grad is before


# make_graphed_callables().

def test_module_that_is_evaluated_learns_nothing():
    def program():
        model = torch.nn.BatchNorm1d(4).cuda().eval()
        model = torch.cuda.make_graphed_callables(model, (torch.ones(8, 4, device="cuda"),))
        model(torch.ones(8, 4, device="cuda"))
    assert kinds(program) == []


def test_callable_whose_buffers_cannot_be_copied_ends_its_call():
    """The warm-up is then eager code, which trains the running mean."""
    model = torch.nn.BatchNorm1d(4)
    x = torch.ones(8, 4)

    def program():
        with pytest.raises(ValueError, match="uninitialized"):
            torch.cuda.make_graphed_callables(torch.nn.LazyBatchNorm1d(), (x,))
        model(x)
        graph, _ = capture(lambda: model(x))
        graph.replay()
    assert kinds(program) == [Kind.WARM_UP]


def test_autocast_that_rounds_nothing_backwards_is_none():
    def program():
        x, weight = torch.ones(4, 4, device="cuda", requires_grad=True), torch.ones(4, 4, device="cuda")
        with torch.autocast("cuda", cache_enabled=False):
            model = torch.cuda.make_graphed_callables(lambda x, weight: torch.softmax(x @ weight, 0), (x, weight))
        model(x, weight)
    assert kinds(program) == []


def test_backward_that_eager_code_runs_under_autocast_too_is_none():
    def program():
        x, head = torch.ones(4, 4, device="cuda", requires_grad=True), torch.nn.Linear(4, 3).cuda()

        def step():
            with torch.autocast("cuda", cache_enabled=False):
                head(x).float().pow(2).sum().backward()

        step()
        x.grad = head.weight.grad = head.bias.grad = None
        graph, _ = capture(step)
        graph.replay()
    assert kinds(program) == []


# Rows of padding.

class Cache:
    """A graph writes eight rows of a cache by their slots."""

    def __init__(self, dtype=torch.long, slots=8):
        self.rows = torch.zeros(64, device="cuda")
        self.slots = torch.full((slots,), 63, dtype=dtype, device="cuda")
        self.tokens = torch.zeros(8, device="cuda")
        self.graph, _ = capture(lambda: self.rows.index_put_((self.slots[:8].long(),), self.tokens))


def test_slots_of_an_earlier_larger_batch_are_found():
    def program():
        cache = Cache()
        for size in (8, 5):
            cache.slots[:size] = torch.arange(10, 10 + size, device="cuda")  # found
            cache.graph.replay()
    (finding,) = findings(program)
    assert finding.kind == Kind.PADDING and "3 of 8 rows are left from an earlier, larger batch" in finding.what
    assert finding.line.text.endswith(MARK)


@pytest.mark.parametrize("dtype", [torch.int32, torch.long])
def test_slots_that_count_from_the_end_are_found(dtype):
    def program():
        cache = Cache(dtype)
        cache.slots[:5] = torch.arange(10, 15, device="cuda")
        cache.slots[5:] = -1  # found
        cache.graph.replay()
    assert found_at_mark(program) == Kind.PADDING


def test_padding_with_a_row_that_a_batch_uses_is_found():
    def program():
        cache = Cache()
        for size in (8, 5):
            cache.slots[:size] = torch.arange(size, device="cuda")
            if size < 8:
                cache.slots[size:] = 0  # found
            cache.graph.replay()
    (finding,) = findings(program)
    assert finding.kind == Kind.PADDING and "3 of 8 rows of padding have the index 0" in finding.what
    assert finding.line.text.endswith(MARK)


def pad(cache, size):
    cache.slots[size:] = 63


def pad_by_copy(cache, size):
    cache.slots[size:].copy_(torch.full((len(cache.slots) - size,), 63, device="cuda"))


@pytest.mark.parametrize("sizes, padding", [((8, 5, 3), pad), ((8, 5, 3), pad_by_copy), ((5, 5, 5), None), ((3, 5, 8), None)])
def test_rows_with_a_slot_of_their_own_are_none(sizes, padding):
    def program():
        cache = Cache()
        for size in sizes:
            cache.slots[:size] = torch.arange(10, 10 + size, device="cuda")
            if padding:
                padding(cache, size)
            cache.graph.replay()
    assert kinds(program) == []


def test_slots_behind_those_of_the_graph_do_not_count():
    def program():
        cache = Cache(slots=16)
        for size in (16, 8):
            cache.slots[:size] = torch.arange(size, device="cuda")
            cache.slots[12:] = -1
            cache.graph.replay()
    assert kinds(program) == []


def test_parts_that_are_written_apart_are_none():
    def program():
        cache = Cache()
        cache.slots[4:] = torch.arange(4, 8, device="cuda")  # For good.
        for step in range(3):
            cache.slots[:4] = torch.arange(4, device="cuda") + step * 8
            cache.graph.replay()
    assert kinds(program) == []
