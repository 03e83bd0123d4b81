"""The site by the keyboard alone, and what a screen reader is told: order and names, landmarks, headings, contrast."""
import re

from selenium.webdriver import Keys

from .reading import CONTRAST, NEED_NAMES

SIZES = ((1280, 720), (390, 844))
PAGES = ("index.html", "index.html?q=loss.item()", "operators.html", "failures/item_in_capture.html",
         "failures/out_of_memory.html", "met.html", "gpus.html", "upgrade.html", "about.html")
# What has the focus: a name for it, whether it is in sight, and whether its outline shows.
FOCUS = """(each => {
  const box = each.getBoundingClientRect(), style = getComputedStyle(each);
  return [each.id || each.className || each.textContent.trim().slice(0, 30) || each.tagName,
          box.width > 0 && box.bottom > 0 && box.top < innerHeight && box.right > 0 && box.left < innerWidth,
          style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 2];
})(document.activeElement)"""
# The levels of visible headings, in order.
LEVELS = "$$('h1, h2, h3, h4').filter(each => each.getClientRects().length).map(each => +each.tagName[1])"
# Of what can be reached by Tab, in the document's order: whether the focus follows it.
FOLLOWS = """(all => all.length > 5 && all.every(each => each.tabIndex === 0))(
  $$('a[href], button, input, select, summary, [tabindex]').filter(each => each.tabIndex >= 0 && each.offsetParent))"""


def open_page(browser, folder, name, width=1280, height=720, dark=False):
    path, _, query = name.partition("?")
    browser.open(folder / path, "?" + query if query else "", width, height, dark)
    browser.wait_for("$('h1').textContent && (!$('#from') || $('#from').value)")


def pages_in(folder):
    """Those that the site has: about.html is only where the project has no public address."""
    return [name for name in PAGES if (folder / name.partition("?")[0]).exists()]


def check_keyboard(check, browser, folder):
    get = browser.get
    open_page(browser, folder, "index.html")
    order = []
    for _ in range(14):
        browser.press(Keys.TAB)
        order.append(get(FOCUS))
    check("keyboard: each stop is in sight, with an outline", all(each[1] and each[2] for each in order), order)
    names = [each[0] for each in order]
    check.equal("keyboard: the order", names[:8], ["skip", "brand", "Failures", "Operators", "Upgrade", "All results",
                                                   "History", "search"])
    check.equal("keyboard: then the four tasks", names[8:12], ["An error text", "An operator", "An upgrade", "Run it"])
    for name in pages_in(folder):
        open_page(browser, folder, name)
        check(f"keyboard: {name}: the focus follows the document", get(FOLLOWS))
        browser.press(Keys.TAB)
        check.equal(f"keyboard: {name}: the first stop leads to the content", get("document.activeElement.className"), "skip")
        browser.press(Keys.ENTER)
        browser.press(Keys.TAB)
        check(f"keyboard: {name}: and there the next stop is", get("$('main').contains(document.activeElement)"), get(FOCUS))

    open_page(browser, folder, "index.html")
    browser.press("/")
    check.equal("keyboard: / leads to the search", get("document.activeElement.id"), "search")
    browser.press("loss.item()")
    check("keyboard: what is typed is answered", browser.becomes_true("$('#answer .card .title a')"))
    check("keyboard: / in the search is a letter", not get("$('#search').value.startsWith('/')"))
    browser.press(Keys.TAB)
    check("keyboard: the next stop is the answer", get("$('#answer').contains(document.activeElement)"), get(FOCUS))
    browser.press(Keys.ENTER)
    check("keyboard: Enter opens its page", browser.becomes_true("location.pathname.includes('/failures/')"))
    browser.driver.back()
    check("keyboard: Back returns to the search", browser.becomes_true("$('#search').value === 'loss.item()'"))

    open_page(browser, folder, "failures/item_in_capture.html")
    get("$('summary').focus()")
    browser.press(Keys.ENTER)
    check("keyboard: Enter opens what is folded", get("$('details').open"))
    check("keyboard: code that is wider than the window can be reached", get(
        "$$('pre').filter(each => each.offsetParent && each.scrollWidth > each.clientWidth).every(each => each.tabIndex === 0)"))
    get("$('.copy').focus()")
    browser.press(Keys.ENTER)
    check("keyboard: the link is copied", browser.becomes_true("$('.copy').textContent === 'Copied' || $('.copy + input')"))


# The rows of a table are alike; the first of each body are enough.
FEW_ROWS = "($$('tbody tr:nth-child(n+5)').forEach(row => row.remove()), 0)"


def check_screen_reader(check, browser, folder):
    get = browser.get
    for name in pages_in(folder):
        open_page(browser, folder, name)
        get(FEW_ROWS)
        nodes = browser.accessible_nodes()
        roles = [role for role, _ in nodes]
        check.equal(f"screen reader: {name}: one main part, one banner, one heading above all",
                    [roles.count("main"), roles.count("banner"), get("$$('h1').length")], [1, 1, 1])
        check(f"screen reader: {name}: navigation has a name", all(label for role, label in nodes if role == "navigation"))
        if name != "upgrade.html":
            check(f"screen reader: {name}: the search is one", "search" in roles and
                  any(role in ("searchbox", "combobox") and label == "Search" for role, label in nodes))
        nameless = [(role, label) for role, label in nodes if role in NEED_NAMES - {"cell"} and not re.search(r"\w", label)]
        check(f"screen reader: {name}: everything has a name", not nameless, nameless[:5])
        levels = get(LEVELS)
        check(f"screen reader: {name}: no level of headings is left out",
              levels[:1] == [1] and all(after <= before + 1 for before, after in zip(levels, levels[1:])), levels)
        check(f"screen reader: {name}: the language and a title", get("root.lang === 'en' && document.title.length > 9"))
        for width, height in SIZES:
            for dark in (False, True):
                open_page(browser, folder, name, width, height, dark)
                get(FEW_ROWS)
                seen, low = get(CONTRAST)
                check(f"screen reader: {name} at {width}{', dark' if dark else ''}: contrast", seen > 20 and not low, low)
    open_page(browser, folder, "index.html")
    live = get("['#answer', '#count'].map(css => $(css).getAttribute('aria-live') || $(css).getAttribute('role'))")
    check.equal("screen reader: the answer and the count are announced", live, ["polite", "status"])
