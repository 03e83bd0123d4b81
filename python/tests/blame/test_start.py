"""RECAPTURE=1 python train.py, by recapture.pth."""
import os
import sys

from programs import HEAD, ROOT, line_of, place  # noqa: F401

WHERE = "train.py:{} in fail".format(line_of(HEAD, "# breaks it"))


def test_program_is_watched_and_keeps_output_and_status(place):
    body = "graphs.begin_cuda()\nprint(sys.argv[1:])\ntry: fail()\nexcept RuntimeError: sys.exit(7)\n"
    script = place.write("train.py", HEAD + body)
    words = [sys.executable, "-X", "dev", script, "--json", "", "a b"]
    bare, watched = place.run(words), place.run(words, RECAPTURE="1")
    assert (watched.returncode, watched.stdout) == (bare.returncode, bare.stdout) == (7, "['--json', '', 'a b']\n")
    assert bare.stderr == ""
    assert "cuStreamSynchronize returned 900" in watched.stderr and WHERE in watched.stderr


def test_killed_program_and_child_are_reported(place):
    place.write("child.py", HEAD + "graphs.begin_cuda()\ntry: fail()\nfinally:\n import os; os.kill(os.getpid(), 9)\n")
    said = place.python("import subprocess\nsubprocess.run([sys.executable, 'child.py'])\n"
                        "import os; os.kill(os.getpid(), 15)\n", RECAPTURE="1")
    assert said.returncode == -15
    assert said.stderr.count("cuStreamSynchronize returned 900") == 1 and "child.py:" in said.stderr


def test_program_without_cuda_is_left_alone(place):
    place.write("plain.py", "import sys; print(sys.argv)")
    for value in ("", "0", "1"):
        said = place.run([sys.executable, "plain.py"], RECAPTURE=value)
        assert (said.stdout, said.stderr) == ("['plain.py']\n", ""), value


def test_missing_program_is_one_line_and_the_program_runs(place):
    package = place.folder / "alone"
    package.mkdir()
    (package / "recapture").symlink_to(ROOT / "python/recapture")
    (place.pth.parent / "0tree.pth").write_text(str(package) + "\n")
    place.write("plain.py", "print('runs')")
    said = place.run([sys.executable, "plain.py"], RECAPTURE="1", PATH="/nowhere")
    assert said.stdout == "runs\n"
    assert said.stderr.count("\n") == 1 and said.stderr.startswith("recapture: RECAPTURE is set, but")


def test_pth_without_its_package_does_nothing(place):
    (place.pth.parent / "0tree.pth").unlink()
    place.write("plain.py", "print('runs')")
    said = place.run([sys.executable, "plain.py"], RECAPTURE="1")
    assert (said.stdout, said.stderr) == ("runs\n", "")


def test_pth_imports_nothing_unless_it_is_asked(place):
    shown = "import sys; print(sorted(sys.modules))"
    bare = place.run([sys.executable, "-c", shown])
    place.pth.unlink()
    assert bare.stdout == place.run([sys.executable, "-c", shown]).stdout


def test_folder_that_cannot_be_written_is_one_line_and_the_program_runs(place):
    place.write("plain.py", "print('runs')")
    said = place.run([sys.executable, "plain.py"], RECAPTURE="1", TMPDIR="/proc/nowhere")
    assert (said.returncode, said.stdout) == (0, "runs\n"), said.stderr
    assert said.stderr.count("\n") == 1 and "TMPDIR" in said.stderr, said.stderr


def run_embedded(place, body, driver="lib"):
    """Python embedded in another program's executable."""
    script = place.write("train.py", HEAD + body)
    return place.run(["bash", "-c", 'exec -a /bin/true "$@"', "bash", os.path.realpath(sys.executable), script], driver,
                     RECAPTURE="1", PYTHONHOME=sys.base_prefix)


def test_embedded_python_is_watched_in_its_own_process(place):
    said = run_embedded(place, "graphs.begin_cuda()\ntry: fail()\nexcept RuntimeError: pass\n")
    assert said.returncode == 0
    assert "cuStreamSynchronize returned 900" in said.stderr and WHERE in said.stderr


def test_embedded_python_that_cannot_be_heard_ends_with_one_line(place):
    said = run_embedded(place, "graphs.begin_cuda()\nprint('runs')\n", driver="old")
    assert (said.returncode, said.stdout) == (0, "runs\n"), said.stderr
    assert said.stderr.count("\n") == 1 and said.stderr.startswith("recapture: what failed"), said.stderr


def test_rank_is_the_variable_or_that_of_the_process_group(place):
    body = ("import types\ngroup = types.ModuleType('torch.distributed.distributed_c10d')\n"
            "group.is_initialized, group.get_rank = lambda: '--none' not in sys.argv, lambda: 3\n"
            "sys.modules[group.__name__] = group\ngraphs.begin_cuda()\ntry: fail()\nexcept RuntimeError: pass\n")
    assert ", rank 3 (" in place.python(body, RECAPTURE="1").stderr
    assert ", rank 7 (" in place.python(body, RECAPTURE="1", RANK="7").stderr
    said = place.run([sys.executable, place.write("train.py", HEAD + body), "--none"], RECAPTURE="1")
    assert "cuStreamSynchronize returned 900" in said.stderr and ", rank " not in said.stderr
