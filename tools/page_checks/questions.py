"""What people ask, in questions.tsv: what is typed and the right first hit, ten upgrades with the gate's answer, ten
failures, at both widths; and the first sight.
"""
import json
import random
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from .records import RECAPTURE, ROOT

QUESTIONS = Path(__file__).with_name("questions.tsv")
SIZES = ((1280, 720), (390, 844))
FIRST_HIT = "(hit => hit && hit.dataset.hit)($$('#answer [data-hit], tr[data-hit]').find(each => each.offsetParent))"
HIT_TOP = "$$('#answer [data-hit], tr[data-hit]').find(each => each.offsetParent)?.getBoundingClientRect().top"
HAS_ROWS = ("$$('table[data-rows]').every(table => !table.offsetParent || "
            "[...table.tBodies[0].rows].some(row => !row.hidden))")
GATE_WORDS = {0: "The gate passes", 1: "The gate is blocked", 6: "The gate cannot tell"}
ORDER = ["The error", "Python that fails", "Python that works", "In which releases", "What works instead", "Described in",
         "How often it is met", "On record"]
MOST_FIRST_BYTES = 3_000_000
SAMPLE, SEED = 60, 82


def questions(kind):
    rows = [line.split("\t") for line in QUESTIONS.read_text().splitlines() if not line.startswith("#")]
    return [row[1:] + [""] * (4 - len(row[1:])) for row in rows if row[0] == kind]


def type_in(browser, text):
    browser.get("($('#search').value = %s, $('#search').dispatchEvent(new Event('input')), 0)" % json.dumps(text))


def check_first_sight(check, browser, folder):
    size = (folder / "index.html").stat().st_size
    print(f"page: the first sight's data: {size / 1e6:.2f} MB of at most {MOST_FIRST_BYTES / 1e6:.0f}")
    check("first sight: at most 3 MB", size <= MOST_FIRST_BYTES, size)
    for width, height in SIZES:
        browser.open(folder / "index.html", "", width, height)
        where = f"first sight at {width}"
        for name, css in (("the search", "#search"), ("the four tasks", ".tasks"), ("what people meet most", ".most ol"),
                          ("the newest record", ".facts")):
            bottom = browser.get(f"$('{css}').getBoundingClientRect().bottom")
            check(f"{where}: {name} is above the fold", bottom <= height, bottom)
        text = browser.get("$('main').innerText.slice(0, 700)")
        for word in ("PyTorch", "CUDA graph", "H200", "release"):
            check(f"{where}: it says {word}", word in text)
        check.equal(f"{where}: twelve, each with its count",
                    browser.get("$$('.most li').map(each => +each.querySelector('.n').textContent > 0)"), [True] * 12)
        check(f"{where}: the most common first", browser.get(
            "(all => all.every((each, at) => !at || each <= all[at - 1]))($$('.most .n').map(each => +each.textContent))"))
    met = subprocess.run([ROOT / "tools/met", "--check"], check=False).returncode
    check.equal("first sight: the counts are those of the threads", met, 0)


def check_searches(check, browser, folder):
    asked = questions("search")
    for width, height in SIZES:
        browser.open(folder / "index.html", "", width, height)
        browser.reports()
        for text, first, words, _ in asked:
            if first.startswith("upgrade "):
                kind, older, newer, *rest = first.split(" ")
                first = " ".join([kind, *browser.get(MEANT % json.dumps([older, newer])), *rest])
            type_in(browser, text)
            hit, top, answer, has_rows, fits = browser.get(f"[{FIRST_HIT}, {HIT_TOP}, $('#answer').innerText, {HAS_ROWS}, "
                                                           "root.scrollWidth <= innerWidth]")
            where = f"search at {width}: {text}"
            check.equal(where, hit, first)
            check(f"{where}: in sight", (top or 0) < height, top)
            check(f"{where}: '{words}'", words in answer, answer[:200])
            check(f"{where}: no empty table", has_rows)
            check(f"{where}: nothing scrolls sideways", fits)
        check.equal(f"search at {width}: no error, no request, and nothing run", browser.reports(), [])


def gate_answers(folder, pairs):
    """The gate's exit code for each (from, to, feature)."""
    lines = []
    for number, (older, newer, feature) in enumerate(pairs):
        question = {"from": older, "to": newer}
        if feature:
            policy = folder.parent / f"question-{number}.toml"
            policy.write_text(f"scope = [{json.dumps(feature)}]\n")
            question["policy"] = str(policy)
        lines.append(json.dumps(question) + "\n")
    said = subprocess.run([RECAPTURE, "dev", "gates"], input="".join(lines), stdout=subprocess.PIPE, text=True, check=True)
    return [json.loads(line)["exit"] for line in said.stdout.splitlines()]


# Of a name such as 2.14 the newest release on record, as the program takes it.
MEANT = ("(names => names.map(name => [...$('#release').options].map(each => each.value)"
         ".find(each => each === name || each.startsWith(name + '.')) || name))(%s)")


def meant(browser, folder, names):
    browser.open(folder / "index.html")
    return browser.get(MEANT % json.dumps(names))


def explained(text):
    """The cause that `recapture explain` names, or ""."""
    said = subprocess.run([RECAPTURE, "explain", "--json", "-"], input=text, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, text=True).stdout  # Its exit code is an answer too.
    named = [cause["id"] for cause in json.loads(said)["causes"] if cause["role"] != "possible"]
    return named[0] if named else ""


def check_reader(check, browser, folder):
    """The search reads a text by explain's own table, which the page has as data. Its rules for a line are fewer than
    explain's for a log, so its answers are held to those of explain: for the texts of threads among the questions, and
    for texts of the table, a part of them at each run.
    """
    browser.open(folder / "index.html")
    causes = browser.get("JSON.parse($('#data').textContent).causes")
    texts = [text for text, *_, origin in questions("search") if origin == "thread"]
    cues = sorted({cue.replace("*", "") for cause in causes for cue in cause.get("says", []) if " + " not in cue})
    check("reader: the table has the texts of explain's causes", len(cues) > 100, len(cues))
    texts += random.Random(SEED).sample(cues, min(SAMPLE, len(cues)))
    with ThreadPoolExecutor(2) as programs:
        right = list(programs.map(explained, texts))
    wrong = []
    for text, cause in zip(texts, right):
        type_in(browser, text)
        hit = browser.get(FIRST_HIT) or ""
        if cause and hit.split(" ")[-1] != cause:
            wrong.append([text, hit, cause])
    print(f"page: {sum(map(bool, right))} texts of {len(texts)} have a cause by explain")
    check("reader: many texts have a cause by explain", sum(map(bool, right)) > SAMPLE // 2, right)
    check("reader: the search answers what explain does", not wrong, wrong)


def check_upgrades(check, browser, folder):
    asked = [(text, *(pair.split(" ", 2) + [""])[:3]) for text, pair, *_ in questions("upgrade")]
    sides = meant(browser, folder, [name for _, older, newer, _ in asked for name in (older, newer)])
    asked = [(text, *sides[2 * at:2 * at + 2], feature) for at, (text, _, _, feature) in enumerate(asked)]
    answers = gate_answers(folder, [each[1:] for each in asked])
    for width, height in SIZES:
        for (text, older, newer, feature), code in zip(asked, answers):
            where = f"upgrade at {width}: {text}"
            browser.open(folder / "index.html", "", width, height)
            type_in(browser, text)
            check.equal(where, browser.get(FIRST_HIT), f"upgrade {older} {newer} {feature}".rstrip())
            browser.click("$('#answer a[data-hit]')")
            check(f"{where}: the comparison opens", browser.becomes_true("$('#from') && $('#gate').innerText"))
            check.equal(f"{where}: the sides", browser.get("['#from', '#to'].map(id => $(id).value)"), [older, newer])
            check(f"{where}: the gate's answer", GATE_WORDS[code] in browser.get("$('#gate').innerText"),
                  browser.get("$('#gate').innerText")[:120])


def check_failures(check, browser, folder):
    for width, height in SIZES:
        for case, error, fix, _ in questions("failure"):
            where = f"failure at {width}: {case}"
            browser.open(folder / "failures" / f"{case}.html", "", width, height)
            heads = browser.get("$$('main h2').map(each => each.textContent)")
            check.equal(f"{where}: the order", [head for head in heads if head in ORDER],
                        [head for head in ORDER if head in heads])
            shown = browser.get("(head => { let text = ''; for (let next = head.nextElementSibling; next && "
                                "!/^H2$/.test(next.tagName) && !next.matches('.sides'); next = next.nextElementSibling) "
                                "text += next.innerText; return text; })"
                                "($$('h2').find(each => each.textContent === 'The error'))")
            check(f"{where}: the error", error in shown, shown[:200])
            check(f"{where}: the fix", fix in browser.get("$('main').innerText"))
            if list((ROOT / "cases").glob(f"*/{case}.py")):
                sides = browser.get("$$('.sides section').map(each => each.getBoundingClientRect().left)")
                check(f"{where}: Python that fails and that works, side by side", len(sides) == 2 and
                      (sides[0] < sides[1]) == (width > 700), sides)
                check(f"{where}: a program", "import torch" in browser.get("$('.sides pre').textContent"))
            check(f"{where}: how often, and a link to copy", browser.get("$('.copy').offsetParent !== null"))
            check(f"{where}: nothing scrolls sideways", browser.get("root.scrollWidth <= innerWidth"))

