"""pytest --recapture and the fixture capture_safe."""
import sys
from xml.etree import ElementTree

import pytest
from programs import place  # noqa: F401

BODY = '''
import pytest
graphs.begin_cuda()
def test_fails(): fail()
def test_caught():
    with pytest.raises(RuntimeError): fail()
def test_good():
    with torch.cuda.graph(torch.cuda.CUDAGraph()): pass
'''
CULPRIT = "cuStreamSynchronize returned 900"
TITLE = "recapture: a CUDA graph capture failed"


def test_failing_test_has_culprit_line_and_cause(place):
    said = place.pytest(BODY, "--recapture", "--junitxml=junit.xml")
    assert "1 failed, 2 passed" in said.stdout, said.stdout + said.stderr
    assert said.stdout.count(CULPRIT) == 1 and TITLE in said.stdout
    assert "test_it.py:" in said.stdout and "  cause    " in said.stdout
    tests = {test.get("name"): test for test in ElementTree.parse(str(place.folder / "junit.xml")).iter("testcase")}
    assert CULPRIT in tests["test_fails"].find("failure").text
    caught = [one.get("value") for one in tests["test_caught"].iter("property") if one.get("name") == "recapture"]
    assert len(caught) == 1 and CULPRIT in caught[0]
    assert CULPRIT not in ElementTree.tostring(tests["test_good"], encoding="unicode")


def test_caught_failure_is_a_section_that_can_be_shown(place):
    said = place.pytest(BODY, "--recapture", "-rP")
    assert said.stdout.count(CULPRIT) == 2, said.stdout


def test_under_xdist(place):
    pytest.importorskip("xdist", reason="pytest-xdist is not installed")
    said = place.pytest(BODY, "--recapture", "-n", "2")
    assert "1 failed, 2 passed" in said.stdout and CULPRIT in said.stdout, said.stdout


def test_not_asked_for_it_reports_and_imports_nothing(place):
    said = place.pytest(BODY + "def test_modules(): assert not {'recapture._blame', 'json.tool'} & set(sys.modules)\n"
                               "def test_environment():\n"
                               "    import os; assert not [n for n in os.environ if n.startswith('RECAPTURE')]\n")
    assert "1 failed, 4 passed" in said.stdout and "recapture:" not in said.stdout, said.stdout


def test_capture_safe_fails_a_test_that_caught_the_error(place):
    said = place.pytest(BODY + '''
def test_unsafe(capture_safe):
    with pytest.raises(RuntimeError): fail()
def test_safe(capture_safe):
    with torch.cuda.graph(torch.cuda.CUDAGraph()): pass
''')
    assert "1 failed, 4 passed, 1 error" in said.stdout, said.stdout
    assert "a CUDA graph capture failed:" in said.stdout and CULPRIT in said.stdout


def test_capture_safe_checks_a_function_and_its_captures(place):
    said = place.pytest(BODY + '''
import types
import recapture._check
class Report(types.SimpleNamespace):
    def __str__(self): return "what was found"
recapture._check.check = lambda fn, make_inputs, **options: Report(findings=fn(make_inputs), options=options)
def test_right(capture_safe):
    assert capture_safe(lambda given: [], 1, count=2).options == {"count": 2}
def test_wrong(capture_safe):
    capture_safe(lambda given: [given], 1)
def test_unsafe(capture_safe):
    with pytest.raises(RuntimeError): fail()
    capture_safe(lambda given: [], 1)
''')
    assert "2 failed, 4 passed, 1 error" in said.stdout, said.stdout
    assert "what was found" in said.stdout and "a CUDA graph capture failed:" in said.stdout


@pytest.mark.parametrize("variables,reason", [({"FAKE_GPUS": "0"}, "there is no GPU"),
                                              ({"FAKE_INIT": "100"}, "cuInit returned 100")])
def test_capture_safe_skips_without_a_gpu(place, variables, reason):
    place.write("test_it.py", "def test_it(capture_safe): assert False\n")
    said = place.run([sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-rs", "test_it.py"], **variables)
    assert "1 skipped" in said.stdout and reason in said.stdout, said.stdout


def test_capture_safe_skips_without_a_driver(place):
    place.write("test_it.py", "def test_it(capture_safe): assert False\n")
    said = place.run([sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-rs", "test_it.py"], driver="tmp")
    assert "1 skipped" in said.stdout and "there is no CUDA driver" in said.stdout, said.stdout


def test_driver_that_cannot_be_heard_is_a_warning(place):
    said = place.pytest(BODY, "--recapture", driver="old")
    assert "1 failed, 2 passed, 1 warning" in said.stdout, said.stdout
    assert said.stdout.count("--recapture: CUDA has begun in this process") == 1, said.stdout


def test_report_that_cannot_be_made_is_a_warning(place):
    said = place.pytest(BODY + '''
@pytest.fixture(autouse=True, scope="session")
def without_the_program():
    from recapture import _places
    def missing(): raise FileNotFoundError("there is no program")
    _places.program = missing
''', "--recapture")
    assert "1 failed, 2 passed, 1 warning" in said.stdout, said.stdout
    assert "--recapture: what failed in the block is not known: there is no program" in said.stdout, said.stdout


def test_capture_safe_skips_without_a_gpu_below_an_old_driver(place):
    place.write("test_it.py", "def test_it(capture_safe): assert False\n")
    said = place.run([sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-rs", "test_it.py"], driver="old",
                     FAKE_GPUS="0")
    assert "1 skipped" in said.stdout and "there is no GPU" in said.stdout, said.stdout
