"""pytest --recapture: a failing capture's test reports which call broke it; and the fixture capture_safe.

pytest loads this module wherever the package is installed, so other modules are imported on demand.
"""
from __future__ import annotations

from typing import Any, Generator

import pytest

_TITLE = "recapture: a CUDA graph capture failed"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("recapture", "captures of CUDA graphs").addoption(
        "--recapture", action="store_true", help="report which call broke which CUDA graph capture, in each test's report")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--recapture"):
        config.pluginmanager.register(_Plugin(), "recapture-captures")


class _Plugin:
    """For --recapture: blame around each test."""

    def __init__(self) -> None:
        from recapture import _blame
        self._blame = _blame
        self._warned = False
        try:
            # Before all tests, so that the driver loads the recorder even if a module or a fixture initialises CUDA.
            self._session = _blame.blame(quiet=True)
            self._session.__enter__()
        except (_blame.NotHeard, FileNotFoundError) as error:
            raise pytest.UsageError("--recapture: {}".format(error)) from None
        self._block: Any = None
        self._told = 0  # Failures of the running test that are already in one of its reports.

    def pytest_unconfigure(self) -> None:
        self._session.abandon()

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, None]:
        self._block, self._told = self._blame.blame(quiet=True), 0
        try:
            self._block.__enter__()
        except (OSError, self._blame.NotHeard) as error:
            self._block = None
            self._warn(item, error)
        yield
        if self._block:
            self._block.abandon()

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Generator[None, Any, None]:
        report = (yield).get_result()
        text = self._news(item)
        if not text:
            return
        if report.failed and hasattr(report.longrepr, "addsection"):
            report.longrepr.addsection(_TITLE, text)  # Shown with the traceback: on the terminal, in JUnit's XML.
        else:
            report.sections.append((_TITLE, text))
        item.user_properties.append(("recapture", text))

    def _news(self, item: pytest.Item) -> str:
        """Failures of the running test that are not yet in any report."""
        if not self._block:
            return ""
        try:
            failures = self._block.so_far().failures
        except (self._blame.NotHeard, self._blame.NotJudged) as error:
            self._warn(item, error)
            return ""
        news, self._told = failures[self._told:], len(failures)
        return "\n".join(failure.text for failure in news)


    def _warn(self, item: pytest.Item, error: Exception) -> None:
        """Once: it also applies to the following tests."""
        if not self._warned:
            self._warned = True
            item.warn(pytest.PytestWarning("--recapture: {}".format(error)))


def _why_no_gpu() -> str:
    """Why there is no GPU to capture on, or ""."""
    import ctypes
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return "there is no CUDA driver (libcuda.so.1)"
    error = driver.cuInit(0)
    if error:
        return "the CUDA driver does not start: cuInit returned {}".format(error)
    count = ctypes.c_int()
    if driver.cuDeviceGetCount(ctypes.byref(count)) or count.value == 0:
        return "there is no GPU"
    return ""


class CaptureSafe:
    """The value of the fixture capture_safe: the failed captures, and a call that checks a function."""

    def __init__(self, report: Any) -> None:
        self.report = report

    def __call__(self, fn: Any, make_inputs: Any = None, **options: Any) -> Any:
        """recapture.check(fn, make_inputs); a finding fails the test, otherwise returns the report."""
        from recapture._check import fixture_check
        return fixture_check(fn, make_inputs, **options)


@pytest.fixture
def capture_safe() -> Generator[Any, None, None]:
    """Fails the test if a capture fails in it, even if the program catches the error. Skips without a GPU.

    `capture_safe(fn, make_inputs)` also fails it if a graph of `fn` computes something else than eager code.
    """
    from recapture import _blame
    try:
        block = _blame.blame(quiet=True)
        report = block.__enter__()
    except (_blame.NotHeard, FileNotFoundError) as error:
        pytest.skip("capture_safe: {}".format(error))
    why_not = _why_no_gpu()
    if why_not:
        block.abandon()
        pytest.skip("capture_safe: " + why_not)
    yield CaptureSafe(report)
    block.__exit__(None, None, None)
    if report:
        pytest.fail("a CUDA graph capture failed:\n" + "\n".join(failure.text for failure in report.failures),
                    pytrace=False)
