"""A case's features are what a program must all have to meet its failure: so its own program has them.

A list that is too long lifts real damage: `gate` lets a program pass that is without one of them.
"""
import ast
import json
import lzma
import re
from pathlib import Path

import pytest

TREE = Path(__file__).resolve().parents[2]
# What shows a feature in the code of a program, apart from what it is that fails.
SIGNS = {
    "DDP": r"DistributedDataParallel",
    "FSDP": r"fully_shard|FullyShardedDataParallel",
    "NCCL": r"\"nccl\"|cuda\.nccl\.",
    "NeMo": r"\bnemo\b",
    "autocast": r"\bautocast\(",
    "autograd": r"backward\(|autograd|requires_grad",
    "checkpointing": r"\bcheckpoint\b",
    "conditional nodes": r"begin_capture_to_|torch\.cond\(",
    "cuBLAS": r" @ |\bmm\(|matmul|Linear\(|addmm|einsum",
    "cuDNN plan limit": r"TORCH_CUDNN_V8_API_LRU_CACHE_LIMIT",
    "cuDNN": r"conv\w*\(|Conv\w*\(|\b(?:GRU|LSTM|RNN)\(",
    "cudaMallocAsync": r"cudaMallocAsync",
    "data loader": r"DataLoader",
    "default stream": r"default_stream|per_thread",
    "events": r"\bEvent\(",
    "expandable segments": r"expandable_segments",
    "extensions": r"cpp_extension|load_library|triton|transformer_engine",
    "failed captures": r"\bexcept\b|suppress\(|# cause: graph\.capture_end\(\)",
    "generators": r"rand|[Dd]ropout|Generator\(|rng_state|seed\(|normal_\(|uniform_\(|bernoulli",
    "graph updates": r"keep_graph",
    "graphed callables": r"make_graphed_callables",
    "host reads": r"\.(item|nonzero|synchronize|query|cpu|tolist|unique|multinomial|repeat_interleave|copy_)\("
                  r"|set_sync_debug_mode|torch\.(tensor|unique|multinomial)\(|\bstr\(|narrow\(|\bif \w+[ :]|\[.+\]",
    "max_split_size": r"max_split_size",
    "memory pools": r"pool|empty_cache",
    "optimizer": r"optim\.",
    "pinned background threads": r"pinned_use_background_threads",
    "pinned memory": r"pin_memory",
    "raw CUDA calls": r"ctypes|CDLL|cudart\(\)|cuda\.bindings|cupy",
    "runtime compilation": r"nvrtc|jiterator|USE_PYTORCH_KERNEL_CACHE|triton",
    "several graphs": r"CUDAGraph\(\)[\s\S]*CUDAGraph\(\)|for [\s\S]*CUDAGraph\(\)",
    "side streams": r"\bStream\(",
    "threads": r"[Tt]hread",
    "torch.compile": r"torch\.compile",
    "torch.load": r"load_state_dict|torch\.load",
}
CASES = json.loads(lzma.decompress((TREE / "cases/catalogue.json.xz").read_bytes()))


def failing_code(path):
    """The function that fails, and what it uses of the module, without the fixes and main()."""
    text = path.read_text(encoding="utf-8")
    parts = [part for part in ast.parse(text).body if not isinstance(part, (ast.Import, ast.ImportFrom))]
    kept = [part for part in parts if not (isinstance(part, ast.FunctionDef) and re.match(r"fix|main$", part.name))]
    lines = text.splitlines()
    return "\n".join("\n".join(lines[part.lineno - 1:part.end_lineno]) for part in kept[1:])  # After the docstring.


def captured_code(code):
    """What stands within its captures."""
    captured = re.findall(r"\n( +)with torch\.cuda\.graph\(.*\n((?:\1 +.*\n)+)", code)
    between = re.findall(r"capture_begin\(([\s\S]*?)capture_end\(", code)
    return "\n".join([text for _, text in captured] + between) or code


WITH_PROGRAM = [(case, TREE / "cases" / case["family"] / (case["id"] + ".py")) for case in CASES]
WITH_PROGRAM = [(case, path) for case, path in WITH_PROGRAM if path.exists()]


def test_most_cases_have_a_program_and_a_list():
    assert sum(bool(case["features"]) for case, _ in WITH_PROGRAM) > 90


@pytest.mark.parametrize("case, path", WITH_PROGRAM, ids=[case["id"] for case, _ in WITH_PROGRAM])
def test_program_has_each_feature_of_its_case(case, path):
    code = failing_code(path)
    captured = captured_code(code)
    assert [feature for feature in case["features"]
            if not re.search(SIGNS[feature], captured if feature == "host reads" else code)] == []


def test_each_feature_of_a_list_has_a_sign():
    assert {feature for case in CASES for feature in case["features"]} <= set(SIGNS)


def test_sign_is_not_in_every_program():
    """A sign that all programs have would show nothing."""
    texts = [failing_code(path) for _, path in WITH_PROGRAM]
    for feature, sign in SIGNS.items():
        found = sum(bool(re.search(sign, captured_code(text) if feature == "host reads" else text)) for text in texts)
        assert found < 0.7 * len(texts), (feature, found)
