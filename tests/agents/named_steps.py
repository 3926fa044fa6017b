"""Steps of layer cases by name: what a script is stands in agents/layers (scripts.py, or the layer), and in no case.

`"@md_stop /dev/md/bl17"` is sh with the script MD_STOP and its arguments; `"@settle"` waits for udev. `"@zero sdb sdc"`
writes over both ends of these; `sdb:4096` is one place. Anything else is its list of words.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence

from agents.drivers import registry
from agents.steps import common, scripts

Written = str | list[str]
SCRIPTS = {
    name.lower(): text
    for module, own in [(scripts, scripts.ARGUMENTS)]
    + [(driver, getattr(driver, "SCRIPTS", {})) for driver in registry.all_layers().values()]
    for name, text in vars(module).items()
    if text in list(own)
}
NAMES = {text: name for name, text in SCRIPTS.items()}
# sh's own $0, which a process list shows: one word for each script.
CALLED = {name: name.rpartition("_")[2] for name in SCRIPTS} | {
    "zero_freebsd": "zero", "remove_empty": "remove", "remove_marked": "remove", "queue_write": "set",
    "sysctl_back": "set", "govern": "set", "gpart_destroy": "destroy",
}  # fmt: skip
ZEROS = ("zero", "zero_freebsd")
SETTLE = [str(word) for word in common.settle().argv]


def short(argv: Sequence[str], sizes: Mapping[str, int]) -> Written:
    """The step as a case has it; `sizes` is bytes of each node."""
    words = list(argv)
    if words == SETTLE:
        return "@settle"
    name = NAMES.get(words[2]) if words[:2] == ["sh", "-c"] else None
    if name is None or words[3] != CALLED[name]:
        return words
    given = _places(words[4:], sizes) if name in ZEROS else words[4:]
    return shlex.join([f"@{name}", *given]).replace(f"'@{name}'", f"@{name}")


def whole(step: Written, sizes: Mapping[str, int]) -> list[str]:
    """The words of a step of a case."""
    if not isinstance(step, str):
        return step
    if step == "@settle":
        return SETTLE
    called, *given = shlex.split(step)
    name = called.removeprefix("@")
    words = [word for place in given for word in _words(place, sizes)] if name in ZEROS else given
    return ["sh", "-c", SCRIPTS[name], CALLED[name], *words]


def _ends(node: str, sizes: Mapping[str, int]) -> list[str]:
    """As agents.steps.common has them: a small one has both in one."""
    last = max(sizes[node] - common.MIB, 0) if node in sizes else 0
    return [node, "0", *((node, str(last)) if last else ())]


def _places(words: Sequence[str], sizes: Mapping[str, int]) -> Iterator[str]:
    left = list(words)
    while left:
        node = left[0]
        ends = _ends(node, sizes)
        both = node in sizes and left[: len(ends)] == ends
        yield node.removeprefix("/dev/") + ("" if both else f":{left[1]}")
        del left[: len(ends) if both else 2]


def _words(place: str, sizes: Mapping[str, int]) -> list[str]:
    name, colon, at = place.rpartition(":")
    return [f"/dev/{name}", at] if colon and at.isdigit() else _ends(f"/dev/{place}", sizes)
