"""check() in two ranks: the programs of examples/check/ranks with gloo and a stand-in, and ranks that are gone."""
import json
import os
import re
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
if not torch.distributed.is_available():
    pytest.skip("this PyTorch has no torch.distributed", allow_module_level=True)

from test_check_examples import load_judge  # noqa: E402
from test_check_watch import Events, Graph  # noqa: E402

from recapture._check import Kind  # noqa: E402
from recapture._check.ranks import Gone, Ranks, absent  # noqa: E402
from recapture._check.recording import Call, Operand, Operator  # noqa: E402
from recapture._check.watching import Watch  # noqa: E402

HERE = Path(__file__).resolve().parent
PROGRAMS = sorted((HERE.parent.parent / "examples" / "check" / "ranks").glob("*.py"))
# Captures of its own, and a reducer in C++ that takes nothing from the stand-in's collectives.
NEEDS_CUDA = ("graphs_of_other_sizes", "data_parallel")


def run_two(folder, *names, **variables):
    """Both ranks run these programs, one after the other. By rank: the exit status and the lines that it prints."""
    environment = {**os.environ, "GLOO_SOCKET_IFNAME": "lo", "PYTHONWARNINGS": "ignore", "OMP_NUM_THREADS": "1", **variables}
    ranks = [subprocess.Popen([sys.executable, str(HERE / "stand_in_ranks.py"), str(rank), "2", str(folder / "store"), *names],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True, env=environment)
             for rank in range(2)]
    outputs = [rank.communicate() for rank in ranks]
    return [(rank.returncode, *output) for rank, output in zip(ranks, outputs)]


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    """By program and rank."""
    names = [path.stem for path in PROGRAMS if path.stem not in NEEDS_CUDA]
    found = {}
    for status, out, err in run_two(tmp_path_factory.mktemp("ranks"), *names):
        assert status == 0, err[-3000:]
        for name, number, text in re.findall(r"^(\w+) rank (\d): (\{.*\})$", out, re.MULTILINE):
            found.setdefault(name, {})[number] = json.loads(text)
    return found


@pytest.mark.parametrize("path", [path for path in PROGRAMS if path.stem not in NEEDS_CUDA], ids=lambda path: path.stem)
def test_each_rank_has_the_report_that_the_program_states(path, reports):
    judge = load_judge()
    assert list(judge.judge_ranks(judge.RankProgram(path), reports.get(path.stem, {}))) == []


def test_fsdp_gathers_in_the_graph(reports):
    assert {report["compared"]["collectives"] for report in reports["fully_sharded"].values()} == {2}


def test_a_rank_that_ends_by_an_exception_says_which():
    program = ("import sys, torch, two_ranks\n"
               "torch.cuda.set_device = torch.distributed.init_process_group = print\n"
               "torch.distributed.barrier = lambda: None\n"
               "two_ranks.judged = lambda *_: 1 / 0\n"
               "two_ranks.run_rank(1, 'all_reduce')\n")
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    ended = subprocess.run([sys.executable, "-c", program], cwd=HERE.parent.parent / "examples" / "check", env=variables,
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True)
    assert ended.returncode == 1 and "Traceback" in ended.stderr
    assert ended.stderr.splitlines()[-1] == "rank 1 ends: division by zero"


def test_views_whose_base_was_written_are_state():
    from recapture._check.state import State
    flat = torch.ones(4, requires_grad=True) * 1
    part = flat.split(2)[0]
    flat.add_(1)
    with pytest.raises(RuntimeError):
        assert part.is_leaf  # As autograd answers for the views of FSDP's flat parameter.
    assert State({"parts": [part]}).tensors["parts[0]"] is part


def test_a_rank_that_dies_in_its_replay_is_named_by_the_other(tmp_path):
    (status, out, err), (other, _, _) = run_two(tmp_path, "all_reduce", RANK_1_DIES_IN_ITS_REPLAY="1")
    assert (status, other) == (0, 9), err[-3000:]
    report = json.loads(out.partition(": ")[2])
    assert [finding["kind"] for finding in report["findings"]] == ["ranks"]
    assert "rank 1 is gone: its process" in report["findings"][0]["what"]
    assert any("The state was not restored" in sentence for sentence in report["unknown"])


def test_programs_are_ten_at_least_and_each_way_to_shard_is_there():
    text = "".join(path.read_text() for path in PROGRAMS)
    assert len(PROGRAMS) >= 10
    for name in ("DistributedDataParallel", "FullyShardedDataParallel", "fully_shard(", "all_gather_tensor", "distributed.send"):
        assert name in text


def test_judge_names_the_rank():
    judge = load_judge()
    program = judge.RankProgram(next(path for path in PROGRAMS if path.stem == "refused_on_rank_1"))
    line = program.line["1"]

    def report(rank, *kinds, at=line):
        return {"rank": rank, "findings": [{"kind": kind, "line": {"line": at}} for kind in kinds]}

    assert list(judge.judge_ranks(program, {"0": report(0), "1": report(1, "refused")})) == []
    assert list(judge.judge_ranks(program, {"0": report(0)})) == ["rank 1 has no report"]
    assert list(judge.judge_ranks(program, {"0": report(0, "freed"), "1": report(1, "refused", at=1)})) == [
        "rank 0: the kind is freed, not none", f"rank 1: the line is 1, not {line}"]
    assert list(judge.judge_ranks(program, {"0": report(1), "1": report(1)})) == [
        "the report of rank 0 is of rank 1", "rank 1: the kind is none, not refused"]


def call_of(*names, shape=(8,), **host):
    """A captured call of these collectives, which all ranks run."""
    call = Call()
    for name in names:
        operator = Operator(f"_c10d_functional.{name}.default", None, False)
        operator.host = [("group_name", "group"), *host.items()]
        operator.operands = [Operand("input", 0, ("fresh", 0), torch.empty(shape), False, True)]
        call.operators.append(operator)
    return call


def two(*bodies, limit=60.0):
    """Runs a function of Ranks in a thread for each rank. The results by rank; an exception is one."""
    store, results = torch.distributed.HashStore(), {}

    def run(number):
        ranks = Ranks(store, number, len(bodies), limit)
        try:
            ranks.begin()
            results[number] = bodies[number](ranks)
        except RuntimeError as error:
            results[number] = error

    threads = [threading.Thread(target=run, args=(number,)) for number in range(len(bodies))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(90)
        assert not thread.is_alive(), "a rank waits"
    return results


def finding_of(call):
    return lambda ranks: ranks.meet_before_replay(call)


def test_graphs_that_fit_have_no_finding():
    call = call_of("all_reduce", "all_gather_into_tensor", reduce_op="sum")
    assert two(finding_of(call), finding_of(call)) == {0: None, 1: None}


@pytest.mark.parametrize("other,word", [
    (call_of("all_reduce"), "none"), (call_of("all_reduce", "reduce_scatter_tensor"), "reduce_scatter_tensor of 8 float32"),
    (call_of("all_reduce", "all_reduce", shape=(9,)), "all_reduce of 9 float32")])
def test_the_other_rank_and_its_collective_are_named(other, word):
    found = two(finding_of(call_of("all_reduce", "all_reduce")), finding_of(other))
    assert {each.kind for each in found.values()} == {Kind.RANKS}
    assert word in found[0].graph and "rank 1" in found[0].graph and word in found[1].eager and "rank 0" in found[1].graph


def test_a_third_rank_does_not_replay_either():
    call = call_of("all_reduce")
    found = two(finding_of(call), finding_of(call), finding_of(call_of("broadcast")))
    assert [each.kind for each in found.values()] == 3 * [Kind.RANKS]


def test_sends_and_receives_are_compared_in_pairs():
    send, receive = call_of("send", dst=1), call_of("recv_", src=0)
    assert two(finding_of(send), finding_of(receive)) == {0: None, 1: None}
    found = two(finding_of(send), finding_of(call_of("recv_", src=0, shape=(4,))))
    assert "recv of 4 float32" in found[0].graph and "send of 8 float32" in found[1].graph


def test_a_rank_that_has_left_is_named_at_once():
    began = time.monotonic()
    found = two(lambda ranks: (ranks.exchange("step", 1), ranks.missing()),
                lambda ranks: ranks.leave("ValueError: no batch"))
    assert found[0] == ({}, "rank 1 has left: ValueError: no batch") and time.monotonic() - began < 30


def test_a_process_that_has_ended_is_named_at_once():
    ended = subprocess.Popen(["true"])
    ended.wait()
    ranks = Ranks(torch.distributed.HashStore(), 0, 2, limit=60)
    from recapture._check.ranks import _machine
    ranks.where = {1: (_machine(), ended.pid)}
    began = time.monotonic()
    assert ranks.exchange("step", 1) == {} and f"its process {ended.pid} has ended" in ranks.missing()
    assert time.monotonic() - began < 30
    with pytest.raises(Gone):
        ranks.require()


def test_a_rank_that_does_not_come_is_named_after_the_limit():
    ranks = Ranks(torch.distributed.HashStore(), 0, 2, limit=0.2)
    ranks.begin()
    assert ranks.missing() == "rank 1 did not come within 0 seconds"
    assert "rank 1 did not come" in absent(ranks.missing()).graph


def test_a_lost_store_is_no_wait():
    class Lost:
        def set(self, key, value):
            raise RuntimeError("Broken pipe\nmore")

    ranks = Ranks(Lost(), 1, 2)
    assert ranks.exchange("step", 1) == {} and ranks.missing() == "rank 0 cannot be reached: the store is lost (Broken pipe)"


def test_a_watched_replay_that_would_wait_is_not_begun():
    def program(calls):
        def body(ranks):
            watch = Watch(Events())
            watch.ranks = ranks
            graph, tensor = Graph(), torch.ones(8)
            with watch as report:
                watch.begin(graph)
                for operator in calls.operators:
                    operator.operands[0].storage = watch.recorder.note(tensor)
                watch.open.call.operators += calls.operators
                watch.ending(graph)
                watch.end(graph)
                try:
                    watch.replaying(graph)
                except Gone as error:
                    return report, str(error)
                return report, ""
        return body

    found = two(program(call_of("all_reduce")), program(call_of("all_reduce", "all_reduce")))
    for rank, (report, error) in found.items():
        assert [finding.kind for finding in report.findings] == [Kind.RANKS] and f"rank {1 - rank}" in error

