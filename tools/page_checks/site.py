"""The folder of static pages that `recapture page --site` writes: first sight, search, links, accessibility."""
import json
import re
import subprocess
import zipfile
from pathlib import Path

from .records import RECAPTURE, ROOT

# Keeps axe-core, a checker of accessibility, as a package of PyPI.
AXE = "axe-playwright-python==0.1.8"
MOST_BYTES = 20_000_000
SIZES = ((1280, 720), (390, 844))


def write_site(folder):
    subprocess.run([str(RECAPTURE), "page", "--site", str(folder)], check=True, capture_output=True)
    return folder


def axe_script():
    """axe.min.js, fetched once into build/."""
    place = ROOT / "build" / "axe.min.js"
    if not place.exists():
        wheels = ROOT / "build" / "axe"
        subprocess.run(["python3", "-m", "pip", "-q", "download", "--no-deps", "-d", str(wheels), AXE], check=True)
        with zipfile.ZipFile(next(wheels.glob("*.whl"))) as wheel:
            name = next(each for each in wheel.namelist() if each.endswith("axe.min.js"))
            place.write_bytes(wheel.read(name))
    return place.read_text()


def serious_findings(browser, script):
    browser.driver.execute_script(script)
    found = browser.driver.execute_async_script(
        "const done = arguments[arguments.length - 1]; axe.run().then(result => done(JSON.stringify(result.violations)))")
    return [f"{each['id']}: {each['nodes'][0]['html'][:120]}" for each in json.loads(found)
            if each["impact"] in ("serious", "critical")]


def shown_rows(browser, table):
    return browser.get(f"$$('{table} tr[data-text]').filter(row => !row.hidden && !row.closest('tbody').hidden)"
                       ".map(row => row.cells[0].innerText)")


def search(browser, text, release=""):
    browser.get("($('#search').value = %s, $('#search').dispatchEvent(new Event('input')), 0)" % json.dumps(text))
    if release:
        browser.get("($('#release').value = %s, $('#release').dispatchEvent(new Event('change')), 0)"
                    % json.dumps(release))


def check_site(check, browser, folder):
    index = folder / "index.html"
    check("the site has at most 20 MB", sum(each.stat().st_size for each in folder.rglob("*.html")) <= MOST_BYTES)
    browser.open(index)
    check.quiet("site")
    check("the legend and one search box are in sight at first",
          browser.get("$('.legend').getBoundingClientRect().bottom < innerHeight && $$('input[type=search]').length === 1"))
    check("the first row is in sight", browser.get("$('tr[data-text]').getBoundingClientRect().top < innerHeight"))
    check("each cell has a word", browser.get("$$('td.c').every(cell => /[a-z]/.test(cell.textContent))"))
    check("each row has a link", browser.get("$$('tr[data-text]').every(row => row.querySelector('th a'))"))
    check("the newest release stands first", browser.get(
        "(names => names.map(each => each.split('.')[1] | 0).every((minor, at, all) => !at || minor <= all[at - 1]))"
        "([...$('thead').rows[0].cells].slice(1).map(cell => cell.textContent))"))

    # Questions of readers, with the answers that the records give.
    search(browser, "item() during", "2.12.1")
    check.equal("does item() fail in 2.12.1?",
                browser.get("$$('td.c').filter(cell => cell.offsetParent && !cell.hidden).map(cell => cell.innerText)[0]"),
                "raises")
    search(browser, "901 nonsense-word")
    check.equal("a word that nothing has finds nothing", shown_rows(browser, "[data-rows=failures]"), [])
    search(browser, "one_hot")
    check("which operator can't I use? The search finds it",
          any("one_hot" in each for each in shown_rows(browser, "[data-rows=operators]")))
    browser.open(index, "?q=nonzero&release=2.6")
    check.equal("a link keeps search and release", browser.get("[$('#search').value, $('#release').value]"),
                ["nonzero", "2.6.0"])

    links = browser.get("$$('a[href]').map(each => each.getAttribute('href'))")
    pages = sorted({each.partition("?")[0].partition("#")[0] for each in links if not re.match("https?:", each)})
    check.equal("each link leads to a page", [each for each in pages if not (folder / each).exists()], [])
    browser.open(folder / "failures" / "item_in_capture.html")
    check.quiet("a failure's page")
    for heading in ("In which release", "The error", "Code that fails", "What works instead", "On record"):
        check(f"a failure's page has '{heading}'", browser.get(f"$$('h2').some(each => each.textContent === '{heading}')"))
    browser.open(index, "#compare/2.6/2.11")
    check("a link of the page that was one file still opens",
          browser.becomes_true("location.pathname.endsWith('upgrade.html') && $('#answer').textContent"))

    script = axe_script()
    for name in ("index.html", "operators.html", "failures/item_in_capture.html"):
        for width, height in SIZES:
            for dark in (False, True):
                browser.open(folder / name, "", width, height, dark)
                where = f"{name} at {width}, {'dark' if dark else 'light'}"
                check.equal(f"{where}: nothing serious by axe", serious_findings(browser, script), [])
                check(f"{where}: it does not scroll sideways", browser.get("root.scrollWidth <= innerWidth"))
