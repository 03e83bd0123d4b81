"""The files that show the project's address: made from project.toml, with an address and without one."""
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

TREE = Path(__file__).resolve().parents[2]
FILES = ["project.toml", "pyproject.toml", "action.yml", "CITATION.cff", "SECURITY.md", "README.md",
         ".github/ISSUE_TEMPLATE/config.yml", "ci/conda/recipe.yaml"]


def project(*words):
    return subprocess.run([sys.executable, str(TREE / "tools/project"), *words], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, universal_newlines=True)


@pytest.fixture
def copy(tmp_path):
    for name in FILES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(str(TREE / name), str(tmp_path / name))
    return tmp_path


def set_address(copy, text):
    (copy / "project.toml").write_text(text)
    return project("--root", str(copy))


def test_committed_files_follow_project_toml():
    done = project("--check")
    assert (done.returncode, done.stderr) == (0, "")


def test_address_is_shown_everywhere_and_goes_again(copy):
    before = {name: (copy / name).read_text() for name in FILES[1:]}
    assert not any("example.org" in text for text in before.values())
    done = set_address(copy, 'address = "https://example.org/team/recapture"\n')
    assert (done.returncode, done.stderr) == (0, "")
    for name in FILES[1:]:
        assert "team/recapture" in (copy / name).read_text(), name
    for name in ("action.yml", "CITATION.cff", ".github/ISSUE_TEMPLATE/config.yml", "ci/conda/recipe.yaml"):
        yaml.safe_load((copy / name).read_text())
    citation = yaml.safe_load((copy / "CITATION.cff").read_text())
    assert citation["repository-code"] == "https://example.org/team/recapture"
    assert citation["authors"] == [{"name": "The Recapture developers"}]
    assert set_address(copy, 'address = ""\n').returncode == 0
    assert {name: (copy / name).read_text() for name in FILES[1:]} == before


@pytest.mark.parametrize("text, words", [
    ('address = "recapture.example"\n', "is not an address such as"),
    ('address = "https://example.org/a b"\n', "is not an address such as"),
    ("address = 7\n", "is not an address such as"),
    ("address =\n", "project.toml:"),
    ("", "project.toml: 'address'"),
])
def test_what_is_no_address_is_one_line(copy, text, words):
    done = set_address(copy, text)
    assert (done.returncode, done.stderr.count("\n"), words in done.stderr) == (2, 1, True), done.stderr


def test_file_that_lost_its_block_is_named(copy):
    (copy / "SECURITY.md").write_text("# Security\n")
    done = project("--root", str(copy))
    assert (done.returncode, done.stderr.startswith("project: SECURITY.md: 0 blocks")) == (7, True), done.stderr


@pytest.mark.parametrize("form", sorted((TREE / ".github/ISSUE_TEMPLATE").glob("*.yml")), ids=lambda form: form.name)
def test_issue_form_is_one(form):
    content = yaml.safe_load(form.read_text())
    if form.name == "config.yml":
        assert set(content) <= {"blank_issues_enabled", "contact_links"}
        return
    assert content["name"] and content["description"]
    ids = [part["id"] for part in content["body"] if part["type"] != "markdown"]
    assert ids and len(ids) == len(set(ids))


def test_version_has_its_entry_in_the_changelog():
    version = re.search(r'^version = "(.*?)"', (TREE / "pyproject.toml").read_text(), re.MULTILINE).group(1)
    newest = re.search(r"^## (\S+)", (TREE / "CHANGELOG.md").read_text().split("promised", 1)[1], re.MULTILINE).group(1)
    assert newest == version
    assert 'version: "{}"'.format(version) in (TREE / "CITATION.cff").read_text()
    assert 'version: "{}"'.format(version) in (TREE / "ci/conda/recipe.yaml").read_text()
