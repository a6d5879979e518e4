# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The client: a process in place of the kernel module. It checks, mounts, serves, and deregisters at the end."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import sys
import threading
import time

from . import calls
from .cgroups import join_first
from .clients import KERNEL_LOG, Client, printk, reaches
from .faults import faults
from .filesystem import FileSystem
from .fuse_loop import Loop
from .interrupts import Interrupts
from .servers import Servers
from .settings import Insecure, Settings, Wrong
from .stripes import Content
from .wire import Peers

SYNC_S = 1.0
AGAIN_S = 0.2


class Cancelled(Exception):
    """The mount is cancelled."""


class Mount:
    """One mount, from the checks before it to its end."""

    def __init__(self, settings: Settings, mountpoint: str) -> None:
        self.settings, self.mountpoint = settings, mountpoint
        self._interrupts = Interrupts()
        self.servers = Servers(settings, self._interrupts)
        self.name = f"{os.getpid():X}-{int(time.time()):X}-{socket.gethostname()}"
        self._me = {"kind": "client", "name": self.name, "port": settings.port("connClientPortUDP")}
        self._me["address"] = settings.address()
        self._in_touch = threading.Lock()
        self._helperd = ("127.0.0.1", settings.port("connHelperdPortTCP"))
        # The real client receives the servers' datagrams on this port, or on another if it is in use.
        self._datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        with contextlib.suppress(OSError):
            self._datagrams.bind(("0.0.0.0", settings.port("connClientPortUDP")))

    def tell(self, context: str, text: str) -> None:
        """Write a line into the helper's log."""
        with contextlib.suppress(OSError):
            Peers(self.settings.secret()).ask(self._helperd, "log", context=context, text=text)

    def check(self) -> None:
        """Check like the real client before it mounts: helper, management, metadata, storage, in this order.

        It waits only for the management.
        """
        patience_ms = self.settings.number("sysMountSanityCheckMS")
        if not patience_ms:
            self._meet_management(time.monotonic() + 1)
            return
        try:
            Peers(self.settings.secret()).ask(self._helperd, "resolve", name="localhost")
        except OSError:
            raise Cancelled("Communication with user-space helper daemon failed. Is beegfs-helperd running?") from None
        self._meet_management(time.monotonic() + 1 + patience_ms / 1000)
        self.servers.retries = False
        if not self.settings.true("connTCPFallbackEnabled") and reaches(self.settings) != "RDMA":
            raise Cancelled("Retrieval of root directory entry failed. (Error: Communication error)")
        if not self.servers.found["meta"]:
            self.tell("Remoting (stat root dir)", "Unable to proceed without a working root metadata node")
        try:
            self.servers.meta("get", number=1)
        except OSError as error:
            raise Cancelled(f"Retrieval of root directory entry failed. (Error: {error.strerror})") from None
        try:
            Content(self.servers).space()
        except (OSError, ValueError):
            raise Cancelled("Retrieval of storage server free space info failed.") from None
        self.servers.retries = True

    def _meet_management(self, until: float) -> None:
        while True:
            try:
                self.servers.tell_management("register", **self._me)
                self.servers.refresh()
                return
            except OSError:
                if time.monotonic() > until:
                    raise Cancelled("Waiting for management server initialization timed out.") from None
                time.sleep(AGAIN_S)

    def mount(self, flags: int) -> int:
        """Open the device and mount; the kernel's requests wait in the device until ``serve`` reads them."""
        device = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
        options = f"fd={device},rootmode=40000,user_id=0,group_id=0,default_permissions,allow_other"
        calls.mount("beegfs_nodev", self.mountpoint, "fuse.beegfs", flags, options)
        return device

    def serve(self, device: int) -> None:
        """Serve until the file system is unmounted and no longer in use."""
        client = Client.make(self.name, self.mountpoint)
        client.show(self.servers.found, self.settings)
        threading.Thread(target=self._keep_in_touch, args=(client,), daemon=True).start()
        Loop(device, FileSystem(self.servers).answer, self._interrupts).run()
        with self._in_touch:
            client.write("signing-off", "yes")
        self._sign_off()
        client.remove()

    def _keep_in_touch(self, client: Client) -> None:
        while True:
            with self._in_touch, contextlib.suppress(OSError):
                if client.read("signing-off"):
                    return
                self.servers.tell_management("register", **self._me)
                self.servers.refresh()
            with contextlib.suppress(OSError):
                client.show(self.servers.found, self.settings)
            time.sleep(SYNC_S)

    def give_up(self) -> None:
        """Deregister after a failed mount, in case the management had registered this client."""
        with contextlib.suppress(OSError):
            self.servers.tell_management("remove", kind="client", name=self.name)

    def _sign_off(self) -> None:
        """Deregister. Like the real client, retry while the management does not answer; ``umount`` waits for this."""
        patience_s = self.settings.number("connCommRetrySecs") if self.settings.true("connUnmountRetries") else 0
        until = time.monotonic() + patience_s
        while True:
            while "umount-hang" in faults("client"):
                time.sleep(AGAIN_S)
            try:
                self.servers.tell_management("remove", kind="client", name=self.name)
                self.tell("Deregistration", "Node deregistration successful.")
                return
            except OSError:
                if time.monotonic() > until:
                    self.tell("Deregistration", "Node deregistration failed. Management node offline?")
                    return
                time.sleep(AGAIN_S)


def _obey_first_process() -> None:
    """Stop on a signal from process 1, so that shutdown does not wait; ignore others, as a real client does."""
    signals = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP}
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    for number in signals:
        # mount.beegfs ignores these signals, this process inherits that, and ignored signals cannot be waited for.
        signal.signal(number, signal.SIG_DFL)

    def listen() -> None:
        while signal.sigwaitinfo(signals).si_pid != 1:
            pass
        os._exit(0)

    threading.Thread(target=listen, daemon=True).start()


def main(_argv: list[str]) -> int:
    """Mount as mount.beegfs asks on standard input; print an empty line on success, else the error."""
    _obey_first_process()
    calls.show_as(["[beegfs_client]"])
    asked = json.loads(sys.stdin.readline())
    join_first()
    while "mount-hang" in faults("client"):
        time.sleep(AGAIN_S)
    try:
        mount = Mount(Settings(asked["words"]), asked["mountpoint"])
        mount.check()
        device = mount.mount(asked["flags"])
    except (Wrong, Insecure, Cancelled) as error:
        printk(f"{error} Mount sanity check failed. Canceling mount.")
        if isinstance(error, Cancelled):
            mount.tell("Mount sanity check", str(error))
            mount.give_up()
        print("Operation canceled.", flush=True)
        return 1
    except OSError as error:
        print(f"{error.strerror}.", flush=True)
        return 1
    print(flush=True)
    null = os.open("/dev/null", os.O_RDWR)
    log = os.open(KERNEL_LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    for descriptor, other in ((0, null), (1, null), (2, log)):
        os.dup2(other, descriptor)
    os.chdir("/")
    mount.serve(device)
    return 0
