"""Reading the page: contrast in light and dark, names for a screen reader, narrow windows; and no text of a record is
more than text.
"""
import re
from urllib.parse import quote

# For all visible text: the number of texts, and those with too low a contrast to the background.
CONTRAST = r"""(() => {
  const parts = color => (color.match(/[\d.]+/g) || []).map(Number);
  const linear = value => value <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  const light = color => {
    const [red, green, blue] = parts(color).map(value => linear(value / 255));
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  };
  const behind = element => {
    for (; element; element = element.parentElement) {
      const color = getComputedStyle(element).backgroundColor;
      if (parts(color).length < 4 || parts(color)[3] > 0) return color;
    }
    return 'rgb(255, 255, 255)';
  };
  const low = new Set();
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  let seen = 0;
  for (let text; (text = texts.nextNode());) {
    const element = text.parentElement;
    if (!text.data.trim() || !element.getClientRects().length || element.closest('script')) continue;
    seen += 1;
    const [dark, bright] = [light(getComputedStyle(element).color), light(behind(element))].sort((x, y) => x - y);
    const contrast = (bright + 0.05) / (dark + 0.05);
    if (contrast < 4.5) low.add(text.data.slice(0, 40) + ': ' + contrast.toFixed(2));
  }
  return [seen, [...low]];
})()"""
NEED_NAMES = {"button", "link", "combobox", "searchbox", "textbox", "tab", "tabpanel", "tablist", "grid", "gridcell",
              "cell", "columnheader", "rowheader", "dialog", "DisclosureTriangle", "listbox"}
VIEWS = ("", "#compare?show=error+changed", "#compare/2.6.0/2.11.0?show=unknown", "#matrix", "#history",
         "#operators", "#operators?text=one_hot",
         "#history/item_in_capture.Reproduces", "#compare?case=pinned_background_thread_in_capture",
         "#matrix?case=item_in_capture")
NARROW_VIEWS = ("", "#matrix", "#history", "#operators", "#compare?case=pinned_background_thread_in_capture")
HOSTILE = '<img src=x onerror="window.hurt = 1">'  # As what is typed.
HOSTILE_VIEWS = ("", "#compare?show=error+changed", "#compare?show=unknown", "#compare?show=the+same", "#matrix",
                 "#history")


def check_reading(check, browser, page):
    get = browser.get
    backgrounds = set()
    for fragment in VIEWS:
        view = fragment or "first sight"
        for dark in (False, True):
            browser.open(page, fragment, dark=dark)
            seen, low = get(CONTRAST)
            check(f"{view}{', dark' if dark else ''}: contrast", seen > 20 and not low, low)
            backgrounds.add(get("getComputedStyle(root).backgroundColor"))
        nodes = [(role, name) for role, name in browser.accessible_nodes() if role in NEED_NAMES]
        nameless = [(role, name) for role, name in nodes if not re.search(r"\w", name)]
        check(f"{view}: everything has a name", len(nodes) > 12 and not nameless, nameless)
        check(f"{view}: every heading of a table has a scope", get("$$('th').every(th => th.scope)"))
    check.equal("light and dark", len(backgrounds), 2)
    browser.open(page)
    check.equal("no motion for those who want none", get("getComputedStyle($('.figure')).transitionDuration"), "0s")
    for width, height in ((420, 900), (1920, 1080)):
        for fragment in NARROW_VIEWS:
            browser.open(page, fragment, width, height)
            check(f"{fragment or 'first sight'} at {width} wide: nothing to scroll sideways",
                  get("root.scrollWidth <= innerWidth"))


def check_hostile(check, browser, page):
    get = browser.get
    detail = "$('#detail').innerText"
    for fragment in HOSTILE_VIEWS:
        browser.open(page, fragment)
        check.quiet(f"hostile {fragment}")
        if get("$('main .name') !== null"):
            get("$('main .name').click()")
            get("$$('details').forEach(details => { details.open = true; })")
            check(f"hostile {fragment}: shown as text", "<img src=" in get(detail), get(detail)[:300])
        check(f"hostile {fragment}: no text is HTML", get("$$('img').length === 0 && document.scripts.length === 2"))
        check(f"hostile {fragment}: links go to http and https",
              get("[...document.links].every(link => link.matches('.skip, .brand') || /^https?:$/.test(link.protocol))"))
        check(f"hostile {fragment}: nothing steers the writing", "\u202e" not in get("document.body.innerText"))
        browser.wait_until_drawn()
        check(f"hostile {fragment}: nothing ran", get("window.hurt === undefined"))
    check("hostile: the texts arrived", get("$('#data').textContent.includes('onerror')"))


def check_hostile_site(check, browser, folder):
    """Texts of records on the pages of failures, and what is typed: titles of threads are text like these."""
    get = browser.get
    pages = [path for path in sorted((folder / "failures").iterdir()) if "onerror" in path.read_text()]
    check("hostile site: pages have the texts", len(pages) > 5, len(pages))
    asked = quote(HOSTILE)
    for path, fragment in ((folder / "index.html", ""), (folder / "index.html", f"?q={asked}&release={asked}#{asked}"),
                           (folder / "operators.html", f"?q={asked}"), (folder / "gpus.html", ""), (pages[0], ""),
                           (folder / "upgrade.html", f"#compare/{asked}/{asked}?text={asked}")):
        where = f"hostile site: {path.name}{fragment[:12]}"
        browser.open(path, fragment)
        get("$$('details').forEach(details => { details.open = true; })")
        browser.wait_until_drawn()
        check.equal(f"{where}: no error and no request",
                    [each for each in browser.reports() if not each.startswith("request: file:")], [])
        check(f"{where}: no text is HTML", get("$$('img').length === 0 && document.scripts.length <= 2"))
        check(f"{where}: links go to http, https or the site",
              get("[...document.links].every(link => /^(https?|file):$/.test(link.protocol))"))
        check(f"{where}: nothing ran", get("window.hurt === undefined"))
        if fragment.startswith("?q="):
            check.equal(f"{where}: what is typed is text", get("$('#search').value"), HOSTILE)
    browser.open(pages[0])
    check("hostile site: it is shown as text", "<img src=" in get("$('main').textContent"))
