"""The programs of examples/blame/ranks under `recapture blame`, with stand-ins for PyTorch and the driver.

The reports are judged as tools/blame judges those of two GPUs.
"""
import importlib.machinery
import importlib.util
import json
import shutil
import sys
import types
from pathlib import Path

import pytest
from programs import BUILD, ROOT, place  # noqa: F401


def load_judge():
    loader = importlib.machinery.SourceFileLoader("blame_judge", str(ROOT / "tools/blame"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("blame_judge", loader))
    loader.exec_module(module)
    return module


JUDGE = load_judge()
PROGRAMS = {program.name.partition("/")[2]: program for program in JUDGE.python_programs(sys.executable, [ROOT / "examples/blame"])
            if program.name.startswith("ranks/")}


@pytest.fixture
def ranks(place):  # noqa: F811
    """The stand-in is a package of the environment, so that its lines are not the program's."""
    shutil.rmtree(str(place.folder / "torch"))
    package = place.folder / "site-packages/torch"
    package.mkdir()
    shutil.copy(str(Path(__file__).with_name("torch_of_ranks.py")), str(package / "__init__.py"))
    return place


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_report_names_the_rank_its_call_and_its_line(ranks, name):
    program, log = PROGRAMS[name], ranks.folder / "report"
    if name == "data_parallel_on_default_stream":  # Only C++ frames tell DDP from a tape.
        program.expected.pop("cause")
    bare = ranks.run(program.command)
    blamed = ranks.run([BUILD / "recapture", "blame", "--json", "--log", log, "--", *program.command])
    report = json.loads(log.read_text())
    assert list(JUDGE.judge(program, bare, blamed, report, False)) == [], (bare.stderr, report)
    # Rank 0 would wait for ever for the rank that died, and is ended.
    assert bare.returncode == (1 if name == "rank_1_dies_while_rank_0_replays" else 0), bare.stderr


def test_programs_are_ten_at_least_and_each_way_to_shard_is_there():
    text = "".join(program.source.read_text() for program in PROGRAMS.values())
    assert len(PROGRAMS) >= 10
    for word in ("DistributedDataParallel", "FullyShardedDataParallel", "fully_shard(", "all_reduce", "distributed.send"):
        assert word in text, word


def test_what_a_program_printed_is_kept_where_blame_changes_it(tmp_path):
    blame = tmp_path / "blame"
    blame.write_text("#!/bin/sh\necho 2\necho gone >&2\nexit 3\n")
    blame.chmod(0o755)
    source = tmp_path / "program.py"
    source.write_text("# api: none\nprint(1)\n")
    program = JUDGE.Program("program", [sys.executable, str(source)], source, "# api: none", "")
    options = types.SimpleNamespace(recapture=blame, deep=False, timeout=60)
    result = JUDGE.try_out(program, options, tmp_path)
    assert result["wrong"][:2] == ["exit status 0 became 3", "its output is another one"]
    assert result["printed"] == {"alone": "1\n", "under blame": "2\ngone\n"}
