"""The folder of static pages that `recapture page --site` writes, and the one file: search, questions of readers, ranges,
links, accessibility.
"""
import itertools
import json
import lzma
import os
import re
import subprocess
import zipfile

from selenium.webdriver import Keys

from .gates import data_of
from .records import RECAPTURE, ROOT, catalogue, json_of

# The PyPI package with axe-core, an accessibility checker.
AXE = "axe-playwright-python==0.1.8"
MOST_BYTES = 2_000_000  # Of a failure's page, which lists each run of its case.
SIZES = ((1280, 720), (390, 844))
SITE_SECONDS, FILE_SECONDS = 10, 2  # Of a processor. The site has the answers of `gate` for each pair and feature.
MOST_ACTIONS = 3


def seconds_of(*command, said=None):
    """The CPU seconds of a command, which are independent of other load. What it prints is written to `said`."""
    with open(said or os.devnull, "w") as output:
        process = subprocess.Popen(command, stdout=output)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise subprocess.CalledProcessError(process.returncode, command)
    return usage.ru_utime + usage.ru_stime


def write_site(folder):
    """The site's folder, the single file, and the CPU seconds for each."""
    single = folder.with_suffix(".html")
    if single.exists():  # tools/page --keep
        return folder, 0.1, single, 0.1
    return (folder, seconds_of(RECAPTURE, "page", "--site", folder, said=folder.with_suffix(".said")),
            single, seconds_of(RECAPTURE, "page", "--single-file", single, said=single.with_suffix(".html.said")))


def site_of(folder, make_records):
    """The site of records that a function makes."""
    if folder.exists():  # tools/page --keep
        return folder, 0.1
    make_records(folder.with_suffix(".records"))
    return folder, seconds_of(RECAPTURE, "page", "--site", folder, "--records", folder.with_suffix(".records"))


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
    # The rows of a table are alike; the first of each body are enough, and the others only take time.
    browser.get("($$('tbody tr:nth-child(n+5)').forEach(row => row.remove()), 0)")
    found = browser.driver.execute_async_script(
        "const done = arguments[arguments.length - 1];"
        "axe.run().then(result => done(JSON.stringify(result.violations)))")
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


class Reader:
    """A reader with a question on the site's first page. Counts the actions."""

    def __init__(self, browser, index):
        self.browser, self.actions = browser, 0
        browser.open(index)

    def type(self, text):
        self.actions += 1
        self.browser.get("$('#search').focus()")
        self.browser.press(text)

    def click(self, element):
        self.actions += 1
        self.browser.click(element)
        self.browser.becomes_true("document.readyState === 'complete' && document.body")

    def choose(self, css, text):
        self.actions += 1
        self.browser.choose(css, text)


def cases_in_scope(*features):
    return {case["id"] for case in catalogue() if {"any program", *features} & set(case["tags"])}


def ids_of_rows(browser):
    """The cases whose rows are visible."""
    urls = browser.get("$$('[data-rows^=failures] tr[data-text]').filter(row => !row.hidden)"
                       ".map(row => row.querySelector('th a').getAttribute('href'))")
    return {re.fullmatch("failures/(.*).html", url)[1] for url in urls}


def check_questions(check, browser, folder):
    """Five questions, answered from the records, each in at most three actions."""
    get, index = browser.get, folder / "index.html"
    first = "$('[data-rows=failures] tr[data-text]:not([hidden])')"
    cells = (f"[{first}.querySelector('a'), ...[...{first}.querySelectorAll('.ranges .o')].filter(each => each.offsetParent)]"
             ".map(each => each.innerText)")

    reader = Reader(browser, index)
    reader.type("item() 2.12")
    check.equal("does item() fail in 2.12?", get(cells), ["item() during a capture invalidates it", "raises"])
    check("does item() fail in 2.12? In at most three actions", reader.actions <= MOST_ACTIONS, reader.actions)

    fix = "Call item() after graph.replay(), outside the capture."
    check.equal("what replaced it? Below the row", get(f"{first}.querySelector('th .note').innerText"), f"Instead: {fix}")
    reader.click(f"{first}.querySelector('a')")
    answer = get("$$('h2').find(each => each.textContent === 'What works instead').nextElementSibling.innerText")
    check.equal("what replaced it? On its page", answer, fix)
    check("what replaced it? In at most three actions", reader.actions <= MOST_ACTIONS, reader.actions)

    reader = Reader(browser, index)
    reader.type("2.9 to 2.13 DDP")
    reader.click("$('#answer a')")
    browser.wait_for("$('#answer') && $('#answer').innerText.includes('tests judged')")
    hurting = ("new damage", "new errors", "broken handlers", "stopped holding", "no longer captured")
    changes = json_of("compare", "--json", "2.9", "2.13")["changes"]
    right = {change["case"] for change in changes
             if change["consequence"] in hurting and change["case"] in cases_in_scope("DDP")}
    shown = set(get("$$('#changes .change .name').map(button => button.textContent)"))
    check.equal("what does 2.9 to 2.13 break for DDP?", shown, right)
    check("what does 2.9 to 2.13 break for DDP? It is on record", "cublas_workspace_freed_by_reset" in right, right)
    check("what does 2.9 to 2.13 break for DDP? The headline", re.match(
        r"In this filter: \d+ new damage", get("$('#answer').innerText")), get("$('#answer').innerText"))
    check("what does 2.9 to 2.13 break for DDP? In at most three actions", reader.actions <= MOST_ACTIONS,
          reader.actions)

    reader = Reader(browser, index)
    reader.type("CUDA 13")
    check("since when is CUDA 13 fine? The first release",
          "2.11.0 is the first on record" in get("$('#answer').innerText"), get("$('#answer').innerText"))
    releases = get("[...$('#release').options].map(each => each.value)")
    named = re.search(r"CUDA 13 comes with (.*);", get("$('#answer').innerText"))
    named = re.split(", | and ", named[1]) if named else []
    check("since when is CUDA 13 fine? The releases, the newest first", named[-1:] == ["2.11.0"] and "2.15.0" in named and
          named == [each for each in releases if each in named], named)
    reader.click("$('#answer a')")
    browser.wait_for("$('#from') && $('#from').value")
    check.equal("since when is CUDA 13 fine? What came with it", get("['#from', '#to'].map(id => $(id).value)"),
                [releases[releases.index("2.11.0") + 1], "2.11.0"])
    check("since when is CUDA 13 fine? In at most three actions", reader.actions <= MOST_ACTIONS, reader.actions)

    reader = Reader(browser, index)
    reader.click("$$('nav a').find(each => each.textContent === 'Operators')")
    reader.choose("#outcome", "cannot be captured")
    table = json.loads(lzma.decompress((ROOT / "reports/operators.json.xz").read_bytes()))["operators"]
    failing = ("refused", "depends on the sample", "wrong", "hangs", "crashes")
    right = {name for name, one in table.items() if any(on["verdict"] in failing for on in one["results"])}
    shown = "$$('tr[data-text]').filter(row => !row.hidden)"
    names = set(get(f"{shown}.map(row => row.id)"))
    check.equal("which operators can't I use?", names, right)
    check("which operators can't I use? One of many", "nn.functional.one_hot" in names and len(names) > 50, len(names))
    check("which operators can't I use? Each with what to do",
          get(f"{shown}.every(row => /^(Instead|Why): ./.test(row.querySelector('.note').innerText))"))
    check("which operators can't I use? In at most three actions", reader.actions <= MOST_ACTIONS, reader.actions)
    check.equal("questions: no error, and requests for pages alone",
                [each for each in browser.reports() if not each.startswith("request: file:")], [])


def check_words(check, browser, folder):
    """One vocabulary with gates and `recapture list`."""
    get, answer = browser.get, "$('#answer').innerText"
    for text, features in (("DDP", ["DDP"]), ("distributed_data-parallel", ["DDP"]),
                           ("ddp, rng", ["DDP", "generators"])):
        browser.open(folder / "index.html")
        search(browser, text)
        check.equal(f"words: {text} is a gate's scope", ids_of_rows(browser), cases_in_scope(*features))
        scope = f"scope = {json.dumps(features, separators=(',', ':'))}"
        check(f"words: {text} names the scope", scope in get(answer), get(answer))
    printed = subprocess.run([RECAPTURE, "list", "--features"], capture_output=True, text=True, check=True).stdout
    offered = get("[...$('#tags').options].map(option => option.value)")
    names = [line.split("  ")[0].strip() for line in printed.splitlines()]
    check.equal("words: those that list --features prints", offered, names)
    search(browser, "DPP")
    browser.click("$('#answer button')")
    check.equal("words: a near one is suggested", get("$('#search').value"), "DDP")
    search(browser, "CUDA error: operation not permitted when stream is capturing, then 901")
    check("words: a pasted message is found", len(ids_of_rows(browser)) > 3)
    browser.open(folder / "upgrade.html", "#compare/2.6/2.11?text=DPP")
    browser.click("$('#answer button')")
    check.equal("words: and in the upgrade", get("$('#compare-text').value"), "DDP")
    browser.open(folder / "index.html", "?q=2.99")
    check("words: an unknown release is named with those there are",
          re.search(r"2\.99 is not on record; there are (2\.\d+\.\d+, )+", get(answer)), get(answer))


def check_single_file(check, browser, made):
    *_, page, seconds = made
    print(f"page: --single-file: {page.stat().st_size / 1e6:.1f} MB, made in {seconds:.1f} s of a processor")
    limit = FILE_SECONDS * check.slack
    check(f"single file: made in {limit} s of a processor", seconds < limit, seconds)
    browser.open(page)
    check.quiet("single file")
    check("single file: it leads nowhere but to itself and to sources",
          browser.get("$$('a').every(each => /^(#|https?:)/.test(each.getAttribute('href')))"))
    search(browser, "item() during")
    browser.click("$('tr[data-text]:not([hidden]) a')")
    check.equal("single file: a failure's page",
                browser.get("$$('main, article').filter(each => each.offsetParent).map(each => each.id)"),
                ["failure-item_in_capture"])
    browser.driver.back()
    check("single file: and back", browser.becomes_true("$('main').offsetParent"))


def check_times_of_site(check, _, made):
    folder, seconds, *_ = made
    pages = list(folder.rglob("*.html"))
    size, limit = sum(each.stat().st_size for each in pages), SITE_SECONDS * check.slack
    print(f"page: --site: {len(pages)} pages, {size / 1e6:.1f} MB, made in {seconds:.1f} s of a processor")
    check(f"the site is made in {limit} s of a processor", seconds < limit, seconds)
    for said, what in ((folder.with_suffix(".said"), f"{folder}/index.html"),
                       (folder.with_suffix(".html.said"), folder.with_suffix(".html"))):
        check.equal(f"the program prints the name of {what}", said.read_text(), f"wrote {what}\n")


def check_ranges(check, browser, folder):
    """Neighbours with the same outcome are one range; each release is in one, or has no record. An operator's second
    ranges are of what stays right later."""
    get = browser.get
    for name, table in (("index.html", "failures"), ("operators.html", "operators")):
        browser.open(folder / name)
        ranges = get("$$('[data-rows=%s] tr[data-text]').map(row => [row.dataset.words, "
                     "[...row.querySelector('.ranges').children].map(item => [+item.dataset.from, +item.dataset.to, "
                     "item.querySelector('.o').textContent, item.innerText])])" % table)
        outcomes = get("JSON.parse($('#data').textContent).outcomes")
        wrong = []
        for words, items in ranges:
            seen = {}
            for newest, oldest, word, _ in items:
                seen.update({place: word for place in range(newest, oldest + 1)})
            right = {place: outcomes[ord(letter) - 97] for place, letter in enumerate(words)}
            if any(seen.get(place, "not run") != word for place, word in right.items()):
                wrong.append([right, items])
        check(f"{name}: ranges have the outcome of each release", ranges and not wrong, wrong[:2])
        alike = [one for _, items in ranges for one, other in zip(items, items[1:])
                 if one[1] + 1 == other[0] and one[2] == other[2] and "\n" not in one[3] + other[3] and "; else" not in
                 one[3] + other[3] and table == "failures"]
        check(f"{name}: no two neighbours are alike", not alike, alike[:2])
    browser.open(folder / "index.html")
    check("the worst of several tests is said as such", get(
        "$$('.part').some(each => /^in 1 of \\d tests; else [a-z ]+$/.test(each.textContent))"))
    check_colors(check, browser, folder)
    for name in ("index.html", "operators.html", "failures/item_in_capture.html", "upgrade.html"):
        browser.open(folder / name)
        style = get("[getComputedStyle($('.brand')).fontSize, getComputedStyle(root).fontFamily, "
                    "$$('header nav a, header [role=tab]:not([hidden])').map(each => each.textContent)]")
        check.equal(f"{name}: the header of every page", style,
                    ["16.1px", style[1], ["Failures", "Operators", "Upgrade", "All results", "History"]])
    browser.open(folder / "upgrade.html", "#operators?text=one_hot")
    check("there is one table of operators", browser.becomes_true(
        "location.pathname.endsWith('operators.html') && $('#search').value === 'one_hot'"))
    browser.open(folder / "upgrade.html", "#history", *SIZES[1])
    height = get("root.scrollHeight")
    check("at 390 the history is under three screens", height < 3 * SIZES[1][1], height)


# Of elements: the color of each outcome on them. A cell without a GPU's color is transparent.
COLORS_OF = """(elements => { const colors = {}; for (const each of elements) for (const name of %s)
  if (each.classList.contains(name)) (colors[name] ??= new Set())
    .add([getComputedStyle(each).color, getComputedStyle(each).backgroundColor].join(' on '));
  return Object.fromEntries(Object.entries(colors).map(([name, all]) => [name, [...all]])); })($$('%s'))"""
FAILING = ["raises", "silently-wrong", "leaks", "warns", "hangs", "crashes"]


def check_colors(check, browser, folder):
    """A documented failure has the color of what a program meets, on every view, in light and dark."""
    views = [("index.html", "", ".ranges .o", FAILING[:2]), ("gpus.html", "", ".ranges .o", FAILING[:2]),
             ("index.html", "?q=2.6+to+2.11", ".differs .o", FAILING[:1]),
             ("failures/item_in_capture.html", "", ".o", FAILING[:1]),
             ("failures/host_logic_frozen.html", "", ".o", FAILING[1:2]),
             ("upgrade.html", "#matrix", "td.cell", FAILING[:2]),
             ("upgrade.html", "#matrix?case=item_in_capture", "#detail .tag", FAILING[:1]),
             ("upgrade.html", "#history/item_in_capture.Reproduces", "#runs .tag", FAILING[:1]),
             ("upgrade.html", "#history/host_logic_frozen.ReproducesBranch", "#runs .tag", FAILING[1:2])]
    for dark in (False, True):
        colors = {}
        for name, fragment, css, expected in views:
            browser.open(folder / name, fragment, dark=dark)
            browser.wait_for(f"$('{css}')")
            seen = browser.get(COLORS_OF % (json.dumps(FAILING), css))
            check(f"colors: {name}{fragment} has the words", set(expected) <= set(seen), list(seen))
            for word, its in seen.items():
                colors.setdefault(word, set()).update(its)
        several = {word: its for word, its in colors.items() if len(its) != 1}
        check(f"colors: one for each outcome, {'dark' if dark else 'light'}", len(colors) >= 4 and not several, several)
        check.equal("colors: what raises is not what is silently wrong", len(colors["raises"] | colors["silently-wrong"]), 2)
    for width, height in SIZES:  # Also in the ranges of a narrow window.
        browser.open(folder / "upgrade.html", "#matrix?text=item_in_capture", width, height)
        browser.wait_for("$('.range, td.cell.raises')")
        check(f"colors: at {width} a failure as documented is that of what raises", browser.get(
            "$$('.range, td.cell').some(each => each.matches('.raises'))"))


def check_operators_later(check, browser, folder):
    """Whether a captured operator stays right afterwards, with the reason in words; what no record asks is said to be
    not measured.
    """
    get = browser.get
    browser.open(folder / "operators.html")
    lead = get("$$('.lead').map(each => each.innerText).join(' ')")
    check("operators: stays right afterwards is a question of the page", "Stays right afterwards?" in lead, lead)
    cells = get("$$('td[data-side=later]').map(each => each.innerText)")
    if cells:
        check("operators: each has an answer", all(re.match("not measured|stays right|wrong later", each) for each in cells))
        wrong = get("$$('td[data-side=later] li').filter(each => each.querySelector('.wrong-later'))"
                    ".map(each => each.querySelector('.part')?.textContent || '')")
        check("operators: what is wrong later says after what", all(re.match("after .", each) for each in wrong), wrong)
    else:
        check("operators: without a record that asks, nothing is claimed", "is not measured" in lead and
              get("!$$('.stays-right, .wrong-later').length"), lead)
    known = get("$$('tr[data-text] .note').filter(each => each.innerText.startsWith('Not right later')).map(each => "
                "[each.innerText, each.querySelector('a').getAttribute('href')])")
    check("operators: what a case shows has its reason and leads there", len(known) > 5 and all(
        re.match("Not right later: after .", words) and (folder / url).exists() for words, url in known), known[:2])
    order = get("$$('tr[data-text]').map(row => !row.querySelector('details') ? "
                "row.querySelector('th .note, .wrong-later') ? 1 : 2 : 0)")
    check("operators: those that cannot be captured come first, then those that do not stay right",
          set(order) == {0, 1, 2} and order == sorted(order), order[:9])
    why = get("$$('tr[data-text]').filter(row => row.querySelector('.o.refused, .o.depends-on-the-sample'))"
              ".map(row => row.querySelector('.note')?.innerText || '')")
    check("operators: what is refused has words", len(why) > 50 and all(re.match("(Instead|Why): .|No advice", each)
                                                                       for each in why), why[:3])


def newest_first(names):
    numbers = [[int(part) for part in re.findall(r"\d+", name)] for name in names]
    return len(names) > 2 and numbers == sorted(numbers, reverse=True)


def check_order(check, browser, folder):
    """Lists and columns of releases have the newest first."""
    get = browser.get
    seen = {}
    browser.open(folder / "index.html")
    seen["the choice of a release"] = get("[...$('#release').options].slice(1).map(each => each.value)")
    search(browser, "2.99")
    seen["what is on record"] = re.findall(r"2\.\d+\.\d+", get("$('#answer').innerText").partition("there are")[2])
    browser.open(folder / "failures" / "item_in_capture.html")
    seen["seen on"] = re.findall(r"2\.\d+\.\d+", get("$$('h3').find(each => each.textContent === 'Seen on')"
                                                     ".nextElementSibling.firstElementChild.innerText.split(': ')[1]"))
    get("$$('details').forEach(each => { each.open = true; })")
    seen["each run"] = get("$$('.table tbody th').map(each => each.textContent)")
    browser.open(folder / "upgrade.html")
    seen["sides"] = get("[...$('#from').options].map(each => each.value).filter(name => /^\\d/.test(name))")
    browser.open(folder / "upgrade.html", "#compare/9.9/2.11")
    seen["what there is"] = re.findall(r"2\.\d+\.\d+", get("$('#answer').innerText").partition("but of")[2])
    browser.open(folder / "upgrade.html", "#matrix")
    browser.wait_for("$('th.release')")
    seen["columns"] = get("$$('th.release').map(th => th.title.match(/^LibTorch ([\\d.]+), NVIDIA H200, driver [\\d.]+$/))"
                          ".filter(Boolean).map(found => found[1])")
    browser.open(folder / "upgrade.html", "#history")
    seen["history"] = get("$$('#runs > details > summary b').map(each => each.textContent)"
                          ".filter(name => /^\\d/.test(name))")
    browser.open(folder / "upgrade.html", "#history/empty_cache_after_failed_capture.Reproduces")
    ranges = get("$$('#runs ul li').map(each => each.innerText).filter(words => words.startsWith('NVIDIA H200, driver'))")
    check("order: since when a test shows what it shows, the newest first", len(ranges) > 1 and " since " in ranges[0] and
          " until " in ranges[-1], ranges)
    for what, names in seen.items():
        check(f"order: {what}: the newest first", newest_first(names), names)


def check_narrow_matrix(check, browser, folder):
    """At 390 pixels all results are ranges of releases: they have what the cells have, and nothing scrolls sideways."""
    get = browser.get
    rows = "$$('.results tbody tr:not(.family):not(.of-test)').filter(row => !row.hidden)"
    cases = [case for case in catalogue() if case["fidelity"] != "simulated"]
    browser.open(folder / "upgrade.html", "#matrix", *SIZES[1])
    check("narrow matrix: a row for each case", browser.becomes_true(f"{rows}.length === {len(cases)}"))
    check("narrow matrix: nothing scrolls sideways", get(
        "root.scrollWidth <= innerWidth && $('#cells').scrollWidth <= $('#cells').clientWidth"))
    check("narrow matrix: all is in sight", get(
        "$$('.results .ranges li, .results .group').every(each => each.getBoundingClientRect().right <= innerWidth)"))
    data = data_of(folder / "upgrade.html")
    text = data["texts"]
    wanted = ("item_in_capture", "stale_accumulate_grad_in_backward", "empty_cache_after_failed_capture",
              "pinned_background_thread_in_capture")
    numbers = {text[case["id"]]: number for number, case in enumerate(data["cases"])}
    for name in wanted:
        right = {}
        for column in data["columns"]:
            verdict = column["cells"][numbers[name]]
            if verdict >= 0 and not text[column["chosen"]] and text[column["release"]][0].isdigit():
                partly = {of: f"partly unavailable: {lacking} of {every} test{'s' * (every > 1)}"
                          for of, lacking, every in column["partly"]}
                word = partly.get(numbers[name], data["verdicts"][verdict])
                right.setdefault(text[column["gpu"]], {})[text[column["release"]]] = word
        lists = get(f"(row => [...row.querySelectorAll('.group')].map(each => [each.textContent, [...each"
                    ".nextElementSibling.children].map(item => [item.querySelector('.range').textContent, "
                    "item.querySelector('.when').textContent])]))"
                    f"({rows}.find(row => row.querySelector('.name').textContent === '{name}'))")
        seen = {}
        for machines, ranges in lists:
            for machine, (word, when) in itertools.product(machines.split(", "), ranges):
                oldest, _, newest = when.partition(" to ")
                its = sorted(right.get(machine, {}), key=version)
                for release in its[its.index(oldest):its.index(newest or oldest) + 1]:
                    seen.setdefault(machine, {})[release] = word
            starts = [when.split(" to ")[-1] for _, when in ranges]
            check(f"narrow matrix: {name}: the newest first", starts == sorted(starts, key=version, reverse=True), starts)
        check.equal(f"narrow matrix: {name} has what the cells have", seen, right)
        check(f"narrow matrix: {name}: neighbours are one", sum(len(ranges) for _, ranges in lists) * 2 <
              sum(map(len, right.values())), lists)
    browser.click(f"{rows}[0].querySelector('.range')")
    check("narrow matrix: a range opens what was seen", get("$('#detail').open"))
    browser.press(Keys.ESCAPE)
    check("narrow matrix: and has the focus again", get("document.activeElement.matches('.range')"))
    browser.click("$('.results .open')")
    check("narrow matrix: a case opens its tests", get("$$('.results .of-test .range').length > 0"))
    browser.open(folder / "upgrade.html", "#matrix?text=item_in_capture", *SIZES[1])
    check("narrow matrix: the filter holds", 0 < get(f"{rows}.length") < 20)
    browser.command("Emulation.setDeviceMetricsOverride", width=1280, height=720, deviceScaleFactor=1, mobile=False)
    check("narrow matrix: a wider window has cells", browser.becomes_true("$('.grid td.cell') && !$('.results')"))


def version(name):
    return [int(part) for part in re.findall(r"\d+", name)]


def check_pages(check, browser, folder):
    index = folder / "index.html"
    largest = max((folder / "failures").iterdir(), key=lambda path: path.stat().st_size)
    check(f"a failure's page has at most {MOST_BYTES // 1_000_000} MB", largest.stat().st_size <= MOST_BYTES, largest)
    browser.open(index)
    check.quiet("site")
    check.equal("one search box", browser.get("$$('input[type=search]').length"), 1)
    check("each row says where", browser.get("$$('tr[data-text]').every(row => /[a-z]/.test(row.cells[1].textContent))"))
    check("each row says what to do instead",
          browser.get("$$('tr[data-text]').every(row => row.querySelector('th .note').textContent.trim())"))
    check("each row has a link", browser.get("$$('tr[data-text]').every(row => row.querySelector('th a'))"))
    check("the newest release stands first", browser.get(
        "$$('.ranges').every(list => [...list.children].every((item, at, all) => !at || "
        "+item.dataset.from > +all[at - 1].dataset.to))"))
    check("what people meet most stands first", browser.get(
        "(met => met.slice(0, 60).every((each, at) => !at || each <= met[at - 1]))"
        "($$('tr[data-text]').map(row => +row.dataset.met))"))

    search(browser, "901 nonsense-word")
    check.equal("a word that nothing has finds nothing", shown_rows(browser, "[data-rows=failures]"), [])
    for thread in ("pytorch#168912", "https://github.com/pytorch/pytorch/pull/168912"):
        search(browser, thread)
        check(f"{thread} finds the case that cites it",
              any("branch of torch.cond" in row for row in shown_rows(browser, "[data-rows=failures]")))
    browser.open(index, "?q=nonzero&release=2.6")
    check.equal("a link keeps search and release", browser.get("[$('#search').value, $('#release').value]"),
                ["nonzero", "2.6.0"])

    links = browser.get("$$('a[href]').map(each => each.getAttribute('href'))")
    pages = sorted({each.partition("?")[0].partition("#")[0] for each in links if not re.match("https?:", each)})
    check.equal("each link leads to a page", [each for each in pages if not (folder / each).exists()], [])
    browser.open(folder / "failures" / "item_in_capture.html")
    check.quiet("a failure's page")
    for heading in ("In which releases", "The error", "Python that fails", "What works instead", "On record", "Seen on"):
        check(f"a failure's page has '{heading}'",
              browser.get(f"$$('h2, h3').some(each => each.textContent === '{heading}')"))
    text = browser.get("$('main').innerText")
    for words in (r"Raises in 2\.\d+\.\d+ to ", r"NVIDIA H200, driver 580\.159\.04: 2\.\d+\.\d+, "):
        check(f"a failure's page has '{words}'", re.search(words, text))
    browser.get("$('#search').focus()")
    browser.press("one_hot" + Keys.ENTER)
    check("the search of a failure's page leads to the answer", browser.becomes_true(
        "location.pathname.endsWith('index.html') && $('#search').value === 'one_hot' && $('#count').textContent"))
    browser.open(index, "#compare/2.6/2.11")
    check("a link of the page that was one file still opens",
          browser.becomes_true("location.pathname.endsWith('upgrade.html') && $('#answer').textContent"))

    browser.open(folder / "upgrade.html", "#history", *SIZES[1])
    browser.click("$('#runs summary')")
    browser.wait_for("$('#runs details table, #runs details details')")
    if browser.get("Boolean($('#runs details details'))"):  # Runs of several months are folded by month.
        browser.click("$('#runs details details summary')")
    check("a release's runs can be opened", browser.becomes_true("$('#runs tbody tr')"))
    check("at 390 a run's comparison is in sight",
          browser.get("$('#runs tbody tr').lastElementChild.getBoundingClientRect().right <= innerWidth"))


def check_axe(check, browser, folder):
    script = axe_script()
    for name in ("index.html", "operators.html", "failures/item_in_capture.html", "upgrade.html", "met.html",
                 "failures/output_overwritten_by_next_call.html", "about.html", "upgrade.html#matrix", "index.html?q=2.6+to+2.11"):
        for width, height in SIZES:
            for dark in (False, True):
                path, mark, fragment = re.fullmatch("([^?#]*)([?#]?)(.*)", name).groups()
                if not (folder / path).exists():  # A project with an address needs no about.html.
                    continue
                browser.open(folder / path, mark + fragment, width, height, dark)
                where = f"{name} at {width}, {'dark' if dark else 'light'}"
                check.equal(f"{where}: nothing serious by axe", serious_findings(browser, script), [])
                check(f"{where}: it does not scroll sideways", browser.get("root.scrollWidth <= innerWidth"))
