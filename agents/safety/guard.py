# SPDX-License-Identifier: Apache-2.0
"""Refuses every Step that would harm a device not provably spare. Default deny. Pure.

A device may be written only if all holds, by facts read a moment ago: a person marked its identity spare on this host,
and in this very boot where its name is all that tells who it is; its node, size and model are what that person
confirmed; nobody else has that identity; it is a whole disk that can be written; nothing of the running system, and
nothing that is not this layout's own, is on it, on a partition of it, or stacked on it; no program writes to it. What
is not known counts as a reason to refuse.

A plain file system or partition table that nobody uses may be wiped: the person who marked the disk spare confirmed
that, and the plan page lists it. A trace of membership (LVM, md, ZFS, bcache, LUKS, swap, …) may not: the disk may be
half of something that lives on another disk or another host.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from agents import look_only
from agents.contracts import Argument, Claim, GuardError, Secret, Step, Target, claims_of
from agents.facts.device_uses import reasons_in_use, unknown_system_reasons
from agents.facts.graph import Graph, is_own_path
from agents.facts.identifiers import all_identifiers
from agents.facts.model import BlockDevice, HostFacts
from agents.safety import name_places
from agents.safety.name_places import Mentions

CONFIRM = "mark it spare on the host's page first"
AGAIN = "make the plan again"


@dataclass(frozen=True, slots=True)
class Spare:
    """Consent of a person to destroy a device, and the device as it was then."""

    identity: str
    size: int
    model: str
    role: str = ""
    # boot_id of the host when a person confirmed it
    boot: str = ""


def check_step(step: Step, facts: HostFacts, spares: Mapping[str, Spare], layout: str) -> None:
    """Raise GuardError with every reason unless the Step may run."""
    if reasons := refusals(step, facts, spares, layout):
        raise GuardError(f"refused: {format_command(step.argv)}: " + "; ".join(reasons))


def refusals(step: Step, facts: HostFacts, spares: Mapping[str, Spare], layout: str) -> list[str]:
    """Reasons why the Step may not run: each names the device, the cause and the cure. [] = allowed."""
    graph = Graph(facts)
    reasons = _claims(step.destroys, graph, spares, layout)
    if not only_looks(step.argv):
        words = [*map(_plain_word, step.argv)]
        texts = [*zip([*words, step.stdin], name_places.names_in(words, step.stdin), strict=True)]
        reasons += _net(texts, step.destroys, graph, layout)
    return list(dict.fromkeys(reasons))


def job_refusals(
    argv: Sequence[str],
    files: Mapping[str, bytes],
    target: Target,
    facts: HostFacts,
    spares: Mapping[str, Spare],
    layout: str,
) -> list[str]:
    """The same for a tool: on a mount it writes files there; on a volume it destroys what is below."""
    graph = Graph(facts)
    claims = () if target.mount else claims_of(target)
    reasons = _claims(claims, graph, spares, layout)
    texts = [*argv, *(_script_content(name, content, target) for name, content in files.items())]
    # What lies under a mounted file system is not for a tool to touch, ours or not.
    mentions_by_text = zip(texts, name_places.job_names_in(argv, files), strict=True)
    reasons += _net(mentions_by_text, claims, graph, "" if target.mount else layout, groups=False)
    reasons += [reason for text in texts for reason in _escapes(text, target)]
    return list(dict.fromkeys(reasons))


def _script_content(name: str, content: bytes, target: Target) -> str:
    """A file of a job as it will be understood: in a script, the layout's place stands for its variable."""
    text = content.decode("utf-8", "backslashreplace")
    if not name.endswith(".sh") or re.search(r"BENCHLAB_(?:MOUNT|VOLUME)=", text):
        return text
    return LAYOUT_VARIABLE.sub(lambda match: _variable_value(match[1] or match[2], target), text)


def _variable_value(variable: str, target: Target) -> str:
    """Empty where the layout has no such place: then the path that the script makes of it shows."""
    return target.mount if variable == "MOUNT" else "" if target.mount else target.volume


def format_command(argv: Sequence[Argument]) -> str:
    """A command as pages and logs show it: secrets as ***."""
    return " ".join(map(str, argv))


def _plain_word(word: Argument) -> str:
    return word.value if isinstance(word, Secret) else word


def only_looks(argv: Sequence[Argument]) -> bool:
    """True when this very command can change nothing (agents/look_only.py)."""
    return look_only.only_looks([_plain_word(word) for word in argv])


def _claims(
    claims: Sequence[Claim], graph: Graph, spares: Mapping[str, Spare], layout: str
) -> list[str]:
    if not claims:
        return []
    reasons = [
        f"not everything on this host could be read ({what}): fix that, then retry"
        for what in graph.facts.unknown
    ]
    reasons += unknown_system_reasons(graph)
    if not re.fullmatch(r"[a-z]+\d+", layout):
        reasons.append(f"{layout!r} is not the name of a layout")
    for claim in claims:
        reasons += _claim(claim, graph, spares, layout)
    return reasons


def _claim(claim: Claim, graph: Graph, spares: Mapping[str, Spare], layout: str) -> Iterator[str]:
    device = graph.find_device(claim.node)
    if device is None and (several := graph.owners.get(claim.node)):
        yield f"{_several(claim.node, several)}: {AGAIN}"
        return
    if device is None:
        yield f"{claim.node} is not on this host any more{_move_reason(claim, graph)}: {AGAIN}"
        return
    yield from _identity(claim, device, graph, spares)
    yield from _kind_reasons(device, graph)
    for name in graph.stack_on(device.name):
        yield from reasons_in_use(device, name, graph, layout)


def _several(path: str, names: Sequence[str]) -> str:
    return f"{path} is a name of {' and of '.join(names)}; it is ambiguous"


def _move_reason(claim: Claim, graph: Graph) -> str:
    now = [d.path for d in graph.facts.devices if d.identity == claim.identity]
    return f" ({claim.identity} is {', '.join(now)} now)" if now else ""


def _identity(
    claim: Claim, device: BlockDevice, graph: Graph, spares: Mapping[str, Spare]
) -> Iterator[str]:
    node = claim.node
    if device.identity != claim.identity:
        yield (
            f"{node} is {device.identity}, but planned was {claim.identity}"
            f"{_move_reason(claim, graph)}: {AGAIN}"
        )
    spare = spares.get(claim.identity)
    if spare is None or spare.identity != claim.identity:
        yield f"{node} ({claim.identity}) is not marked spare: {CONFIRM}"
        return
    if device.weak and (not spare.boot or spare.boot != graph.facts.boot_id):
        yield (
            f"{node} has neither serial number nor WWN, and {graph.facts.hostname} was booted since it was marked"
            " spare: another disk may have its name now; look at the host's disks, then mark it spare again"
        )
    for what, now, claimed in (
        ("size", device.size, claim.size),
        ("model", device.model, claim.model),
    ):
        confirmed = getattr(spare, what)
        if not now == claimed == confirmed:
            yield (
                f"{node}'s {what} is {now!r}, planned was {claimed!r} and confirmed {confirmed!r}:"
                " confirm the disk again and " + AGAIN
            )
    yield from _twins(device, claim, graph)


def _twins(device: BlockDevice, claim: Claim, graph: Graph) -> Iterator[str]:
    """Yield reasons for other paths to the same disk, found by any identifier that both show.

    One path may show a WWN and the other none.
    """
    same = [d.path for d in graph.facts.devices if d.identity == claim.identity]
    if len(same) > 1:
        yield (
            f"{claim.identity} is {' and '.join(same)}: two paths to one disk (multipath),"
            " or two disks with one serial; they cannot be told apart"
        )
    own = all_identifiers(device)
    for other in graph.facts.devices:
        shared = sorted(own & all_identifiers(other))
        if shared and other.name != device.name and other.path not in same:
            yield (
                f"{device.path} and {other.path} both have the identifier {shared[0]}: two paths to one disk"
                " (multipath), or two disks with one serial; they cannot be told apart"
            )


def _kind_reasons(device: BlockDevice, graph: Graph) -> Iterator[str]:
    if device.type not in ("disk", "loop") or graph.below.get(device.name):
        yield f"{device.path} is a {device.type} on top of another device, not a whole disk"
    if device.read_only:
        yield f"{device.path} is read-only"
    if device.size <= 0:
        yield f"{device.path} has no size"


def _net(
    texts: Iterable[tuple[str, str | None]],
    claims: Sequence[Claim],
    graph: Graph,
    layout: str,
    groups: bool = True,
) -> Iterator[str]:
    """The second net: whatever a command names must be claimed, or this layout's own.

    Of each text also the part in which a name that a person gave can stand; None: all of it.
    """
    mentions = Mentions(graph, groups)
    claimed = {device.name for claim in claims if (device := graph.find_device(claim.node))}
    for text, names in texts:
        mentioned, foreign = mentions.find_devices(text, names)
        for word in foreign:
            # a name of ours, perhaps, and of a stranger too
            if several := graph.owners.get(word):
                yield f"{_several(word, several)}: rename what is not meant"
                continue
            if is_own_path(word, layout):
                # made by an earlier Step of the same plan, or about to be
                continue
            yield f"the command names {word}, which is not a device in the facts"
        for name in sorted(mentioned):
            under = graph.disks_under(name)
            # What stands on no disk at all harms none, but may be a stranger's.
            if claimed and under <= claimed and (under or graph.is_ours(name, layout)):
                continue
            if not claims and graph.is_ours(name, layout):
                continue
            owner = graph.facts.members.get(name, "")
            suffix = f" (of {owner})" if owner else ""
            yield f"the command names {name}{suffix}, which is not part of the plan: its data is at risk"


# agents/tools/command.py sets these; any other expansion stays as it is, and is refused in a path.
LAYOUT_VARIABLE = re.compile(
    r"\$BENCHLAB_(MOUNT|VOLUME)(?!\w)|\$\{BENCHLAB_(MOUNT|VOLUME)(?::?\?[^{}$`\n]*)?\}"
)
WRITING_KEYS = r"filename|directory|opendir|of|replay_redirect|aux-path|write_\w+_log|if"
COMMAND_KEYS = r"exec_prerun|exec_postrun|exec_pre|exec_post"


def _escapes(text: str, target: Target) -> Iterator[str]:
    """A job file may name any file: only those below the target's mount, or its volume, will do."""
    for match in re.finditer(rf"(?m)(?:^|[\s-])({COMMAND_KEYS})\s*=", text):
        yield f"{match[1]} would run a command of its own on the host: remove it from the job"
    for match in re.finditer(rf"(?m)(?:^|[\s-])({WRITING_KEYS})\s*=\s*(\S+)", text):
        # as a shell would
        key, path = match[1], match[2].replace('"', "").replace("'", "")
        if "$" in path or ".." in PurePosixPath(path).parts:
            yield f"{key}={path}: write the path out in full"
        elif path.startswith("/") and not path.startswith("/dev/") and not _inside(path, target):
            yield f"{key}={path} is outside {target.mount or target.volume}: leave it out"


def _inside(path: str, target: Target) -> bool:
    mount = target.mount.rstrip("/")
    return bool(mount) and all(
        part == mount or part.startswith(mount + "/") for part in path.split(":") if part
    )
