"""All checks, in order, and how many fail."""
import sys
import traceback
from concurrent.futures import ThreadPoolExecutor

from .comparison import check_compare, check_headlines, check_links, check_tags
from .gates import check_gates
from .operators import check_operators
from .reading import check_hostile, check_reading
from .records import make_big, make_hostile, write_page
from .results import check_detail, check_history, check_matrix
from .site import check_site, write_site
from .times import check_times

PARTS = (check_compare, check_tags, check_headlines, check_links, check_detail, check_matrix, check_history,
         check_operators, check_reading)


class Checks:
    def __init__(self, browser):
        self.browser, self.failed, self.count = browser, 0, 0

    def __call__(self, what, holds, seen=""):
        self.count += 1
        if not holds:
            self.failed += 1
            print(f"page: not so: {what}" + (f"; seen: {seen!r}" if seen != "" else ""), file=sys.stderr)

    def equal(self, what, seen, expected):
        self(what, seen == expected, f"{seen!r}, not {expected!r}")

    def quiet(self, where):
        self.equal(f"{where}: no error and no request", self.browser.reports(), [])

    def run(self, part, *arguments):
        """A part that raises an exception fails; the others still run."""
        try:
            part(self, *arguments)
        except Exception as error:
            traceback.print_tb(error.__traceback__)
            message = str(error).partition("\n")[0]  # Selenium appends the driver's own stack.
            self(f"{part.__name__} can go on", False, f"{type(error).__name__}: {message}")


def run_checks(browser, folder, slack, all_gates):
    check = Checks(browser)
    with ThreadPoolExecutor(2) as pages:  # Most of their time is waiting for the browser.
        page = pages.submit(write_page, folder / "page.html")
        big = pages.submit(write_page, folder / "big.html", make_big)
        hostile = pages.submit(write_page, folder / "hostile.html", make_hostile)
        site = pages.submit(write_site, folder / "site")
        for part in PARTS:
            check.run(part, browser, page.result()[0])
        check.run(check_hostile, browser, hostile.result()[0])
        check.run(check_site, browser, *site.result(), slack)
        check.run(check_times, browser, *big.result(), slack)
        check.run(check_gates, page.result()[0], folder, all_gates)
    print(f"page: {check.count} checks, {check.failed} failed")
    return check.failed == 0
