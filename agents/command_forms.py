# SPDX-License-Identifier: Apache-2.0
"""Forms of commands, flag by flag, with the words that can name a group, array, pool or mapping. Pure.

A layer whose program no other layer uses declares the forms itself (`COMMANDS`, see agents/drivers/protocols.py); the
forms of shared programs are in agents/safety/name_places.py.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

NUMBER = r"\+?\d+(?:[a-zA-Z]|%[A-Z]+)?"
# The kind of each argument of a script (KINDS): first those that come once, then those that repeat.
Arguments = tuple[Sequence[str], Sequence[str]]
PATH = r"/[^\n]*"
KINDS = {
    "path": PATH,
    "setting": r"/(?:sys|proc/sys)/[^\n]*",
    "number": r"\d+",
    "value": r"[^\n]*",
    "name": r"[^\n]*",
    "mark": r"\.benchlab",
    "flag": r"--[a-z][a-z0-9_-]*",
}
# LVM's own settings. One of its lists names groups; the others are patterns of paths, and kinds of device.
_SETTING = r"(?:monitoring|backup|archive|use_lvmetad)=[01]"
_STRING = r'"[^"\\{}]*"'
_LIST = rf"(?:volume_list|filter|global_filter|types)=\[{_STRING}(?:,(?:{_STRING}|\d+))*\]"
_SECTION = rf"[a-z]+\{{(?:{_SETTING}|{_LIST})(?: (?:{_SETTING}|{_LIST}))*\}}"
CONFIG = re.compile(rf"{_SECTION}(?: {_SECTION})*")


@dataclass(frozen=True, slots=True)
class Form:
    """One way to call a program. Anything but a flag is an operand, and can be a name."""

    # flags without a value
    alone: str = ""
    # flag -> pattern of a value that is no name
    taking: Mapping[str, str] = field(default_factory=dict)
    # flags whose value can be a name
    naming: str = ""
    # words that come first
    begins: tuple[str, ...] = ()
    # operands that are keywords of the program, after the first one
    keywords: str = ""

    def names_in(self, words: Sequence[str]) -> list[str] | None:
        """The part of each word that can be a name, "" for none; None if the words do not have this form."""
        if tuple(words[: len(self.begins)]) != self.begins:
            return None
        names, rest, operands = [""] * len(self.begins), list(words[len(self.begins) :]), 0
        while rest:
            word = rest.pop(0)
            if not word.startswith("-"):
                own = bool(self.keywords and operands and re.fullmatch(self.keywords, word))
                names.append("" if own else word)
                operands += 1
            elif self.alone and re.fullmatch(self.alone, word):
                names.append("")
            elif rest and (name := self._follows(word, rest.pop(0))) is not None:
                names += ["", name]
            else:
                return None
        return names

    def _follows(self, flag: str, word: str) -> str | None:
        """The part of a flag's value that can be a name. We never write a value that is itself a flag."""
        if word.startswith("-"):
            return None
        if flag == "--config" and flag in self.taking:
            return _option_groups(word) if CONFIG.fullmatch(word) else None
        if flag in self.taking:
            return "" if re.fullmatch(self.taking[flag], word) else None
        return word if self.naming and re.fullmatch(self.naming, flag) else None


def _option_groups(config: str) -> str:
    lists: list[str] = re.findall(rf"volume_list=\[({_STRING}(?:,{_STRING})*)\]", config)
    return " ".join(lists).replace('"', "")
