"""The tab Compare: figures, headline, filters, links, and that they agree with `recapture compare`."""
import itertools
import json
import re
from urllib.parse import quote

from selenium.webdriver import Keys

from .records import catalogue, compare, json_of

PAIR = "#compare/2.6.0/2.15.0"  # It has every kind of change; the initial pair, the newest two, may have none.
DANGEROUS = ["new damage", "new errors", "broken handlers", "stopped holding", "no longer captured"]
ANSWER = "$('#answer').innerText"
SIDES = "['#from', '#to'].map(id => $(id).value)"
FIGURES = "Object.fromEntries($$('.figure').map(f => [f.dataset.word, +f.dataset.tests]))"  # Tests.
PRESSED = "$$('.figure[aria-pressed=true]').map(f => f.dataset.word)"
SHOWN_WORDS = "[...new Set($$('#changes .change:not(.price) .tag').map(tag => tag.textContent))]"
PRICES_LAST = ("(rows => rows.findIndex(row => row.matches('.price')) === rows.length - $$('#changes .price').length)"
               "([...$('#changes').children])")
# The headline, every figure and the first change.
IN_SIGHT = ("[$('#answer'), ...$$('.figure'), $('.change')]"
            ".every(e => e && e.getBoundingClientRect().bottom <= innerHeight) && root.scrollWidth <= innerWidth")
# Visible rows of the matrix with a case.
ROWS = "$$('.grid tbody tr').filter(row => row.offsetParent && row.querySelector('td') && !row.matches('.of-test'))"


def figures(browser):
    return {word: count for word, count in browser.get(FIGURES).items() if count}


def shown(browser):
    """The page's texts for the values of records.compare()."""
    status = re.search(r"ends with exit status (\d+)", browser.get(ANSWER))
    return figures(browser), browser.get("$('#machine').value"), int(status[1]) if status else None


def check_agrees(check, browser, sides=None):
    sides = sides or browser.get(SIDES)
    seen, right = shown(browser), compare(*sides)
    check.equal(f"compare: figures and machine of {sides}", seen, right)


def check_compare(check, browser, page):
    check_first_sight(check, browser, page)
    check_headline(check, browser, page)
    browser.open(page, PAIR)
    check_figures(check, browser)
    check_text(check, browser)
    check_machines(check, browser, page)
    check_sides(check, browser, page)

# The newest pair that `compare` takes by itself, without a regression and with another change.
HARMLESS_PAIR = """(() => {
  const data = JSON.parse($('#data').textContent), text = number => data.texts[number];
  const isHurting = n => data.consequences[n][2], isOther = n => n !== data.same && n !== data.unknown;
  return data.compared.flatMap(machine => machine.pairs.flatMap((row, from) => row.flatMap((pair, to) =>
    pair?.taken && from < to && pair.counts.every((count, n) => !count || !isHurting(n)) &&
    pair.counts.some((count, n) => count && isOther(n)) ?
    [[text(machine.releases[from]), text(machine.releases[to])]] : []))).pop();
})()"""


def check_first_sight(check, browser, page):
    get = browser.get
    browser.open(page)
    check.quiet("compare")
    check("compare: the answer is in sight at first", get(IN_SIGHT))
    check.equal("compare: the tab that is open", get("$('[aria-selected=true]').textContent"), "Upgrade")
    check_agrees(check, browser)
    browser.open(page, PAIR)
    check("compare: the answer is in sight beneath much that is dangerous", get(IN_SIGHT))
    check_agrees(check, browser)
    wide = get("$$('.figure').filter(each => each.scrollWidth > each.clientWidth).map(each => each.innerText)")
    check("compare: no figure is wider than its box", not wide, wide)
    dangerous = [word for word in DANGEROUS if figures(browser).get(word)]
    check.equal("compare: the dangerous ones in words", get(SHOWN_WORDS), dangerous)
    unmarked = get("$$('#changes .change').filter(row => !row.querySelector('.tag').offsetParent || "
                   "getComputedStyle(row.querySelector('.tag')).visibility !== 'visible' || "
                   "getComputedStyle(row).boxShadow === 'none').map(row => row.innerText.slice(0, 80))")
    check("compare: each row is marked with what it changes", not unmarked, unmarked)
    check("compare: prices that changed come last", get("$$('#changes .price').length > 0") and get(PRICES_LAST))
    counts = get(f"$$('.figure').slice(0, {len(DANGEROUS)})"
                 ".map(f => +f.firstChild.textContent).filter(Boolean)")  # Changes.
    parts = re.split(", ", get("$('#answer b').innerText"))
    check.equal("compare: the headline counts the dangerous ones", [int(part.split()[0]) for part in parts], counts)
    shown = get("$$('.figure.shown').map(f => f.dataset.word)")
    check.equal("compare: the figures of what is listed are marked", shown, dangerous)
    meanings = get("$$('.figure').map(f => `${f.dataset.word}: ${f.title}`)")
    check.equal("compare: the legend has the meaning of each figure",
                get("$$('#legend > span').map(e => e.textContent)"), meanings)
    damage = "new damage: worked before; now silently wrong, leaks, hangs or crashes"
    check("compare: meanings", len(meanings) >= 12 and damage in meanings, meanings)
    changes = get("$('#changes').innerText")
    check("compare: words name both sides", all(side in changes for side in get(SIDES)))


def check_headline(check, browser, page):
    """Without a regression, the worst change is open, and the headline begins with that."""
    get = browser.get
    browser.open(page)
    older, newer = get(HARMLESS_PAIR)
    browser.open(page, f"#compare/{older}/{newer}")
    words = [word for word in figures(browser) if word not in ("the same", "unknown")]
    check.equal(f"headline: {older} to {newer} opens on the worst", get(SHOWN_WORDS), words[:1])
    headline = "$('#answer b').innerText"
    first = get("$$('.figure').find(each => !each.matches('.none')).firstChild.textContent")
    check("headline: it begins with what changed", re.match(rf"{first} [a-z]+", get(headline)), get(headline))
    check.equal("headline: the tone is that of the gate's answer", get("$('#answer').className"),
                {0: "green", 1: "red", 6: "amber"}[json_of("gate", "--json", older, newer)["exit"]])
    get("$('#compare-text').focus()")
    browser.press("raw CUDA")
    check("headline: a filter changes it", get(headline).startswith("In this filter: "), get(headline))


def check_figures(check, browser):
    """Each figure is a filter, by the mouse and by the keyboard."""
    get = browser.get
    for word in figures(browser):
        figure = f"$('.figure[data-word=\"{word}\"]')"
        browser.click(figure)
        check.equal(f"compare: pressed: {word}", get(PRESSED), [word])
        if word in ("the same", "unknown"):
            check(f"compare: shown: {word}", get("$$('#changes .why').length") > 0)
        else:
            check.equal(f"compare: shown: {word}", get(SHOWN_WORDS), [word])
    browser.click(figure)
    check.equal("compare: a figure is pressed off", get(PRESSED), [])

    get("$('.figure[data-word=\"healed\"]').focus()")
    browser.press(Keys.ENTER)
    check.equal("compare: a figure keeps the focus", get("document.activeElement.dataset.word"), "healed")
    browser.press(Keys.ENTER)


def check_text(check, browser):
    get = browser.get
    all_figures = figures(browser)
    get("$('#compare-text').focus()")
    browser.press("offset")  # Not a tag.
    rows = get("$$('.change').map(row => row.innerText)")
    cases = [case["id"] for case in catalogue() if "offset" in json.dumps(case).lower()]
    check("compare: what mentions a word",
          rows and all("offset" in row.lower() or any(case in row for case in cases) for row in rows), rows)
    check("compare: figures of what mentions a word", sum(figures(browser).values()) < sum(all_figures.values()))
    check("compare: the text is in the fragment", "text=offset" in get("location.hash"))
    get("$('#compare-text').select()")
    browser.press("no such word anywhere")
    check.equal("compare: nothing mentions it", get("$$('.change').length"), 0)
    check("compare: the damage outside the filter is shown",
          re.match(r"outside this filter: \d+ new damage \(", get("$('#outside').innerText")))


def check_machines(check, browser, page):
    """Without a choice the page shows the machine that the program uses."""
    get = browser.get
    machines = {}
    for machine in get("[...$('#machine').options].map(option => option.value).filter(name => name !== 'no GPU')"):
        browser.choose("#machine", machine)
        for release in get("[...$('#from').options].map(option => option.value)"):
            machines.setdefault(release, []).append(machine)
    of_several = sorted(release for release, names in machines.items() if len(names) > 1)
    check("compare: releases of several machines", len(of_several) >= 3, of_several)
    for sides in itertools.combinations(of_several, 2):
        browser.open(page, "#compare/" + "/".join(sides))
        check_agrees(check, browser, sides)


def check_sides(check, browser, page):
    get = browser.get
    browser.open(page)
    first = get(SIDES)
    browser.open(page, PAIR)
    before = get(SIDES)
    get("$('#to').focus()")
    browser.press(Keys.ARROW_DOWN)
    other = get(SIDES)
    check("compare: another pair", other != before and other[0] != other[1], other)
    check_agrees(check, browser)
    browser.click("$('#swap')")
    check.equal("compare: swapped", get(SIDES), other[::-1])
    check_agrees(check, browser)
    fragment = get("location.hash")
    browser.choose("#from", get("$('#to').value"))
    check.equal("compare: a side that is chosen as the other changes places with it", get(SIDES), other)
    browser.open(page, fragment)
    check.equal("compare: a link is that view", get(SIDES), other[::-1])
    browser.open(page, "#compare?show=what&case=none")
    check.equal("compare: a link to no figure and no case is the first sight", get(SIDES), first)
    for name in ("toString", "constructor"):  # Properties of every object.
        browser.open(page, "#" + name)
        check.equal(f"compare: a link to {name} is the first sight", get(SIDES), first)
    check.quiet("compare, a link to nothing")


def check_tags(check, browser, page):
    get = browser.get
    gate = "$('#gate').innerText"
    for text, tags in (("DDP", {"DDP"}), ("distributed_data-parallel", {"DDP"}), ("ddp, rng", {"DDP", "generators"})):
        scope = sorted(case["id"] for case in catalogue() if {"any program", *tags} & set(case["tags"]))
        browser.open(page, f"#matrix?text={text}")
        browser.wait_for(f"{ROWS}.length >= {len(scope)}")  # Rows out of sight are drawn frame by frame.
        check.equal(f"tags: the matrix of {text}",
                    sorted(get(f"{ROWS}.map(row => row.querySelector('.name').textContent)")), scope)
        browser.open(page, f"{PAIR}?text={text}")
        names = set(get("$$('#changes .name').map(e => e.textContent)"))
        check(f"tags: changes of {text}", names and names <= set(scope), names - set(scope))
        outside = set(get("$$('#outside .name').map(e => e.textContent)"))
        check(f"tags: the damage outside of {text}", outside and not outside & set(scope), outside)
        check(f"tags: the gate of {text}",
              re.search(r"recapture gate 2\.6\.0 2\.15\.0 .*--policy", get(gate))
              and f"scope = {json.dumps(sorted(tags))}" in get(gate), get(gate))
        check(f"tags: an answer for {text}, if it is one feature", get(gate).startswith("The gate of this filter")
              == (len(tags) > 1), get(gate))
    browser.open(page, f"{PAIR}?text=DDP, item_in_capture")
    check.equal("tags: a gate has no scope for what is no tag", get(gate), "")
    offered = set(get("[...$('#tags').options].map(option => option.value)"))
    check("tags: they are offered", offered >= {"DDP", "generators", "any program"}, offered)
    check.quiet("tags")


# For each machine's pairs of releases in the page's data: machine, releases, and the exit status of compare.
ALL_PAIRS = """(() => {
  const data = JSON.parse($('#data').textContent), text = number => data.texts[number];
  return data.compared.filter(machine => machine.releases.length > 1).flatMap(machine =>
    machine.pairs.flatMap((row, from) => row.flatMap((pair, to) => pair ?
      [[text(machine.name), text(machine.releases[from]), text(machine.releases[to]), pair.exit]] : [])));
})()"""
# All releases, and the machines each with its own.
MACHINES = """(() => {
  const data = JSON.parse($('#data').textContent), text = number => data.texts[number];
  return [data.releases.map(text), data.compared.map(one => [text(one.name), one.releases.map(text)])];
})()"""
# The page's headline for each of these pairs, with each of these texts as filter.
HEADLINES = """((pairs, texts) => pairs.map(([machine, from, to, exit]) => texts.map(text => {
  history.replaceState(null, '', '#compare/' + [from, to, machine].map(encodeURIComponent).join('/') +
    (text ? '?text=' + encodeURIComponent(text) : ''));
  dispatchEvent(new Event('hashchange'));
  return [[from, to, machine, text], exit, $('#answer').className, $('#gate').innerText, $('#answer').innerText,
    $('#outside').innerText,
    $$('.figure').slice(0, 4).map(f => +f.firstChild.textContent), $$('#changes > *').length];
})).flat())(%s, ['', 'DDP', 'no such word'])"""


def check_headlines(check, browser, page):
    """For all pairs, without a filter and with two typical ones: never green over damage."""
    browser.open(page)
    pairs = browser.get(ALL_PAIRS)
    check("headlines: of many pairs", len(pairs) > 300, len(pairs))
    views = browser.get(HEADLINES % json.dumps(pairs))
    statuses = {status for _, status, *_ in views}
    check("headlines: some hurt and some do not", statuses >= {1, 5}, statuses)
    wrong, differ = [], []
    for where, status, colour, gate, answer, outside, damage, rows in views:
        if where[-1] in ("", "DDP"):  # Others have no answer.
            says = {"red": "is blocked", "amber": "cannot tell", "green": "passes"}[colour]
            right = gate.startswith(f"The gate {says}") and (colour == "red" or not any(damage))
        else:
            right = not gate and colour != "green" and (status != 1 or outside.startswith("outside this filter: "))
        counts = re.findall(r"\d+ of \d+ tests judged", f"{answer} {gate}")
        if len(counts) != (where[-1] in ("", "DDP")) or (gate and "not measured" not in answer):
            differ.append([where, answer, gate])
        if not right or not rows:
            wrong.append([where, status, colour, gate, outside, damage, rows])
    check("headlines: there is one count of tests, the gate's where it has an answer", not differ, differ[:3])
    check(f"headlines: of {len(views)} none is green over damage", not wrong, wrong[:3])
    check.quiet("headlines")


def check_links(check, browser, page):
    get = browser.get
    browser.open(page)
    releases, machines = get(MACHINES)
    newest = {line: [each for each in releases if each.startswith(line + ".")][-1]
              for line in ("2.1", "2.6", "2.11", "2.15")}
    machine, ran, lacking = next((name, its[0], each) for name, its in machines for each in releases
                                 if len(its) > 1 and each not in its and each[0].isdigit())
    for link, sides in (("2.6/2.11", [newest["2.6"], newest["2.11"]]), ("2.1/2.15", [newest["2.1"], newest["2.15"]]),
                        ("2.6.0+cu124/2.15", ["2.6.0", newest["2.15"]])):
        browser.open(page, "#compare/" + link)
        check.equal(f"links: {link}", get(SIDES), sides)
        check(f"links: {link} is the pair of its words", f"recapture compare {' '.join(sides)}" in get(ANSWER),
              get(ANSWER))
    for link, words in (
            ("9.9/2.11", "There are no records of 9.9, but of " +
             ", ".join([each for each in releases if each[0].isdigit()][:-3:-1]) + ","),
            ("2.6/2.6.0", "2.6.0 is both sides"),
            ("2.6/2.11/NVIDIA%20X1", "No machine that ran two releases is called NVIDIA X1; there are: "),
            ("2.6/cuda12", "No machine ran both 2.6.0 and cuda12; 2.6.0 ran on NVIDIA "),
            (f"{lacking}/{ran}/{quote(machine)}", f"{machine} did not run {lacking}, but "),
            ("%E0%A4%A/2.11", "There are no records of %E0%A4%A, but of")):
        browser.open(page, "#compare/" + link)
        check(f"links: {link} names what is absent", words in get(ANSWER) and not get("$$('.figure, .change').length"),
              get(ANSWER))
    browser.open(page, "#compare/9.9/2.11")  # The selection is still there.
    browser.choose("#from", "2.6.0")
    check("links: a choice after a link to nothing",
          get(SIDES) == ["2.6.0", newest["2.11"]] and get("$$('.figure').length") >= 12, get(SIDES))
    check.quiet("links")
