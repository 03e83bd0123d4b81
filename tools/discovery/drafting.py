"""Drafts of a finding: a program of plain PyTorch, the form of a case's program, and a line for docs/findings.md."""
import json
import re
import subprocess
from pathlib import Path

from .programs import ACTIONS

ROOT = Path(__file__).resolve().parent.parent.parent
RELEASE_LIMIT = 120  # Seconds for a finding's program in another release.
MODEL = ROOT / "cases" / "sync" / "item_in_capture.py"  # Whose main() all programs of cases have.

STATES = {"differs": "computes other values than eager code", "refused": "cannot be captured, though each of its operators can",
          "raised": "raises, and eager code does not", "crash": "ends the process", "hang": "does not end"}

_CAPTURE = '''def capture(step, like=None, generators=()):
    """Warms up and captures; returns what replays. In eager code that is the step."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        step()
        step()
    torch.cuda.current_stream().wait_stream(stream)
    torch.cuda.synchronize()
    if not as_graph:
        return step
    states = [torch.cuda.get_rng_state(), *(generator.get_state() for generator in generators)]
    graph = torch.cuda.CUDAGraph()
    for generator in generators:
        if hasattr(graph, "register_generator_state"):
            graph.register_generator_state(generator)
    with torch.cuda.graph(graph, pool=like and like.graph.pool(), stream=stream, capture_error_mode="thread_local"):
        outputs = step()
    torch.cuda.synchronize()
    torch.cuda.set_rng_state(states[0])
    for generator, state in zip(generators, states[1:]):
        generator.set_state(state)

    def replay():
        graph.replay()
        return outputs

    replay.graph = graph
    return replay
'''

_BLOCKS = '''def blocks():
    """The sizes of the free blocks that the allocator gives to the current stream."""
    stream = torch.cuda.current_stream().cuda_stream
    return [block["size"] for segment in torch.cuda.memory_snapshot()
            if tuple(segment.get("segment_pool_id", (0, 0))) == (0, 0) and segment.get("stream", 0) == stream
            for block in segment["blocks"] if block["state"] == "inactive"]
'''

_VALUES = '''def values(graphs):
    global as_graph
    as_graph = graphs
    found = []
    for result in program():
        torch.cuda.synchronize()
        tensors = result if isinstance(result, tuple) else (result,)
        found.append([tensor.detach().double().cpu() for tensor in tensors])
    return found


'''

_JUDGE = '''def values(graphs):
    nonlocal as_graph
    as_graph = graphs
    found = []
    for result in program():
        torch.cuda.synchronize()
        tensors = result if isinstance(result, tuple) else (result,)
        found.append([tensor.detach().double().cpu() for tensor in tensors])
    return found

pairs = [pair for two in zip(values(False), values(True)) for pair in zip(*two)]
wrong = sum(not (a - b).abs().max() <= 1e-3 * a.abs().max() for a, b in pairs)
return f"{wrong} values are wrong"
'''

_COMPARED = '''wrong = 0
for number, pair in enumerate(zip(values(False), values(True)), 1):
    for eager, graph in zip(*pair):
        apart = float((eager - graph).abs().max() / eager.abs().max().clamp(min=1e-30))
        print(f"value {number}: the graph is off by {apart:.3g}")
        wrong += not apart < 1e-3
sys.exit(1 if wrong else 0)
'''

_RANKS = '''rank = int(os.environ["RANK"])
torch.cuda.set_device(rank)
dist.init_process_group("nccl", device_id=torch.device("cuda", rank))
dist.all_reduce(torch.ones(1, device="cuda"))
'''

_IMPORTS = (("gc", r"\bgc\."), ("io", r"\bio\."), ("subprocess", r"\bsubprocess\."))


def _imports(source, *more):
    names = sorted({name for name, use in _IMPORTS if re.search(use, source)} | set(more))
    lines = [f"import {name}" for name in names]
    if "ThreadPoolExecutor" in source:
        lines.append("from concurrent.futures import ThreadPoolExecutor")
    lines += ["", "import torch"]
    if re.search(r"\bF\.", source):
        lines.append("import torch.nn.functional as F")
    if "checkpoint(" in source:
        lines.append("from torch.utils.checkpoint import checkpoint")
    if has_ranks(source):
        lines += ["import torch.distributed as dist", "import torch.distributed._functional_collectives as funcol",
                  "import torch.distributed._symmetric_memory as symm_mem"]
    return "\n".join(lines)


def has_ranks(source):
    return bool(re.search(r"\b(dist|funcol|symm_mem)\.", source))


def sentence(finding):
    first = finding["result"].get("first", {}).get("line") or finding["operator"]
    actions = ", ".join(finding["actions"])
    how = finding["result"].get("how") or finding["result"].get("why") or ""
    return (f"A graph with `{first}` {STATES[finding['state']]}" + (f" ({how})" if how else "") +
            (f", with {actions} between its replays" if actions else "")).replace("|", "/").replace("\n", " ")


def program_text(finding):
    source = finding["source"]
    ranks = has_ranks(source)
    use = "\n\n  torchrun --nproc-per-node 2 FILE" if ranks else ""
    parts = [f'"""{sentence(finding)}.{use}\n\nExit status: 0 if all values are right, 1 if not."""',
             _imports(source, *(["os", "sys"] if ranks else ["sys"])), "", *([_RANKS] if ranks else []),
             "as_graph = False", "", "", _CAPTURE, ""]
    if "blocks()" in source:
        parts += [_BLOCKS, ""]
    return "\n".join([*parts, source, "", _VALUES + _COMPARED])


def _indented(text):
    return "".join("    " + line if line.strip() else line for line in text.splitlines(True))


def _without(source, lines):
    """The source with these lines left out, as comments that a broken fix brings back; and the lines marked as the cause."""
    marked, fixed = [], []
    for line in source.splitlines():
        text = line.strip()
        indent = line[:len(line) - len(text)]
        if text in lines:
            marked.append(f"{line}  # cause")
            fixed.append(f"{indent}# fix: {text}")
        else:
            marked.append(line)
            fixed.append(line)
    return "\n".join(marked) + "\n", "\n".join(fixed) + "\n"


def case_text(finding):
    """fails() with the program inside, and the same without the first action."""
    source = finding["source"]
    model = MODEL.read_text()
    main = model[model.index("def main("):]
    frame = _CAPTURE + ("\n" + _BLOCKS if "blocks()" in source else "")

    def function(name, text):
        return f"def {name}():\n    as_graph = False\n\n" + _indented(f"{frame}\n{text}\n{_JUDGE}") + "\n\n"

    action = next((name for name in finding["actions"] if name in ACTIONS and "\n" not in ACTIONS[name]), None)
    marked, fixed = _without(source, [ACTIONS[action]] if action else [])
    documented = {"crash": finding["result"].get("how", "").replace("exit status", "status"), "hang": "hangs"}.get(
        finding["state"], "* values are wrong")
    if finding["state"] in ("refused", "raised"):
        documented = finding["result"].get("why", "")[:120] + "*"
    functions = function("fails", marked) + (function(f"fix_without_{action}", fixed) if action else "")
    return "\n".join([
        f'"""{sentence(finding)}."""', "", _imports(source, "re", "signal", "sys", "traceback", "unittest"), "",
        f"DOCUMENTED = {documented!r}", 'HEALTHY = "0 values are wrong"', "", "", functions + main])


def release_of(python):
    """The version of a Python's PyTorch; an empty text if it has none."""
    ran = subprocess.run(["/usr/bin/env", python, "-c", "import torch; print(torch.__version__)"], stdout=subprocess.PIPE,
                         stderr=subprocess.DEVNULL, universal_newlines=True)
    return ran.stdout.strip() if ran.returncode == 0 else ""


def try_releases(path, pythons):
    """What the finding's program does with other releases, which also becomes part of the finding and of its row."""
    seen = {}
    for python in pythons:
        try:
            ran = subprocess.run(["/usr/bin/env", python, str(path.with_suffix(".py"))], stdout=subprocess.DEVNULL,
                                 stderr=subprocess.PIPE, universal_newlines=True, timeout=RELEASE_LIMIT)
            lines = ran.stderr.strip().splitlines()
            if ran.returncode == 1 and "Traceback (most recent call last):" in lines:
                how = lines[-1]
            else:
                how = {0: "right", 1: "wrong"}.get(ran.returncode, f"signal {-ran.returncode}" if ran.returncode < 0 else
                                                   f"exit status {ran.returncode}")
        except subprocess.TimeoutExpired:
            how = "does not end"
        seen[release_of(python)] = how
    finding = json.loads(path.read_text())
    finding["releases"] = seen
    path.write_text(json.dumps(finding, indent=1) + "\n")
    write(path, finding)
    return seen


def write(path, finding):
    """Beside the finding's JSON: NAME.py, NAME.case.py and NAME.md."""
    path.with_suffix(".py").write_text(program_text(finding))
    if not has_ranks(finding["source"]):  # A case of ranks starts them itself.
        path.with_suffix(".case.py").write_text(case_text(finding))
    name = re.sub(r"\W+", "_", finding["operator"].split(".")[1] if "." in finding["operator"] else finding["operator"])
    releases = "".join(f"{release}: {how}; " for release, how in finding.get("releases", {}).items()).replace("|", "/")
    path.with_suffix(".md").write_text(f"| {name} | {sentence(finding)} | {releases}not looked up yet |\n")
