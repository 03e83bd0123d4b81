"""The tab Operators: it agrees with `recapture operators`, and finds an operator by any of its names."""
import json
import lzma
import subprocess

from selenium.webdriver import Keys

from .records import RECAPTURE, ROOT

ROWS = "$$('#operator-rows tbody > tr')"
NAMES = f"{ROWS}.map(row => row.querySelector('.mono').textContent)"
COUNT = "$('#operators-count').textContent"


def table():
    return json.loads(lzma.decompress((ROOT / "reports/operators.json.xz").read_bytes()))


def printed(*names):
    return subprocess.run([RECAPTURE, "operators", *names], capture_output=True, text=True, check=True).stdout


def check_operators(check, browser, page):
    get = browser.get
    all_of_them = table()
    browser.open(page, "#operators")
    check.equal("operators: the tab and its controls are in sight", get("scrollY"), 0)
    check.equal("operators: the tab", get("$('[aria-selected=true]').textContent"), "Operators")
    lines = printed().splitlines()
    shown = len(lines) - len(all_of_them["releases"])  # The last lines are totals.
    check.equal("operators: those that cannot be captured everywhere", get(f"{ROWS}.length"), shown)
    heads = get("$$('#operator-rows thead th').slice(1, -2).map(th => th.textContent)")
    check.equal("operators: a column for each release, the newest first", heads, all_of_them["releases"][::-1])
    check("operators: how many", str(shown) in get(COUNT), get(COUNT))
    empty = get(f"{ROWS}.filter(row => !row.lastChild.textContent).length")
    check("operators: nearly all have advice", empty * 10 < shown, empty)

    for word in ("F.one_hot", "torch.nn.functional.one_hot(x)", "one_hot"):
        get("$('#operators-text').focus()")
        get("$('#operators-text').select()")
        browser.press(word)
        check.equal(f"operators: {word}", get(NAMES)[:1], ["torch.nn.functional.one_hot"])
    check("operators: the word is in the fragment", "text=one_hot" in get("location.hash"), get("location.hash"))
    browser.click("$('#operator-rows .open')")
    check.equal("operators: its forms", get("$('#operator-rows pre').textContent").strip(), printed("one_hot").strip())
    expanded = get("$('#operator-rows .open').getAttribute('aria-expanded')")
    check.equal("operators: it is marked as open", expanded, "true")
    get("$('#operator-rows .open').focus()")
    browser.press(Keys.ENTER)
    check.equal("operators: Enter closes it", get("$$('#operator-rows pre').length"), 0)

    get("$('#operators-text').select()")
    get("$('#operators-text').focus()")
    browser.press("torch.abs")
    check("operators: one that every release captures is found", get(NAMES)[:1] == ["torch.abs"], get(NAMES)[:3])
    get("$('#operators-text').select()")
    browser.press("no such operator")
    check.equal("operators: nothing found", [get(f"{ROWS}.length"), get(COUNT)[:5]], [0, "0 of "])

    browser.open(page, "#operators")
    for number in range(get("$$('#operators-words .chip').length")):
        chip = f"$$('#operators-words .chip')[{number}]"
        word, count = get(f"{chip}.childNodes[0].textContent.trim()"), get(f"{chip}.lastChild.textContent")
        browser.click(chip)
        right = sum(any(on["verdict"] == word for on in one["results"]) for one in all_of_them["operators"].values())
        check.equal(f"operators: {word}", [get(f"{ROWS}.length"), int(count)], [right, right])
        browser.click(chip)
    browser.driver.back()
    get("$('#tab-history').focus()")
    browser.press(Keys.ARROW_RIGHT)
    check.equal("operators: the arrow leads to its tab", get("$('[aria-selected=true]').textContent"), "Operators")
    browser.press(Keys.ARROW_RIGHT)
    check.equal("operators: and from it to the first", get("$('[aria-selected=true]').textContent"), "Upgrade")
    check.quiet("operators")
