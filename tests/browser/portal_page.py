# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The portal as a user sees it: everything by clicks and keys, except what a program does with an API token."""

from __future__ import annotations

import json
import os
import ssl
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path

from . import chromium

START_S = 180.0
NO_ANSWER = "The portal or your notebook does not answer."
"""Of the proxy's page of errors."""
_SHIFT = 8


@dataclass(frozen=True)
class Portal:
    """A browser at the portal.

    :ivar url: its address, without a slash at the end.
    """

    page: chromium.Page
    url: str

    def prepare(self) -> Portal:
        """Let the browser accept a certificate that it does not know."""
        self.page.send("Security.setIgnoreCertificateErrors", ignore=True)
        return self

    def open(self, path: str = "/") -> None:
        """Open a page of the portal."""
        # JupyterLab may ask whether to leave it. A second navigation before the answer would be lost.
        self.page.send("Page.navigate", url="about:blank")
        self.page.wait("location.href === 'about:blank'")
        self.page.open(self.url + path, width=1200, height=800)

    def forget(self) -> None:
        """Delete the cookies, like another user's browser."""
        self.page.send("Network.clearBrowserCookies")

    def text(self) -> str:
        """The visible text."""
        return str(self.page.run("document.body.innerText"))

    def at(self) -> str:
        """The path of the address."""
        return str(self.page.run("location.pathname"))

    def wait_for(self, text: str, limit_s: float = chromium.LIMIT_S) -> None:
        """Wait until a text is visible."""
        try:
            self.page.wait(f"document.body && document.body.innerText.includes({json.dumps(text)})", limit_s)
        except chromium.BrowserError as error:
            raise AssertionError(f"{text!r} is not at {self.at()}: {self.text()[:2000]}") from error

    def fill(self, selector: str, value: str) -> None:
        """Type into a field after a click on it."""
        self.click(selector)
        self.page.run(f"document.querySelector({json.dumps(selector)}).select?.()")
        self.page.type(value)

    def choose(self, selector: str, value: str) -> None:
        """Choose from a list."""
        self.page.run(f"(box => {{ box.value = {json.dumps(value)}; box.dispatchEvent(new Event('change')) }})"
                      f"(document.querySelector({json.dumps(selector)}))")  # fmt: skip

    def click(self, selector: str, limit_s: float = chromium.LIMIT_S) -> None:
        """Click on the middle of an element, once it is there."""
        found = f"document.querySelector({json.dumps(selector)})"
        self.page.wait(f"{found} && {found}.getClientRects().length > 0", limit_s)
        self.page.run(f"{found}.scrollIntoView({{block: 'center'}})")
        middle = "(box => [box.x + box.width / 2, box.y + box.height / 2])"
        x, y = self.page.run(f"{middle}({found}.getBoundingClientRect())")
        self.page.click(x, y)

    def log_in(self, name: str, password: str) -> None:
        """Fill in the login form."""
        self.forget()
        self.open("/hub/login")
        self.fill("#username_input", name)
        self.fill("#password_input", password)
        self.click("#login_submit")

    def start(self, hours: str = "1", partition: str = "", container: str = "", **fields: str) -> None:
        """Fill in the form, and ask for a notebook. Without a partition or container, the form's first one stays."""
        self.open("/hub/spawn")
        self.page.wait("document.querySelector('#hours') !== null")
        if partition:
            self.choose("#partition", partition)
        if container:
            self.choose("#container", container)
        self.fill("#hours", hours)
        for name, value in fields.items():
            self.fill(f"#{name}", value)
        self.click("input[type=submit], button[type=submit]")

    def send_form(self, fields: str) -> None:
        """Send the form for a notebook with other fields, which are encoded as in an address."""
        self.open("/hub/spawn")
        self.page.wait("document.querySelector('#hours') !== null")
        change = (
            "(form => { form.querySelectorAll('[name]:not([name=_xsrf])').forEach(one => one.remove());"
            f"for (const [name, value] of new URLSearchParams({json.dumps(fields)})) {{"
            "const field = document.createElement('textarea');"
            "Object.assign(field, {name, value}); form.append(field) }"
            "HTMLFormElement.prototype.submit.call(form) })(document.querySelector('#hours').form)"
        )
        self.page.run(change)

    def wait_for_lab(self, limit_s: float = START_S) -> None:
        """Wait until JupyterLab is there, with whatever was open before."""
        try:
            self.page.wait("document.querySelector('.jp-LauncherCard, .jp-Notebook') !== null", limit_s)
        except chromium.BrowserError as error:
            raise AssertionError(f"no JupyterLab at {self.at()}: {self.text()[:3000]}") from error

    def return_to_hub(self, limit_s: float = 90) -> None:
        """Open the hub until it answers again after an interruption."""
        deadline = time.monotonic() + limit_s
        self.open("/hub/home")
        while NO_ANSWER in self.text():
            assert time.monotonic() < deadline, f"the hub is still away after {limit_s:g} s"
            time.sleep(1)
            self.open("/hub/home")

    def return_to_lab(self, user: str, limit_s: float = 90) -> None:
        """Open the user's JupyterLab until it is there again after an interruption."""
        deadline = time.monotonic() + limit_s
        while True:
            try:
                self.open(f"/user/{user}/lab")
                self.wait_for_lab(10)
                return
            except (chromium.BrowserError, AssertionError):
                if time.monotonic() > deadline:
                    raise

    def keep(self, name: str) -> None:
        """Save a picture in the folder HPCAI_PORTAL_PICTURES, for the guide and to look at."""
        folder = os.environ.get("HPCAI_PORTAL_PICTURES")
        if folder:
            (Path(folder) / f"{name}.png").write_bytes(self.page.picture())

    def click_until(self, selector: str, done: str, again_s: float) -> None:
        """Click, and again if nothing has happened after a while: a click while the page still loads can be lost."""
        deadline = time.monotonic() + START_S
        while True:
            self.click(selector)
            try:
                self.page.wait(done, again_s)
                return
            except chromium.BrowserError:
                if time.monotonic() > deadline:
                    raise

    def run_cell(self, code: str, ends_with: str, kernel_s: float = 90) -> str:
        """Open a notebook from the launcher, run a cell, and return what it prints up to a mark.

        :param kernel_s: time limit for the start of the kernel.
        """
        self.click_until(
            ".jp-LauncherCard[data-category=Notebook]", "document.querySelector('.jp-NotebookPanel') !== null", 15
        )
        # Until the kernel answers, JupyterLab moves the focus.
        self.page.wait("document.querySelector('.jp-Notebook-ExecutionIndicator')?.dataset.status === 'idle'", kernel_s)
        editor = ".jp-Notebook .cm-content"
        self._focus(editor)
        self.page.type(code)
        self.page.wait(f"document.querySelector('{editor}').innerText.includes({json.dumps(code.splitlines()[-1])})")
        self._run_first_cell(editor)
        outputs = "[...document.querySelectorAll('.jp-OutputArea-output')].map(one => one.innerText).join('\\n')"
        try:
            self.page.wait(f"{outputs}.includes({json.dumps(ends_with)})", 90)
        except chromium.BrowserError as error:
            raise AssertionError(f"the cell printed {self.page.run(outputs)!r}") from error
        return str(self.page.run(outputs))

    def _focus(self, editor: str) -> None:
        self.click(editor)
        try:
            self.page.wait(f"document.querySelector('{editor}').contains(document.activeElement)")
        except chromium.BrowserError as error:
            raise AssertionError(f"no click reaches the cell: {self.text()[:3000]}") from error

    def _run_first_cell(self, editor: str) -> None:
        """Press Shift+Enter, and again if the cell has not begun: JupyterLab may move the focus meanwhile."""
        enter = {"key": "Enter", "code": "Enter", "windowsVirtualKeyCode": 13, "modifiers": _SHIFT}
        deadline = time.monotonic() + START_S
        while True:
            self.page.send("Input.dispatchKeyEvent", type="keyDown", text="\r", **enter)
            self.page.send("Input.dispatchKeyEvent", type="keyUp", **enter)
            try:
                self.page.wait("/\\[[*\\d]/.test(document.querySelector('.jp-InputArea-prompt').innerText)", 15)
                return
            except chromium.BrowserError:
                if time.monotonic() > deadline:
                    raise
            self._focus(editor)

    def token(self) -> str:
        """Create an API token on the page for that."""
        self.open("/hub/token")
        # Before the page's script handles the form, a click would send it to the hub, which shows the page again.
        form = "document.querySelector('#request-token-form')"
        has_handler = f"window.require('jquery')._data({form}, 'events')?.submit !== undefined"
        self.page.wait(f"window.require?.defined?.('jquery') === true && {has_handler}", START_S)
        self.click("#request-token-form button[type=submit]")
        self.page.wait("document.querySelector('#token-result').innerText.length > 20", START_S)
        return str(self.page.run("document.querySelector('#token-result').innerText"))

    def status(
        self, certificate: Path, path: str, token: str = "", method: str = "GET", data: bytes | None = None
    ) -> int:
        """The status of a program's request with an API token. The certificate must be this one."""
        headers = {"Authorization": f"token {token}"} if token else {}
        request = urllib.request.Request(self.url + path, data, headers, method=method)
        trusting = ssl.create_default_context(cafile=str(certificate))
        try:
            with urllib.request.urlopen(request, timeout=START_S, context=trusting) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            return error.code

    def stop(self) -> None:
        """Stop the notebook on the hub's page."""
        self.open("/hub/home")
        # The button works once the page's script is loaded.
        self.page.wait("window.require?.defined?.('jhapi') === true && document.readyState === 'complete'")
        self.click_until("#stop", "document.querySelector('#stop')?.offsetParent == null", 60)
