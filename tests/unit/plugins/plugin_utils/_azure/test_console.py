# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Host keys are read from consoles in the formats of Ubuntu, RHEL 9 and Debian, and never from text of users."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ansible_collections.hpcai.azure.plugins.plugin_utils._azure.concurrency import Deadline
from ansible_collections.hpcai.azure.plugins.plugin_utils._azure.console import (
    Console,
    HostKey,
    complete_key,
    read_console,
    wait_for_keys,
)
from ansible_collections.hpcai.azure.plugins.plugin_utils._azure.targets import Target

ED25519 = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAINdl5VwOM5h6uq1Z098Xi5fvyJSQDcCcEnZZYvHS/fNh"
EVIL = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGFLC6yXTpYmdkQstt6l2vzoJHRkQfvFllD3sVNg0L3o"
ECDSA = (
    "ecdsa-sha2-nistp256 AAAAE2VjZHNhLXNoYTItbmlzdHAyNTYAAAAIbmlzdHAyNTYAAABBBHN14OCnYTeMh09qRzmWhtXsCgMOQu5S4WLksyBkQs"
    "NFil50MPdN8EoE0hh4dw70UzctiMXmQW/vStGeeyLv7OA="
)
RSA = "ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAAAIQDT0Wo3uY0eGm1tWm2oPm4bYdA9s8mXbY9Qm0mQvVx3Tw=="
BEGIN, END = "-----BEGIN SSH HOST KEY KEYS-----", "-----END SSH HOST KEY KEYS-----"

UBUNTU = f"""\
[    0.000000] Linux version 6.8.0-1030-azure (buildd@lcy02-amd64-087) #35~22.04.1-Ubuntu SMP Mon May 26
[    0.000000] Command line: BOOT_IMAGE=/boot/vmlinuz-6.8.0-1030-azure ro console=tty1 console=ttyS0 earlyprintk=ttyS0
[   12.061204] cloud-init[603]: Generating public/private ed25519 key pair.
[   12.088112] cloud-init[603]: The key fingerprint is:

Ubuntu 22.04.5 LTS compute000003 ttyS0

compute000003 login: <14>Nov 24 08:00:19 cloud-init: #############################################################
<14>Nov 24 08:00:19 cloud-init: -----BEGIN SSH HOST KEY FINGERPRINTS-----
<14>Nov 24 08:00:19 cloud-init: 256 SHA256:uNiVztksCsDhcc0u9e8BrWYYdBgZlWeLlGNrWzGyLOk root@compute000003 (ED25519)
<14>Nov 24 08:00:19 cloud-init: -----END SSH HOST KEY FINGERPRINTS-----
<14>Nov 24 08:00:19 cloud-init: #############################################################
{BEGIN}
{ECDSA} root@compute000003
{ED25519} root@compute000003
{RSA} root@compute000003
{END}
[   19.707112] cloud-init[1187]: Cloud-init v. 25.1.4-0ubuntu0~22.04.1 finished at Tue, 24 Nov 2026 08:00:19 +0000.
"""
# If the machine has no name, the comment after the key is empty.
BLANK = " "
RHEL_9 = f"""\
[    0.000000][    T0] Linux version 5.14.0-570.12.1.el9_6.x86_64 (mockbuild@x64-builder) #1 SMP PREEMPT_DYNAMIC
[    0.000000][    T0] Command line: BOOT_IMAGE=(hd0,gpt2)/vmlinuz-5.14.0 console=tty1 console=ttyS0,115200n8
[   21.337019] cloud-init[1402]: Cloud-init v. 24.4-3.el9 running 'modules:final' at Tue, 24 Nov 2026 08:00:21 +0000.
ci-info: no authorized SSH keys fingerprints found for user azureuser.
{BEGIN}
{ECDSA}{BLANK}
{ED25519}{BLANK}
{END}

AlmaLinux 9.6 (Sage Margay)
Kernel 5.14.0-570.12.1.el9_6.x86_64 on an x86_64

compute000003 login: """
DEBIAN = f"""\
\x1b[0m\x1b[37mGNU GRUB  version 2.06 [    0.000000] Linux version 6.1.0-37-cloud-amd64 (debian-kernel)
[    0.000000] Command line: BOOT_IMAGE=/boot/vmlinuz-6.1.0-37-cloud-amd64 ro console=tty0 console=ttyS0,115200

Debian GNU/Linux 12 debian ttyS0

debian login: {BEGIN}
{ED25519} root@debian
[    9.915581] hv_utils: KVP IC version 4.0
{RSA} root@debian
{END}
"""
DISTRIBUTIONS = {"ubuntu": UBUNTU, "rhel": RHEL_9, "debian": DEBIAN}
SHOWN = {"ubuntu": [ECDSA, ED25519, RSA], "rhel": [ECDSA, ED25519], "debian": [ED25519, RSA]}


def keys(log: str) -> list[str]:
    """The keys that a console shows."""
    return [str(key) for key in read_console(log).keys]


def lacks(log: str) -> str:
    """Why a console shows no keys."""
    console = read_console(log)
    assert not console.keys
    return console.problem


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r\r\n"])
@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_reads_the_keys_of_each_distribution(name: str, end: str) -> None:
    assert keys(DISTRIBUTIONS[name].replace("\n", end)) == SHOWN[name]


def block(*lines: str) -> str:
    """Lines between the begin and end marks."""
    return "\n".join([BEGIN, *lines, END]) + "\n"


@pytest.mark.parametrize(
    "prefix",
    [
        "[   99.1] cloud-init[4711]: ",
        "cloud-init[4711]: ",
        "<14>Nov 24 08:00:19 cloud-init: ",
        " ",
        "\r",
        "x\r",
        "\x1b[2K",
    ],
)
@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_ignores_keys_with_a_prefix_in_the_line(name: str, prefix: str) -> None:
    forged = "".join(f"{prefix}{line}\n" for line in block(EVIL).splitlines())
    log = DISTRIBUTIONS[name]
    kernel, _newline, rest = log.partition("\n")

    for text in (f"{kernel}\n{forged}{rest}", f"{log}\n{forged}", log.replace(f"{END}\n", f"{prefix}{EVIL}\n{END}\n")):
        assert keys(text) == SHOWN[name]


@pytest.mark.parametrize("separator", ["\r", "\x0b", "\x0c", "\x1c", "\x85", "\u2028"])
def test_only_a_line_feed_ends_a_line(separator: str) -> None:
    forged = separator.join(["[   99.1] x[4711]: ", BEGIN, EVIL, END])
    kernel, _newline, rest = UBUNTU.partition("\n")

    assert keys(f"{kernel}\n{forged}\n{rest}") == SHOWN["ubuntu"]


def test_a_log_without_the_start_of_a_boot_has_no_keys() -> None:
    assert "does not contain the start of a boot" in lacks(UBUNTU.partition("earlyprintk=ttyS0\n")[2])
    assert "does not contain the start of a boot" in lacks("")
    assert "does not contain the start of a boot" in lacks(block(EVIL) + UBUNTU.partition("\n")[2])


def test_ignores_keys_before_the_kernels_first_line() -> None:
    assert keys(block(EVIL) + UBUNTU) == SHOWN["ubuntu"]


def test_a_console_without_keys_is_reported() -> None:
    assert "shows no host keys" in lacks(UBUNTU.replace(BEGIN, ""))
    assert "shows no host keys" in lacks(UBUNTU.replace(END, ""))


def test_different_blocks_are_refused() -> None:
    assert "different sets" in lacks(UBUNTU + block(EVIL))
    assert "different sets" in lacks(UBUNTU + block(ED25519, EVIL))


def test_a_repeated_block_is_accepted() -> None:
    assert keys(UBUNTU + block(ED25519)) == SHOWN["ubuntu"]


def test_a_second_begin_mark_starts_the_block_again() -> None:
    assert keys(UBUNTU.replace(BEGIN, f"{BEGIN}\n{RSA} x\n{BEGIN}")) == SHOWN["ubuntu"]


@pytest.mark.parametrize(
    "line",
    [
        ED25519[:-4],
        f"{ED25519}AAAA",
        f"{ED25519[:40]}[    9.9] hv_utils: KVP {ED25519[40:]}",
        ED25519.replace("ssh-ed25519", "ssh-rsa"),
        ECDSA.replace("nistp256 ", "nistp384 ", 1),
        "ssh-dss AAAAB3NzaC1kc3MAAACBAL3bJ4WVn1N5nnKVKdhQf4z48Moki88rcC0lDP0bz3en",
        "ssh-ed25519 AAAA!!!!",
        "ssh-ed25519",
        "ssh-ed25519  " + ED25519.split()[1],
        "*,x " + ED25519,
        "",
    ],
)
def test_a_damaged_key_is_refused(line: str) -> None:
    assert complete_key(line) is None
    assert "damaged" in lacks(UBUNTU.partition(BEGIN)[0] + block(line))


def test_the_fingerprint_has_the_format_of_ssh_keygen() -> None:
    key = complete_key(f"{ED25519} root@x")

    assert key is not None
    assert key.fingerprint.startswith("ssh-ed25519 SHA256:")
    assert len(key.fingerprint) == len("ssh-ed25519 SHA256:") + 43


def test_keys_of_the_previous_system_are_ignored() -> None:
    previous = [key.fingerprint for key in read_console(UBUNTU).keys]
    new = f"[    0.000000] Linux version 6.8.0\n{block(EVIL)}"

    assert "still shows the host keys of its previous system" in read_console(UBUNTU, previous).problem
    assert [str(key) for key in read_console(new, previous).keys] == [EVIL]
    # Azure may keep the log of the previous system.
    assert [str(key) for key in read_console(UBUNTU + new, previous).keys] == [EVIL]
    assert "different sets" in lacks(UBUNTU + new)


A, B = Target("/a", "vm-a"), Target("/b", "vm-b")
SHOWS, SILENT = Console((HostKey("ssh-ed25519", "AAAA"),)), Console(problem="shows no host keys")
UNREADABLE = Console(problem="boot diagnostics", was_read=False)


def wait(seconds: float, console: Callable[[Target, float], Console]) -> tuple[dict[Target, Console], list[float], str]:
    """Wait for the keys of A and B. Return their consoles, the times of the readings, and which were read last."""
    now, times, last = [0.0], [], [""]

    def sleep(pause: float) -> None:
        now[0] += pause

    def read(targets: set[Target]) -> dict[Target, Console]:
        times.append(now[0])
        last[0] = "".join(sorted(target.vm_id[-1] for target in targets))
        return {target: console(target, now[0]) for target in targets}

    deadline = Deadline(seconds, lambda: now[0], sleep)
    return wait_for_keys(read, {A, B}, deadline, lambda number, left: None), times, last[0]


def test_without_a_wait_consoles_are_read_once() -> None:
    found, times, last = wait(0, lambda target, now: SILENT)

    assert (found, times, last) == ({A: SILENT, B: SILENT}, [0], "ab")


def test_the_wait_ends_as_soon_as_all_consoles_show_keys() -> None:
    found, times, last = wait(1800, lambda target, now: SHOWS if target == A or now > 100 else SILENT)

    assert found == {A: SHOWS, B: SHOWS}
    assert times == [0, 1, 3, 7, 15, 30, 45, 60, 75, 90, 105]
    assert last == "b"


def test_the_wait_ends_in_time_with_a_last_reading() -> None:
    found, times, _last = wait(20, lambda target, now: SHOWS if now == 20 else SILENT)

    assert found == {A: SHOWS, B: SHOWS}
    assert times == [0, 1, 3, 7, 15, 20]


def test_an_unreadable_console_is_not_awaited_for_long() -> None:
    found, times, _last = wait(1800, lambda target, now: UNREADABLE)

    assert found == {A: UNREADABLE, B: UNREADABLE}
    assert times[-1] == 60


def test_others_are_awaited_after_an_unreadable_console_has_been_given_up() -> None:
    found, times, last = wait(300, lambda target, now: UNREADABLE if target == A else SHOWS if now > 200 else SILENT)

    assert (found, last) == ({A: UNREADABLE, B: SHOWS}, "b")
    assert 200 < times[-1] < 220


def test_a_console_that_cannot_be_read_for_a_moment_is_awaited() -> None:
    found, _times, _last = wait(300, lambda target, now: SHOWS if now > 200 else UNREADABLE if now == 45 else SILENT)

    assert found == {A: SHOWS, B: SHOWS}
