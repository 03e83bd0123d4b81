"""tools/evaluate_explain: how it counts, on answers written here."""
import importlib.machinery
import importlib.util
import json
import lzma
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def load():
    loader = importlib.machinery.SourceFileLoader("evaluate_explain", str(ROOT / "tools/evaluate_explain"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("evaluate_explain", loader))
    loader.exec_module(module)
    return module


def thread(url, answer, cause="", **more):
    return {"url": url, "answer": answer, "cause": cause, "form": "words", "text": url, **more}


@pytest.fixture
def run(monkeypatch, tmp_path, capsys):
    """Judges these threads by these answers, by text; returns what is printed."""
    def judged(threads, answers):
        evaluate = load()
        path = tmp_path / "threads.jsonl.xz"
        path.write_bytes(lzma.compress("".join(json.dumps(each) + "\n" for each in threads).encode()))
        monkeypatch.setattr(evaluate, "PROGRAM", path)  # It only has to be there.
        monkeypatch.setattr(evaluate, "explain", lambda text: answers[text])
        monkeypatch.setattr(evaluate, "most_often_met", lambda: ["often"])
        monkeypatch.setattr("sys.argv", ["evaluate_explain", str(path)])
        assert evaluate.main() == 0
        return capsys.readouterr().out
    return judged


def test_a_further_true_cause_is_right_and_the_baseline_is_counted_beside(run):
    printed = run([thread("a", "capture failure", "one", **{"or": ["two"]}), thread("b", "graph failure", "often")],
                  {"a": ("capture failure", ["three", "two"]), "b": ("graph failure", ["three"])})
    assert "words: 1 of 2 right (9 to 91 %), 0 by the first cause; the constant answer 1; difference -100 to 100 %" in printed
    assert "  b (words): three, not often" in printed and "  a (" not in printed


def test_a_text_on_something_else_may_get_no_cause(run):
    printed = run([thread(text, "not a capture failure") for text in "cde"],
                  {"c": ("not a capture failure", ["driver"]), "d": ("capture failure", ["one"]), "e": ("cannot tell", [])})
    assert "on something else: 2 of 3 without a cause" in printed and "  d (words): one, not on something else" in printed


def test_wilsons_interval_is_that_of_the_literature():
    assert load().wilson(9, 10) == pytest.approx((0.5958, 0.9821), abs=1e-3)
    assert load().wilson(0, 20) == pytest.approx((0.0, 0.1611), abs=1e-3)
