# SPDX-License-Identifier: Apache-2.0
"""Places in a command where the name of a group, array, pool or mapping can be. Pure.

Installers name the first array `0`, people name a group `data`: such names are words of most commands too, as numbers
and as names of what the command makes. Here are the whole forms of commands that several layers give, flag by flag; a
layer says those of its own programs and scripts (`COMMANDS`, `SCRIPTS`). Of a command that is in neither word for word,
every word can be a name. Kernel names, numbers and paths of devices
are looked for in every word in any case (agents/safety/mentions.py).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath

from agents.command_forms import KINDS, NUMBER, Form
from agents.drivers import registry
from agents.look_only import SYSTEM_PATHS
from agents.steps.fs_words import MKFS, MOUNT
from agents.steps.scripts import ARGUMENTS

_OPTION = rf"(?:{'|'.join(sorted(MOUNT))})(?:=[A-Za-z0-9_.:-]+)?"
_VDEVS = "mirror|raidz[123]?|log|cache|special|dedup|spare"
_POOL = "ashift|autoexpand|autotrim|cachefile|failmode"
_DATASET = (
    "atime|canmount|compression|logbias|mountpoint|primarycache|recordsize|secondarycache|sync"
    "|volblocksize|volmode"
)


_LVM = Form(
    "--yes|--norestorefile",
    {
        **dict.fromkeys(
            (
                "--chunksize",
                "--dataalignment",
                "--extents",
                "--mirrors",
                "--physicalextentsize",
                "--poolmetadatasize",
                "--size",
                "--stripes",
                "--stripesize",
            ),
            NUMBER,
        ),
        **dict.fromkeys(
            ("--activate", "--poolmetadataspare", "--wipesignatures", "--zero"), "[yn]"
        ),
        "--cachemode": "writethrough|writeback|passthrough",
        "--cachepolicy": "smq|mq|cleaner",
        "--cachesettings": r"block_size=\d+",
        "--config": "",
        "--type": "linear|striped|raid1|cache|cache-pool|writecache",
        "--uuid": "[A-Za-z0-9]{6}(?:-[A-Za-z0-9]{4}){5}-[A-Za-z0-9]{6}",
    },
    "--devices|--cachepool|--cachevol",
)
# GROUP/NAME is one
_LVCREATE = Form(_LVM.alone, {**_LVM.taking, "--name": "[^/]+"}, _LVM.naming)
_MDADM = Form(
    r"--create|--grow|--manage|--run|--add|--assume-clean|--level=\d+|--raid-devices=\d+|--metadata=1\.2"
    r"|--data-offset=\d+K|--spare-devices=\d+|--chunk=\d+|--layout=[nfo]\d|--bitmap=(?:internal|none)"
    r"|--homehost=any|--uuid=[0-9a-f]{8}(?::[0-9a-f]{8}){3}|--size=max"
    r"|--name=bl\d+"
)
# programs that take nothing but paths
_PATHS = Form("-p|-f|--all")


def _mkfs(kind: str, quiet: str) -> Form:
    """The words that a person may add (agents/steps/fs_words.py), beside another or glued to it."""
    flags = MKFS[kind]
    glued = [
        f"{re.escape(flag)}{'=' if flag.startswith('--') else ''}(?:{value})"
        for flag, value in flags.items()
        if value
    ]
    bare = [re.escape(flag) for flag, value in flags.items() if not value]
    taking = {flag: value for flag, value in flags.items() if value}
    return Form("|".join([quiet, *bare, *glued]), taking, "-L")


FORMS: Mapping[str, tuple[Form, ...]] = {
    **dict.fromkeys(
        (
            "pvcreate",
            "pvresize",
            "vgcreate",
            "vgextend",
            "vgremove",
            "lvextend",
            "lvremove",
            "lvconvert",
        ),
        (_LVM,),
    ),
    "lvcreate": (_LVCREATE,),
    "mdadm": (_MDADM,),
    "sgdisk": (
        Form(
            r"--set-alignment=\d+|--new=\d+:\d+:\d+|--typecode=\d+:[0-9A-F]{4}|--zap-all"
            r"|--change-name=\d+:[a-z0-9-]+"
        ),
    ),
    "gpart": (
        Form("", {"-s": "gpt"}, begins=("create",)),
        Form(
            "",
            {"-t": "freebsd-zfs", "-a": "1m", "-s": r"\d+m", "-l": "[a-z0-9-]+"},
            begins=("add",),
        ),
        Form("-F", begins=("destroy",)),
    ),
    "mkfs.xfs": (_mkfs("xfs", "-q|-f"),),
    "mkfs.ext4": (_mkfs("ext4", "-q|-F"),),
    "mkfs.btrfs": (_mkfs("btrfs", "-f"),),
    "mount": (Form("", {"-t": "xfs|ext4|btrfs", "-o": rf"{_OPTION}(?:,{_OPTION})*"}),),
    "blockdev": (Form("--rereadpt", {"--setra": NUMBER}),),
    "btrfs": (Form(begins=("filesystem", "resize", "max")),),
    "zpool": (
        Form(
            "-f",
            {"-o": rf"(?:{_POOL})=[a-z0-9]+", "-O": rf"(?:{_DATASET})=[a-z0-9]+"},
            begins=("create",),
            keywords=_VDEVS,
        ),
        Form(begins=("destroy",)),
    ),
    "zfs": (
        Form(
            "-s",
            {"-V": r"\d+", "-o": rf"(?:{_DATASET})=(?:[a-z0-9]+|/mnt/benchlab/[a-z0-9]+)"},
            begins=("create",),
        ),
        Form("-r", begins=("destroy",)),
    ),
    "make-bcache": (
        Form(
            "--writeback|--discard",
            {
                "--cset-uuid": "[0-9a-f-]{36}",
                **dict.fromkeys(("--bucket", "--block", "--data-offset"), NUMBER),
            },
            "-B|-C",
        ),
    ),
    "flashcache_create": (Form("", {"-p": "back|thru|around", "-b": r"\d+"}),),
    "modprobe": (Form(begins=("zfs",)), Form(begins=("bcache",))),
    **dict.fromkeys(
        (
            "blkdiscard",
            "mkdir",
            "resize2fs",
            "rm",
            "rmdir",
            "touch",
            "umount",
            "wipefs",
            "xfs_growfs",
        ),
        (_PATHS,),
    ),
}
# what a program reads as its answer
ANSWERS = {"flashcache_create": "y\n"}


def names_in(words: Sequence[str], stdin: str) -> list[str]:
    """The part of each word, and of what is read, that can be a name; "" for nothing."""
    program = PurePosixPath(words[0] if words else "")
    if not words or not (words[0] == program.name or str(program.parent) in SYSTEM_PATHS):
        return [*words, stdin]
    input_text = "" if stdin and stdin == ANSWERS.get(program.name) else stdin
    if program.name == "sh":
        script = _script(words[1:])
    else:
        program_forms = FORMS.get(program.name) or registry.layer_commands(program.name)
        forms = (form.names_in(words[1:]) for form in program_forms)
        script = next((names for names in forms if names is not None), None)
    return [*words, stdin] if script is None else ["", *script, input_text]


def _script(words: Sequence[str]) -> list[str] | None:
    """`-c SCRIPT NAME ARGUMENT…` of a script that is ours word for word, with arguments as it takes them."""
    if len(words) < 3 or words[0] != "-c":
        return None
    takes = ARGUMENTS.get(words[1]) or registry.layer_scripts().get(words[1])
    if takes is None:
        return None
    (first, more), arguments = takes, words[3:]
    kinds = [*first, *(more[at % len(more)] for at in range(len(arguments) - len(first)) if more)]
    if len(kinds) != len(arguments):
        return None
    pairs = list(zip(kinds, arguments, strict=True))
    if not all(re.fullmatch(KINDS[kind], word) for kind, word in pairs):
        return None
    return ["", "", "", *(word if kind in ("name", "path") else "" for kind, word in pairs)]
