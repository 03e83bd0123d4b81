"""The page of 15 releases × 200 cases × 4 GPUs is fast, and each of its cells is in the accessibility tree."""
from .records import CASES, GPUS, RELEASES

CELLS = CASES * len(RELEASES) * len(GPUS)
ALL_CELLS = f"$$('tr:not([hidden]) td.cell').length >= {CELLS}"  # Cells out of sight are drawn after the first frame.
# Until a frame is drawn, and deferred work is done.
FRAME = """new Promise(done => requestAnimationFrame(() => {
  const after = new MessageChannel();
  after.port1.onmessage = () => done();
  after.port2.postMessage(0);
}))"""


def enter(field, event, *values):
    return [f"const e = $('#{field}'); e.value = '{value}'; e.dispatchEvent(new Event('{event}'))" for value in values]


def click(css, *numbers):
    return [f"$$('{css}')[{number}].click()" for number in numbers]


CHANGES = (
    ("text of a comparison", "#compare", enter("compare-text", "input", "generator", "pool", "")),
    ("a figure", "#compare", click(".figure", 4, 10, 11)),
    ("another pair", "#compare", enter("from", "change", "2.6.0", "2.1.2", "2.9.1")),
    ("text of the matrix", "#matrix", enter("matrix-text", "input", "generator", "pool", "")),
    ("a verdict", "#matrix", click(".chip", 2, 3, 3)))


def milliseconds(browser, change):
    """What the page computes until the frame is drawn that a change leads to."""
    before = browser.processor_seconds()
    browser.get(f"(() => {{ {change}; return {FRAME}; }})()")
    return 1000 * (browser.processor_seconds() - before)


def milliseconds_to_open(browser, page, fragment):
    """What the browser computes until the page is drawn."""
    browser.driver.get("about:blank")
    before = browser.processor_seconds()
    browser.open(page, fragment)
    after = browser.processor_seconds()
    return 1000 * (after - before if after > before else after)  # Another process begins at 0.


def check_times(check, browser, made):
    (page, seconds), slack = made, check.slack
    size = page.stat().st_size
    print(f"page: {len(RELEASES)} releases × {CASES} cases × {len(GPUS)} GPUs: {size / 1e6:.1f} MB, made in "
          f"{seconds:.1f} s of a processor")
    check("big: below 5 MB", size < 5e6, size)
    check(f"big: made in less than {30 * slack} s", seconds < 30 * slack, seconds)
    for fragment in ("", "#matrix", "#history"):
        times = [milliseconds_to_open(browser, page, fragment) for _ in range(3)]
        print(f"page: usable after {min(times):.0f} ms of a processor: {fragment or 'first sight'}")
        check(f"big {fragment}: usable within {slack} s", 0 < min(times) < 1000 * slack, times)
        check.quiet("big " + fragment)
    browser.open(page, "#matrix")
    browser.wait_for(ALL_CELLS)
    nodes = browser.accessible_nodes()
    for role, fewest in (("gridcell", CELLS), ("rowheader", CASES), ("columnheader", len(RELEASES) * len(GPUS))):
        names = [name for node_role, name in nodes if node_role == role]
        check(f"big: each {role} can be read", len(names) >= fewest and all(names), len(names))
    for name, fragment, changes in CHANGES:
        browser.open(page, fragment)
        if fragment == "#matrix":
            browser.wait_for(ALL_CELLS)
        times = [milliseconds(browser, change) for change in changes]
        print(f"page: {name}: {', '.join(f'{time:.0f}' for time in times)} ms")
        check(f"big: {name} within {slack / 10} s", 0 < max(times) < 100 * slack, times)
