"""A real browser at a real server with the bundled model: Debian's Chromium, driven by
Playwright (`make test-page`).
"""

import os
import re
import shutil
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

sync_api = pytest.importorskip("playwright.sync_api")
pytestmark = pytest.mark.page

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
SHOTS = os.environ.get("UNMASK_SHOTS")
"""A folder that screenshots are written to, where it is given."""


@pytest.fixture(scope="session")
def address():
    """Where the page is; the server is a process of its own."""
    with serving() as url:
        yield url


@pytest.fixture(scope="session")
def protein_folder(tmp_path_factory):
    """A tiny model of amino acids."""
    from tokenizers.pre_tokenizers import WhitespaceSplit

    from support.small_models import save_bert

    folder = tmp_path_factory.mktemp("protein")
    return save_bert(
        folder,
        "ACDEFGHIKLMNPQRSTVWY",
        WhitespaceSplit(),
        positions=128,
        seed=5,
        spread=0.5,
        model_max_length=128,
    )


@pytest.fixture(scope="session")
def protein_address(protein_folder):
    """Where the page of the tiny protein model is."""
    with serving("--model", str(protein_folder)) as url:
        yield url


@contextmanager
def serving(*options):
    """The address of a server that ends with the block."""
    command = [sys.executable, "-m", "unmask", "serve", "--port", "0", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        match = re.search(r"http://\S+/", server.stdout.readline())
        assert match, "the server did not say where it is"
        try:
            yield match[0]
        finally:  # also where the test failed: the block waits for the server
            server.terminate()
            server.wait(300)


@pytest.fixture(scope="session")
def browser():
    """One browser for all tests."""
    where = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    if where is None:
        pytest.skip("no Chromium here: apt-get install chromium")
    with sync_api.sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=where, args=["--no-sandbox"])
        yield running
        running.close()


class Page:
    """A tab that keeps what its console said, and what it asked of other servers."""

    def __init__(self, browser, address: str, **options) -> None:
        self.context = browser.new_context(viewport={"width": 1280, "height": 900}, **options)
        self.context.set_default_timeout(180_000)
        self.tab = self.context.new_page()
        self.address, self.console, self.outside = address, [], []
        self.tab.on("console", lambda message: self.console.append(message.text))
        self.tab.on("pageerror", lambda error: self.console.append(str(error)))
        self.tab.on(
            "request",
            lambda request: request.url.startswith(address) or self.outside.append(request.url),
        )

    def open(self, hash: str = "") -> None:
        """Open a view as from a link that was shared."""
        self.tab.goto("about:blank")
        self.tab.goto(self.address + hash)

    def until(self, expression: str, argument: object = None, seconds: float = 180) -> None:
        """Wait until a JavaScript expression is true; the page's own policy forbids
        Playwright's way to wait.
        """
        end = time.monotonic() + seconds
        while not self.tab.evaluate(expression, argument):
            assert time.monotonic() < end, f"{expression} did not come true"
            self.tab.wait_for_timeout(50)

    def settled(self, ready: str = "svg.heat") -> None:
        """The answer is there, and nothing more is under way."""
        self.tab.wait_for_selector(ready)
        self.until("document.querySelector('.status .said').textContent === ''")

    def stopped(self) -> None:
        """Stop has been pressed, and what there was of the answer is shown."""
        self.until("document.querySelector('.status .said').textContent === 'Stopped.'")

    def saved(self, card: str, kind: str) -> tuple[str, bytes]:
        """The name and the content of a file of a card."""
        box = self.tab.locator("section.card").filter(has=self.tab.locator(f"h2:text-is('{card}')"))
        box.locator("summary").click()
        with self.tab.expect_download() as wait:
            box.locator("details.take").get_by_role("button", name=kind, exact=True).click()
        return wait.value.suggested_filename, Path(wait.value.path()).read_bytes()

    def copied(self, kind: str) -> str:
        """What a button "Copy ..." gives."""
        self.tab.evaluate("() => { document.querySelector('.copying pre').textContent = ''; }")
        self.tab.get_by_role("button", name=kind).click()
        self.until("document.querySelector('.copying pre').textContent !== ''")
        return self.tab.locator(".copying pre").text_content()

    def shot(self, name: str) -> None:
        """A screenshot of the whole page for the documentation, where one is wanted."""
        if SHOTS:
            from io import BytesIO

            from PIL import Image

            Path(SHOTS).mkdir(parents=True, exist_ok=True)
            image = Image.open(BytesIO(self.tab.screenshot(full_page=True))).convert("RGB")
            image.quantize(128).save(Path(SHOTS) / f"serve-{name}.png", optimize=True)


@pytest.fixture
def open_page(browser, address):
    """Tabs, with options of the browser; their consoles have to stay empty, and they may ask
    nobody but the server.
    """
    opened = []

    def one(at=address, **options):
        opened.append(Page(browser, at, **options))
        return opened[-1]

    yield one
    for each in opened:
        each.context.close()
        assert each.console == []
        assert each.outside == []


@pytest.fixture
def page(open_page):
    """A tab as most people have it."""
    return open_page()
