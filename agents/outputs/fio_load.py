# SPDX-License-Identifier: Apache-2.0
"""fio's JSON document, job by job, without ever holding all of it as objects: a long json+ is mostly histogram bins.

A job's text begins with `{ "jobname" :` in every version of fio, and in valid JSON no string can hold those bytes. So
the text is cut there; when the head, every piece and the tail are valid JSON of their own, then so is the whole, and it
says the same. Whatever does not cut is loaded whole, and what orjson refuses is read again by the standard library,
which knows the line.

The second half tells the line of each value, by paths as in error messages: "jobs[0].read.clat_ns.mean". `along` needs
what the text says, and is faster than `lines_by_path`, which reads it anew. Neither ever raises.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

import orjson

from agents.contracts import NOTHING, ParseError

# bytes: below, cutting is not worth it
WHOLE = 1 << 20
# a key that came twice with different values: fatal only for whoever reads it
TWICE = object()
_FIRST_KEY = b"jobname"
# what a colon can be in
_HOLDING = {dict, list, str}


@dataclass(frozen=True, slots=True)
class Document:
    """`jobs` are (object, line where it begins, or 0 where it is known better); `rest` is all but them."""

    rest: dict[str, object]
    jobs: Iterable[tuple[object, int]]
    # what fio printed around the document, one line
    notes: str
    # All of it; None where that is too long, or a key may have come twice.
    whole: dict[str, object] | None = None


class _Uncut(Exception):
    """The text cannot be read in pieces."""


def load_document(raw: bytes) -> Document:
    """Raises ParseError, also while `jobs` are taken."""
    start = raw.find(b"{")
    if start < 0:
        raise ParseError("no result of fio in it", 1, _decode_text(raw).lstrip().split("\n")[0])
    end = raw.rfind(b"}") + 1
    try:
        after = _text_after(raw[end:])
        if len(raw) >= WHOLE:
            rest, jobs = _cut_document(raw, start, end)
            return Document(rest, jobs, _one_line(_decode_text(raw[:start]) + "\n" + after))
        whole = data = _load_plain(raw, start, end)
        if data is None:
            data = _carefully(raw[start:end].decode())
    except _Uncut:
        whole, (data, after) = None, _slowly(_decode_text(raw))
    rest, job_texts = _split_jobs(data)
    notes = _one_line(_decode_text(raw[:start]) + "\n" + after)
    return Document(rest, [(job, 0) for job in job_texts], notes, whole)


def _text_after(raw: bytes) -> str:
    after = _decode_text(raw).strip()
    if after and not after.startswith(("fio: ", "note: ")):
        raise _Uncut
    return after


def _split_jobs(data: dict[str, object]) -> tuple[dict[str, object], list[object]]:
    """The jobs: fio's own, or with --client those of all clients."""
    for name in ("jobs", "client_stats"):
        jobs = data.get(name)
        if isinstance(jobs, list) and jobs:
            return {key: value for key, value in data.items() if key != name} | {name: []}, jobs
    raise ParseError("JSON, but not a result of fio: no jobs in it")


def _cut_document(
    raw: bytes, start: int, end: int
) -> tuple[dict[str, object], Iterator[tuple[object, int]]]:
    starts = list(_starts(raw, start))
    if len(starts) < 2:
        raise _Uncut
    head = _object(raw[start : starts[0]] + b"]}")
    name = next(reversed(head), "")
    if name not in ("jobs", "client_stats") or head[name] != []:
        raise _Uncut
    tail = _object(b'{"jobs":[' + raw[starts[-1] : end])
    last = tail["jobs"]
    if not isinstance(last, list) or len(last) != 1 or set(tail) & set(head) > {"jobs"}:
        raise _Uncut
    return {**tail, **head, name: []}, _job_pieces(raw, starts, last[0])


def _starts(raw: bytes, at: int) -> Iterator[int]:
    # without its quotes, which bins are full of: bytes.find skips by the last byte
    while (at := raw.find(_FIRST_KEY, at)) >= 0:
        before = raw[max(at - 64, 0) : at].rstrip(b'"').rstrip()
        if before.endswith(b"{") and raw[at - 1 : at + 8] == b'"jobname"':
            yield max(at - 64, 0) + len(before) - 1
        at += len(_FIRST_KEY)


def _job_pieces(raw: bytes, starts: list[int], last: object) -> Iterator[tuple[object, int]]:
    line, counted = 1, 0
    for begin, end in zip(starts, [*starts[1:], None], strict=True):
        line, counted = line + raw.count(b"\n", counted, begin), begin
        if end is None:
            yield last, line
            return
        comma = raw.rfind(b",", begin, end)
        try:
            if raw[comma + 1 : end].strip():
                raise _Uncut
            yield _object(raw, begin, comma), line
        except _Uncut:
            # says what is wrong, and where
            _slowly(_decode_text(raw))
            raise ParseError("a job that cannot be read", line, "") from None


def _object(raw: bytes, begin: int = 0, end: int | None = None) -> dict[str, object]:
    """A JSON object, at orjson's speed where no key comes twice. Raises _Uncut."""
    end = len(raw) if end is None else end
    members = _load_plain(raw, begin, end)
    return _carefully(raw[begin:end].decode()) if members is None else members


def _load_plain(raw: bytes, begin: int, end: int) -> dict[str, object] | None:
    """None where a key may come twice. Raises _Uncut."""
    try:
        data = orjson.loads(memoryview(raw)[begin:end])
    except orjson.JSONDecodeError:
        raise _Uncut from None
    if not isinstance(data, dict):
        raise _Uncut
    # orjson takes the last of two keys silently; then there are more colons than members
    if raw.find(b"\\", begin, end) >= 0 or raw.count(b":", begin, end) != _colons(data):
        return None
    return data


def _carefully(text: str) -> dict[str, object]:
    try:
        data: dict[str, object] = json.loads(
            text, object_pairs_hook=_unique_pairs, parse_constant=_constant
        )
    except (ParseError, ValueError, RecursionError):
        raise _Uncut from None
    return data


def _colons(value: object) -> int:
    """The colons that this value has as JSON, if no key holds one and none comes twice."""
    count, todo = 0, [value]
    while todo:
        node = todo.pop()
        # orjson makes nothing but these
        if type(node) is dict:
            count += len(node)
            # of bins only what is right is counted: with anything but numbers in them there are too few
            if type(bins := node.get("bins")) is dict:
                count += len(bins)
                todo += [
                    within
                    for key, within in node.items()
                    if key != "bins" and type(within) in _HOLDING
                ]
            else:
                todo += [within for within in node.values() if type(within) in _HOLDING]
        elif type(node) is list:
            todo += node
        elif type(node) is str:
            count += node.count(":")
    return count


def _slowly(text: str) -> tuple[dict[str, object], str]:
    """The object and the text after it, parsed by the standard library, whose errors carry the line."""
    start = text.find("{")
    decoder = json.JSONDecoder(object_pairs_hook=_unique_pairs, parse_constant=_constant)
    try:
        data, end = decoder.raw_decode(text, start)
    except json.JSONDecodeError as error:
        culprit = text.split("\n")[error.lineno - 1]
        raise ParseError(f"broken or truncated JSON: {error.msg}", error.lineno, culprit) from None
    except ParseError as error:
        raise ParseError(str(error), *_find_member(text, error.text)) from None
    except (ValueError, RecursionError) as error:
        raise ParseError(f"JSON that cannot be read: {str(error)[:80]}") from None
    after = text[end:].strip()
    if "{" in after:
        line = text.count("\n", 0, text.index("{", end)) + 1
        raise ParseError("a second result in one file; fio was told --status-interval?", line, "{")
    if after and not after.startswith(("fio: ", "note: ")):
        raise ParseError("text after the result", text.count("\n", 0, end) + 2, after)
    return data, after


def _decode_text(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise ParseError("not text", line, repr(raw[error.start : error.start + 40])) from None


def _one_line(text: str) -> str:
    return "; ".join(
        "".join(filter(str.isprintable, line)).strip() for line in text.splitlines() if line.strip()
    )[:1000]


def _unique_pairs(pairs: list[tuple[str, object]]) -> dict[str, object]:
    members: dict[str, object] = {}
    for key, value in pairs:
        members[key] = TWICE if key in members and members[key] != value else value
    return members


def _constant(name: str) -> float:
    raise ParseError(f"{name} is not a number", text=name)


def _find_member(text: str, key: str) -> tuple[int, str]:
    lines = text.split("\n")
    return next(((n, line.strip()) for n, line in enumerate(lines, 1) if key in line), (0, ""))


# bytes: about a quarter of a second
LARGEST = 1 << 19
# objects in each other that `along` follows; fio's are five
DEEPEST = 20
# A histogram is most of a document, and nobody asks for the line of a bin: it is passed over in one step.
_BINS = r'"(bins)"\s*:\s*\{[^{}\[\]]*\}|'
# nearly none has a backslash
_STRING = r'"([^"\\\n]*(?:\\.[^"\\\n]*)*)"'
# As a pretty printer has nearly all members: with a plain value, and to the end of the line.
_MEMBER = rf'{_STRING}[ \t]*:[ \t]*(?:[-+.\w]+|"[^"\\\n]*"),?\n|'
BINS_ALONE = frozenset({"bins"})
Some = Mapping[str, Callable[[tuple[str, ...]], Iterable[str]]]
# for who wants them: that group never matches
_NO_BINS = "(?!)(bins)|"
# With the blanks before it: a search that begins at each of them would be most of the work.
_TOKEN, _TOKEN_OF_ALL = (
    re.compile(rf"[ \t]*(?:{bins}{_MEMBER}{_STRING}(\s*:)?|([{{}}\[\],\n]))")
    for bins in (_BINS, _NO_BINS)
)
# groups of that
BINS, MEMBER, STRING, COLON, MARK = range(1, 6)


def lines_by_path(text: str, skip: frozenset[str] = BINS_ALONE) -> dict[str, int]:
    """Line (from 1) by path, of members and array items. Members of objects named in `skip` have none."""
    lines: dict[str, int] = {}
    # of a key that is there twice the first one counts
    note = lines.setdefault
    places: list[_Place] = []
    # the last of them
    place: _Place | None = None
    path, line = "", 1
    tokens = _TOKEN if "bins" in skip else _TOKEN_OF_ALL
    for token in tokens.finditer(text):
        last = token.lastindex
        if last == MEMBER:
            if place is not None and not place.skipped:
                path = place.before + token[MEMBER]
                note(path, line)
            line += 1
        elif last == MARK:
            mark = token[MARK]
            if mark == "\n":
                line += 1
            elif mark == ",":
                if place is not None:
                    place.index += 1
            elif mark in "{[":
                path = _item(place, path, line, lines)
                place = _Place(path, mark == "[", path.rpartition(".")[2] in skip)
                places.append(place)
            elif places:
                places.pop()
                place = places[-1] if places else None
        elif last == BINS:
            path = place.before + "bins" if place is not None else "bins"
            note(path, line)
            line += token[0].count("\n")
        elif last == COLON:
            if place is not None and not place.skipped:
                path = place.before + token[STRING]
                note(path, line)
            line += token[COLON].count("\n")
    return lines


class _Place:
    __slots__ = ("before", "index", "listed", "path", "skipped")

    def __init__(self, path: str, listed: bool, skipped: bool) -> None:
        self.path, self.listed, self.skipped, self.index = path, listed, skipped, 0
        # stands before the keys of its members
        self.before = f"{path}." if path else ""


def along(
    text: str,
    document: Mapping[str, object],
    skip: frozenset[str] = BINS_ALONE,
    some: Some = NOTHING,
) -> dict[str, int] | None:
    """The same of the object that begins with the text's first brace and says what is given, every key of it once.

    None where it is not laid out as fio does it: `lines` then. Objects named in `skip` hold numbers and nothing else,
    and so do those in `some`, of which only the members have a line that its function picks.
    """
    start = text.find("{")
    # what looks like a string's end may then be in it
    if start < 0 or "\\" in text:
        return None
    walk = _Walk(text, start, skip, some)
    try:
        walk.walk_members(document, "", 0)
    except _Astray:
        return None
    return walk.found


class _Astray(Exception):
    """Text that goes on otherwise than the object says."""


class _Walk:
    """Goes through the text from key to key: behind a number, and behind a string that is passed over, the next quote
    is a key's. `at` is the bracket of an object or array that begins.
    """

    __slots__ = ("at", "found", "line", "skip", "some", "text")

    def __init__(self, text: str, start: int, skip: frozenset[str], some: Some) -> None:
        self.skip, self.some = skip, some
        self.text, self.at, self.line = text, start, 1 + text.count("\n", 0, start)
        self.found: dict[str, int] = {}

    def walk_members(self, members: Mapping[str, object], path: str, depth: int) -> None:
        if depth > DEEPEST:
            raise _Astray
        text, at, line, note = self.text, self.at + 1, self.line, self.found.setdefault
        before = f"{path}." if path else ""
        for key, value in members.items():
            place = text.find('"', at)
            if not text.startswith(key + '" : ', place + 1):
                raise _Astray
            line += text.count("\n", at, place)
            within = before + key
            note(within, line)
            at = place + len(key) + 5
            if isinstance(value, str):
                at += len(value) + 2
            elif isinstance(value, dict | list):
                self.at, self.line = at, line
                self.walk_value(value, within, key, depth + 1)
                at, line = self.at, self.line
        self.at, self.line = at, line

    def walk_value(self, value: object, path: str, key: str, depth: int) -> None:
        if isinstance(value, list):
            self.items(value, path, depth)
        elif not isinstance(value, dict):
            raise _Astray
        elif key in self.skip:
            self.to("}")
        elif key in self.some:
            self.picked(self.some[key](tuple(value)), path)
        else:
            self.walk_members(value, path, depth)

    def picked(self, keys: Iterable[str], path: str) -> None:
        for key in keys:
            self.to(f'"{key}" : ')
            self.found.setdefault(f"{path}.{key}", self.line)
        self.to("}")

    def items(self, values: list[object], path: str, depth: int) -> None:
        if depth > DEEPEST:
            raise _Astray
        self.at += 1
        for index, value in enumerate(values):
            if isinstance(value, str):
                self.to('"')
                self.at += len(value) + 2
            elif isinstance(value, dict | list):
                self.to("{" if isinstance(value, dict) else "[")
                within = f"{path}[{index}]"
                self.found.setdefault(within, self.line)
                self.walk_value(value, within, "", depth + 1)

    def to(self, character: str) -> None:
        at = self.text.find(character, self.at)
        if at < 0:
            raise _Astray
        self.line += self.text.count("\n", self.at, at)
        self.at = at


def _item(place: _Place | None, path: str, line: int, lines: dict[str, int]) -> str:
    """The path of an object or array that begins here: that of its key, or its place in the array around it."""
    if place is None:
        return ""
    if place.listed:
        path = f"{place.path}[{place.index}]"
        lines.setdefault(path, line)
    return path
