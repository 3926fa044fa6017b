# SPDX-License-Identifier: Apache-2.0
"""Command lines as terminal logs show them: behind any prompt, sudo, environment, path; up to a pipe or redirection.

The one place that tells them, for every reader. A line of prose that speaks of a program is no command of it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

# characters of a line that may be a command
LONGEST = 2000
# What ends a prompt, or another command of the same line: nothing before it is a part of the command.
BEFORE = re.compile(r"[#$%>❯➜λ»✗›;&|(`]|\bthen\b|\bdo\b")
# Such prompts go on behind their sign: "➜  ~ git:(main) iostat -x 1"
ARROW = re.compile(r"^\s*[➜❯λ»›]")
PLACE = re.compile(r"~\S*|/\S*|git:\S*|\S+\)|[\w.-]+")
SET = re.compile(r"[A-Za-z_]\w*=\S*")
# set -x, `time -p`'s kin, a duration
NOTHING = re.compile(r"\+{1,9}|-|!|\d+[smhd]?|\{|-{2}")
# Programs that run another one, and how many words of their own they take beside options.
WRAPPERS = {
    "sudo": 0,
    "doas": 0,
    "env": 0,
    "time": 0,
    "nice": 0,
    "ionice": 0,
    "nohup": 0,
    "exec": 0,
    "command": 0,
    "stdbuf": 0,
    "unbuffer": 0,
    "setsid": 0,
    "watch": 0,
    "builtin": 0,
    "eatmydata": 0,
    "numactl": 0,
    "strace": 0,
    "perf": 1,
    "timeout": 1,
    "taskset": 1,
    "chrt": 1,
    "chroot": 1,
    "ssh": 1,
    "su": 1,
    "docker": 2,
    "podman": 2,
    "kubectl": 2,
    "lxc-attach": 1,
    "cgexec": 0,
    "systemd-run": 0,
    "bash": 0,
    "sh": 0,
}
# Up to a pipe, a redirection, the next command; none of these within quotes.
ENDS = re.compile(r"""(?:"[^"\n]*"|'[^'\n]*'|\\.|[^\\"'|;&<>`\n)]|(?<=\w)\)(?=\w))*""")
# of "2> file"
DESCRIPTOR = re.compile(r"\s[012&]$")
# `watch`: its host and date behind
WATCH = re.compile(r"Every [\d.,]{1,8}s: (.*?)(?:\s{2,}\S.*)?$")
COMMENT = re.compile(r"\s#\s.*$")


@dataclass(frozen=True, slots=True)
class Command:
    """`text` as it was typed, sudo and path with it; `words` begin with the program's own name."""

    text: str = ""
    words: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.words)

    def flag(self, letter: str) -> bool:
        """True if it is among the one-letter options, alone or combined: `-y`, `-dxy`."""
        return any(re.fullmatch(rf"-[A-Za-z]*{letter}[A-Za-z]*", word) for word in self.words[1:])


NONE = Command()
# What may be between a command and its output: a password asked for, ssh's and script's words, markdown's fence.
BETWEEN = re.compile(
    r"\[sudo\] .{0,80}|.{0,60}\b(?:[Pp]assword|[Pp]assphrase)\b.{0,60}:|Warning: Permanently added .{0,200}"
    r"|Script started.{0,200}|Sorry, try again\.|(?:`{3,}|~{3,})[\w-]{0,20}"
)


def may_stand_between(line: str) -> bool:
    """True for a line that may stand between a command and its output and belongs to neither."""
    return len(line) < 300 and bool(BETWEEN.fullmatch(line.strip()))


def find_command(line: str, program: str) -> Command:
    """The last command of that program (`zpool iostat` has two words) in a line; NONE where there is none."""
    if program.partition(" ")[0] not in line or len(line) > LONGEST:
        return NONE
    if watched := WATCH.match(line):
        line = watched[1]
    for match in reversed(list(_program_pattern(program).finditer(line))):
        start = _command_start(line, match.start())
        if start is not None:
            return _parse_command(line, start, match)
    return NONE


@cache
def _program_pattern(program: str) -> re.Pattern[str]:
    words = r"\s+".join(map(re.escape, program.split()))
    return re.compile(
        rf"(?<![\w.~+/-])(?P<path>(?:[\w.~+-]*/)*)(?P<name>{words})(?![^\s;|&<>)`\"'])"
    )


def _command_start(line: str, at: int) -> int | None:
    """Start of the command that has its program at `at`; None if what stands before makes it no command."""
    ends = [match.end() for match in BEFORE.finditer(line, 0, at)]
    start = ends[-1] if ends else 0
    words = [(match.start(), match[0]) for match in re.finditer(r"\S+", line[start:at])]
    if ARROW.match(line) and len(ends) < 4:
        while words and words[0][1] not in WRAPPERS and PLACE.fullmatch(words[0][1]):
            words.pop(0)
    while words and NOTHING.fullmatch(words[0][1]):
        words.pop(0)
    if not _wrapped([word.strip("\"'") for _, word in words]):
        return None
    return start + words[0][0] if words else at


def _wrapped(words: list[str]) -> bool:
    """Are these only assignments and programs that run another, with their options?"""
    at = 0
    while at < len(words):
        name = words[at].rpartition("/")[2]
        if SET.fullmatch(words[at]) or not words[at]:
            at += 1
        elif name in WRAPPERS:
            at = _arguments(words, at + 1, WRAPPERS[name])
        else:
            return False
    return True


def _arguments(words: list[str], at: int, own: int) -> int:
    """Behind a wrapper's options, with the value of each, and its own words."""
    while at < len(words) and words[at].rpartition("/")[2] not in WRAPPERS:
        if words[at].startswith("-"):
            following = words[at + 1] if at + 1 < len(words) else "-"
            valued = not following.startswith("-") and not SET.fullmatch(following)
            valued = valued and following.rpartition("/")[2] not in WRAPPERS
            at += 1 + valued
        elif own:
            at, own = at + 1, own - 1
        else:
            break
    return at


def _parse_command(line: str, start: int, match: re.Match[str]) -> Command:
    name = match.start("name")
    ended = ENDS.match(line, name)
    end = ended.end() if ended else len(line)
    quotes = ""
    # it stands in quotes itself: ssh host "iostat -x 1"
    for mark in "\"'":
        if line[max(start - 1, 0) : name].count(mark) % 2:
            closing = line.find(mark, match.end())
            end, quotes = (closing, mark) if closing >= 0 else (end, "")
    body = line[name:end]
    if line[end : end + 1] in ("<", ">"):
        body = DESCRIPTOR.sub("", body)
    body = COMMENT.sub("", body).rstrip()
    before = " ".join(line[start:name].split()) + (" " if line[name - 1 : name].isspace() else "")
    unquoted = before.lstrip("\"'") if not quotes or quotes not in before else before
    text = f"{unquoted.lstrip()}{body}{quotes if quotes in before else ''}"
    return Command(text, tuple(body.split()))
