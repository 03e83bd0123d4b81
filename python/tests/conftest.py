"""Finds the package beside these tests, and PyTorch where Python has none: in the newest LibTorch of the cache."""
import importlib.util
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "python" / "tests")]
if importlib.util.find_spec("torch") is None:
    newest = subprocess.run([ROOT / "tools/libtorch", "--list"], capture_output=True, text=True).stdout.split()[-1:]
    for release in newest:
        found = subprocess.run([ROOT / "tools/libtorch", release], capture_output=True, text=True)
        if found.returncode == 0:
            sys.path.append(found.stdout.strip())
