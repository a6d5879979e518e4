# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The part of cloud-init's work on an Azure machine that a simulated machine needs.

It reads this machine's data from the instance metadata service, then sets the host name, the admin user, its keys and
the host keys, once per vmId. It runs inside the machine and uses only the standard library.
"""

from __future__ import annotations

import json
import os
import pwd
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

METADATA = "http://169.254.169.254/metadata/instance?api-version=2021-02-01"
SEEDED = Path("/var/lib/simulator-provision/vm-id")
PATIENCE_S = 60.0
PATIENCE_KNOWN_S = 10.0
"""How long a machine waits that was provisioned before: it does not need the metadata."""


def say(text: str) -> None:
    """Write a line to the journal."""
    print(text, flush=True)


def ask(patience: float) -> dict[str, Any]:
    """The instance document. Raises OSError or ValueError if there is none in time."""
    deadline = time.monotonic() + patience
    # Without a proxy, which cannot reach this machine's metadata.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    while True:
        try:
            request = urllib.request.Request(METADATA, headers={"Metadata": "true"})
            with opener.open(request, timeout=5) as answer:
                document: dict[str, Any] = json.load(answer)
            return document
        except (OSError, ValueError) as error:
            if time.monotonic() >= deadline:
                raise
            say(f"metadata service: {error}; retrying")
            time.sleep(0.5)


def set_host_name(name: str) -> None:
    """Set the host name for now and for later boots, and make it resolvable."""
    Path("/etc/hostname").write_text(name + "\n", encoding="ascii")
    socket.sethostname(name)
    kept = [
        line for line in Path("/etc/hosts").read_text(encoding="utf-8").splitlines() if not line.startswith("127.0.1.1")
    ]
    Path("/etc/hosts").write_text("\n".join([kept[0], f"127.0.1.1 {name}", *kept[1:]]) + "\n", encoding="utf-8")


def add_admin(user: str, keys: list[str]) -> None:
    """Add the admin user with these keys, and sudo without a password."""
    try:
        account = pwd.getpwnam(user)
    except KeyError:
        subprocess.run(["useradd", "--create-home", "--shell", "/bin/bash", user], check=True)
        account = pwd.getpwnam(user)
    sudo = Path(f"/etc/sudoers.d/90-{user}")
    sudo.write_text(f"{user} ALL=(ALL) NOPASSWD:ALL\n", encoding="ascii")
    sudo.chmod(0o440)
    folder = Path(account.pw_dir) / ".ssh"
    folder.mkdir(mode=0o700, exist_ok=True)
    authorized = folder / "authorized_keys"
    authorized.write_text("".join(key.strip() + "\n" for key in keys), encoding="utf-8")
    authorized.chmod(0o600)
    for path in (folder, authorized):
        os.chown(path, account.pw_uid, account.pw_gid)


def make_host_keys() -> None:
    """Make this machine's host keys: of two types, without RSA, which takes a second of CPU and is not needed."""
    for old in Path("/etc/ssh").glob("ssh_host_*"):
        old.unlink()
    for kind in ("ed25519", "ecdsa"):
        path = f"/etc/ssh/ssh_host_{kind}_key"
        subprocess.run([shutil.which("ssh-keygen") or "ssh-keygen", "-q", "-N", "", "-t", kind, "-f", path], check=True)


def main() -> int:
    """Provision this machine unless it was provisioned before."""
    known = SEEDED.read_text(encoding="ascii").strip() if SEEDED.exists() else ""
    try:
        compute = ask(PATIENCE_KNOWN_S if known else PATIENCE_S)["compute"]
        vm_id = str(compute["vmId"])
        if vm_id == known:
            say(f"already provisioned as {vm_id}")
            return 0
        profile = compute["osProfile"]
        name, user = str(profile["computerName"]), str(profile["adminUsername"])
        keys = [str(key["keyData"]) for key in compute["publicKeys"]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        if known:
            say(f"metadata service: {error!r}; this machine stays provisioned as {known}")
            return 0
        say(f"NOT PROVISIONED: no usable answer from {METADATA}: {error!r}. Nobody can log in to this machine.")
        return 1
    set_host_name(name)
    add_admin(user, keys)
    make_host_keys()
    SEEDED.parent.mkdir(parents=True, exist_ok=True)
    SEEDED.write_text(vm_id + "\n", encoding="ascii")
    say(f"provisioned {name} ({vm_id}) for {user} with {len(keys)} key(s)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
