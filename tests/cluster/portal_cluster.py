# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the tests of the portal on nodes share: its users, its archives, and a notebook of a user."""

from __future__ import annotations

from pathlib import Path

from browser.portal_page import Portal

from simulated.portal_files import portal_files
from simulator.suite import suite

PASSWORDS = {"alice": "wonderland", "bob": "builder"}
# Of these passwords, with "openssl passwd -6".
HASHES = {
    "alice": "$6$portaltest$I8xGDfd1pVzFIiImvg97Yrqq.bbDxk1R6SsbUi8mdABM3DZI.s.os0VjHJB7LQNb..oTYRi6rx3lg.FiY6W/S0",
    "bob": "$6$portaltest$ka.7ibY90EKzAMu5ZX36L65uUQ310BqGohxmfGPqGjt41y6NjgsVetjU5LLs8WSikk87yyPq19xSQ2dM27rjP.",
}
USERS = [{"name": name, "uid": uid, "password_hash": HASHES[name]} for name, uid in (("alice", 4001), ("bob", 4002))]
FOLDERS = "sudo sh -c 'ls -d /tmp/hpcai-notebook-* /scratch/job_tmp/*/*/hpcai-notebook-*' 2>/dev/null"
"""A command that lists the folders of a node's notebooks."""


def archives(work: Path) -> Path:
    """The folder with the archives for nodes without access to package registries."""
    return portal_files({"trixie": "3.13", "bookworm": "3.11"}[suite()], work)


def use_notebook(portal: Portal, user: str = "alice", hours: str = "1") -> None:
    """Log in, and wait for a notebook; one that runs already is used again."""
    portal.log_in(user, PASSWORDS[user])
    portal.page.wait("location.pathname !== '/hub/login'")
    if not portal.at().startswith("/user/"):
        portal.start(hours)
    portal.wait_for_lab()
