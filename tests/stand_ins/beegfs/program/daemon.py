# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What all daemons share: configuration, folder, port, log, registration, signals and failures on request."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from .calls import show_as
from .faults import faults
from .log import Log
from .settings import VERSION, Insecure, Settings, Wrong
from .wire import Handler, Peer, Peers, Refused, Server

INVALID_CONFIG, INITIALIZATION_ERROR, RUNTIME_ERROR = 1, 2, 3
HEARTBEAT_S = 0.5
TITLES = {"mgmtd": "Management", "meta": "Metadata", "storage": "Storage", "helperd": "Helper"}


class Daemon:
    """One running daemon: its settings, its log and the management it reports to."""

    def __init__(self, kind: str, words: list[str]) -> None:
        self.kind = kind
        self.settings = Settings(words, kind=kind)
        self.secret = self.settings.secret()
        self.address = self.settings.address()
        self.log = Log(self.settings.text("logStdFile"))
        self.peers = Peers(self.secret)
        self._stop = threading.Event()
        self._locks: list[IO[str]] = []

    @property
    def mgmtd(self) -> Peer:
        """The address and port of the management."""
        host = self.settings.text("sysMgmtdHost")
        if not host:
            raise Wrong("Management host undefined")
        return host, self.settings.port("connMgmtdPortTCP")

    def folder(self, path: str) -> Path:
        """Create and lock a storage folder, so that two daemons never share one."""
        if not path:
            raise Wrong(f"No {TITLES[self.kind].lower()} storage directory specified")
        if not path.startswith("/"):
            raise Wrong(f"Path to storage directory must be absolute: {path}")
        made = Path(path)
        if not (made / "format.conf").exists() and not self.settings.true("storeAllowFirstRunInit"):
            raise Wrong(f"Storage directory not initialized and initialization has been disabled: {path}")
        try:
            made.mkdir(parents=True, exist_ok=True)
            lock = (made / "lock.pid").open("w", encoding="ascii")
        except OSError as error:
            raise Wrong(f"Unable to create storage directory: {path} ({error.strerror})") from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise Wrong(f"Invalid working directory: locking failed: {path}") from error
        lock.write(f"{os.getpid()}\n")
        lock.flush()
        self._locks.append(lock)
        (made / "format.conf").write_text("version=4\n", encoding="ascii")
        return made

    def listen(self, port: int, handler: Handler) -> Server:
        """Listen on a port. The messages for a port in use are those of the real daemons."""
        if "hang-at-start" in faults(self.kind):
            self._stop.wait()
            self.leave()
        try:
            if "port-taken" in faults(self.kind):
                raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
            server = Server(port, self.secret, handler, self.log)
        except OSError as error:
            self.log("App", f"Unable to bind to port: {port}. SysErr: {error.strerror}", 0)
            self.log("App", "A hard error occurred. Shutting down...")
            raise SystemExit(INITIALIZATION_ERROR) from error
        server.mute = self.kind in ("mgmtd", "helperd") and "half-start" in faults(self.kind)
        server.start()
        return server

    def register(self, port: int, **more: Any) -> dict[str, Any]:
        """Register with the management, however long that takes, then keep reporting. The answer contains the ID."""
        if "half-start" in faults(self.kind):
            self._stop.wait()
            self.leave()
        host, mgmtd_port = self.mgmtd
        self.log("App", f"Waiting for beegfs-mgmtd@{host}:{mgmtd_port}...")
        node = {"kind": self.kind, "name": socket.gethostname(), "address": self.address, "port": port, **more}
        answer = self._report(node, quiet=False)
        while answer is None:
            if self._stop.wait(HEARTBEAT_S):
                self.leave()
            answer = self._report(node, quiet=True)
        self.log("App", "Node ID reservation successful.", 2)
        threading.Thread(target=self._keep_reporting, args=(node,), name="XNodeSync", daemon=True).start()
        return answer

    def _report(self, node: dict[str, Any], quiet: bool) -> dict[str, Any] | None:
        try:
            return self.peers.ask(self.mgmtd, "register", **node)[0]
        except Refused:
            if not quiet:
                self.log("App", "Node ID reservation failed. Management node offline? Will keep on trying...")
        except socket.gaierror as error:
            self.log("App", f"Failed to resolve hostname. [{self.mgmtd[0]}] System error: {error}", 0)
        except OSError as error:
            if error.errno == errno.EPERM:
                self.log("App", "ID reservation request was rejected by this mgmt node", 0)
                os._exit(RUNTIME_ERROR)
        return None

    def _keep_reporting(self, node: dict[str, Any]) -> None:
        while True:
            time.sleep(HEARTBEAT_S)
            self._report(node, quiet=True)

    def run(self) -> None:
        """Run until a signal stops the daemon."""
        self.log("App", f"Version: {VERSION} (stand-in)")
        after = faults(self.kind).get("dies-after")
        if after is not None:
            threading.Timer(float(after), os._exit, (RUNTIME_ERROR,)).start()
        while not self._stop.wait(60):
            pass

    def leave(self) -> None:
        """Log the end and exit immediately, without waiting for threads that still answer."""
        self.log("App", "All components stopped. Exiting now!")
        sys.stdout.flush()
        os._exit(0)

    def obey(self) -> None:
        """Stop on SIGTERM and SIGINT, unless a fault says otherwise."""

        def stop(number: int, _frame: object) -> None:
            # Read here, not at the start, because a test may add this failure while the daemon runs.
            if "ignore-sigterm" not in faults(self.kind):
                self.log("App", f"Received a {signal.Signals(number).name}. Shutting down...")
                self._stop.set()

        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, stop)


def live(kind: str, words: list[str], serve: Callable[[Daemon], Callable[[], None]]) -> int:
    """Run a daemon: ``serve`` starts it and returns a function that is called at the end."""
    show_as([f"/opt/beegfs/sbin/beegfs-{kind}", *words])
    try:
        daemon = Daemon(kind, words)
        daemon.obey()
        if daemon.settings.true("runDaemonized"):
            os.chdir("/")
            if os.fork():
                os._exit(0)
            os.setsid()
        if daemon.settings.text("pidFile"):
            Path(daemon.settings.text("pidFile")).write_text(f"{os.getpid()}\n", encoding="ascii")
        at_end = serve(daemon)
    except Wrong as error:
        print(f"\nError: {error}\n\n[BeeGFS {TITLES[kind]} Node Version: {VERSION}, a stand-in]\n", file=sys.stderr)
        return INVALID_CONFIG
    except Insecure as error:
        print(f"\nUnrecoverable error: {error}\n", file=sys.stderr)
        return RUNTIME_ERROR
    daemon.run()
    at_end()
    daemon.leave()
    return 0
