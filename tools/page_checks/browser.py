"""One Chromium with one page, by Selenium; and the errors that the page reported."""
import json
from pathlib import Path

from selenium.common.exceptions import TimeoutException
from selenium.webdriver import ActionChains, Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.support.ui import Select, WebDriverWait

PATIENCE = 600  # Seconds, for waits that usually take a fraction of one: the machine may be busy.
FLAGS = [
    "--headless=new", "--disable-gpu",
    "--no-sandbox", "--disable-dev-shm-usage",  # For root in a container, whose /dev/shm may be small.
    "--disable-ipc-flooding-protection",  # check_headlines visits hundreds of fragments in a second.
]
QUERIES = ("const root = document.documentElement, $ = css => document.querySelector(css), "
           "$$ = css => [...document.querySelectorAll(css)];")
DRAWN = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done())))"


class Browser:
    def __init__(self, profile):
        options = ChromeOptions()
        options.binary_location = "/usr/bin/chromium"
        for flag in (*FLAGS, f"--user-data-dir={profile}"):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        options.unhandled_prompt_behavior = "dismiss"  # reports() lists it.
        options.ignore_local_proxy_environment_variables()  # The driver is on this machine.
        # With a path, Selenium does not download a driver.
        self.driver = Chrome(service=Service("/usr/bin/chromedriver"), options=options)
        self.driver.set_script_timeout(PATIENCE)
        self.driver.set_page_load_timeout(PATIENCE)
        self.url = ""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.driver.quit()

    def command(self, method, **parameters):
        """A command of the DevTools protocol, where WebDriver has none."""
        return self.driver.execute_cdp_cmd(method, parameters)

    def open(self, path, fragment="", width=1280, height=720, dark=False):
        self.command("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1,
                     mobile=False)
        self.command("Emulation.setEmulatedMedia", features=[
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"},
            {"name": "prefers-reduced-motion", "value": "reduce"}])
        self.driver.get("about:blank")  # Changing only the fragment would not reload the page.
        self.reports()
        self.url = Path(path).resolve().as_uri()
        self.driver.get(self.url + fragment)
        self.wait_until_drawn()

    def reports(self):
        """Errors since the last call: messages on the console, errors, requests, dialogs."""
        found = [f"{entry['level']}: {entry['message']}" for entry in self.driver.get_log("browser")]
        for entry in self.driver.get_log("performance"):
            event = json.loads(entry["message"])["message"]
            parameters = event["params"]
            if event["method"] == "Network.requestWillBeSent" and parameters["request"]["url"] != self.url:
                found.append(f"request: {parameters['request']['url']}")
            elif event["method"] == "Page.javascriptDialogOpening":
                found.append(f"dialog: {parameters['message']}")
        return found

    def get(self, expression):
        """The value of a JavaScript expression, of a promise its result. In it $ and $$ select by CSS, and root is the
        document's element.
        """
        return self.driver.execute_script(f"{QUERIES} return (\n{expression}\n);")

    def becomes_true(self, expression):
        """Waits for a JavaScript expression; False if it stays false."""
        try:
            return WebDriverWait(self.driver, PATIENCE, 0.05).until(lambda _: self.get(f"Boolean({expression})"))
        except TimeoutException:
            return False

    def wait_for(self, expression):
        """Waits for a JavaScript expression. Raises an exception if it stays false."""
        if not self.becomes_true(expression):
            raise TimeoutException(f"in {PATIENCE} s it did not come: {expression}")

    def wait_until_drawn(self):
        self.get(DRAWN)

    def press(self, keys):
        """Sends keys or a text to the focused element."""
        ActionChains(self.driver).send_keys(keys).perform()
        self.wait_until_drawn()

    def choose(self, css, text):
        """Selects an option of a list."""
        Select(self.get(f"$('{css}')")).select_by_visible_text(text)
        self.wait_until_drawn()

    def click(self, element):
        """Clicks in the middle of the element that a JavaScript expression returns."""
        self.get(f"{element}.scrollIntoView({{block: 'center', inline: 'center'}})")
        self.get(element).click()
        self.wait_until_drawn()

    def accessible_nodes(self):
        """Role and name of each node in the accessibility tree."""
        return [(node["role"]["value"], node.get("name", {}).get("value", ""))
                for node in self.command("Accessibility.getFullAXTree")["nodes"] if not node["ignored"]]

    def processor_seconds(self):
        """What the page has computed since its process began, in time of a processor: others may need those too."""
        self.command("Performance.enable", timeDomain="threadTicks")
        metrics = self.command("Performance.getMetrics")["metrics"]
        return next(metric["value"] for metric in metrics if metric["name"] == "TaskDuration")

    def save_picture(self, path):
        self.driver.save_screenshot(str(path))
