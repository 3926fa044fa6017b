"""The words of mkfs: label, alignment to the stripe below, discard. Sources: mkfs.xfs(8), mke2fs(8), mkfs.btrfs(8)."""

from __future__ import annotations

from collections.abc import Sequence

from agents.contracts import Target

EXT4_BLOCK = 4096
# Leave old blocks as they are; ext4: see _ext4
KEEP = {
    "xfs": ("-K",),
    "btrfs": ("-K",),
    "ext4": (),
}


def command(
    kind: str, target: Target, more: Sequence[str], nodiscard: bool
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """argv, and notes worth recording."""
    geometry, notes = _geometry(kind, target)
    start = {"xfs": ("-q", "-f"), "ext4": ("-q", "-F"), "btrfs": ("-f",)}[kind]
    keep = KEEP[kind] if nodiscard else ()
    if kind == "ext4":
        geometry, more = _ext4(geometry, more, nodiscard)
    argv = (f"mkfs.{kind}", *start, "-L", target.name, *geometry, *keep, *more, target.volume)
    return argv, notes


def _geometry(kind: str, target: Target) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Align to the stripe below, and say so. btrfs has no such option."""
    unit, count = target.stripe_unit, target.stripe_count
    if count < 2 or unit <= 0 or kind == "btrfs":
        return (), ()
    if unit % EXT4_BLOCK:
        return (), (f"a stripe unit of {unit} B is not a multiple of {EXT4_BLOCK} B: not aligned",)
    blocks = unit // EXT4_BLOCK
    words = {
        "xfs": ("-d", f"su={unit},sw={count}"),
        "ext4": ("-E", f"stride={blocks},stripe_width={blocks * count}"),
    }[kind]
    return words, (f"{kind} aligned to the layer below: {count} stripes of {unit} B ({words[1]})",)


def _ext4(
    geometry: tuple[str, ...], more: Sequence[str], nodiscard: bool
) -> tuple[tuple[str, ...], Sequence[str]]:
    """All extended options in one -E: of several mke2fs takes only the last, and the alignment would be lost."""
    extended, rest = list(geometry[1:]), []
    words = iter(more)
    for word in words:
        if word.startswith("-E"):
            extended.append(word[2:] or next(words, ""))
        else:
            rest.append(word)
    if nodiscard:
        extended.append("nodiscard")
    return (("-E", ",".join(filter(None, extended))) if extended else ()), rest
