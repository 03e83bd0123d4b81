"""A copy of this tree that a test may change."""

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Iterator

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from columns import BUILD, ROOT


@pytest.fixture(scope="session")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the tracked files that is a repository of its own, with this tree's history and its program."""
    tree = tmp_path_factory.mktemp("rehearsal") / "tree"
    subprocess.run(["git", "clone", "--quiet", "--shared", str(ROOT), str(tree)], check=True)
    tracked = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, stdout=subprocess.PIPE, encoding="utf-8", check=True).stdout
    for name in tracked.split("\0"):
        if name and (ROOT / name).is_file():  # With what is not committed yet.
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, tree / name)
    (tree / "build").mkdir()
    for name in ("recapture", "canary", "harness"):
        (tree / "build" / name).symlink_to(BUILD / name)
    for words in (["add", "--all"], ["commit", "--quiet", "--allow-empty", "--message", "copy"]):
        subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *words], cwd=tree, check=True)
    return tree


@pytest.fixture
def clone(copy: Path) -> Iterator[Path]:
    """The same for one test: what the test changes is undone, also if the test fails."""
    yield copy
    for words in (["checkout", "--quiet", "."], ["clean", "--quiet", "-fd"]):
        subprocess.run(["git", *words], cwd=copy, check=True)
