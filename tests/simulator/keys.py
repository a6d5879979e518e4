# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The administrator's key pair of a simulator."""

from __future__ import annotations

import os
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

PRIVATE = "id_ed25519"
PUBLIC = "id_ed25519.pub"


def make(state_dir: Path, name: str) -> str:
    """The public key of the pair in the state folder. The pair is made if it is missing."""
    public = state_dir / PUBLIC
    if public.exists() and (state_dir / PRIVATE).exists():
        return public.read_text(encoding="utf-8").strip()
    key = Ed25519PrivateKey.generate()
    private_text = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption()
    )
    descriptor = os.open(state_dir / PRIVATE, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(private_text)
    text = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH).decode()
    text = f"{text} simulator-{name}"
    public.write_text(text + "\n", encoding="utf-8")
    return text
