# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Installs, starts and stops Azurite."""

from __future__ import annotations

import http.client
import os
import socket
import ssl
import subprocess
import time
from pathlib import Path
from urllib.parse import quote
from xml.etree import ElementTree

from .certificate import Certificate
from .sas import ACCOUNT, account_sas

_START_S = 240.0
_SCRIPT = Path(__file__).resolve().parents[2] / "setup/blob.sh"


class NotHere(RuntimeError):
    """azcopy and Azurite cannot be installed on this machine; the message says why."""


def installed() -> Path:
    """Return the folder of azcopy and Azurite; install them if they are missing.

    :raises NotHere: they cannot be installed.
    """
    done = subprocess.run([str(_SCRIPT)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    last = (done.stdout.strip().splitlines() or ["nothing"])[-1]
    if done.returncode:
        raise NotHere(last)
    return Path(last)


def azcopy_in(folder: Path) -> str:
    """Return the path of the program azcopy."""
    return str(folder / "node_modules/@azure-tools/azcopy-linux/dist/bin/azcopy_linux_amd64")


class Azurite:
    """A storage account with blobs, on a free port.

    :param folder: where azcopy and Azurite are installed.
    :param data: its data folder.
    :param address: of this machine, where it listens; other machines cannot reach the loopback address.
    :param certificate: for TLS; without one it uses http.
    :param oauth: accept bearer tokens too, which needs TLS.
    """

    def __init__(
        self,
        folder: Path,
        data: Path,
        address: str = "127.0.0.1",
        certificate: Certificate | None = None,
        oauth: bool = False,
    ) -> None:
        self._address, self._certificate = address, certificate
        with socket.socket() as free:
            free.bind((address, 0))
            self.port = int(free.getsockname()[1])
        data.mkdir(parents=True, exist_ok=True)
        log = (data / "azurite.log").open("wb")
        command = ["node", str(folder / "node_modules/azurite/dist/src/blob/main.js"), "--silent"]
        command += ["--skipApiVersionCheck", "--disableTelemetry", "--location", str(data)]
        command += ["--blobHost", address, "--blobPort", str(self.port)]
        command += ["--cert", str(certificate.public), "--key", str(certificate.key)] if certificate else []
        command += ["--oauth", "basic"] if oauth else []
        self._process = subprocess.Popen(
            command, cwd=data, stdout=log, stderr=log, env={**os.environ, "HOME": str(data)}
        )
        log.close()
        self._asked = 0.0
        self._connection = self._connect()
        self._await(data / "azurite.log")

    @property
    def url(self) -> str:
        """The account's URL, with an IP address; the account's name is in the path."""
        return f"http{'s' if self._certificate else ''}://{self._address}:{self.port}/{ACCOUNT}"

    def end(self) -> None:
        """Stop it."""
        self._connection.close()
        self._process.terminate()
        self._process.wait(timeout=20)

    def _connect(self) -> http.client.HTTPConnection:
        if self._certificate:
            trusted = ssl.create_default_context(cafile=str(self._certificate.public))
            return http.client.HTTPSConnection(self._address, self.port, timeout=30, context=trusted)
        return http.client.HTTPConnection(self._address, self.port, timeout=30)

    def ask(self, method: str, path: str, body: bytes = b"", headers: dict[str, str] | None = None) -> int:
        """Send a request and return its status.

        :param path: below the account, quoted, with its own query.
        """
        return self.answer(method, path, body, headers)[0]

    def answer(
        self, method: str, path: str, body: bytes = b"", headers: dict[str, str] | None = None
    ) -> tuple[int, bytes]:
        """Send a request and return its status and body."""
        # Azurite closes connections that are idle for some seconds.
        if time.monotonic() - self._asked > 2:
            self._connection.close()
        self._asked = time.monotonic()
        connection = self._connection
        sign = "&" if "?" in path else "?"
        connection.request(
            method,
            f"/{ACCOUNT}/{path}{sign}{account_sas()}",
            body,
            {"x-ms-version": "2021-12-02", "Content-Length": str(len(body)), **(headers or {})},
        )
        answer = connection.getresponse()
        return answer.status, answer.read()

    def container(self, name: str) -> str:
        """Create a container and return its URL."""
        assert self.ask("PUT", f"{name}?restype=container") == 201
        return f"{self.url}/{name}"

    def put(self, container: str, name: str, content: bytes, **headers: str) -> None:
        """Store a blob, without an MD5 unless ``headers`` has one."""
        given = {key.replace("_", "-"): value for key, value in headers.items()}
        assert self.ask("PUT", f"{container}/{quote(name)}", content, {"x-ms-blob-type": "BlockBlob", **given}) == 201

    def names(self, container: str, prefix: str = "") -> list[str]:
        """Return the sorted names of blobs, from the first page of the list (5000)."""
        status, listed = self.answer("GET", f"{container}?restype=container&comp=list&prefix={quote(prefix)}")
        assert status == 200
        return [str(one.text) for one in ElementTree.fromstring(listed).iter("Name")]

    def delete(self, container: str, name: str) -> None:
        """Remove a blob."""
        assert self.ask("DELETE", f"{container}/{quote(name)}") == 202

    def _await(self, log: Path) -> None:
        deadline = time.monotonic() + _START_S
        while time.monotonic() < deadline and self._process.poll() is None:
            try:
                socket.create_connection((self._address, self.port), timeout=1).close()
                return
            except OSError:
                time.sleep(0.1)
        self._process.kill()
        raise RuntimeError(f"Azurite did not start: {log.read_text(encoding='utf-8', errors='replace')[-500:]}")
