# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where the machines' packages come from: the mirrors, proxies and options of this host's own apt.

On a Debian host, the machines use the host's sources for their own suite; on any other host, mmdebstrap's defaults.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from simulator.backends.containers.command import run

APT = Path("/etc/apt")
OS_RELEASE = Path("/etc/os-release")
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
OPTIONS = re.compile(r'^(Acquire::(?:http|https)::Proxy|Acquire::Retries) "(?P<value>[^"]+)";$')


def _codename() -> str:
    """The host's suite if the host is a Debian, otherwise an empty text."""
    if not OS_RELEASE.exists():
        return ""
    fields = dict(line.split("=", 1) for line in OS_RELEASE.read_text(encoding="utf-8").splitlines() if "=" in line)
    return fields.get("VERSION_CODENAME", "").strip('"') if fields.get("ID", "").strip('"') == "debian" else ""


def _stanzas(text: str) -> list[dict[str, str]]:
    found = []
    for block in re.split(r"\n\s*\n", text):
        fields: dict[str, str] = {}
        last = ""
        for line in block.splitlines():
            if line.startswith("#"):
                continue
            if line[:1].isspace() and last:
                fields[last] += " " + line.strip()
            elif ":" in line:
                last, value = (part.strip() for part in line.split(":", 1))
                fields[last] = value
        found.append(fields)
    return found


def _one_line(text: str) -> list[dict[str, str]]:
    found = []
    for line in text.splitlines():
        match = re.match(r"^\s*deb\s+(?:\[[^\]]*\]\s+)?(\S+)\s+(\S+)\s+(.+)$", line)
        if match:
            found.append({"Types": "deb", "URIs": match[1], "Suites": match[2], "Components": match[3].split("#")[0]})
    return found


def for_suite(suite: str) -> list[str]:
    """Source files (deb822) for a suite, derived from this host's own. Empty if the host is not a Debian."""
    codename = _codename()
    if not codename:
        return []
    entries: list[dict[str, str]] = []
    for path in [APT / "sources.list", *sorted((APT / "sources.list.d").glob("*"))]:
        if path.is_file() and path.suffix in (".list", ".sources"):
            text = path.read_text(encoding="utf-8", errors="replace")
            entries += _stanzas(text) if path.suffix == ".sources" else _one_line(text)
    found = []
    for entry in entries:
        suites = [
            word for word in entry.get("Suites", "").split() if re.fullmatch(rf"{codename}(-updates|-security)?", word)
        ]
        ours = "main" in entry.get("Components", "").split() and "deb" in entry.get("Types", "").split()
        signer = entry.get("Signed-By", KEYRING)
        if suites and ours and "debian-archive" in signer and entry.get("Enabled", "yes").lower() != "no":
            found.append(
                f"Types: deb\nURIs: {entry['URIs']}\n"
                f"Suites: {' '.join(word.replace(codename, suite) for word in suites)}\n"
                f"Components: main\nSigned-By: {KEYRING}\n"
            )
    return found


def options() -> list[str]:
    """apt options for the build and the machines: retries, and proxies that the machines can reach."""
    found = []
    for line in run(["apt-config", "dump"], check=False).splitlines():
        match = OPTIONS.match(line)
        if match and not _on_loopback(match["value"]):
            found.append(f'{match[1]} "{match["value"]}"')
    for scheme in ("http", "https"):
        proxy = os.environ.get(f"{scheme}_proxy", "")
        if (
            proxy
            and not _on_loopback(proxy)
            and not any(option.startswith(f"Acquire::{scheme}::Proxy") for option in found)
        ):
            found.append(f'Acquire::{scheme}::Proxy "{proxy}"')
    return found


def _on_loopback(value: str) -> bool:
    return re.search(r"//(127\.|localhost|\[::1\])", value) is not None
