"""What people ask, in questions.tsv: what is typed and the right first hit, ten upgrades with the gate's answer, ten
failures, at both widths; and the first sight.
"""
import json
import lzma
import random
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from .gates import data_of
from .records import RECAPTURE, ROOT

QUESTIONS = Path(__file__).with_name("questions.tsv")
SIZES = ((1280, 720), (390, 844))
FIRST_HIT = "(hit => hit && hit.dataset.hit)($$('#answer [data-hit], tr[data-hit]').find(each => each.offsetParent))"
HIT_TOP = "$$('#answer [data-hit], tr[data-hit]').find(each => each.offsetParent)?.getBoundingClientRect().top"
# Of the rows below an answer that no table of texts has chosen: how well the title fits, then counts and severity.
RANKED = r"""((words, feature) => {
  const causes = new Map(JSON.parse($('#data').textContent).causes.map(cause => [cause.id, cause]));
  const answered = $$('#answer [data-hit]').map(each => each.dataset.hit.split(' ')[1]);
  const proved = new Set(answered.flatMap(id => [id, ...causes.get(id)?.also || []]));
  const tag = String($$('#tags option').findIndex(each => each.value === feature));
  const fit = row => {
    const title = row.querySelector('th a').textContent.toLowerCase();
    return words.every(word => title.includes(word)) ? 0 : words.every(word => row.dataset.name.includes(word)) ? 1 : 2;
  };
  return $$('tr[data-text]').filter(row => !row.hidden && !proved.has(row.dataset.id))
    .map(row => [feature && row.dataset.tags.split(',').includes(tag) ? 0 : 1, fit(row), -row.dataset.met,
                 -row.dataset.severity]);
})(%s, %s)"""
HAS_ROWS = ("$$('table[data-rows]').every(table => !table.offsetParent || "
            "[...table.tBodies[0].rows].some(row => !row.hidden))")
GATE_WORDS = {0: "The gate passes", 1: "The gate is blocked", 6: "The gate cannot tell"}
ORDER = ["The error", "Python that fails", "Python that works", "In which releases", "What works instead", "Described in",
         "How often it is met", "What else gives this text", "On record"]
OPTIONAL = {"Python that fails", "Python that works", "What else gives this text"}  # check_every_failure asks.
TASKS = ["An error text", "An operator", "An upgrade", "Run it"]
PROJECT = ["Install", "documents", "source", "report a wrong answer"]
MOST_FIRST_BYTES = 3_000_000
SAMPLE, SEED = 60, 82


def questions(kind):
    rows = [line.split("\t") for line in QUESTIONS.read_text().splitlines() if not line.startswith("#")]
    return [row[1:] + [""] * (4 - len(row[1:])) for row in rows if row[0] == kind]


def type_in(browser, text):
    browser.get("($('#search').value = %s, $('#search').dispatchEvent(new Event('input')), 0)" % json.dumps(text))


def check_questions_asked(check):
    for kind, fewest in (("search", 80), ("upgrade", 10), ("failure", 10)):
        asked = [text for text, *_ in questions(kind)]
        check(f"questions: {fewest} of the kind {kind}, each once", len(set(asked)) == len(asked) >= fewest, len(asked))


def check_first_sight(check, browser, folder):
    check_questions_asked(check)
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
        tops = browser.get("$$('.tasks a').map(each => [each.textContent, each.getBoundingClientRect().top, "
                           "each.getClientRects().length, each.getBoundingClientRect().right <= innerWidth])")
        check.equal(f"{where}: the four tasks", [each[0] for each in tops], TASKS)
        check(f"{where}: they are in one line", len({top for _, top, *_ in tops}) == 1 and
              all(lines == 1 and fits for *_, lines, fits in tops), tops)
        facts = browser.get("$('.facts').innerText")
        check(f"{where}: the newest record and its date",
              re.match(r"Newest record: 2\.\d+\.\d+ (on NVIDIA .+|without a GPU), \d{4}-\d\d-\d\d\. ", facts), facts)
        check(f"{where}: a sentence leads to the newest upgrade", browser.get(
            "/^What 2[.0-9]+ to 2[.0-9]+ changes$/.test($('.facts a[href^=\"upgrade.html#compare/\"]').textContent)"))
        links = dict(browser.get("$$('.facts a').map(each => [each.textContent, each.getAttribute('href')])"))
        check(f"{where}: install, documents, source, a wrong answer", set(PROJECT) <= set(links), links)
        check(f"{where}: one search box", browser.get("$$('input[type=search]').length === 1"))
        text = browser.get("$('main').innerText.slice(0, 700)")
        for word in ("PyTorch", "CUDA graph", "H200", "release"):
            check(f"{where}: it says {word}", word in text)
        check.equal(f"{where}: twelve, each with its count",
                    browser.get("$$('.most li').map(each => +each.querySelector('.n').textContent > 0)"), [True] * 12)
        check(f"{where}: the most common first", browser.get(
            "(all => all.every((each, at) => !at || each <= all[at - 1]))($$('.most .n').map(each => +each.textContent))"))
    met = subprocess.run([ROOT / "tools/met", "--check"], check=False).returncode
    check.equal("first sight: the counts are those of the threads", met, 0)
    check_project(check, browser, folder)
    check_met(check, browser, folder)


def check_project(check, browser, folder):
    """Each kind of page leads to the project, or to what stands in for it where it has no public address."""
    for name in ("index.html", "operators.html", "met.html", "failures/item_in_capture.html",
                 "failures/out_of_memory.html", "upgrade.html"):
        browser.open(folder / name)
        links = dict(browser.get("$$('footer a').map(each => [each.textContent, each.href])"))
        check(f"project: {name} leads to it", set(PROJECT) <= set(links), links)
        for words in set(PROJECT) & set(links):
            if not links[words].startswith("https:"):
                browser.open(folder / name)
                browser.get(f"($$('footer a').find(each => each.textContent === '{words}').click(), 0)")
                check(f"project: {name}: {words}", browser.becomes_true(
                    "location.hash.length > 1 && $('h2' + location.hash) && $('h2' + location.hash).offsetParent"))


def check_met(check, browser, folder):
    """The counts by cause, how the threads were chosen, and what distorts them; no text of a thread."""
    counts = dict(line.split("\t") for line in (ROOT / "cases/met.tsv").read_text().splitlines() if line[0] != "#")
    browser.open(folder / "met.html")
    shown = dict(browser.get("$$('tbody tr').map(row => [row.querySelector('a').getAttribute('href').slice(9, -5), "
                             "row.cells[1].textContent])"))
    threads, known = counts.pop("all threads"), counts.pop("with a cause")
    check.equal("met: a row for each cause", shown, counts)
    text = browser.get("$('main').innerText")
    for words in (f"{threads} threads", f"{known} of them establish a cause", "searched for, by error texts",
                  "no sample of all users", "What distorts the counts", "Servers of language models"):
        check(f"met: '{words}'", words in text, text[:600])
    page = browser.get("document.body.textContent")
    quoted = [line for each in lzma.open(ROOT / "harness/tests/data/threads.jsonl.xz", "rt").read().splitlines()
              for line in json.loads(each)["text"].splitlines() if len(line) > 40 and line in page]
    check("met: no text of others", not quoted, quoted[:3])
    browser.open(folder / "index.html")
    browser.click("$('.most h2 a')")
    check("met: the first sight leads there", browser.becomes_true("location.pathname.endsWith('met.html')"))


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
    check_victim(check, browser)
    check_not_on_record(check, browser, folder)
    for text in ("DDP", "graph", "replay", "memory"):
        type_in(browser, text)
        words, feature = ([], text) if text == "DDP" else ([text], "")  # First what has the feature.
        ranked = browser.get(RANKED % (json.dumps(words), json.dumps(feature)))
        check(f"search: {text}: by how well it fits, how often it is met, how bad it is",
              len(ranked) > 3 and ranked == sorted(ranked), ranked[:6])


def check_victim(check, browser):
    for text in ("901", "RuntimeError: CUDA error: operation failed due to a previous error during capture"):
        type_in(browser, text)
        answer = browser.get("$('#answer').innerText")
        check(f"search: {text}: it is a victim, and blame names the call", "earlier call" in answer and
              "recapture blame" in answer, answer)
        check(f"search: {text}: no advice for another failure", "Instead:" not in answer, answer)


def check_not_on_record(check, browser, folder):
    """What is not on record gets an answer with all that is: that of the records themselves."""
    data = data_of(folder / "upgrade.html")
    words = lambda key: {data["texts"][column[key]] for column in data["columns"]}  # noqa: E731
    gpus = {gpu for gpu in words("gpu") if gpu != "no GPU"}
    drivers = {name.partition("driver ")[2].partition(",")[0] for name in words("machine") if "driver " in name}
    newest = browser.get("$('#release').options[1].value")
    for text, said in (("A100", gpus), ("RTX 4090", gpus), ("driver 550", drivers), ("nightly", {newest})):
        type_in(browser, text)
        answer = browser.get("$('#answer').innerText")
        check(f"search: {text}: it is not on record, and what is", said and all(each in answer for each in said) and
              re.search("not on record|No nightly build", answer), [answer, said])


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
                        [head for head in ORDER if head in heads or head not in OPTIONAL])
            check(f"{where}: it begins with the sentence that says it", browser.get(
                "$('h1 + .say').textContent.length > 30 && /[.:]$/.test($('.say').textContent)"))
            when = browser.get("$$('.ranges .when').map(each => each.textContent)")
            check(f"{where}: since when and until when", when and all(re.match(r"2\.\d", each) for each in when), when)
            check(f"{where}: its sources", browser.get(
                "[...$$('h2').find(each => each.textContent === 'Described in').nextElementSibling.children]"
                ".every(each => each.querySelector('a[href^=https]'))"))
            met = browser.get("$$('h2').find(each => each.textContent === 'How often it is met').nextElementSibling.innerText")
            check(f"{where}: how often", re.match(r"(None|\d+) of the \d+ threads with a known cause", met), met)
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
            check(f"{where}: a link to copy", browser.get("$('.copy').offsetParent !== null"))
            check(f"{where}: nothing scrolls sideways", browser.get("root.scrollWidth <= innerWidth"))
    check_every_failure(check, browser, folder)


# Of a page without a program: what it says, and whether the code with macros is folded.
NO_PYTHON = "[$('main').innerText.includes('no program in Python'), $$('summary')" \
            ".filter(each => each.textContent.includes('macros')).map(each => each.parentElement.open)]"


def check_every_failure(check, browser, folder):
    """What pages have where there is something to say: a cost, other failures with the text, code without Python."""
    pages = {path.stem: path.read_text() for path in (folder / "failures").iterdir()}
    alike = [name for name, text in pages.items() if "<h2>What else gives this text</h2>" in text]
    check("failures: some have others that give their text", len(alike) > 20, len(alike))
    check("failures: some have the cost of a fix", sum("Costs on " in text for text in pages.values()) > 20)
    invented = [name for name, text in pages.items()
                if re.search(r"<h2>The error</h2>\s*<pre[^>]*>[^<]*</pre>\s*<p class=\"note\">As documented", text)]
    check("failures: no description stands as the text of an error", not invented, invented[:5])
    with_python = {path.stem for path in (ROOT / "cases").glob("*/*.py")}
    beside = [name for name in with_python & set(pages) if "<h2>Python that fails</h2>" not in pages[name]]
    check("failures: each program stands on its page", len(with_python & set(pages)) > 90 and not beside, beside)
    lacking = sorted(name for name in set(pages) - with_python if "macros</summary>" in pages[name])
    for name in lacking[:2]:
        browser.open(folder / "failures" / f"{name}.html")
        check.equal(f"failures: {name}: the code with macros is folded", browser.get(NO_PYTHON), [True, [False]])



# Of each visible row: the case, the outcome and its note in each column, and what marks it.
ROWS_WITH_MARKS = """$$('[data-rows=failures] tr[data-text]').filter(row => !row.hidden).map(row => [row.dataset.id,
  [...row.dataset.words].map((letter, at) => [letter.charCodeAt(0) - 97, [...row.querySelectorAll('.ranges > li')]
    .find(item => at >= item.dataset.from && at <= item.dataset.to)?.querySelector('.part')?.textContent || '']),
  row.querySelector('.differs')?.innerText || ''])"""


def check_changes(check, browser, folder):
    """Two releases: each failure whose outcome or number of failing tests differs is marked and stands first."""
    for width, height in SIZES:
        browser.open(folder / "index.html", "", width, height)
        outcomes, columns = browser.get("(data => [data.outcomes, data.columns.map(each => each[0])])"
                                        "(JSON.parse($('#data').textContent))")
        known = set(range(outcomes.index("silently wrong") + 1))
        for question in ("2.6 to 2.11", "2.11 to 2.6", "2.9 to 2.13 DDP"):
            type_in(browser, question)
            names = browser.get(MEANT % json.dumps(question.split(" ")[0:3:2]))
            at = [columns.index(name) for name in names]
            where = f"changes at {width}: {question}"
            rows = browser.get(ROWS_WITH_MARKS)
            right = {case for case, contents, _ in rows if contents[at[0]] != contents[at[1]] and
                     {contents[place][0] for place in at} <= known}
            marked = [case for case, _, mark in rows if mark]
            check(f"{where}: some change and some do not", 0 < len(right) < len(rows), [len(right), len(rows)])
            check.equal(f"{where}: those that change are marked", set(marked), right)
            check.equal(f"{where}: and stand first", [case for case, *_ in rows][:len(marked)], marked)
            wrong = [[case, mark] for case, contents, mark in rows if mark and not re.match(
                r"changes\n%s: %s.*\n%s: %s" % tuple(part for place, name in zip(at, names)
                                                    for part in (re.escape(name), outcomes[contents[place][0]])), mark)]
            check(f"{where}: each says what it was and is, in the order of the question", not wrong, wrong[:3])
            heading = browser.get("$('#failures').textContent")
            check(f"{where}: how many", heading.startswith(f"{len(right)} of {len(rows)} failures change"), heading)
        type_in(browser, "stream")
        check(f"changes at {width}: another question has no marks", not browser.get("$$('.differs').length"))
