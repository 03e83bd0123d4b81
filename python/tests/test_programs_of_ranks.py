"""Programs of cases with two ranks: each rank has a limit, and those that gloo can show run with the stand-in's graphs."""
import ast
import importlib.util
import os
import signal
import subprocess
import sys
from pathlib import Path
from unittest import mock

import pytest

HERE = Path(__file__).resolve().parent
CASES = HERE.parent.parent / "cases"
NAME, FUNCTIONS = "ranks_choose_different_graphs", ("fails", "fix_agree_on_the_size", "fix_capture_on_all_ranks")
LIMIT_S = 20  # Of the rank that waits for ever, in place of the program's 40. Others get more time, for a busy machine.


def load(path):
    module = importlib.util.module_from_spec(importlib.util.spec_from_file_location(path.stem, path))
    module.__spec__.loader.exec_module(module)
    return module


def called(node):
    """The last name of what an expression calls; None if it calls nothing."""
    call = node.value if isinstance(node, ast.Expr) else node
    return call.func.attr if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) else None


def bodies_of_ranks():
    """By program: the functions that it starts as ranks."""
    for path in sorted(CASES.glob("*/*.py")):
        nodes = list(ast.walk(ast.parse(path.read_text())))
        started = {call.args[0].id for call in nodes if isinstance(call, ast.Call) and called(call) == "start_processes"}
        for node in nodes:
            if isinstance(node, ast.FunctionDef) and node.name in started:
                yield path, node


def test_each_rank_of_a_program_has_a_limit_of_its_own():
    bodies = list(bodies_of_ranks())
    assert len({path for path, _ in bodies}) >= 5
    for path, body in bodies:
        assert called(body.body[0]) == "alarm", (path.name, body.lineno)


@pytest.fixture(scope="module")
def printed():
    """By function; they run side by side, since one waits."""
    torch = pytest.importorskip("torch")
    if not torch.distributed.is_available():
        pytest.skip("this PyTorch has no torch.distributed")
    environment = {**os.environ, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    running = {name: subprocess.Popen([sys.executable, "-W", "ignore", __file__, name], env=environment, stdout=subprocess.PIPE,
                                      stderr=subprocess.PIPE, universal_newlines=True) for name in FUNCTIONS}
    return {name: process.communicate() for name, process in running.items()}


@pytest.mark.parametrize("function", FUNCTIONS)
def test_ranks_with_gloo_show_what_the_program_documents(printed, function):
    program, (out, err) = load(CASES / "distributed" / (NAME + ".py")), printed[function]
    assert out.splitlines()[-1:] == [program.DOCUMENTED if function == "fails" else program.HEALTHY[function]], err[-3000:]


def main(function):
    import fake_cuda
    import stand_in_ranks
    import torch
    import torch.testing._internal.distributed.fake_pg  # noqa: F401  Before the forks: it takes seconds.

    class Graph(fake_cuda.CUDAGraph, stand_in_ranks.FakeGraphOfRanks):
        """Of one rank."""

    connect, alarm = torch.distributed.init_process_group, signal.alarm

    def init_process_group(_, *arguments, **options):
        connect("gloo", *arguments, **options)
        stand_in_ranks.nowhere(os.getpid())

    def limited(seconds):
        alarm(LIMIT_S if function == "fails" and seconds == 40 else 4 * seconds)

    with fake_cuda.fake_cuda(), mock.patch.object(torch.cuda, "CUDAGraph", Graph), \
            mock.patch.object(torch.cuda, "device_count", lambda: 2), mock.patch.object(torch.cuda, "set_device", lambda rank: None), \
            mock.patch.object(torch.distributed, "init_process_group", init_process_group), \
            mock.patch.object(signal, "alarm", limited):
        program = load(CASES / "distributed" / (NAME + ".py"))
        try:
            print(program.__dict__[function]())
        except Exception as error:
            print(f"{type(error).__name__}: {error}".partition("\n")[0])


if __name__ == "__main__":
    import conftest  # noqa: F401  Finds the package and PyTorch.
    main(sys.argv[1])
