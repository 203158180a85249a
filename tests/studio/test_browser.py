"""The page in a real browser: its road by keyboard, at the width of a telephone, and beside a page of an attacker."""

from __future__ import annotations

import http.server
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

pytest.importorskip("selenium", reason="selenium is not installed: pip install selenium")

from anonpipe_studio import server
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

from tests import small
from tests.studio.road import TAG, table

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
pytestmark = pytest.mark.skipif(None in (CHROMIUM, DRIVER), reason="no chromium and chromedriver are installed here")


@pytest.fixture
def browser():
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for each in (
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--window-size=1280,800",
    ):
        options.add_argument(each)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    yield driver
    driver.quit()


@pytest.fixture
def address(tmp_path):
    """Of a studio for a folder with a table."""
    folder = tmp_path / "data"
    small.write_table(folder, table(), "people.parquet")
    command = [sys.executable, "-m", "anonpipe", "studio", str(folder), "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        process.stdout.readline()
        yield process.stdout.readline().split()[1]
        process.send_signal(signal.SIGINT)


@pytest.fixture
def attacker():
    """A server of another user on this machine: its address, the page that it gives, the cookies that it is sent."""
    page, cookies = [b""], []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            cookies.append(self.headers.get("Cookie"))
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(page[0])

        def log_message(self, *_):
            pass

    server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/", page, cookies
    server.shutdown()
    server.server_close()


def until(browser, text):
    WebDriverWait(browser, 90).until(lambda it: text in it.page_source)


def narrow(browser, width=390):
    """Whether a page scrolls sideways at the width of a telephone."""
    metrics = {"width": width, "height": 844, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    wide = browser.execute_script("return document.documentElement.scrollWidth > window.innerWidth")
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    return not wide


def press(browser, *keys):
    browser.switch_to.active_element.send_keys(*keys)


def test_road_by_keyboard(browser, address, attacker, monkeypatch):
    files = []
    monkeypatch.setattr("webbrowser.open", files.append)
    with server.opened_by_file(address, browser=True):
        WebDriverWait(files, 10).until(len)
        page = Path(unquote(urlsplit(files[0]).path))
        assert page.parent.stat().st_mode & 0o777 == 0o700 and "token" not in files[0]
        browser.get(files[0])
        until(browser, "Choose a table")
    assert not page.parent.exists()
    start = browser.current_url
    assert "token" not in start and narrow(browser)
    browser.find_element(By.ID, "data").send_keys("people.parquet", Keys.ENTER)
    until(browser, "Propose a job")
    assert narrow(browser)
    browser.find_element(By.ID, "k").send_keys(Keys.BACKSPACE, "4", Keys.ENTER)
    until(browser, "Kind, role and limits")
    assert narrow(browser) and browser.find_element(By.ID, "k").get_attribute("value") == "4"
    assert TAG in browser.find_element(By.TAG_NAME, "table").text  # as a text, not run
    browser.find_element(By.ID, "c1.kind").send_keys("cont")  # a menu takes the beginning of a word
    press(browser, Keys.TAB, Keys.TAB, "0, 120", Keys.ENTER)
    until(browser, "The job is valid")
    assert browser.find_element(By.ID, "c1.bounds").get_attribute("value") == "0, 120"
    assert browser.find_element(By.ID, "c1.kind").get_attribute("value") == "continuous"

    browser.find_element(By.LINK_TEXT, "Plan and run it").send_keys(Keys.ENTER)
    until(browser, "A plan reads")
    browser.find_element(By.XPATH, "//button[.='Plan']").send_keys(Keys.ENTER)
    until(browser, "data-running")
    until(browser, "A run would ")  # by the script
    assert narrow(browser)
    browser.find_element(By.XPATH, "//button[.='Trial']").send_keys(Keys.ENTER)
    until(browser, "trial-report.html")  # without a touch of the page
    assert narrow(browser)
    assert [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"] == []

    # a page of another port is sent no cookie, sees nothing, and its form is refused, though it knows the address
    place, page, cookies = attacker
    page[0] = f'<form id="form" method="post" action="{start}save"><input name="k" value="2"></form>'.encode()
    browser.get(place)
    seen = "return fetch(arguments[0], {credentials: 'include'}).then(answer => answer.text()).catch(() => 'nothing')"
    assert browser.execute_script(seen, start) == "nothing"
    browser.execute_script("document.getElementById('form').submit()")
    until(browser, "comes from another page")
    assert cookies and not any(cookies)
