"""Finds the package beside these tests, and PyTorch in the newest cached LibTorch if Python has none.

With PYTEST_NO_SKIPS in the environment a skipped test fails the run, for example because PyTorch or pytest-xdist is
missing: ci/test has installed all requirements.
"""
import importlib.util
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "python" / "tests")]


def libtorch(option):
    """The output of tools/libtorch; empty if it cannot run, for example with an older Python."""
    return subprocess.run([str(ROOT / "tools/libtorch"), option], stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL).stdout.decode().splitlines()


def newest_site():
    """The folder of the newest cached LibTorch for this Python, or None. Nothing is fetched."""
    abi = "_C.cpython-{}{}-*.so".format(*sys.version_info)
    sites = [Path(cache, "libtorch", release) for cache in libtorch("--cache") for release in libtorch("--list")]
    return next((site for site in reversed(sites) if any(site.glob("torch/" + abi))), None)


if importlib.util.find_spec("torch") is None:
    site = newest_site()
    if site:
        sys.path.append(str(site))


def pytest_sessionfinish(session):
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    skipped = reporter.stats.get("skipped", []) if reporter else []
    if skipped and os.environ.get("PYTEST_NO_SKIPS"):
        reporter.ensure_newline()
        reporter.write_line("PYTEST_NO_SKIPS is set, and tests are skipped; -rs shows why", red=True)
        session.exitstatus = 1
