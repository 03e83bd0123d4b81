"""docs/reference/schemas against what the verbs print: neither has a member or a word that the other lacks."""
import dataclasses
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator, RefResolver

from recapture import Kind
from recapture._check.findings import CheckReport, Finding, Line

TREE = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("RECAPTURE_BUILD", str(TREE / "build")))
TESTS = BUILD / "harness/tests"
REFERENCE = TREE / "docs/reference"
sys.path.append(str(TREE / "harness/tests/oracle"))
from reading import read_lines  # noqa: E402

SCHEMAS = {path.name.split(".")[0]: json.loads(path.read_text()) for path in sorted((REFERENCE / "schemas").iterdir())}
# Place in a schema | file below harness/ | array or function that has its words, or an expression of them | words of one alone
SOURCES = r"""show/$defs/result | model/result.h | kResults | not run
show/$defs/verdict | verdict/verdict.cpp | kVerdicts
show/items/properties/break | case/types.h | kBreaks
list/$defs/effect | case/types.h | kEffects
list/$defs/nature | case/types.h | kNatures
list/$defs/fidelity | case/types.h | kFidelities
list/$defs/test/properties/kind | case/types.h | kKinds
show-left/items/properties/counts/propertyNames | store/coverage.h | kCoverages
gate/properties/answer | compare/policy.cpp | answer_of(
gate/$defs/consequence | compare/consequence.cpp | kWords | the same | unknown
gate/$defs/change/properties/fixes/items/properties/advice | compare/compare.cpp | kAdvice
gate/properties/lacking/items/properties/kind | compare/gaps.h | kGapKinds
gate/properties/features/properties/features/items/properties/use | compare/features.cpp | Use::\w+ \? "(.+?)" : (?:"(.+?)";)?
explain/properties/answer | explain/explain.cpp | to_string(Answer
explain/properties/platform | report/explanation.cpp | "platform", [^}]* \? "(\w+)" : "(\w+)"
explain/properties/causes/items/properties/role | explain/explain.cpp | kRoles
blame/$defs/mode | recorder/captures.h | name(CaptureMode
blame/$defs/process/properties/heard_by | recorder/recorder.cpp | \bway = "([^"]+)"
blame/$defs/silent/properties/what | report/blame.cpp | "what", silent[^}]* \? "([^"]+)" : "([^"]+)"
operators/$defs/form/properties/verdict | verdict/operators.h | kOperatorVerdicts
nightly-diff/$defs/tests/items/properties/state | nightly/state.cpp | kWords""".splitlines()


def program(*words, **options):
    done = subprocess.run([str(BUILD / "recapture"), "--root", str(TREE), *map(str, words)], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, universal_newlines=True, **options)
    assert done.stdout or "collect" in words, done.stderr
    return done.stdout


def strict(schema):
    """A copy without other members; all are required where the schema names none."""
    if isinstance(schema, list):
        return [strict(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    copy = {key: strict(value) for key, value in schema.items()}
    if isinstance(schema.get("properties"), dict):
        copy = {"type": "object", "required": list(copy["properties"]), "additionalProperties": False, **copy}
    return copy


def parts(schema, path):
    """Each schema in a schema, by its path."""
    found = {path: schema}
    for key in ("properties", "$defs"):
        for name, one in schema.get(key, {}).items():
            found.update(parts(one, f"{path}/{key}/{name}"))
    for key in ("items", "additionalProperties", "propertyNames"):
        found.update(parts(schema[key], f"{path}/{key}") if key in schema else {})
    for i, one in enumerate(schema.get("anyOf", [])):
        found.update(parts(one, f"{path}/anyOf/{i}"))
    return found


ALL = {path: part for name, schema in SCHEMAS.items() for path, part in parts(schema, name).items()}
MEMBERS = {path for path in ALL if path.split("/")[-2:-1] == ["properties"]}


def target(path):
    """Where the $ref of a part leads to."""
    file, _, pointer = ALL[path]["$ref"].partition("#")
    return (file.split(".")[0] or path.split("/")[0]) + pointer


def visit(path, value, seen):
    """Adds to `seen` the parts of the schemas, and their words, that a value has."""
    part = ALL[path]
    seen |= {path, f"{path}={value}" if "enum" in part else path}
    if "$ref" in part:
        return visit(target(path), value, seen)
    for i in range(len(part.get("anyOf", []))):
        visit(f"{path}/anyOf/{i}", value, seen)
    for each in value if isinstance(value, list) else ():
        visit(path + "/items", each, seen)
    for key, each in value.items() if isinstance(value, dict) else ():
        if "additionalProperties" in part:
            visit(path + "/additionalProperties", each, seen)
            visit(path + "/propertyNames", key, seen) if "propertyNames" in part else None
        elif f"{path}/properties/{key}" in MEMBERS:
            visit(f"{path}/properties/{key}", each, seen)


WORDS = {path.split("/")[-1] for path, part in ALL.items() if "enum" in (ALL[target(path)] if "$ref" in part else part)}


def shape(value, key=""):
    """Equal for values that a schema cannot tell apart."""
    if isinstance(value, dict):
        return repr([(name, shape(value[name], name)) for name in sorted(value)])
    if isinstance(value, list):
        return repr(sorted({shape(each, key) for each in value}))
    return repr(value if key in WORDS else type(value))


def few(value):
    """One value of each shape: the validator takes far longer than the program."""
    if isinstance(value, list):
        return [few(each) for each in {shape(each): each for each in value}.values()]
    if isinstance(value, dict):
        names = {shape(each): name for name, each in value.items()}.values() if len(value) > 40 else value
        return {name: few(value[name]) for name in names}
    return value


def nights(folder):
    """Of two planned tasks one ran. Two tests are red in the second night and flaky in the third; in the fourth a failure is gone."""
    (folder / "plan").write_text(json.dumps([{"release": release, "gpu": "h200", "shard": "1/1"} for release in ("2.6.0", "2.9.1")]))
    fails = {"ended": "failed", "code": 1, "assertions": ["case.cpp:1: Failed\nno"]}
    red = ("item_in_capture.FixStayOnTheGpu", "nonzero_in_capture.Control")
    for night in range(1, 5):
        cases = ["", "item_in_capture", "nonzero_in_capture", "host_scalar_baked_in"][:4 if night == 4 else 3]  # One is new at last.
        lines = []
        for line in read_lines(TREE / "reports/2.6.0/nvidia-h200.jsonl.gz"):
            test = line.get("test", "")
            if line.get("case", test.split(".")[0]) not in cases:
                continue
            if "plan" in line:
                line = {**line, "plan": [one for one in line["plan"] if one.split(".")[0] in cases]}
            if "release" in line:
                started = f"2026-01-0{night}T00:00:00Z"
                line = {**line, "driver": f"58{night}", "volatile": {"run": f"r{night}", "started": started, "jobs": 2}}
            if night == 4 and test == "item_in_capture.Reproduces":
                line = {key: line[key] for key in line if key not in ("raised_by", "culprit", "exception", "message")}
                line = {**line, **fails, "seen": line["healthy"]}
            lines.append({**line, **fails} if night == 2 and test in red else line)
            if night == 3 and test in red:
                lines.append({**line, **fails, "confirms": 1})
        run = folder / f"run-{night}/2.6.0/h200.jsonl"
        run.parent.mkdir(parents=True)
        run.write_text("".join(json.dumps(line) + "\n" for line in lines))
        program("nightly", "collect", "--plan", folder / "plan", folder / f"nights/{night}", folder / f"run-{night}")
        yield "nightly-diff", program("nightly", "diff", "--json", *["--first"][night - 1:], folder / "nights")


def gates(folder):
    waiver = '[[waiver]]\ntest = "nonzero_in_capture"\nreason = "r"\nuntil = "2.16"\n'
    (folder / "policy.toml").write_text('scope = ["item_in_capture"]\nmachines = ["H100"]\n' + waiver)
    asked = [{"from": "2.12.1", "to": "2.13.0"}, {"from": "2.13.0", "to": "2.14.1"}, {"from": "2.7.0", "to": "2.7.1"},
             {"from": "2.1.0", "to": "2.15.0"}, {"from": "2.6.0", "to": "2.11.0", "policy": str(folder / "policy.toml")}]
    answers = program("dev", "gates", input="\n".join(map(json.dumps, asked))).splitlines()
    assert {json.loads(one)["answer"] for one in answers} == {"passes", "blocked", "cannot tell"}
    return [*answers, program("gate", "--json", "2.6", "2.11", "--features", TREE / "harness/tests/data/features/rng.toml")]


def unmeasured(folder):
    """A gate to a release and a driver that no record is of."""
    first, *rest = read_lines(TREE / "reports/2.6.0/nvidia-h200.jsonl.gz")
    lines = [{**first, "driver": "999.1", "release": "2.99.0"}, *rest]
    (folder / "unmeasured.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return program("gate", "--json", "2.6.0", folder / "unmeasured.jsonl", "--to-driver", "999.1")


def blames(folder):
    for driver in ("fake_driver", "fake_old_driver"):  # The older one has no log: CUPTI is the source.
        (folder / driver).mkdir()
        for name in ("libcuda.so.1", "libcupti.so.13"):
            (folder / driver / name).symlink_to(TESTS / f"lib{driver}.so")
    outside = "import ctypes\ncu = ctypes.CDLL('libcuda.so.1')\ncu.cuInit(0)\ncu.cuStreamBeginCapture_v2(None, 0)"  # Refused.
    runs = [["fake_old_driver", "--", sys.executable, "-c", outside]]
    runs += [["fake_driver", "--", TESTS / "breaker", word] for word in ("sync", "throw", "refused", "without-cuda")]
    runs += [["fake_driver", "--deep", "--", TESTS / "failures", "silent_memset"]]
    for driver, *words in runs:
        env = {name: value for name, value in os.environ.items() if not name.startswith(("RECAPTURE", "CUDA_", "LD_"))}
        subprocess.run([*map(str, [BUILD / "recapture", "blame", "--json", "--log", folder / "log", *words])], check=False,
                       env={**env, "LD_LIBRARY_PATH": str(folder / driver)}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        yield "blame", (folder / "log").read_text()


def checks():
    found = [Finding(kind, "what", "1", "2", line=Line("train.py", 3, "step") if kind is Kind.REFUSED else None) for kind in Kind]
    cost = {"seconds": 1.5, "eager_call_seconds": .5, "eager_peak_bytes": 1, "peak_bytes": 2, "later_seconds": .1}
    first = dataclasses.replace(found[0], follows=tuple(found[1:]), case="item_in_capture")
    report = CheckReport("step", found, {"outputs": 1}, [("output", "1", "2")], ["unknown"], cost, [first])
    return [report.to_json(), dataclasses.replace(report, rank=1, ranks=2).to_json()]


REFUSED = "CUDA error: operation not permitted when stream is capturing"
TEXTS = [f"{REFUSED}\nin aten::_local_scalar_dense\nCUDA error: operation failed due to a previous error during capture",
         "my CUDA graph gives wrong results after replay", "IndexError: list index out of range", "hipErrorStreamCaptureUnsupported",
         "torch 2.11.0: AccumulateGrad node on the default stream\nCUDA error: operation would make the legacy stream depend on a "
         "capturing blocking stream", f"{REFUSED}\nin torch.linalg.eigvals"]
RUNS = {"bisect": [["bisect", "collective_on_expandable_segments.Reproduces"]],
        "compare": [["compare", "2.6", "2.11"]],
        "history": [["history", "collective_on_expandable_segments"], ["history", "data_loader_beside_python_capture"]],
        "operators": [["operators"]], "list": [["list"]], "show": [["show", TREE / "reports/2.6.0/host.trigger.jsonl.gz"]],
        "show-case": [["show", "item_in_capture", "data_loader_beside_python_capture", "unregistered_generator"]],
        "show-left": [["show", "--left", "2.6.0", "--records", TREE / "reports/2.6.0"]]}


@pytest.fixture(scope="module")
def printed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("outputs")
    texts = [(name, program(*words, "--json")) for name, runs in RUNS.items() for words in runs]
    texts += [("explain", program("explain", "--json", "-", input=text)) for text in TEXTS] + [("nightly-plan", program("nightly", "plan"))]
    texts += [("gate", text) for text in [*gates(folder), unmeasured(folder)]]
    texts += [("check", text) for text in checks()] + [*nights(folder), *blames(folder)]
    return [(name, few(json.loads(text))) for name, text in texts]


def errors(name, value, change=strict):
    store = {f"{each}.schema.json": change(schema) for each, schema in SCHEMAS.items()}
    schema = store[f"{name}.schema.json"]
    validator = Draft202012Validator(schema, resolver=RefResolver(f"{name}.schema.json", schema, store))
    return [f"{name}: {'/'.join(map(str, error.absolute_path))}: {error.message[:300]}" for error in validator.iter_errors(value)]


def test_outputs_are_as_their_schemas_say(printed):
    assert [error for name, value in printed for error in errors(name, value)] == []


def test_other_output_is_found(printed):
    good = next(value for name, value in printed if name == "explain")
    assert errors("explain", {**good, "other": 1}) and errors("explain", {**good, "answer": "maybe"})
    assert errors("explain", {name: good[name] for name in good if name != "guess"})
    assert not errors("explain", {**good, "other": 1}, dict)  # The published schema is open.


def test_every_member_and_word_is_printed(printed):
    seen = set()
    for name, value in printed:
        visit(name, value, seen)
    assert MEMBERS - seen == set()
    source = "".join(path.read_text() for path in TREE.glob("harness/*/*.[ch]*") if path.parent.name != "tests")
    assert [f"{path}={word}" for path, part in ALL.items() for word in part.get("enum", [])
            if isinstance(word, str) and f"{path}={word}" not in seen and f'"{word}"' not in source] == []


@pytest.mark.parametrize("line", SOURCES)
def test_words_are_those_of_the_source(line):
    path, file, what, *more = line.split(" | ")
    text = (TREE / "harness" / file).read_text()
    if '"' in what:
        words = {word for found in re.findall(what, text) for word in ([found] if isinstance(found, str) else filter(None, found))}
    else:
        words = set(re.findall(r'"([^"]*)"', re.search(re.escape(what) + r".*?(?=\};|\n\})", text, re.DOTALL)[0]))
    assert words ^ set(ALL[path]["enum"]) == set(more)


@pytest.mark.parametrize("name", ["blame", "check", "explain", "gate"])
def test_words_are_those_of_the_page(name):
    text = (REFERENCE / f"{name}-json.md").read_text()
    lists = re.findall(r"(?m)^\| `(\w+)` \| (.*) \|$", text) + re.findall(r"`(\w+)` \(((?:`[^`]+`(?:, | or )?)+)\)", text)
    listed = [(member, set(re.findall("`([^`]+)`", words))) for member, words in lists]
    for path, part in ALL.items():
        if path.split("/")[0] == name and isinstance(part.get("enum", [0])[0], str):
            assert (path.split("/")[-1], set(part["enum"])) in listed


def test_every_verb_has_a_schema_and_every_schema_a_verb():
    help_of = re.findall(r"(?ms)^### ([\w ]+)\n(.*?)(?=^##|\Z)", program("dev", "tables", "cli"))
    verbs = {verb for verb, text in help_of if "\n| `--json" in text} | {"nightly plan"}
    assert verbs == {re.match(r"recapture ((?:nightly )?\w+)", schema["title"])[1] for schema in SCHEMAS.values()}


@pytest.mark.parametrize("name", SCHEMAS)
def test_schema_is_on_its_page(name):
    schema = SCHEMAS[name]
    Draft202012Validator.check_schema(schema)
    assert list(schema)[:4] == ["$schema", "$id", "title", "description"] and schema["$id"] == f"{name}.schema.json"
    link, number = f"(schemas/{name}.schema.json)", schema.get("properties", {}).get("schema", {}).get("const", "")
    assert f"| `{schema['title']}` | [{name}]{link} | {number} |".replace("|  |", "| |") in (REFERENCE / "json.md").read_text()
    for page in re.findall(r"^(\S+\.md) describes", schema["description"]):
        text = (REFERENCE / page).read_text()
        assert [path for path in MEMBERS if path.split("/")[0] == name and f"`{path.split('/')[-1]}`" not in text] == []
        assert link in text


def test_command_of_the_page_validates(tmp_path):
    command = re.search(r"(?m)^\$ (python -m jsonschema .*)", (REFERENCE / "json.md").read_text())[1].replace("python", sys.executable, 1)
    shutil.copytree(str(REFERENCE / "schemas"), str(tmp_path / "recapture-venv/share/recapture/docs/reference/schemas"))
    (tmp_path / "out.json").write_text(program("gate", "--json", "2.12.1", "2.13"))
    done = subprocess.run(["bash", "-c", command], cwd=str(tmp_path), env={"HOME": str(tmp_path)}, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT)
    assert (done.returncode, done.stdout) == (0, b"")
