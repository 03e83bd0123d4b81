"""README's table of what is on record: which releases have results of one GPU and of two, by GPU."""
import gzip
import json
import re
import tarfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent


def records(folder):
    """The first line of each record of a release, and the rest: in its archive and in files beside it."""
    for path in folder.glob("*.jsonl.gz"):
        with gzip.open(path, "rt", encoding="utf-8") as file:
            yield file.readline(), file.read()
    for path in folder.glob("records.tar.xz"):
        heads = {}
        with tarfile.open(str(path)) as archive:
            for member in archive:
                part, _, name = member.name.partition("/")
                if part == "head":
                    heads[name] = archive.extractfile(member).readline().decode()
                elif part == "rest":
                    yield heads[name], archive.extractfile(member).read().decode()


def runs_of_releases():
    """By release and GPU: 1 for runs on the release's own CUDA runtime that left nothing out, 2 where a second rank took part."""
    found = {}
    for folder in (ROOT / "reports").glob("[0-9]*"):  # Others are of the CUDA runtime alone.
        for line, rest in records(folder):
            run = json.loads(line)
            has_second_rank = '"rank1.' in rest  # A fact of that rank.
            assert not has_second_rank or run.get("gpus", 0) >= 2, (folder.name, run.get("gpu"), run.get("gpus"))
            if run["break"] == "nothing" and run.get("gpu"):
                found.setdefault((run["release"], run["gpu"]), set()).update({1, 2} if has_second_rank else {1})
    return found


def releases_of_matrix():
    lines = (ROOT / "ci/matrix.toml").read_text().partition("\nrelease = [\n")[2].partition("\n]\n")[0].split("\n")
    return {re.search(r'version = "([\d.]+)"', line)[1] for line in lines}


def stated():
    """The same as README's table has it: 1 for "1 GPU", and 2 for "1 and 2 GPUs"."""
    table = (ROOT / "README.md").read_text().partition("## On record")[2].split("\n\n")[1]
    header, _, *rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()]
    for releases, _, *cells in rows:
        for release in re.findall(r"\d+\.\d+\.\d+", releases):
            for gpu, cell in zip(header[2:], cells):
                yield (release, gpu), {1, 2} if cell.startswith("1 and 2 GPUs") else {1} if cell.startswith("1 GPU") else set()


def test_readme_states_which_releases_have_results_of_two_gpus():
    runs, table = runs_of_releases(), dict(stated())
    assert {release for release, _ in table} == releases_of_matrix() & {release for release, _ in runs}
    assert {2} <= set.union(*table.values())
    assert {key: 2 in runs.get(key, ()) for key in table} == {key: 2 in numbers for key, numbers in table.items()}
    assert {key: key in runs for key in table} == {key: bool(numbers) for key, numbers in table.items()}
