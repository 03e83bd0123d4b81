"""Each link between the documents leads to a file and a heading that are there."""
import re
import subprocess
from pathlib import Path

import pytest

TREE = Path(__file__).resolve().parent.parent.parent
LINK = re.compile(r"\]\(([^)\s]+)\)")


def headings(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub and GitLab make them."""
    text = re.sub(r"(?ms)^```.*?^```$", "", page.read_text())
    found: set[str] = set()
    for title in re.findall(r"(?m)^#+ (.*)", text):
        plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", title).lower().strip()
        anchor = re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")
        number = next(n for n in range(100) if (f"{anchor}-{n}" if n else anchor) not in found)
        found.add(f"{anchor}-{number}" if number else anchor)
    return found


def broken_links(page: Path) -> list[str]:
    text = re.sub(r"(?ms)^ *```.*?^ *```$|`[^`\n]*`", "", page.read_text())
    wrong = []
    for link in LINK.findall(text):
        if re.match(r"[a-z]+:", link):
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        if not target.exists() or (anchor and target.suffix == ".md" and anchor not in headings(target)):
            wrong.append(link)
    return wrong


def pages() -> list[str]:
    listed = subprocess.run(["git", "ls-files", "*.md"], cwd=TREE, check=True, capture_output=True, text=True).stdout
    return [name for name in listed.splitlines() if (TREE / name).is_file()]


@pytest.mark.parametrize("name", pages())
def test_links_lead_somewhere(name):
    assert broken_links(TREE / name) == []


@pytest.mark.parametrize("link, wrong", [
    ("[x](other.md)", []), ("[x](other.md#a-title-of-two)", []), ("[x](#here)", []), ("[x](https://example.org/no)", []),
    ("[x](other.md#a-title-of-two-1)", []), ("`[x](none.md)`", []),
    ("[x](none.md)", ["none.md"]), ("[x](other.md#gone)", ["other.md#gone"]), ("[x](#gone)", ["#gone"])])
def test_broken_link_is_found(tmp_path, link, wrong):
    (tmp_path / "page.md").write_text(f"# Here\n\n{link}\n")
    (tmp_path / "other.md").write_text("# A title, of `two`\n\n```\n# Gone\n```\n\n## A title of two\n")
    assert broken_links(tmp_path / "page.md") == wrong
