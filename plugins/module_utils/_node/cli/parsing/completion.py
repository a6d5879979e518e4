# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Completion of hpcnode's commands, actions, options and their values in bash and zsh.

Both scripts consist of tables and a few lines that read them, so that neither starts hpcnode.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator

from ...setup.tools.layout import MARK
from .outline import Argument, Outline

# $place is the path of the command and its action, as in the tables: "stage run".
_BASH = """\
{mark}
_hpcnode() {{
    local current=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD - 1]}} place= word number
    # bash splits --option=value into three words.
    if [[ $current == = ]]; then
        current=
    elif [[ $before == = ]]; then
        before=${{COMP_WORDS[COMP_CWORD - 2]}}
    fi
    for ((number = 1; number < COMP_CWORD; number++)); do
        word=${{COMP_WORDS[number]}}
        case $word in
{valued}) ((number++)); [[ ${{COMP_WORDS[number]}} != = ]] || ((number++)) ;;
        -*) ;;
        *)
            case "${{place:+$place }}$word" in
{places}) place="${{place:+$place }}$word" ;;
            esac
            ;;
        esac
    done
    COMPREPLY=()
    case "$place $before" in
{values}
    esac
    case $place in
{names}
    esac
}}
complete -F _hpcnode hpcnode
"""
_BASH_WORDS = 'COMPREPLY=($(compgen -W "{words}" -- "$current"))'
_BASH_FILES = 'compopt -o filenames; COMPREPLY=($(compgen {option} -- "$current"))'

_ZSH = """\
#compdef hpcnode
{mark}
_hpcnode() {{
    local before=${{words[CURRENT - 1]}} place= word number
    local -a found
    for ((number = 2; number < CURRENT; number++)); do
        word=${{words[number]}}
        case $word in
{valued}) ((number++)) ;;
        -*) ;;
        *)
            case "${{place:+$place }}$word" in
{places}) place="${{place:+$place }}$word" ;;
            esac
            ;;
        esac
    done
    case "$place $before" in
{values}
    esac
    case $place in
{names}
    esac
    _describe hpcnode found
}}
_hpcnode "$@"
"""


def bash_completion(outline: Outline) -> str:
    """Return the script for bash."""
    return _BASH.format(
        mark=MARK,
        valued="        " + _patterns(_valued(outline)),
        places="            " + _patterns(_paths(outline)),
        values="\n".join(f"    {_patterns(keys)}) {_bash_values(one)}; return ;;" for one, keys in _values(outline)),
        names="\n".join(
            f'    "{" ".join(node.path)}") {_BASH_WORDS.format(words=" ".join(_names(node)))} ;;'
            for node in outline.everything()
        ),
    )


def zsh_completion(outline: Outline) -> str:
    """Return the script for zsh, which also shows what each word means."""
    return _ZSH.format(
        mark=MARK,
        valued="        " + _patterns(_valued(outline)),
        places="            " + _patterns(_paths(outline)),
        values="\n".join(f"    {_patterns(keys)}) {_zsh_values(one)}; return ;;" for one, keys in _values(outline)),
        names="\n".join(
            f'    "{" ".join(node.path)}") found=({" ".join(_described(node))}) ;;' for node in outline.everything()
        ),
    )


def _patterns(words: Iterable[str]) -> str:
    return " | ".join(f'"{word}"' for word in words)


def _valued(outline: Outline) -> list[str]:
    """Return the options that take a value, so that a shell does not read the value as a command or an action."""
    options = (one for node in outline.everything() for one in (*node.arguments, *node.common))
    return sorted({name for one in options if one.value for name in one.names})


def _paths(outline: Outline) -> list[str]:
    return [" ".join(node.path) for node in outline.everything() if node.path]


def _values(outline: Outline) -> Iterator[tuple[Argument, list[str]]]:
    """Yield the options that take a value, each with its places and names, as in ``stage run --source``."""
    for node in outline.everything():
        for one in (*_arguments(node), *node.common):
            keys = [f"{' '.join(node.path)} {name}" for name in one.names]
            if one.value and keys:
                yield one, keys


def _arguments(node: Outline) -> tuple[Argument, ...]:
    """Return the arguments of a command, with those of the action that runs if none is named."""
    default = next((branch for branch in node.branches if branch.name == node.default), None)
    return (*node.arguments, *(default.arguments if default else ()))


def _names(node: Outline) -> list[str]:
    """Return the words that may follow."""
    return [word for word, _meaning in _with_meaning(node)]


def _with_meaning(node: Outline) -> Iterator[tuple[str, str]]:
    for branch in node.branches:
        yield branch.name, branch.summary
    for one in (*_arguments(node), *node.common):
        for word in one.names or one.words:
            yield word, one.help


def _described(node: Outline) -> Iterator[str]:
    for word, meaning in _with_meaning(node):
        yield shlex.quote(f"{word}:{meaning}")


def _bash_values(argument: Argument) -> str:
    if argument.words:
        return _BASH_WORDS.format(words=" ".join(argument.words))
    if argument.is_file or argument.is_folder:
        return _BASH_FILES.format(option="-d" if argument.is_folder else "-f")
    # Nothing is known about other values.
    return ":"


def _zsh_values(argument: Argument) -> str:
    if argument.words:
        return f"compadd -- {' '.join(map(shlex.quote, argument.words))}"
    if argument.is_file or argument.is_folder:
        return "_files -/" if argument.is_folder else "_files"
    return f"_message {shlex.quote(argument.help)}"
