"""A real Chromium, driven as a user drives it."""

from __future__ import annotations

import importlib.resources
import pathlib
import shutil
import tempfile
from types import TracebackType
from typing import Any

from selenium import webdriver
from selenium.common.exceptions import NoSuchElementException, StaleElementReferenceException
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import Select, WebDriverWait

#: Seconds that a page may take: the first one of each kind is compiled.
PATIENCE = 120


class Browser:
    """One browser with a profile of its own; a second one is another user.

    :param url: of Horizon
    :param screenshots: the folder for `shot`
    """

    def __init__(self, url: str, screenshots: pathlib.Path, javascript: bool = True) -> None:
        self.url = url
        self.screenshots = screenshots
        self._profile = tempfile.mkdtemp(prefix="browser-")
        options = webdriver.ChromeOptions()
        options.binary_location = shutil.which("chromium") or "/usr/bin/chromium"
        for flag in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
            options.add_argument(flag)
        options.add_argument(f"--user-data-dir={self._profile}")
        options.add_argument("--window-size=1400,1000")
        if not javascript:
            options.add_experimental_option("prefs", {"profile.managed_default_content_settings.javascript": 2})
        service = webdriver.ChromeService(shutil.which("chromedriver") or "/usr/bin/chromedriver")
        self.driver = webdriver.Chrome(options=options, service=service)
        self.driver.set_page_load_timeout(PATIENCE)

    def __enter__(self) -> Browser:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self.shot("failed")
        self.close()

    def close(self) -> None:
        """End it."""
        self.driver.quit()
        shutil.rmtree(self._profile, ignore_errors=True)

    def login(self, user: str, password: str, domain: str = "Default") -> None:
        """Log in."""
        self.open("/auth/login/")
        for field, value in (("id_domain", domain), ("id_username", user), ("id_password", password)):
            self.type(field, value)
        self.driver.find_element(By.ID, "loginBtn").click()
        self.until(lambda: "/auth/login" not in self.driver.current_url, "the login")

    def open(self, path: str) -> None:
        """Open a page of Horizon."""
        self.driver.get(self.url + path)

    def all(self, css: str) -> list[WebElement]:
        """Return the elements of the page that match."""
        return self.driver.find_elements(By.CSS_SELECTOR, css)

    def has(self, css: str) -> bool:
        """Return whether an element of the page matches."""
        return bool(self.all(css))

    def get(self, css: str, patience: float = PATIENCE) -> WebElement:
        """Wait for the first element that matches, and return it."""
        return self.until(lambda: next(iter(self.all(css)), None), css, patience)

    def text(self, css: str = "body") -> str:
        """Return the visible text of an element."""
        while True:
            try:
                return self.get(css).text
            except StaleElementReferenceException:  # the page was refreshed
                continue

    def click(self, css: str) -> None:
        """Click on an element, as a user does after scrolling to it."""
        element = self.get(css)
        self.driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", element)
        element.click()

    def submit(self, css: str) -> None:
        """Click on a button, and wait for the page after it."""
        before = self.driver.find_element(By.TAG_NAME, "html")
        self.click(css)

        def gone() -> bool:
            try:
                before.is_enabled()
            except (StaleElementReferenceException, NoSuchElementException):
                return True
            return False

        self.until(gone, f"the page after {css}")
        self.until(
            lambda: self.driver.execute_script("return document.readyState") == "complete", f"the page after {css}"
        )

    def type(self, element_id: str, text: str) -> None:
        """Replace the text of a field."""
        field = self.get(f"[id='{element_id}']")
        field.clear()
        field.send_keys(text)

    def choose(self, element_id: str, value: str) -> None:
        """Choose from a list."""
        Select(self.get(f"[id='{element_id}']")).select_by_value(value)

    def until(self, condition: Any, what: str, patience: float = PATIENCE) -> Any:
        """Wait until the condition holds, and return what it returned."""
        return WebDriverWait(self.driver, patience, 0.2).until(lambda driver: condition(), f"no {what}: {self.where()}")

    def sideways(self) -> int:
        """Return by how many pixels the page is wider than the window."""
        root = "document.documentElement"
        return int(self.driver.execute_script(f"return {root}.scrollWidth - {root}.clientWidth"))

    def where(self) -> str:
        """Return the page that is shown, for a message."""
        return f"{self.driver.title} ({self.driver.current_url})"

    def shot(self, name: str, css: str = "") -> pathlib.Path:
        """Save what the whole page looks like; return the file."""
        self.screenshots.mkdir(parents=True, exist_ok=True)
        file = self.screenshots / f"{name}.png"
        height = int(self.driver.execute_script("return document.documentElement.scrollHeight"))
        self.driver.set_window_size(1400, min(4000, max(700, height + 150)))
        self.driver.save_screenshot(str(file))
        self.driver.set_window_size(1400, 1000)
        return file

    def inaccessible(self, css: str = ".pc-page") -> list[str]:
        """Return what axe-core finds within an element of the page: each rule with the places that violate it.

        The rest of the page is the frame of Horizon, which this package does not make.
        """
        axe = importlib.resources.files("axe_core_python").joinpath("axe.min.js").read_text()
        self.driver.execute_script("document.querySelectorAll('details').forEach(each => { each.open = true; });")
        self.driver.execute_script(axe)
        found = self.driver.execute_async_script(
            "const done = arguments[1];"
            "axe.run({include: [[arguments[0]]]}, {resultTypes: ['violations']}).then(done, e => done(String(e)));",
            css,
        )
        assert isinstance(found, dict), found
        return [
            f"{rule['id']}: {node['target']} {node['failureSummary']}"
            for rule in found["violations"]
            for node in rule["nodes"]
        ]

    def console(self) -> list[str]:
        """Return the errors of the page's scripts."""
        return [entry["message"] for entry in self.driver.get_log("browser") if entry["level"] == "SEVERE"]
