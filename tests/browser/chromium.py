# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Controls Chromium over a pipe with the DevTools protocol: JSON messages, each terminated by a zero byte.

As a script, it saves a picture of a page:
PYTHONPATH=tests python -m browser.chromium PAGE.html#view=map PICTURE.png [1400x900]
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PROGRAMS = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
LIMIT_S = 30.0
# The file descriptors that the protocol prescribes for the two ends of the pipe.
_READS, _WRITES = 3, 4


class BrowserError(RuntimeError):
    """The browser did not start, did not answer, or returned an error."""


def find() -> str | None:
    """Return the path of an installed browser, or None."""
    return next((path for path in map(shutil.which, PROGRAMS) if path), None)


class Page:
    """A page in its own browser process."""

    def __init__(self, process: subprocess.Popen[bytes], reads: int, writes: int) -> None:
        self._process = process
        self._reads, self._writes = reads, writes
        self._rest = b""
        self._number = 0
        self._session = ""
        self.events: list[dict[str, Any]] = []

    def attach(self) -> None:
        """Open the only tab, and subscribe to its events."""
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.send(f"{domain}.enable")

    def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send a command to the browser, and return its result."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._writes, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + LIMIT_S
        while True:
            answer = self._next(deadline)
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise BrowserError(f"{method}: {answer['error']['message']}")
                result: dict[str, Any] = answer["result"]
                return result
            self.events.append(answer)
            if answer.get("method") == "Page.javascriptDialogOpening":
                self._accept_dialog()

    def _accept_dialog(self) -> None:
        """Leave a page that asks whether to leave it. Until it has an answer, the browser answers no command."""
        accept = {"id": 0, "method": "Page.handleJavaScriptDialog", "params": {"accept": True}}
        os.write(self._writes, json.dumps({**accept, "sessionId": self._session}).encode() + b"\0")

    def _next(self, deadline: float) -> dict[str, Any]:
        while b"\0" not in self._rest:
            ready = select.select([self._reads], [], [], max(0.0, deadline - time.monotonic()))[0]
            part = os.read(self._reads, 1 << 20) if ready else b""
            if not part:
                raise BrowserError(f"the browser gave no answer (its exit status: {self._process.poll()})")
            self._rest += part
        first, _end, self._rest = self._rest.partition(b"\0")
        answer: dict[str, Any] = json.loads(first)
        return answer

    def open(self, url: str, width: int = 1400, height: int = 900, scheme: str = "light") -> None:
        """Open a page, and wait until it is loaded."""
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.send("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.send("Page.navigate", url="about:blank")
        self.send("Page.navigate", url=url)
        self.wait("document.readyState === 'complete' && location.href !== 'about:blank'")

    def run(self, expression: str) -> Any:
        """Evaluate a JavaScript expression in the page, and return its value."""
        answer = self.send("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            details = answer["exceptionDetails"]
            raise BrowserError(details.get("exception", {}).get("description") or details["text"])
        return answer["result"].get("value")

    def wait(self, expression: str, limit_s: float = LIMIT_S) -> None:
        """Wait until an expression is true."""
        deadline = time.monotonic() + limit_s
        while not self.run(expression):
            if time.monotonic() > deadline:
                raise BrowserError(f"not true after {limit_s:g} s: {expression}")
            time.sleep(0.02)

    def click(self, x: float, y: float) -> None:
        """Click at this position."""
        self.move(x, y)
        for kind in ("mousePressed", "mouseReleased"):
            self.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def move(self, x: float, y: float) -> None:
        """Move the mouse to this position."""
        self.send("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def press(self, key: str) -> None:
        """Press and release a key, by its name in the DOM."""
        codes = {"Enter": 13, "Escape": 27, "ArrowDown": 40, "ArrowRight": 39, "ArrowLeft": 37, "ArrowUp": 38, "Tab": 9}
        more: dict[str, Any] = {"text": "\r"} if key == "Enter" else {}
        for kind in ("keyDown", "keyUp"):
            self.send("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=codes[key], **more)

    def type(self, text: str) -> None:
        """Type into the focused element."""
        self.send("Input.insertText", text=text)

    def picture(self) -> bytes:
        """Return a screenshot as PNG."""
        return base64.b64decode(self.send("Page.captureScreenshot", format="png")["data"])

    def complaints(self) -> list[str]:
        """Return the messages of the console: script errors, and violations of the page's security policy."""
        self.run("1")
        found = []
        for event in self.events:
            if event.get("method") == "Runtime.exceptionThrown":
                details = event["params"]["exceptionDetails"]
                found.append(details.get("exception", {}).get("description") or details["text"])
            elif event.get("method") == "Log.entryAdded":
                found.append(event["params"]["entry"]["text"])
        return found

    def requested(self) -> list[str]:
        """Return the URLs that the page has requested."""
        self.run("1")
        sent = [event for event in self.events if event.get("method") == "Network.requestWillBeSent"]
        return [event["params"]["request"]["url"] for event in sent]


@contextlib.contextmanager
def browser() -> Iterator[Page]:
    """A browser with one empty page and a temporary profile.

    :raises BrowserError: no browser is installed, or it does not start.
    """
    program = find()
    if program is None:
        raise BrowserError(f"no browser here: install one of {', '.join(PROGRAMS)}")
    to_read, to_us = os.pipe(), os.pipe()
    with tempfile.TemporaryDirectory(prefix="browser-", ignore_cleanup_errors=True) as profile:
        # The shell moves the ends of the pipes to the file descriptors of the protocol.
        wiring = f'exec "$0" "$@" {_READS}<&{to_read[0]} {_WRITES}>&{to_us[1]}'
        options = ["--headless=new", "--no-sandbox", "--remote-debugging-pipe", f"--user-data-dir={profile}"]
        options += [
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--no-first-run",
            "--disable-extensions",
            "--hide-scrollbars",
        ]
        process = subprocess.Popen(
            ["bash", "-c", wiring, program, *options, "about:blank"],
            pass_fds=(to_read[0], to_us[1]),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_read[0])
        os.close(to_us[1])
        page = Page(process, to_us[0], to_read[1])
        try:
            page.attach()
            yield page
        finally:
            with contextlib.suppress(BrowserError, OSError):
                page._session = ""
                page.send("Browser.close")
            os.close(to_read[1])
            os.close(to_us[0])
            try:
                process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def main(arguments: list[str]) -> int:
    """Save a picture of a page."""
    address, picture = arguments[:2]
    width, height = (int(part) for part in (arguments[2] if len(arguments) > 2 else "1400x900").split("x"))
    file, mark, rest = address.partition("#")
    with browser() as page:
        page.open(f"{Path(file).resolve().as_uri()}{mark}{rest}", width, height)
        time.sleep(0.5)
        Path(picture).write_bytes(page.picture())
        for complaint in page.complaints():
            print(complaint, file=sys.stderr)
        print(page.run("JSON.stringify(document.documentElement.dataset)"))
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
