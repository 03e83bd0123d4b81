"""with recapture.blame() as report, before and after CUDA is initialised."""
import pytest
from programs import HEAD, line_of, place  # noqa: F401

REPORT = '''
print(len(report.failures), [(f.api, f.code, f.where) for f in report.failures])
'''
WHERE = "train.py:{} in fail".format(line_of(HEAD, "# breaks it"))


@pytest.mark.parametrize("when", ["before", "after"])
def test_failure_has_call_and_line(place, when):
    begin = "graphs.begin_cuda()\n"
    said = place.python('''import recapture
{}with recapture.blame() as report:
    {}
    try: fail()
    except RuntimeError: pass
'''.format(begin if when == "after" else "", begin if when == "before" else "pass") + REPORT)
    assert said.stdout == "1 [('cuStreamSynchronize', 900, '{}')]\n".format(WHERE), said.stderr
    assert "cuStreamSynchronize returned 900" in said.stderr and WHERE in said.stderr
    assert "item_in_capture" not in said.stderr  # The line calls no item().


def test_each_block_has_its_own_failures(place):
    said = place.python('''import recapture
graphs.begin_cuda()
def failed(act):
    with recapture.blame(quiet=True) as report: act()
    return [f.api or type(f).__name__ for f in report.failures], bool(report)
def caught():
    try: fail()
    except RuntimeError: pass
def given_up():
    try:
        with torch.cuda.graph(torch.cuda.CUDAGraph()): raise ValueError("a shape")
    except ValueError: pass
print(failed(caught), failed(lambda: None), failed(given_up), failed(caught))
import os
print([name for name in os.environ if name.startswith("RECAPTURE") or "INJECTION" in name])
''')
    call, none = "(['cuStreamSynchronize'], True)", "([], False)"
    assert said.stdout == "{} {} (['Failure'], True) {}\n[]\n".format(call, none, call), said.stderr
    assert said.stderr == ""


def test_exception_of_the_block_is_its_own(place):
    said = place.python('''import recapture
graphs.begin_cuda()
with recapture.blame(): fail()
''')
    assert said.returncode == 1
    assert said.stderr.count("cuStreamSynchronize returned 900") == 1
    assert said.stderr.rstrip().endswith("RuntimeError: CUDA error: invalidated")


def test_child_of_the_block_is_included(place):
    place.write("child.py", HEAD + "graphs.begin_cuda()\nfail()\n")
    said = place.python('''import recapture, subprocess
with recapture.blame(quiet=True) as report:
    subprocess.run([sys.executable, "child.py"], stderr=subprocess.DEVNULL)
''' + REPORT)
    assert said.stdout.startswith("1 [('cuStreamSynchronize', 900, 'child.py:"), said.stderr


def test_old_driver_after_cuda_has_begun_raises(place):
    said = place.python('''import recapture
graphs.begin_cuda()
try:
    with recapture.blame(): print("entered")
except RuntimeError as error: print(type(error).__name__, error)
''', driver="old")
    assert said.stdout.startswith("NotHeard CUDA has begun in this process"), said.stdout + said.stderr
    assert "RECAPTURE=1" in said.stdout and "recapture.blame()" in said.stdout


def test_block_that_hears_nothing_raises(place):
    said = place.python('''import recapture
try:
    with recapture.blame(): graphs.begin_cuda()
except RuntimeError as error: print(type(error).__name__)
''', driver="old")  # It has no CUPTI beside it either.
    assert said.stdout == "NotHeard\n", said.stderr


def test_blocks_inside_blame_report_as_well(place):
    said = place.python('''import recapture
graphs.begin_cuda()
with recapture.blame(quiet=True) as report:
    try: fail()
    except RuntimeError: pass
''' + REPORT, RECAPTURE="1")
    assert said.stdout.startswith("1 [('cuStreamSynchronize', 900"), said.stderr
    assert said.stderr.count("cuStreamSynchronize returned 900") == 1


def test_blocks_that_overlap_leave_the_environment_as_it_was(place):
    place.write("child.py", HEAD + "graphs.begin_cuda()\nfail()\n")
    said = place.python('''import os, recapture, subprocess
def variables(): return sorted(name for name in os.environ if name.startswith("RECAPTURE") or "INJECTION" in name)
first, second = recapture.blame(quiet=True), recapture.blame(quiet=True)
first.__enter__()
report = second.__enter__()
first.__exit__(None, None, None)
subprocess.run([sys.executable, "child.py"], stderr=subprocess.DEVNULL)
second.__exit__(None, None, None)
print(len(report.failures), variables())
''')
    assert said.stdout == "1 []\n", said.stdout + said.stderr


def test_blocks_of_several_threads_are_heard(place):
    said = place.python('''import os, recapture
graphs.begin_cuda()
failed, together = [], threading.Barrier(8)
def watch():
    together.wait()
    with recapture.blame(quiet=True):
        if together.wait() == 0: fail_quietly()
        together.wait()
    failed.append(1)
def fail_quietly():
    try: fail()
    except RuntimeError: pass
threads = [threading.Thread(target=watch) for _ in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(len(failed), [name for name in os.environ if name.startswith("RECAPTURE") or "INJECTION" in name])
''')
    assert said.stdout == "8 []\n", said.stdout + said.stderr


def test_setting_of_the_recorder_is_left_as_it_was(place):
    for value in ("", "log"):
        said = place.python('''import os, recapture
graphs.begin_cuda()
with recapture.blame(): pass
print(repr(os.environ.get("RECAPTURE_RECORDER")))
''', RECAPTURE_RECORDER=value)
        assert said.stdout == "{!r}\n".format(value), said.stderr


MISSING = '''import recapture
from recapture import _places
graphs.begin_cuda()
def missing(): raise FileNotFoundError("there is no program")
_places.program = missing
'''


def test_report_that_cannot_be_made_does_not_hide_the_exception_of_the_block(place):
    said = place.python(MISSING + "with recapture.blame(): fail()\n")
    assert said.stderr.rstrip().endswith("RuntimeError: CUDA error: invalidated")
    assert "recapture: what failed in the block is not known: there is no program" in said.stderr
    assert "During handling" not in said.stderr and said.stderr.count("Traceback") == 1


def test_report_that_cannot_be_made_is_an_exception_of_its_own(place):
    said = place.python(MISSING + '''
try:
    with recapture.blame():
        try: fail()
        except RuntimeError: pass
except recapture._blame.NotJudged as error: print(error)
''')
    assert said.stdout == "what failed in the block is not known: there is no program\n", said.stderr
