"""tools/discover --ranks 2 with gloo and a stand-in: planted faults of one rank are found, shrunk and named by their rank.

Two faults and a few programs by default; all with DISCOVER_IN_FULL in the environment, as in `ci/test --all`.
"""
import json
import os
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("hypothesis")
if not torch.distributed.is_available():
    pytest.skip("this PyTorch has no torch.distributed", allow_module_level=True)
ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.append(str(ROOT / "tools"))
torch.set_num_threads(1)

import torch.distributed._functional_collectives  # noqa: E402, F401  Before the forks: it takes seconds.
import torch.distributed._symmetric_memory  # noqa: E402, F401
import torch.testing._internal.distributed.fake_pg  # noqa: E402, F401
from discover_ranks_faults import FAULTS, make_on_host  # noqa: E402
from discovery import collectives, drafting, programs, running, searching  # noqa: E402
from discovery.programs import Event, Program, Statement, source_of  # noqa: E402

running.prepare()
searching.prepare()
IN_FULL = bool(os.environ.get("DISCOVER_IN_FULL"))


@pytest.fixture(autouse=True)
def collective_programs(monkeypatch):
    for name in ("OPS", "ACTIONS", "SETUP"):  # These are the programs of one rank as well.
        monkeypatch.setattr(programs, name, dict(getattr(programs, name)))
        monkeypatch.setattr(searching, name, getattr(programs, name), raising=False)
    monkeypatch.setattr(drafting, "ACTIONS", programs.ACTIONS)
    collectives.install()


def plan(folder, fault, **options):
    values = {"seed": 1, "seconds": 3000, "jobs": 1, "limit": 10 if fault and fault.state == "hang" else 40, "shrink": 60,
              "examples": 60, "host": True, "compile": False, "most_rounds": 1, "sizes": (8, 32)}
    where = searching.Plan(output=folder, make_backend=None, **{**values, **options})
    where.make_server = lambda: collectives.RankServer(make_on_host(fault), 2, where.limit)
    return where


@pytest.mark.parametrize("fault", FAULTS if IN_FULL else FAULTS[:2], ids=lambda fault: fault.name)
def test_a_fault_of_one_rank_is_found_and_shrunk(tmp_path, fault):
    where = plan(tmp_path, fault)
    hunter = searching.Hunter(where, "test")
    ops, actions = sorted({fault.op, "mul", "functional"}), sorted({fault.action, "empty_cache", "barrier"})
    strategy = programs.strategy(ops, {(op, "plain") for op in ops}, actions, where.sizes)
    path = searching.Round(hunter, where.at(0.8)).run(strategy, 1)
    hunter.close()
    finding = json.loads(path.read_text())
    assert finding["state"] == fault.state and finding["repeated"]
    if fault.state == "hang":  # The other rank waits for it, and nothing tells the two apart.
        assert set(finding["result"]["states"]) == {"hang"}
    else:
        assert finding["result"]["rank"] == fault.rank
    program = Program.of(finding["program"])
    assert f"op:{fault.op}" in finding["features"] and fault.action in program.actions(), finding["source"]
    assert len(program.statements()) <= 2 and len(program.events) <= 3, finding["source"]
    assert "torchrun" in path.with_suffix(".py").read_text()


def test_sound_programs_have_no_finding(tmp_path):
    where = plan(tmp_path, None, examples=25 if IN_FULL else 8)
    ops = ["all_reduce", "all_reduce_max", "all_reduce_twice", "all_gather", "broadcast", "all_to_all", "functional",
           "functional_gather", "mul", "matmul"]
    actions = ["make_group", "make_and_destroy_group", "eager_collective", "eager_gather", "barrier", "recapture",
               "destroy_other", "empty_cache"]
    searching.sequences(where, ops, {(op, "plain") for op in ops}, actions)
    result = searching.merged(where)
    assert result["findings"] == [] and result["unrepeated"] == []
    # Hypothesis draws fewer where it meets a program again.
    assert result["counts"]["programs"] >= where.examples / 2, result["counts"]
    assert result["counts"]["same"] >= result["counts"]["programs"] * 0.8, (result["counts"], result["reasons"])


def test_every_program_is_python():
    for name in collectives.OPS:
        for graphs in (((Statement(name, 0, 1),),), ((Statement(name, 0, 1),), (Statement("mul", 0, 1),))):
            program = Program(8, graphs, tuple(Event(action) for action in collectives.ACTIONS))
            compile(source_of(program), "program", "exec")
            finding = {"state": "differs", "operator": name, "actions": program.actions(), "source": source_of(program),
                       "result": {"state": "differs"}}
            compile(drafting.program_text(finding), "draft", "exec")


def test_the_rank_that_fails_first_has_the_result():
    left = {"state": "raised", "why": "left alone: rank 1 is gone"}
    assert collectives.merged([left, {"state": "crash", "how": "signal 11"}])["rank"] == 1
    assert collectives.merged([{"state": "hang"}, left])["state"] == "hang"
    assert collectives.merged([{"state": "same"}, {"state": "differs"}]) == {"state": "differs", "rank": 1,
                                                                              "states": ["same", "differs"]}
    assert collectives.merged([{"state": "hang"}, {"state": "invalid", "why": "out of memory"}])["state"] == "invalid"
    assert collectives.merged([{"state": "same"}, {"state": "same"}]) == {"state": "same", "rank": 0, "states": ["same", "same"]}
