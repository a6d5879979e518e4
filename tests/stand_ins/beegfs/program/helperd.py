# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The helper daemon: writes the client's messages into a log file and resolves host names for it."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any

from .daemon import Daemon, live
from .wire import Reply


def _serve(daemon: Daemon) -> Callable[[], None]:
    def answer(asked: dict[str, Any], _content: bytes) -> Reply:
        if asked["op"] == "resolve":
            return {"address": socket.gethostbyname(asked["name"])}, b""
        daemon.log(asked["context"], asked["text"])
        return {}, b""

    daemon.listen(daemon.settings.port("connHelperdPortTCP"), answer)
    return lambda: None


def main(argv: list[str]) -> int:
    """``beegfs-helperd cfgFile=FILE``"""
    return live("helperd", argv[1:], _serve)
