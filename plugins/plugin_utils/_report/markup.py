# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Elements of HTML. Everything that is not made here is text, and is escaped, because nodes can send any text."""

from __future__ import annotations

from html import escape

from .gather import is_time, state_word
from .words import SYMBOLS


class Html(str):
    """Text that is HTML already."""

    __slots__ = ()


def element(tag: str, *children: str, **attributes: str) -> Html:
    """Return an element.

    :param children: HTML as it is, and any other text escaped.
    :param attributes: names with ``_`` for ``-``, and one more ``_`` at the end of Python's keywords.
    """
    named = (f' {name.rstrip("_").replace("_", "-")}="{escape(value)}"' for name, value in attributes.items())
    return Html(f"<{tag}{''.join(named)}>{joined(*children)}</{tag}>")


def joined(*parts: str) -> Html:
    """Return the parts one after another: HTML as it is, and any other text escaped."""
    return Html("".join(part if isinstance(part, Html) else escape(part) for part in parts))


def unseen(text: str) -> Html:
    """Return text that only screen readers present."""
    return element("span", text, class_="unseen")


def symbol(state: str, label: str = "") -> Html:
    """Return the symbol of a state.

    :param label: its name for screen readers, if no text beside it has the name.
    """
    path = element("path", d=SYMBOLS[state])
    if label:
        return element("svg", path, viewBox="0 0 16 16", class_=f"symbol is-{state}", role="img", aria_label=label)
    return element("svg", path, viewBox="0 0 16 16", class_=f"symbol is-{state}", aria_hidden="true")


def badge(state: str) -> Html:
    """Return a state with its symbol."""
    return element("span", symbol(state), state_word(state), class_=f"badge is-{state}")


def link(address: str, text: str, about: str) -> Html:
    """Return a link to another site.

    :param about: what distinguishes it from links with the same text, for screen readers.
    """
    return element("a", text, unseen(f" {about}"), href=address, target="_blank", rel="noopener noreferrer")


def moment(text: str, **attributes: str) -> Html:
    """Return a time in UTC. The page's script adds the reader's local time."""
    if not is_time(text):
        return element("span", text, **attributes)
    return element("time", f"{text[:10]} {text[11:19]} UTC", datetime=text, **attributes)
