"""All checks, in order, and how many fail."""
import sys
import time
import traceback
from concurrent.futures import ThreadPoolExecutor

from .access import check_keyboard, check_screen_reader
from .comparison import check_compare, check_headlines, check_links, check_tags
from .gates import check_gates
from .operators import check_operators
from .questions import (
    check_changes,
    check_failures,
    check_first_sight,
    check_reader,
    check_searches,
    check_upgrades,
)
from .reading import check_hostile, check_hostile_site, check_reading
from .records import make_big, make_hostile, make_hostile_cases, write_page
from .results import check_detail, check_history, check_matrix
from .site import (
    check_axe,
    check_narrow_matrix,
    check_operators_later,
    check_order,
    check_pages,
    check_questions,
    check_ranges,
    check_single_file,
    check_times_of_site,
    check_words,
    site_of,
    write_site,
)
from .times import check_times

# By what they look at, in order. `page`: the page of `recapture page`; `site`: the folder of `recapture page --site`;
# `made`: the site, the single file and the time for each; `big`, `hostile`: pages of records that are made for this.
PARTS = {
    "compare": ("page", check_compare), "tags": ("page", check_tags), "headlines": ("page", check_headlines),
    "links": ("page", check_links), "detail": ("page", check_detail), "matrix": ("page", check_matrix),
    "history": ("page", check_history), "operators": ("page", check_operators), "reading": ("page", check_reading),
    "hostile": ("hostile", check_hostile), "hostile-site": ("hostile_site", check_hostile_site),
    "site-times": ("made", check_times_of_site), "single-file": ("made", check_single_file),
    "questions": ("site", check_questions), "words": ("site", check_words), "first-sight": ("site", check_first_sight),
    "searches": ("site", check_searches), "reader": ("site", check_reader), "upgrades": ("site", check_upgrades),
    "failures": ("site", check_failures), "changes": ("site", check_changes), "ranges": ("site", check_ranges),
    "later": ("site", check_operators_later), "order": ("site", check_order),
    "narrow-matrix": ("site", check_narrow_matrix), "pages": ("site", check_pages),
    "keyboard": ("site", check_keyboard), "screen-reader": ("site", check_screen_reader), "axe": ("site", check_axe),
    "times": ("big", check_times), "gates": ("page", check_gates)}
LONGEST = 8


class Checks:
    def __init__(self, browser, slack, all_gates):
        self.browser, self.slack, self.all_gates = browser, slack, all_gates
        self.failed, self.count = 0, 0

    def __call__(self, what, holds, seen=""):
        self.count += 1
        if not holds:
            self.failed += 1
            print(f"page: not so: {what}" + (f"; seen: {seen!r}" if seen != "" else ""), file=sys.stderr)

    def equal(self, what, seen, expected):
        self(what, seen == expected, f"{seen!r}, not {expected!r}")

    def quiet(self, where):
        self.equal(f"{where}: no error and no request", self.browser.reports(), [])

    def run(self, name, part, *arguments):
        """A part that raises an exception fails; the others still run."""
        try:
            part(self, *arguments)
        except Exception as error:
            traceback.print_tb(error.__traceback__)
            message = str(error).partition("\n")[0]  # Selenium appends the driver's own stack.
            self(f"{name} can go on", False, f"{type(error).__name__}: {message}")


def run_checks(browser, folder, slack, all_gates, only):
    if unknown := [name for name in only if name not in PARTS]:
        print(f"page: there is no part {', '.join(unknown)}, but {', '.join(PARTS)}", file=sys.stderr)
        return False
    check = Checks(browser, slack, all_gates)
    chosen = {name: part for name, part in PARTS.items() if not only or name in only}
    needed = {"site" if need == "made" else need for need, _ in chosen.values()}
    makers = {"page": (write_page, folder / "page.html"), "big": (write_page, folder / "big.html", make_big),
              "hostile": (write_page, folder / "hostile.html", make_hostile),
              "hostile_site": (site_of, folder / "hostile-site", make_hostile_cases), "site": (write_site, folder / "site")}
    with ThreadPoolExecutor(2) as pages:  # Most of their time is waiting for the browser.
        made = {need: pages.submit(*make) for need, make in makers.items() if need in needed}
        seconds = {}
        for name, (need, part) in chosen.items():
            seen = made["site" if need == "made" else need].result()
            begin = time.monotonic()
            check.run(name, part, browser, seen if need in ("made", "big") else seen[0])
            seconds[name] = time.monotonic() - begin
    longest = sorted(seconds, key=seconds.get, reverse=True)[:LONGEST]
    print("page: the parts that took longest: " + ", ".join(f"{name} {seconds[name]:.0f} s" for name in longest))
    print(f"page: {check.count} checks, {check.failed} failed")
    return check.failed == 0
