"""The detail of a case, and the tabs Matrix and History."""
import json
import re

import tomllib
from selenium.webdriver import Keys

from .comparison import PAIR, ROWS, SIDES
from .records import ROOT, catalogue

OPEN = "$('#detail').open"
DETAIL = "$('#detail').innerText"
TAB = "$('[aria-selected=true]').textContent"
NAMES = f"{ROWS}.map(row => row.querySelector('.name').textContent)"
FOCUSED_CELL = """(() => {
  const cell = document.activeElement;
  return [cell.parentElement.querySelector('.name').textContent, cell.cellIndex];
})()"""
# The contents of the detail of item_in_capture in 2.11.0 on an H200.
CELL_WORDS = (
    "900 > invalidated > 901", "documented", "_local_scalar_dense_cuda",
    "cuStreamSynchronize returned 900, capturing thread, capture mode global",
    "operation not permitted when stream is capturing", "LibTorch 2.11.0, NVIDIA H200, driver 580.159.04",
    "compute capability", "2.11.0/nvidia-h200", "Call item() after graph.replay(), outside the capture.",
    "capture failures")


def check_detail(check, browser, page):
    get = browser.get
    browser.open(page, PAIR)
    browser.click("$('.change .name')")
    name = get("$('.change .name').textContent")
    check("detail: opened by the mouse", get(OPEN) and name in get(DETAIL), get(DETAIL)[:200])
    sides = get(SIDES)
    headings = get("$$('#detail thead th').slice(1).map(th => th.firstChild.textContent)")
    check.equal("detail: both sides", headings, sides)
    sentence = get("$('.change .title + p').textContent")
    check("detail: the sentence of the change",
          f" in {sides[0]}; in {sides[1]} it " in sentence and sentence in get(DETAIL), sentence)
    check("detail: it has the focus", get("$('#detail').contains(document.activeElement)"))
    check("detail: it is in the fragment", f"case={name}" in get("location.hash"))
    browser.press(Keys.ESCAPE)
    check("detail: Escape closes it", not get(OPEN))
    check.equal("detail: the focus is back", get("document.activeElement.textContent"), name)
    browser.press(Keys.ENTER)
    check("detail: opened by the keyboard", get(OPEN) and name in get(DETAIL))
    browser.click("$('#detail .top button')")
    check("detail: Close closes it", not get(OPEN))
    browser.driver.back()
    check("detail: Back opens it again", browser.becomes_true(OPEN))
    check.quiet("detail")

    # From a test in the detail to its history, and by the tab back to the selection.
    for view, fragment, name, chosen in (
            ("compare", PAIR + "?show=error+changed", "$('#changes .name')",
             f"{SIDES} + $('.figure[aria-pressed=true]')?.dataset.word"),
            ("matrix", "#matrix?family=sync&text=item", ROWS + "[0].querySelector('.name')",
             "['#family', '#matrix-text'].map(id => $(id).value)")):
        browser.open(page, fragment)
        before = get(chosen)
        browser.click(name)
        browser.click("$('#detail th .name')")
        check.equal(f"{view}: a test in the detail leads to its history", get(TAB), "History")
        browser.click(f"$('#tab-{view}')")
        check.equal(f"{view}: what was chosen is there again", get(chosen), before)
        check.quiet(f"{view}, and back")


def check_matrix(check, browser, page):
    check_grid(check, browser, page)
    check_arrows(check, browser)
    check_cell(check, browser)
    check_filters(check, browser, page)


def check_grid(check, browser, page):
    get = browser.get
    browser.open(page)
    get("$('#tab-compare').focus()")
    browser.press(Keys.ARROW_RIGHT)
    check.equal("matrix: opened by the keyboard", [get(TAB), get("document.activeElement.id")],
                ["All results", "tab-matrix"])
    rows = [case for case in catalogue() if case["fidelity"] != "simulated"]  # Independent of the release.
    browser.wait_for(f"{ROWS}.length === {len(rows)}")  # Rows out of sight are drawn frame by frame.
    check.equal("matrix: a row a case", get(ROWS + ".length"), len(rows))
    check("matrix: a heading has its scope", get("$$('th').every(th => th.scope)"))
    check.equal("matrix: families", get("$$('.family th').map(th => th.textContent)"),
                sorted({case["family"] for case in catalogue()}))
    labels = set(get("$$('td.cell').filter(td => !td.textContent).map(td => td.getAttribute('aria-label'))"))
    check.equal("matrix: an empty cell has the label that it was not run", labels, {"not run"})


def check_arrows(check, browser):
    get = browser.get
    reachable = "$$('td.cell[tabindex=\"0\"]')"
    check.equal("matrix: one cell can be reached by Tab", get(reachable + ".length"), 1)
    get(reachable + "[0].focus()")
    first = get(FOCUSED_CELL)
    browser.press(Keys.ARROW_DOWN + Keys.ARROW_RIGHT)
    second = get(FOCUSED_CELL)
    check("matrix: arrow keys move", second[0] != first[0] and second[1] == first[1] + 1, second)
    browser.press(6 * Keys.ARROW_DOWN)
    check("matrix: arrow keys cross families", get("document.activeElement.closest('tbody') !== $('.grid tbody')"))
    browser.press(Keys.HOME + Keys.END)
    last = get(FOCUSED_CELL)
    check("matrix: End is the last column", last[1] == get("$('td.cell').parentElement.cells.length - 1"), last)
    browser.press(Keys.ENTER)
    check("matrix: Enter opens the cell", get(OPEN) and last[0] in get(DETAIL))
    browser.press(Keys.ESCAPE)
    check("matrix: Escape closes it, and the focus is back", not get(OPEN) and get(FOCUSED_CELL) == last,
          get(FOCUSED_CELL))


def check_cell(check, browser):
    get = browser.get
    title = "LibTorch 2.11.0, NVIDIA H200, driver 580.159.04"
    column = get(f"$$('th.release').findIndex(th => th.title === '{title}')") + 1
    browser.click(f"{ROWS}.find(row => row.querySelector('.name').textContent === 'item_in_capture').cells[{column}]")
    get("$$('#detail details').forEach(details => { details.open = true; })")
    text = get(DETAIL)
    for words in CELL_WORDS:
        check(f"matrix: the detail of a cell has {words}", words in text)
    links = get("$$('#detail a').map(a => a.href)")
    check("matrix: its links", links and all(re.match("https?:", link) for link in links), links)
    browser.press(Keys.ESCAPE)

    browser.click("$('.open')")
    first = min(catalogue(), key=lambda case: (case["family"], case["id"]))
    check.equal("matrix: a case opens its tests", get("$$('.of-test th').map(th => th.textContent)"),
                [test["name"] for test in first["tests"]])
    check.equal("matrix: the case is marked as open", get("$('.open').getAttribute('aria-expanded')"), "true")
    browser.click("$('.open')")
    check.equal("matrix: and closes them", get("$$('.of-test').length"), 0)


def check_filters(check, browser, page):
    get = browser.get
    cases = catalogue()
    for number in range(get("$$('.chip').length")):
        chip = f"$$('.chip')[{number}]"
        verdict = get(f"{chip}.childNodes[0].textContent.trim()")
        browser.click(chip)
        rows = get(ROWS + ".map(row => [...row.querySelectorAll('td')].map(td => td.textContent || 'not run'))")
        check(f"matrix: only cases with {verdict}",
              rows and all(verdict in row for row in rows) and len(rows) <= len(cases), rows[:1])
        check.equal(f"matrix: {verdict} is pressed", get("$$('.chip[aria-pressed=true]').length"), 1)
        browser.click(chip)
    get("$('#family').focus()")
    browser.press(Keys.ARROW_DOWN)
    check.equal("matrix: one family", get("$$('.family').filter(row => !row.hidden).length"), 1)
    browser.open(page, "#matrix?text=offset")
    names = get(NAMES)
    sources = tomllib.loads((ROOT / "cases/sources.toml").read_text())["source"]
    words = ["offset", *(source["id"] for source in sources if "offset" in source["title"].lower())]
    right = {case["id"] for case in cases if any(word in json.dumps(case).lower() for word in words)}
    check("matrix: what mentions a word", 0 < len(names) < len(cases) and set(names) <= right, names)
    check("matrix: how many", str(len(names)) in get("$('#matrix-count').textContent"))
    check.quiet("matrix")


def check_history(check, browser, page):
    get = browser.get
    browser.open(page, "#history")
    heads = get("$$('#runs > details > summary b').map(each => each.textContent)")
    releases = [head for head in heads if re.match(r"\d", head)]
    newest_first = sorted(releases, key=lambda name: [int(part) for part in re.findall(r"\d+", name)], reverse=True)
    check("history: folded by release, the newest first", len(heads) > 10 and heads[:len(releases)] == newest_first and
          not get("$$('#runs table').length"), heads)
    for _ in range(2):  # A release, then its months.
        get("$$('#runs details.runs').forEach(each => { each.open = true; })")
        browser.wait_for("$$('#runs details.runs[open]').every(each => each.children.length > 1)")
    tables = get("$$('#runs table').map(table => [...table.tBodies[0].rows].map(row => row.cells[0].textContent))")
    check("history: runs, the newest first", all(dates == sorted(dates, reverse=True) for dates in tables), tables[:2])
    check("history: what changed against the run before", "no change" in get("$('#runs').innerText"))
    last = get("$$('#runs tbody tr').map(row => row.cells[4].innerText)")
    check("history: what has nothing to compare with", any(each.startswith("nothing to compare") for each in last))
    check("history: none has no change of nothing", not any("; 0 the same" in each for each in last),
          last)
    get("$('#test').focus()")
    browser.press("item_in_capture.")
    cases = set(get("$$('#runs .name').map(button => button.textContent.split('.')[0])"))
    check("history: tests that have a word", cases >= {"item_in_capture"}, cases)
    browser.press("Reproduces")
    rows = get("$$('#runs tbody tr').map(row => [...row.cells].map(cell => cell.textContent))")
    check("history: of a test",
          len(rows) >= 5 and all(row[4] in ("reproduced", "unavailable", "not run") for row in rows), rows)
    dates = [row[0] for row in rows]
    check("history: newest first", dates == sorted(dates, reverse=True), dates)
    runs = get("$('#runs').innerText")
    check("history: since when",
          re.search(r"NVIDIA H200, driver 580.159.04: reproduced always, from 2\.\d+\.\d+", runs), runs)
    browser.click("$('#runs .more')")
    check("history: its case", get(OPEN) and "item_in_capture" in get(DETAIL))
    browser.open(page, "#history/empty_cache_after_failed_capture.Reproduces")
    words = get("$('#runs ul').innerText")
    check("history: until when, and since when",
          re.search(r"until 2\.\d+\.\d+ \(", words) and re.search(r"since 2\.\d+\.\d+ \(", words), words)
    check.quiet("history")
