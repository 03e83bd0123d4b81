"""What a check does at once, or not again, and that its findings do not depend on it."""
import gc
import types
import weakref

import pytest

torch = pytest.importorskip("torch")

from stand_in import StandIn  # noqa: E402

import recapture  # noqa: E402
from recapture._check import Kind, copies, cuda  # noqa: E402
from recapture._check.state import Saved, State  # noqa: E402


@pytest.fixture
def remote(monkeypatch):
    """Tensors of the host are copied as those of a GPU; the list has those that are copied alone."""
    alone = []
    monkeypatch.setattr(copies, "_is_remote", lambda tensor: True)
    copy = copies.copy_on_host
    monkeypatch.setattr(copies, "copy_on_host", lambda tensor: alone.append(tensor) or copy(tensor))
    return alone


def various():
    few = {f"float {n}": torch.arange(n * 6.0).reshape(n, 6) for n in range(1, 9)}
    whole = {f"whole {n}": torch.full((n,), n) for n in range(1, 4)}
    odd = {"permuted": torch.arange(6.0).reshape(2, 3).t(), "empty": torch.empty(0), "sparse": torch.eye(3).to_sparse(),
           "conjugated": torch.ones(2, dtype=torch.complex64).conj(), "large": torch.ones((1 << 18) + 1)}
    return {**few, "number": torch.tensor(5.0), **odd, **whole, "true": torch.tensor([True, False]),
            "parameter": torch.nn.Parameter(torch.ones(3))}, odd


def test_small_tensors_are_copied_together_and_others_alone(remote):
    tensors, odd = various()
    kept = copies.on_host(tensors)
    assert list(kept) == list(tensors)
    assert len(remote) == len(odd) + 1 and all(any(tensor is each for each in remote) for tensor in odd.values())  # One group has one.
    for name, copy in kept.items():
        assert torch.equal(copy.to_dense() if name == "sparse" else copy, tensors[name].to_dense() if name == "sparse" else tensors[name])
        assert copy.dtype == tensors[name].dtype and copy.shape == tensors[name].shape and not copy.requires_grad


def test_tensor_without_memory_is_copied_with_no_others(remote):
    tensors = {name: torch.full((3,), 1.0) for name in ("a", "b", "freed")}
    tensors["freed"].untyped_storage().resize_(0)
    assert [copies.joins(tensor) for tensor in tensors.values()] == [True, True, False]


def test_tensors_are_copied_alone_where_no_memory_is_left_to_join_them(remote, monkeypatch):
    def full(parts):
        raise torch.cuda.OutOfMemoryError("out of memory")

    monkeypatch.setattr(torch, "cat", full)
    tensors = {str(n): torch.full((3,), float(n)) for n in range(3)}
    assert all(torch.equal(copy, tensors[name]) for name, copy in copies.on_host(tensors).items()) and len(remote) == 3


def test_tensor_that_was_freed_since_is_not_put_back():
    model = torch.nn.Linear(2, 2)
    saved = Saved(State({"model": model}))
    with torch.no_grad():
        model.weight.zero_()
    model.bias.untyped_storage().resize_(0)
    saved.restore_contents()
    assert model.weight.any() and model.bias.untyped_storage().nbytes() == 0


def test_many_are_copied_in_pieces(remote, monkeypatch):
    sizes, join = [], torch.cat
    monkeypatch.setattr(torch, "cat", lambda parts: sizes.append(sum(part.numel() for part in parts)) or join(parts))
    tensors = {str(n): torch.full((1 << 16,), float(n)) for n in range(40)}
    kept = copies.on_host(tensors)
    assert all(torch.equal(kept[name], tensors[name]) for name in tensors)
    assert sizes == [1 << 20, 1 << 20, 1 << 19]


class Changed(StandIn):
    """Its replays also run after()."""

    def replay(self):
        super().replay()
        self.after()


def training(factor):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    backend = Changed()

    def after():
        with torch.no_grad():
            model[1].running_mean.mul_(factor)

    def step(x):
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return {"loss": loss, "none": x[:0] + 1}

    backend.after = after
    before = {name: value.clone() for name, value in model.state_dict().items()}
    report = recapture.check(step, lambda i: torch.randn(6, 4, generator=torch.Generator().manual_seed(i)), backend=backend)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    found = report.to_dict()
    del found["cost"]
    return found


@pytest.mark.parametrize("factor", [1.0, 1.5, float("nan")])
def test_report_does_not_depend_on_how_values_are_copied(factor, monkeypatch):
    alone = training(factor)
    monkeypatch.setattr(copies, "_is_remote", lambda tensor: True)
    assert training(factor) == alone
    assert bool(alone["findings"]) == (factor != 1.0)


def test_operator_without_a_checksum_does_not_hide_the_first_that_differs():
    state = torch.ones(64)
    backend = Changed()
    backend.after = lambda: state.mul_(1.5)
    report = recapture.check(lambda x: (x[:0] + 1, state.add_(x)), lambda i: torch.ones(64), backend=backend)
    assert [finding.kind for finding in report.findings] == [Kind.WRONG_VALUE]


# The garbage collector.

def test_collector_leaves_out_what_is_older_than_the_check():
    frozen = []

    def inputs(i):
        frozen.append(gc.get_freeze_count())
        return torch.ones(4) + i

    recapture.check(lambda x: x * 2, inputs, backend=StandIn())
    assert min(frozen) > 1000 and gc.get_freeze_count() == 0


def test_collector_looks_at_everything_after_an_error():
    def step(x):
        raise KeyError("no")

    with pytest.raises(KeyError):
        recapture.check(step, lambda i: torch.ones(4), backend=StandIn())
    assert gc.get_freeze_count() == 0


def test_what_the_program_has_set_aside_stays_so():
    gc.freeze()
    try:
        count = gc.get_freeze_count()
        recapture.check(lambda x: x * 2, lambda i: torch.ones(4) + i, backend=StandIn())
        assert gc.get_freeze_count() == count
    finally:
        gc.unfreeze()


def test_recordings_are_gone_after_the_check():
    def recorders():
        return sum(type(each).__name__ == "Recorder" for each in gc.get_objects())

    gc.collect()
    before = recorders()
    recapture.check(lambda x: x * 2, lambda i: torch.ones(4) + i, backend=StandIn())
    assert recorders() == before


def test_garbage_of_before_is_gone_during_the_check():
    class Model:
        pass

    model = Model()
    model.itself, gone = model, weakref.ref(model)
    del model
    seen = []

    def inputs(i):
        seen.append(gone())
        return torch.ones(4) + i

    recapture.check(lambda x: x * 2, inputs, backend=StandIn())
    assert seen and not any(seen)


def test_later_frees_what_is_older_than_the_check():
    frozen = []

    class Host(StandIn):
        def actions(self, operators):
            frozen.append(gc.get_freeze_count())
            return super().actions(operators)

    assert not recapture.check(lambda x: x * 2, lambda i: torch.ones(4) + i, backend=Host(), later=True).findings
    assert frozen == [0]


# Streams and nodes.

def test_next_check_has_the_stream_of_one_that_went_well(monkeypatch):
    made = []
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "Stream", lambda: made.append(object()) or made[-1])
    monkeypatch.setattr(cuda, "_streams", {})
    first, other = cuda.CudaBackend(), cuda.CudaBackend()
    assert first.stream is not other.stream
    first.end()
    first.end()
    again, new = cuda.CudaBackend(), cuda.CudaBackend()
    assert again.stream is first.stream and new.stream not in (first.stream, other.stream)
    again.can_be_used_again = False  # As after a capture that failed.
    again.end()
    assert cuda.CudaBackend().stream not in made[:3]


@pytest.mark.parametrize("refused", [False, True])
def test_stream_of_a_check_is_given_back_unless_it_failed(refused):
    ended = []
    backend = StandIn()
    backend.end = lambda: ended.append(True)
    if refused:
        backend.after_step = lambda index: (_ for _ in ()).throw(RuntimeError("no"))
    recapture.check(lambda x: x * 2, lambda i: torch.ones(4) + i, backend=backend)
    assert ended == ([] if refused else [True])


def test_graph_that_does_not_count_is_replayed_once_and_not_read():
    read, replays = [], []

    class Host(StandIn):
        def capture(self, call, read_nodes=True):
            read.append(read_nodes)
            return super().capture(call, read_nodes)

        def replay(self, while_waiting=None):
            replays.append(len(read))
            super().replay(while_waiting)

    recapture.check(lambda x: x * 2, lambda i: torch.ones(4) + i, backend=Host())
    assert read == [False, True] and replays == [1, 2, 2, 2]


def test_tensor_that_later_inputs_drop_is_found_though_the_first_graph_is_replayed_once():
    kept, asked = types.SimpleNamespace(table=torch.full((4,), 3.0)), []

    def inputs(i):
        asked.append(i)
        if asked.count(0) == 7 and i == 1:  # After three calls, two runs and the first capture.
            kept.table = torch.full((4,), 3.0)
        return torch.ones(4) + i

    report = recapture.check(lambda x: x * kept.table, inputs, backend=StandIn())
    assert [finding.kind for finding in report.findings] == [Kind.FREED], str(report)
