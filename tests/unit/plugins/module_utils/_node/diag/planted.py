# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Secrets for the tests of bundles: none of them may be in an archive, wherever it was planted."""

from __future__ import annotations

import base64
import hashlib


def _random(name: str, length: int) -> bytes:
    """Bytes that look random, and are the same in each run."""
    data = b""
    while len(data) < length:
        data += hashlib.sha256(f"{name}{len(data)}".encode()).digest()
    return data[:length]


def _text(name: str, length: int) -> str:
    return base64.urlsafe_b64encode(_random(name, length)).decode().rstrip("=")


ACCOUNT_KEY = base64.b64encode(_random("account", 64)).decode()
SIGNATURE = base64.b64encode(_random("sas", 32)).decode().replace("+", "%2B").replace("/", "%2F").replace("=", "%3D")
JWT = f"eyJhbGciOiJIUzI1NiJ9.eyJzdW4iOiJhbGljZSJ9.{_text('jwt', 32)}"
PEM = base64.encodebytes(_random("pem", 300)).decode()
MUNGE_KEY = base64.b64encode(_random("munge", 128)).decode()
USER_DATA = base64.b64encode(b"#cloud-config\npassword: from-the-user-data\n").decode()

# What a log line contains around a secret, and the part that must be gone.
IN_LOGS: dict[str, tuple[str, str]] = {
    "storage key": (f"copy with AccountKey={ACCOUNT_KEY};EndpointSuffix=core.windows.net", ACCOUNT_KEY),
    "storage key alone": (f"the key is {ACCOUNT_KEY} as shown", ACCOUNT_KEY),
    "SAS": (f"GET https://a.blob.core.windows.net/c/f?sv=2021-12-02&se=2026-01-01&sp=rl&sig={SIGNATURE}", SIGNATURE),
    "SAS first": (f"token ?sig={SIGNATURE}&sv=2021-12-02", SIGNATURE),
    "access token": ('{"access_token": "plain-looking-access-token", "expires_in": "86399"}', "plain-looking-access"),
    "JWT": (f"slurmrestd: token {JWT} rejected", JWT.rpartition(".")[2]),
    "bearer": ("Authorization: Bearer abcdef-not-so-random", "abcdef-not-so-random"),
    "basic": ("> authorization: Basic YWxpY2U6c2VjcmV0", "YWxpY2U6c2VjcmV0"),
    "URL": ("proxy http://alice:hunter22@proxy:3128 refused", "hunter22"),
    "private key": (f"-----BEGIN OPENSSH PRIVATE KEY-----\n{PEM}-----END OPENSSH PRIVATE KEY-----", PEM.split("\n")[1]),
    "incomplete private key": (f"-----BEGIN RSA PRIVATE KEY-----\n{PEM}", PEM.split("\n")[2]),
    "munge key": (f"dump {MUNGE_KEY}", MUNGE_KEY[10:90]),
    "munge key in hexadecimal": (f"key {_random('munge', 32).hex()}", _random("munge", 32).hex()),
    "munge credential": ("unmunge MUNGE:AwQFAAB3c2VjcmV0Y3JlZA==: failed", "AwQFAAB3c2VjcmV0Y3JlZA"),
    "user data": (f'imds answered {{"userData": "{USER_DATA}"}}', USER_DATA),
    "environment": ("export WANDB_API_KEY=0123456789 abcdef", "0123456789 abcdef"),
    "environment of a token": ("HF_TOKEN='correct horse battery'", "correct horse battery"),
    "option": ("exec: mysql --password hunter33 --host db", "hunter33"),
    "password": ('login {"password": "pa\\"ss word"}', "ss word"),
    "hash": ("root:$6$saltsalt$abcdefghijklmnopqrstuv:19000", "abcdefghijklmnopqrstuv"),
    "client secret": ("secret is AbC8Q~abcdefghijklmnopqrstuvwxyz.12345", "abcdefghijklmnopqrstuvwxyz"),
    "hugging face": ("using hf_abcdefghijklmnopQRSTUVWX12", "hf_abcdefghijkl"),
    "github": ("clone with ghp_abcdefghijklmnop12345", "ghp_abcdefg"),
    "NGC": ("docker login -p nvapi-abcdefghij_klmnopqrst", "nvapi-abc"),
}
IN_SETTINGS = {
    "StoragePass": "DatabasePasswordInWords",
    "registry_password": "registry-in-words",
    "hook": "not-known-text",
}
