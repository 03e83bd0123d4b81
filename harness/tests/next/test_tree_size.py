"""The tree with fifteen further releases: its tracked files stay below 16 MiB.

Each further release gets the records that one of today's has, under its own name. ci/test packs those of one release and
adds up the others; ci/test --all makes all fifteen, with the tables and the kept answers, and measures them.
"""

import gzip
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Dict, List

import pytest
import tomllib

sys.path.insert(0, str(Path(__file__).parent))
import columns
from columns import BUILD, IN_FULL, ROOT

FURTHER, MOST = 15, 16 << 20
MOST_OF_CLONE = 48 * 10**6
RELEASES: List[str] = [entry["version"] for entry in tomllib.loads((ROOT / "ci/matrix.toml").read_text(encoding="utf-8"))["release"]]
KEPT = "harness/tests/data/kept/"
GENERATED = ("reports/README.md", "reports/calls.md", "reports/operators.md", "reports/operators.json.xz")


def tracked(tree: Path) -> Dict[str, int]:
    """The sizes of what git tracks or would track."""
    names = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=tree, stdout=subprocess.PIPE,
                           encoding="utf-8", check=True).stdout.split("\0")
    return {name: (tree / name).stat().st_size for name in names if name and (tree / name).is_file()}


def further_releases() -> Dict[str, str]:
    """Names of releases to come, each with the release of today whose records it gets, the newest first."""
    major, minor = re.findall(r"\d+", RELEASES[-1])[:2]
    return {f"{major}.{int(minor) + 1 + i}.0": release for i, release in enumerate(reversed(RELEASES[-FURTHER:]))}


def git(*words: str, given: str = "") -> bytes:
    done = subprocess.run(["git", *words], cwd=ROOT, input=given.encode(), stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, check=False)
    return done.stdout if done.returncode == 0 else b""


@pytest.mark.parametrize("filters, most", [(["--filter=blob:none"], 40), ([], 48)])
def test_what_a_clone_fetches(filters: List[str], most: int) -> None:
    """Megabytes that `git clone` transfers: by README's command, and with all versions of each file.

    More than a third of the latter are answers that were kept in one packed file, stored anew with each change
    (kept.tsv.gz). No later commit makes it smaller.
    """
    assert "git clone --filter=blob:none " in (ROOT / "README.md").read_text(encoding="utf-8")
    if git("rev-parse", "--is-shallow-repository").strip() != b"false" or git("config", "extensions.partialClone"):
        pytest.skip("this is a shallow or partial clone, or none, so what a clone fetches cannot be measured")
    size = len(git("pack-objects", "--revs", "--stdout", "-q", *filters, given="HEAD\n"))
    if filters:  # The checkout fetches the files of the newest commit.
        blobs = "".join(line.split()[2] + "\n" for line in git("ls-tree", "-r", "HEAD").decode().splitlines())
        size += len(git("pack-objects", "--stdout", "-q", given=blobs))
    assert 10**6 < size < most * 10**6, size


def add(tree: Path, release: str, like: str) -> None:
    """Files with the records of a release of today, under the name of one to come."""
    folder = tree / "reports" / release
    folder.mkdir()
    for name, text in columns.named_texts(ROOT / "reports" / like):
        head, _, rest = text.partition("\n")
        first = json.loads(head)
        first.update({key: release for key in ("release", "libtorch", "headers") if key in first})
        first.get("volatile", {})["run"] = f"{release} {name}"
        (folder / name).write_bytes(gzip.compress(f"{json.dumps(first)}\n{rest}".encode(), 1, mtime=0))
    for path in (ROOT / "reports" / like).iterdir():
        if path.suffix == ".prices":
            (folder / path.name).write_bytes(path.read_bytes())


def pack(tree: Path, release: str) -> int:
    subprocess.run([str(BUILD / "recapture"), "--root", str(tree), "dev", "pack"], stdout=subprocess.PIPE, check=True)
    return sum(path.stat().st_size for path in (tree / "reports" / release).iterdir())


def expected(sizes: Dict[str, int]) -> int:
    """The tree's size with the further releases: records as often again, tables in proportion, and pairs of releases."""
    growth = (len(RELEASES) + FURTHER) / len(RELEASES)
    folders = tuple(f"reports/{release}/" for release in RELEASES[-FURTHER:])
    of_records = sum(size for name, size in sizes.items() if name.startswith(folders))
    of_tables = sum(sizes[name] for name in GENERATED)
    of_pairs = sum(size for name, size in sizes.items() if name.startswith(KEPT))
    return sum(sizes.values()) + of_records + int(of_tables * (growth - 1)) + int(of_pairs * (growth**2 - 1))


def test_fifteen_further_releases_fit(clone: Path) -> None:
    sizes = tracked(clone)
    assert expected(sizes) < MOST, expected(sizes)
    # The same records under another name take as much.
    like = min(RELEASES[-FURTHER:], key=lambda release: sizes[f"reports/{release}/records.tar.xz"])
    today = sum(size for name, size in sizes.items() if name.startswith(f"reports/{like}/"))
    name = next(iter(further_releases()))
    add(clone, name, like)
    assert abs(pack(clone, name) - today) < today / 20


@pytest.mark.skipif(not IN_FULL, reason="minutes: ci/test --all")
def test_fifteen_further_releases_fit_with_their_tables_and_pairs(clone: Path) -> None:
    estimate = expected(tracked(clone))
    matrix = clone / "ci/matrix.toml"
    text = matrix.read_text(encoding="utf-8")
    for release, like in further_releases().items():
        add(clone, release, like)
        line = next(line for line in text.splitlines() if f'version = "{RELEASES[-1]}"' in line)
        last = next(line for line in reversed(text.splitlines()) if line.startswith("  { version"))
        entry = re.sub(r', git = "\w+"', "", line.replace(RELEASES[-1], release))
        text = text.replace(last, f"{last}\n{entry}")
    matrix.write_text(text, encoding="utf-8")
    subprocess.run([str(BUILD / "recapture"), "--root", str(clone), "dev", "pack"], stdout=subprocess.PIPE, check=True)
    subprocess.run([str(ROOT / "tools/tables"), "--tree", str(clone)], check=True)
    subprocess.run([str(BUILD / "harness/tests/tree_test"), "--gtest_brief=1", "--gtest_filter=Kept.*"], check=True,
                   env={**os.environ, "RECAPTURE_RENEW": "1", "RECAPTURE_ROOT": str(clone)}, stdout=subprocess.PIPE)
    measured = sum(tracked(clone).values())
    assert measured < MOST, measured
    assert abs(measured - estimate) < (1 << 20), f"the estimate of ci/test is {estimate}, and it is {measured}"
