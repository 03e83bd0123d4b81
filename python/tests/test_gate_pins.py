"""The gate on a pull request: the steps of action.yml and of the job for GitLab, in real repositories."""
import functools
import http.server
import importlib
import os
import re
import subprocess
import sys
import threading
import zipfile
from pathlib import Path

import pytest
import yaml

import recapture
from recapture import _places, gate_pins

TREE = Path(__file__).resolve().parents[2]


NOTHING = gate_pins.NOTHING
REQUIREMENTS = "numpy==1.26.4\ntorch=={}\ntorchvision==0.21.0\n"
PYPROJECT = '[project]\nname = "model"\ndependencies = [\n  "torch=={}",\n  "numpy",\n]\n'
DOCKERFILE = "FROM debian:12\nRUN pip install torch=={} transformers\n"


def commit(repository, files):
    for name, text in files.items():
        path = repository / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    env = dict(os.environ, GIT_CONFIG_GLOBAL="/dev/null", GIT_CONFIG_NOSYSTEM="1")
    for words in (["add", "-A"], ["-c", "user.name=a", "-c", "user.email=a@b.c", "commit", "-q", "-m", "change"]):
        subprocess.run(["git", "-C", str(repository), *words], check=True, env=env)
    return subprocess.run(["git", "-C", str(repository), "rev-parse", "HEAD"], check=True, env=env,
                          stdout=subprocess.PIPE).stdout.decode().strip()


@pytest.fixture
def repository(tmp_path):
    path = tmp_path / "repository"
    path.mkdir()
    subprocess.run(["git", "init", "-q", str(path)], check=True)
    return path


def requirements_of_pins():
    """Those of the extra in pyproject.toml, as a wheel's metadata has them."""
    text = (TREE / "pyproject.toml").read_text()
    found = re.search(r"^pins = \[(.*?)\]", text, re.MULTILINE | re.DOTALL)
    listed = re.findall(r'"([^"]+)"', found.group(1))
    return ["{} ; {}extra == 'pins'".format(each.split(";")[0], each.split(";")[1] + " and " if ";" in each else "") for each in listed]


@pytest.fixture(scope="session")
def libraries(tmp_path_factory):
    """A folder with wheels of this Python's own packaging and PyYAML."""
    folder = tmp_path_factory.mktemp("libraries")
    for module, name in (("packaging", "packaging"), ("yaml", "PyYAML")):
        package = importlib.import_module(module)
        file = folder / "{}-{}-py3-none-any.whl".format(name, package.__version__)
        with zipfile.ZipFile(str(file), "w") as archive:
            source = Path(package.__file__).parent
            for each in sorted(source.rglob("*.py")):
                archive.write(str(each), "{}/{}".format(module, each.relative_to(source)))
            info = "{}-{}.dist-info/".format(name, package.__version__)
            archive.writestr(info + "WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
            archive.writestr(info + "METADATA", "Metadata-Version: 2.1\nName: {}\nVersion: {}\n".format(name, package.__version__))
            archive.writestr(info + "RECORD", "".join("{},,\n".format(each) for each in archive.namelist() + [info + "RECORD"]))
    return str(folder)


@pytest.fixture(scope="session")
def wheel(tmp_path_factory):
    """A wheel of this tree as pyproject.toml lays it out, but with the program of this system."""
    data = tmp_path_factory.mktemp("data")
    build = str(Path(_places.program()).parent)
    subprocess.run(["cmake", "--install", build, "--prefix", str(data)], check=True, stdout=subprocess.DEVNULL)
    name = "recapture-{}".format(recapture.__version__)
    file = tmp_path_factory.mktemp("wheel") / (name + "-py3-none-any.whl")
    with zipfile.ZipFile(str(file), "w") as archive:
        for folder, at in ((TREE / "python/recapture", "recapture"), (data, name + ".data/data")):
            for each in sorted(path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts):
                archive.write(str(each), "{}/{}".format(at, each.relative_to(folder)))
        info = name + ".dist-info/"
        archive.writestr(info + "WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(info + "METADATA", "Metadata-Version: 2.1\nName: recapture\nVersion: {}\nProvides-Extra: pins\n{}".format(
            recapture.__version__, "".join("Requires-Dist: {}\n".format(each) for each in requirements_of_pins())))
        archive.writestr(info + "RECORD", "".join("{},,\n".format(each) for each in archive.namelist() + [info + "RECORD"]))
    return file


def run_action(repository, tmp_path, inputs, module=str(TREE / "python")):
    """The steps of action.yml, started as by a runner; the exit status, the summary and the output."""
    action = yaml.safe_load((TREE / "action.yml").read_text())
    values = {name: entry.get("default", "") for name, entry in action["inputs"].items()}
    values.update(inputs)
    files = {name: tmp_path / name for name in ("GITHUB_ENV", "GITHUB_STEP_SUMMARY")}
    for file in files.values():
        file.write_text("")
    outputs = ""

    def value_of(text):
        def expression(found):
            name = re.fullmatch(r"inputs\.(\w+)", found.group(1).strip())
            assert name, "an expression that this test does not know: " + found.group(0)
            return values[name.group(1)]
        return re.sub(r"\$\{\{(.*?)\}\}", expression, text)

    for step in action["runs"]["steps"]:
        if "if" in step:
            name = re.fullmatch(r"inputs\.(\w+) != ''", step["if"]).group(1)
            if not values[name]:
                continue
        env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONPATH": module,
               "PYTHONDONTWRITEBYTECODE": "1", "RUNNER_TEMP": str(tmp_path), **{n: str(f) for n, f in files.items()}}
        env.update(line.split("=", 1) for line in files["GITHUB_ENV"].read_text().splitlines())
        env.update((name, value_of(text)) for name, text in step.get("env", {}).items())
        assert step["shell"] == "bash"
        done = subprocess.run(["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]], cwd=repository,
                              env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300)
        outputs += done.stdout.decode()
        if done.returncode != 0:
            return done.returncode, files["GITHUB_STEP_SUMMARY"].read_text(), outputs
    return 0, files["GITHUB_STEP_SUMMARY"].read_text(), outputs


@pytest.mark.parametrize("file, text", [
    ("requirements.txt", REQUIREMENTS),
    ("serving/requirements-gpu.txt", REQUIREMENTS),
    ("pyproject.toml", PYPROJECT),
    ("docker/Dockerfile.train", DOCKERFILE),
])
def test_changed_pin_is_gated(repository, tmp_path, file, text):
    base = commit(repository, {file: text.format("2.6.0"), "train.py": "import torch\n"})
    commit(repository, {file: text.format("2.11.0"), "train.py": "import torch  # torch==2.1.2\n"})
    status, summary, output = run_action(repository, tmp_path, {"base": base, "python": sys.executable})
    assert status == gate_pins.BLOCKED, output
    assert "### torch 2.6.0 → 2.11.0 in `{}:".format(file) in summary
    assert "2.6.0 → 2.11.0 on NVIDIA H200" in summary
    assert "pinned_background_thread_in_capture" in summary
    assert len(summary.encode()) < 65536


def address_of(wheel):
    class Silent(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Silent, directory=str(wheel.parent)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return "http://127.0.0.1:{}/{}".format(server.server_port, wheel.name)


@pytest.mark.parametrize("place", [str, address_of])
def test_wheel_is_installed_and_answers(repository, tmp_path, wheel, libraries, place):
    base = commit(repository, {"requirements.txt": REQUIREMENTS.format("2.6.0")})
    commit(repository, {"requirements.txt": REQUIREMENTS.format("2.11.0")})
    status, summary, output = run_action(
        repository, tmp_path, {"base": base, "python": sys.executable, "wheel": place(wheel), "libraries": libraries}, module="")
    assert status == gate_pins.BLOCKED, output
    assert "2.6.0 → 2.11.0 on NVIDIA H200" in summary
    assert (tmp_path / "recapture/bin/recapture").exists()


def test_libraries_are_those_of_the_extra():
    names = [re.match(r"[\w-]+", each).group(0) for each in requirements_of_pins()]
    for file in ("action.yml", "ci/gate-pins.gitlab.yml"):
        commands = (TREE / file).read_text().split("pip install --no-index", 1)[-1]
        assert re.findall(r"(?:packaging|PyYAML|tomli)(?=[ ;])", commands)[-3:] == names


def test_without_libraries_it_cannot_tell(repository, tmp_path, wheel):
    base = commit(repository, {"requirements.txt": REQUIREMENTS.format("2.6.0")})
    commit(repository, {"requirements.txt": REQUIREMENTS.format("2.11.0")})
    status, summary, output = run_action(
        repository, tmp_path, {"base": base, "python": sys.executable, "wheel": str(wheel), "libraries": ""}, module="")
    assert (status, "pip install packaging" in summary) == (gate_pins.CANNOT_TELL, True), output


def test_wheel_that_is_not_there_ends_the_job(repository, tmp_path):
    base = commit(repository, {"requirements.txt": REQUIREMENTS.format("2.6.0")})
    commit(repository, {"requirements.txt": REQUIREMENTS.format("2.11.0")})
    status, summary, output = run_action(
        repository, tmp_path, {"base": base, "python": sys.executable, "wheel": "no/recapture-1.0-py3-none-any.whl", "libraries": ""},
        module="")
    assert (status != 0, summary) == (True, ""), output
    assert "recapture-1.0-py3-none-any.whl" in output


def test_policy_of_the_arguments_decides(repository, tmp_path):
    base = commit(repository, {"requirements.txt": REQUIREMENTS.format("2.10.0"),
                               "gate.toml": 'scope = ["streams"]\nunknown = 100\nblock = []\n[[waiver]]\ntest = "*"\nreason = "a test"\n'})
    commit(repository, {"requirements.txt": REQUIREMENTS.format("2.11.0")})
    status, summary, output = run_action(repository, tmp_path, {
        "base": base, "python": sys.executable, "arguments": "--policy gate.toml"})
    assert status == gate_pins.PASSES, output
    assert "### torch 2.10.0 → 2.11.0" in summary


@pytest.mark.parametrize("before, after", [
    ({"requirements.txt": REQUIREMENTS.format("2.6.0")}, {"requirements.txt": REQUIREMENTS.format("2.6.0") + "pytest==8.0\n"}),
    ({"requirements.txt": REQUIREMENTS.format("2.6.0")},
     {"requirements.txt": REQUIREMENTS.format("2.6.0").replace("numpy==1.26.4\n", "") + "numpy==2.0\n"}),
    ({"notes.md": "torch==2.6.0\n"}, {"notes.md": "torch==2.11.0\n"}),
])
def test_unchanged_pin_is_not_gated(repository, tmp_path, before, after):
    base = commit(repository, before)
    commit(repository, after)
    status, summary, output = run_action(repository, tmp_path, {"base": base, "python": sys.executable})
    assert (status, summary) == (gate_pins.PASSES, NOTHING), output


@pytest.mark.parametrize("before, after, status, text", [
    ("numpy\n", "numpy\ntorch==2.11.0\n", gate_pins.CANNOT_TELL, "2.11.0 is pinned for the first time"),
    ("torch==2.6.0\n", "torch==2.11.0a0+1.nv25.1\n", gate_pins.CANNOT_TELL, "2.11.0a0+1.nv25.1 is not a release of PyTorch"),
    ("torch==2.6.0+cu124\n", "torch==2.6.0+cu126\n", gate_pins.CANNOT_TELL,
     "2.6.0+cu124 and 2.6.0+cu126 are builds of one release, whose CUDA libraries may differ"),
    ("torch>=2.6,<2.8\n", "torch>=2.6.0,<2.12\n", gate_pins.CANNOT_TELL, "which releases >=2.6,<2.8 and >=2.6.0,<2.12 install"),
    ("torch>=2.6,<2.9\n", "torch>=2.6,<2.12\n", gate_pins.CANNOT_TELL, "which releases >=2.6,<2.9 and >=2.6,<2.12 install"),
    ("torch==2.6.0\n", "torch>=2.6.0\n", gate_pins.CANNOT_TELL, "which releases 2.6.0 and >=2.6.0 install"),
    ("torch<2.9\n", "torch<2.12\n", gate_pins.CANNOT_TELL, "<2.9 is not a release"),
    ("torch==2.6.0\n", "torch\n", gate_pins.CANNOT_TELL, "2.6.0 is no longer pinned"),
    ("torch>=2.6,<2.9\n", "torch >= 2.6, < 2.9\n", gate_pins.PASSES, "No pin of torch changed"),
    ("torch==2.6.0\n", "torch==9.9.9\n", gate_pins.USAGE, "9.9.9"),
])
def test_what_cannot_be_compared_is_said(repository, tmp_path, before, after, status, text):
    base = commit(repository, {"requirements.txt": before})
    commit(repository, {"requirements.txt": after})
    got, summary, output = run_action(repository, tmp_path, {"base": base, "python": sys.executable})
    assert (got, text in summary) == (status, True), output


@pytest.mark.parametrize("before, after, status, text", [
    ("cu124", "cu126", gate_pins.CANNOT_TELL, "Cannot tell: the CUDA libraries of builds from cu124 and cu126 may differ."),
    ("", "cu126", gate_pins.CANNOT_TELL, "builds from PyPI and cu126 may differ"),
    ("cu124", "cu124\n# https://download.pytorch.org/whl/cu126", gate_pins.PASSES, NOTHING),
])
def test_another_index_is_another_build(repository, tmp_path, before, after, status, text):
    def requirements(build):
        index = "--extra-index-url https://download.pytorch.org/whl/{}\n".format(build) if build else ""
        return {"requirements.txt": "torch==2.6.0\n" + index}
    base = commit(repository, requirements(before))
    commit(repository, requirements(after))
    got, summary, output = run_action(repository, tmp_path, {"base": base, "python": sys.executable})
    assert (got, text in summary) == (status, True), output


def test_pin_beside_another_is_gated(repository, tmp_path):
    base = commit(repository, {"requirements.txt": "torch==2.6.0\n"})
    commit(repository, {"requirements.txt": "torch==2.6.0; sys_platform == 'darwin'\ntorch==2.11.0; sys_platform == 'linux'\n"})
    status, summary, output = run_action(repository, tmp_path, {"base": base, "python": sys.executable})
    assert (status, "### torch 2.6.0 → 2.11.0 in" in summary) == (gate_pins.BLOCKED, True), output


def test_two_files_with_one_change_are_one_answer(repository, tmp_path):
    base = commit(repository, {"requirements.txt": REQUIREMENTS.format("2.6.0"), "Dockerfile": DOCKERFILE.format("2.6.0")})
    commit(repository, {"requirements.txt": REQUIREMENTS.format("2.11.0"), "Dockerfile": DOCKERFILE.format("2.11.0")})
    _, summary, output = run_action(repository, tmp_path, {"base": base, "python": sys.executable})
    assert summary.count("### torch") == 1, output
    assert "`Dockerfile:2`, `requirements.txt:2`" in summary


def test_base_that_moved_on_does_not_count(repository, tmp_path):
    start = commit(repository, {"requirements.txt": REQUIREMENTS.format("2.6.0")})
    base = commit(repository, {"requirements.txt": REQUIREMENTS.format("2.11.0")})
    subprocess.run(["git", "-C", str(repository), "checkout", "-q", start], check=True)
    commit(repository, {"train.py": "\n"})
    status, summary, output = run_action(repository, tmp_path, {"base": base, "python": sys.executable})
    assert (status, summary) == (gate_pins.PASSES, NOTHING), output


def test_answer_is_printed_in_any_encoding(repository):
    base = commit(repository, {"requirements.txt": REQUIREMENTS.format("2.6.0")})
    commit(repository, {"requirements.txt": REQUIREMENTS.format("2.11.0a0")})
    done = subprocess.run([sys.executable, "-m", "recapture.gate_pins", base], cwd=str(repository), stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, env=dict(os.environ, PYTHONPATH=str(TREE / "python"), PYTHONIOENCODING="latin-1"))
    assert done.returncode == gate_pins.CANNOT_TELL, done.stderr.decode()
    assert b"### torch 2.6.0 \\u2192 2.11.0a0 in" in done.stdout


@pytest.mark.parametrize("base, status, text", [
    ("", gate_pins.USAGE, "the base is empty"),
    ("no-such-commit", gate_pins.UNAVAILABLE, "gate_pins: git fetch: "),
])
def test_wrong_base_is_one_line(repository, tmp_path, base, status, text):
    commit(repository, {"requirements.txt": REQUIREMENTS.format("2.6.0")})
    got, summary, output = run_action(repository, tmp_path, {"base": base, "python": sys.executable})
    assert (got, text in output, summary) == (status, True, ""), output
    assert "Traceback" not in output


def test_without_comes_from_the_policy_of_the_base_alone(repository, tmp_path):
    base = commit(repository, {"requirements.txt": REQUIREMENTS.format("2.6.0")})
    commit(repository, {"requirements.txt": REQUIREMENTS.format("2.11.0")})
    inputs = {"base": base, "python": sys.executable, "arguments": "--without DDP"}
    got, _, output = run_action(repository, tmp_path, inputs)
    assert (got, "`without` belongs into the policy" in output) == (gate_pins.USAGE, True), output


def test_gitlab_job_runs_the_same_program(repository, tmp_path, wheel, libraries):
    job = yaml.safe_load((TREE / "ci/gate-pins.gitlab.yml").read_text())["recapture-gate"]
    base = commit(repository, {"requirements.txt": REQUIREMENTS.format("2.6.0")})
    commit(repository, {"requirements.txt": REQUIREMENTS.format("2.11.0")})
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "image")], check=True)
    env = {"PATH": "{}:{}".format(tmp_path / "image/bin", os.environ["PATH"]), "HOME": str(tmp_path),
           **{name: str(value) for name, value in job["variables"].items()},
           "CI_MERGE_REQUEST_DIFF_BASE_SHA": base, "RECAPTURE_WHEEL": str(wheel), "RECAPTURE_LIBRARIES": libraries}
    done = subprocess.run(["bash", "-eo", "pipefail", "-c", "\n".join(job["script"])], cwd=repository, env=env,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300)
    assert done.returncode == gate_pins.BLOCKED, done.stdout.decode()
    for file in job["artifacts"]["paths"]:
        assert "2.6.0 → 2.11.0 on NVIDIA H200" in (repository / file).read_text()
