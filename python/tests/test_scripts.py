"""The scripts of ci/ and tools/: they parse, an old system gets one line, a failed step ends them."""
import ast
import os
import re
import subprocess
from pathlib import Path

import pytest
import yaml

TREE = Path(__file__).resolve().parents[2]


def with_tool(tmp_path, name, text, *command):
    tool = tmp_path / "bin" / name
    tool.parent.mkdir()
    tool.write_text("#!/bin/sh\n" + text + "\n")
    tool.chmod(0o755)
    return subprocess.run(command, cwd=str(tmp_path), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          env=dict(os.environ, PATH="{}:{}".format(tool.parent, os.environ["PATH"])))


@pytest.mark.parametrize("version, status, words", [
    ("3.22.1", 7, "build: this needs CMake 3.25 or newer, and PATH has 3.22.1; "),
    ("3.25.1", 0, ""),
    ("4.1.0", 0, ""),
])
def test_old_cmake_is_one_line(tmp_path, version, status, words):
    done = with_tool(tmp_path, "cmake", "echo 'cmake version {}'".format(version),
                     "bash", "-euc", "source '{}/ci/build'; require_cmake".format(TREE))
    said = done.stdout.decode()
    assert (done.returncode, words in said, said.count("\n")) == (status, True, 1 if words else 0), said


@pytest.mark.parametrize("version, words", [
    ("glibc 2.35", "unpack: this system has no glibc 2.36"),
    ("", "unpack: this system has no glibc 2.36"),  # musl's getconf
    ("glibc 2.36", "unpack: missing or damaged: part-00"),
])
def test_old_glibc_is_one_line(tmp_path, version, words):
    text = re.search(r'UNPACK = """(.*?)"""', (TREE / "tools/pack").read_text(), re.DOTALL).group(1)
    script = tmp_path / "unpack"
    script.write_text(text.replace("\\\\", "\\").format(release="2.15.0", sums="0" * 64 + "  part-00", python="3.11"))
    done = with_tool(tmp_path, "getconf", "echo '{}'".format(version), "sh", str(script), str(tmp_path / "dest"))
    said = done.stdout.decode()
    assert (done.returncode, words in said, said.count("\n")) == (7, True, 1), said


def scripts():
    return [file for folder in ("ci", "tools") for file in sorted((TREE / folder).iterdir())
            if file.is_file() and file.read_bytes().startswith(b"#!")]


@pytest.mark.parametrize("script", scripts(), ids=lambda script: script.name)
def test_script_can_be_parsed(script):
    text = script.read_text()
    if "python" in text.splitlines()[0]:
        ast.parse(text, str(script))
    else:
        subprocess.run(["bash", "-n", str(script)], check=True)


def function_of(script, name):
    """A function of a shell script, by itself."""
    return re.search(r"^{}\(\) \{{.*?^\}}$".format(name), (TREE / script).read_text(), re.DOTALL | re.MULTILINE).group(0)


def test_libraries_that_cannot_be_fetched_are_not_taken_for_complete(tmp_path):
    done = with_tool(tmp_path, "apt-get", "echo no network; exit 100", "bash", "-euc",
                     "source '{}/ci/build'; at=$PWD; {}\nquietly aarch64_libraries".format(
                         TREE, function_of("ci/wheel", "aarch64_libraries")))
    assert (done.returncode, "no network" in done.stdout.decode()) == (7, True), done.stdout.decode()
    assert not (tmp_path / "aarch64/done").exists()


def test_root_that_cannot_be_made_is_not_kept(tmp_path):
    done = with_tool(tmp_path, "debootstrap", 'for word; do case $word in *.new) mkdir "$word" ;; esac; done; exit 1',
                     "bash", "-euc", "source '{}/ci/build'; debian=amd64; {}\nif ! make_root sid root; then echo none; fi".format(
                         TREE, function_of("ci/wheel-roots", "make_root")))
    assert (done.returncode, done.stdout.decode().endswith("none\n")) == (0, True), done.stdout.decode()
    assert not (tmp_path / "root").exists()


def test_wheel_without_its_folder_is_wrong_usage():
    done = subprocess.run(["bash", str(TREE / "ci/wheel"), "--to"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert (done.returncode, done.stdout.decode()) == (2, "ci/wheel: --to needs a folder\n")


COLLECTS = """#!/bin/sh
case "$1 $2" in
  "nightly plan") echo "[]" ;;
  "nightly collect") mkdir -p "$3" && echo "{}" >"$3/night.json" ;;
  "page "*) exit ${PAGE:-0} ;;
esac
"""


def collecting(system):
    """The lines that collect a night, and their variables."""
    if system == "slurm":
        return "bash '{}' gather nights/1".format(TREE / "ci/slurm.sh"), {"SLURM_JOB_ID": "1"}
    if system == "github":
        steps = yaml.safe_load((TREE / "ci/github.yml").read_text())["jobs"]["collect"]["steps"]
        return next(step["run"] for step in steps if "nightly collect" in step.get("run", "")), {
            "GITHUB_STEP_SUMMARY": "summary"}
    lines = yaml.safe_load((TREE / "ci/gitlab-tasks.yml").read_text())[".collect"]["script"]
    return "\n".join(line for line in lines if "need_packages" not in line), {"TIER": "night", "CI_PIPELINE_ID": "1"}


@pytest.mark.parametrize("system", ["github", "gitlab", "slurm"])
@pytest.mark.parametrize("page", [0, 7])
def test_night_whose_page_cannot_be_written_is_not_green(tmp_path, system, page):
    for folder in ("build", "nights/1"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "build/recapture").write_text(COLLECTS)
    (tmp_path / "build/recapture").chmod(0o755)
    script, variables = collecting(system)
    done = subprocess.run(["bash", "-eo", "pipefail", "-c", script], cwd=str(tmp_path), stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, env=dict(os.environ, PAGE=str(page), **variables))
    assert done.returncode == page, done.stdout.decode()


@pytest.mark.parametrize("fuzz, status", [("exit 1", 1), ("", 7), ('[ "$1" = --list ] && echo record', 0)])
def test_fuzzer_without_a_reader_is_no_success(tmp_path, fuzz, status):
    for folder in ("tools", "ci", "reports", "bin", "harness/tests/fuzz", "build/fuzz/harness/tests"):
        (tmp_path / folder).mkdir(parents=True)
    for file in ("tools/fuzz", "ci/build", "ci/matrix.toml", "ci/accepted.toml", "reports/hashes.tsv", "harness/tests/fuzz/state.json"):
        (tmp_path / file).write_bytes((TREE / file).read_bytes())
    (tmp_path / "cases").symlink_to(TREE / "cases")
    (tmp_path / "ci/packages").write_text("SUITE_PACKAGES=() TEST_PACKAGES=() FUZZ_PACKAGES=(); need_packages() { :; }\n")
    (tmp_path / "build/fuzz/build.ninja").touch()
    for file, text in (("bin/cmake", ""), ("build/fuzz/harness/tests/fuzz", fuzz)):
        (tmp_path / file).write_text("#!/bin/sh\n{}\nexit 0\n".format(text))
        (tmp_path / file).chmod(0o755)
    done = subprocess.run(["bash", str(tmp_path / "tools/fuzz"), "1", "record"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          env=dict(os.environ, PATH="{}:{}".format(tmp_path / "bin", os.environ["PATH"])))
    assert done.returncode == status, done.stdout.decode()


def test_records_of_no_release_are_not_all_that_lack(tmp_path):
    done = with_tool(tmp_path, "python3", "echo 'libtorch: ci/matrix.toml cannot be read' >&2; exit 7", str(TREE / "tools/add_records"))
    assert (done.returncode, done.stdout.decode()) == (7, "libtorch: ci/matrix.toml cannot be read\n")


def test_jobs_of_the_tests_have_the_history():
    """Without the history the tests of old records' hashes are skipped."""
    steps = yaml.safe_load((TREE / "ci/github.yml").read_text())["jobs"]["test"]["steps"]
    checkout = next(step for step in steps if step.get("uses", "").startswith("actions/checkout"))
    gitlab = yaml.safe_load((TREE / "ci/gitlab.yml").read_text())["test"]
    assert any("ci/test" in step.get("run", "") for step in steps) and "ci/test" in gitlab["script"]
    assert (checkout["with"]["fetch-depth"], gitlab.get("variables", {}).get("GIT_DEPTH")) == (0, 0)


@pytest.mark.parametrize("words, gpus, status, said", [
    ([], "2", 2, "a folder for the results is missing"),
    (["out", "nonsense"], "2", 2, "there is no part 'nonsense'"),
    (["out"], "1", 7, "sees 1 GPUs"),
    (["out", "programs"], "2", 1, "two-gpus: programs took"),
])
def test_two_gpus_needs_two_and_keeps_what_programs_print(tmp_path, words, gpus, status, said):
    python = 'if [ "$1" = -c ]; then echo {}; else echo "seen: $NCCL_NVLS_ENABLE of $2"; exit 2; fi'.format(gpus)
    words = [str(tmp_path / words[0]), *words[1:]] if words else []
    done = with_tool(tmp_path, "python3", python, str(TREE / "ci/two-gpus"), *words)
    assert (done.returncode, said in done.stdout.decode()) == (status, True), done.stdout.decode()
    if status == 1:
        lines = (tmp_path / "out/programs.txt").read_text()
        assert re.search(r"^2 \d+s ranks_choose_different_graphs.fix_agree_on_the_size 0 of fix_agree_on_the_size$", lines, re.MULTILINE)


PYTHON_OF_TWO_GPUS = """case $* in
  *device_count*) echo 2 ;;
  *hypothesis*) exit $NO_HYPOTHESIS ;;
  *tools/blame*) echo '2 of 2 as they should be' ;;
  *tools/check*) echo '1 of 1' && echo 'a warning' >&2 ;;
  *tools/discover*) echo "registration $NCCL_GRAPH_REGISTER, multicast $NCCL_NVLS_ENABLE" && exit $FOUND ;;
esac"""
# Says of torchrun's program what blame does of a capture that broke on one rank.
BLAME_OF_TWO_GPUS = """#!/bin/sh
shift 2
log=$1
shift 2
case $* in
  *torch.distributed.run*item_on_rank_1.py) echo "process 7, rank $RANK_IN_LOG, local rank 1 (p.py):" >"$log" ;;
  *) : >"$log" ;;
esac
"""


def run_two_gpus(folder, *parts, **variables):
    """With stand-ins for Python, which is all tools, and for blame."""
    recapture = folder / "recapture"
    recapture.write_text(BLAME_OF_TWO_GPUS)
    recapture.chmod(0o755)
    values = {"NO_HYPOTHESIS": "0", "FOUND": "0", "RANK_IN_LOG": "1", "RECAPTURE": str(recapture), **variables}
    os.environ.update(values)
    try:
        return with_tool(folder, "python3", PYTHON_OF_TWO_GPUS, str(TREE / "ci/two-gpus"), str(folder / "out"), *parts)
    finally:
        for name in values:
            del os.environ[name]


def test_two_gpus_blames_under_torchrun_and_discovers_with_and_without_registration(tmp_path):
    done = run_two_gpus(tmp_path, "blame", "check", "discover")
    assert done.returncode == 0, done.stdout.decode()
    texts = {part: (tmp_path / "out" / (part + ".txt")).read_text() for part in ("blame", "check", "discover")}
    assert "2 of 2 as they should be\ntorchrun item_on_rank_1: rank 1, local rank 1\n" in texts["blame"]
    assert "1 of 1\na warning\n" in texts["check"]
    assert texts["discover"].startswith("registration 1, multicast 0\nregistration 0, multicast 0\ntwo-gpus: discover took")
    assert all((tmp_path / "out" / (part + ".tar.gz")).exists() for part in texts)


@pytest.mark.parametrize("part, variables, status, said", [
    ("blame", {"RANK_IN_LOG": "0"}, 1, "two-gpus: blame took"),
    ("discover", {"FOUND": "1"}, 1, "two-gpus: discover took"),
    ("discover", {"NO_HYPOTHESIS": "1"}, 7, "pip install hypothesis"),
    ("blame", {"RECAPTURE": "/nowhere"}, 7, "blame needs /nowhere"),
])
def test_two_gpus_says_what_is_wrong_or_missing(tmp_path, part, variables, status, said):
    done = run_two_gpus(tmp_path, part, **variables)
    assert (done.returncode, said in done.stdout.decode()) == (status, True), done.stdout.decode()
