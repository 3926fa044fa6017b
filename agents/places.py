"""Where in a command the name of a group, array, pool or mapping can stand. Pure.

Installers name the first array `0`, people name a group `data`: such names are words of most commands too, as numbers
and as names of what the command makes. Here are the whole forms of the commands that drivers give, flag by flag; of
a command that is not written here word for word, every word can be a name. Kernel names, numbers and paths of devices
are looked for in every word in any case (agents/mentions.py).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from agents.layers._fs_words import MKFS, MOUNT
from agents.layers._scripts import ARGUMENTS
from agents.looks import SYSTEM_PATHS

NUMBER = r"\+?\d+(?:[a-zA-Z]|%[A-Z]+)?"
_OPTION = rf"(?:{'|'.join(sorted(MOUNT))})(?:=[A-Za-z0-9_.:-]+)?"
_VDEVS = "mirror|raidz[123]?|log|cache|special|dedup|spare"
_POOL = "ashift|autoexpand|autotrim|cachefile|failmode"
_DATASET = (
    "atime|canmount|compression|logbias|mountpoint|primarycache|recordsize|secondarycache|sync"
    "|volblocksize|volmode"
)
# LVM's own words for settings. Of its lists one names groups; the others are patterns of paths, and kinds of device.
_SETTING = r"(?:monitoring|backup|archive|use_lvmetad)=[01]"
_STRING = r'"[^"\\{}]*"'
_LIST = rf"(?:volume_list|filter|global_filter|types)=\[{_STRING}(?:,(?:{_STRING}|\d+))*\]"
_SECTION = rf"[a-z]+\{{(?:{_SETTING}|{_LIST})(?: (?:{_SETTING}|{_LIST}))*\}}"
CONFIG = re.compile(rf"{_SECTION}(?: {_SECTION})*")


@dataclass(frozen=True, slots=True)
class Form:
    """One way to call a program. What is no flag is an operand, and can be a name."""

    alone: str = ""  # flags that take no word
    taking: Mapping[str, str] = field(default_factory=dict)  # flag -> a word that is no name
    naming: str = ""  # flags that take a word which can be a name
    begins: tuple[str, ...] = ()  # words that come first
    keywords: str = ""  # operands that the program takes for its own words, after the first one

    def names_in(self, words: Sequence[str]) -> list[str] | None:
        """Of each word what can be a name, "" for nothing; None: this is another form."""
        if tuple(words[: len(self.begins)]) != self.begins:
            return None
        found, rest, operands = [""] * len(self.begins), list(words[len(self.begins) :]), 0
        while rest:
            word = rest.pop(0)
            if not word.startswith("-"):
                own = bool(self.keywords and operands and re.fullmatch(self.keywords, word))
                found.append("" if own else word)
                operands += 1
            elif self.alone and re.fullmatch(self.alone, word):
                found.append("")
            elif rest and (said := self._follows(word, rest.pop(0))) is not None:
                found += ["", said]
            else:
                return None
        return found

    def _follows(self, flag: str, word: str) -> str | None:
        """Of the word behind a flag what can be a name. A flag there is none that we wrote."""
        if word.startswith("-"):
            return None
        if flag == "--config" and flag in self.taking:
            return _groups(word) if CONFIG.fullmatch(word) else None
        if flag in self.taking:
            return "" if re.fullmatch(self.taking[flag], word) else None
        return word if self.naming and re.fullmatch(self.naming, flag) else None


def _groups(config: str) -> str:
    lists: list[str] = re.findall(rf"volume_list=\[({_STRING}(?:,{_STRING})*)\]", config)
    return " ".join(lists).replace('"', "")


_LVM = Form(
    "--yes|--norestorefile",
    {
        **dict.fromkeys(
            ("--chunksize", "--dataalignment", "--extents", "--mirrors", "--physicalextentsize",
             "--poolmetadatasize", "--size", "--stripes", "--stripesize"),
            NUMBER,
        ),
        **dict.fromkeys(("--activate", "--poolmetadataspare", "--wipesignatures", "--zero"), "[yn]"),
        "--cachemode": "writethrough|writeback|passthrough",
        "--cachepolicy": "smq|mq|cleaner",
        "--cachesettings": r"block_size=\d+",
        "--config": "",
        "--type": "linear|striped|raid1|cache|cache-pool|writecache",
        "--uuid": "[A-Za-z0-9]{6}(?:-[A-Za-z0-9]{4}){5}-[A-Za-z0-9]{6}",
    },
    "--devices|--cachepool|--cachevol",
)  # fmt: skip
_LVCREATE = Form(_LVM.alone, {**_LVM.taking, "--name": "[^/]+"}, _LVM.naming)  # GROUP/NAME is one
_MDADM = Form(
    r"--create|--grow|--manage|--run|--add|--assume-clean|--level=\d+|--raid-devices=\d+|--metadata=1\.2"
    r"|--data-offset=\d+K|--spare-devices=\d+|--chunk=\d+|--layout=[nfo]\d|--bitmap=(?:internal|none)"
    r"|--homehost=any|--uuid=[0-9a-f]{8}(?::[0-9a-f]{8}){3}|--size=max"
    r"|--name=bl\d+"
)
_PATHS = Form("-p|-f|--all")  # programs that take nothing but paths


def _mkfs(kind: str, quiet: str) -> Form:
    """The words that a person may add (agents/layers/_fs_words.py), beside another or glued to it."""
    flags = MKFS[kind]
    glued = [f"{re.escape(flag)}{'=' if flag.startswith('--') else ''}(?:{value})"
             for flag, value in flags.items() if value]  # fmt: skip
    bare = [re.escape(flag) for flag, value in flags.items() if not value]
    taking = {flag: value for flag, value in flags.items() if value}
    return Form("|".join([quiet, *bare, *glued]), taking, "-L")


FORMS: Mapping[str, tuple[Form, ...]] = {
    **dict.fromkeys(
        ("pvcreate", "pvresize", "vgcreate", "vgextend", "vgremove", "lvextend", "lvremove",
         "lvconvert"),
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
        Form("", {"-t": "freebsd-zfs", "-a": "1m", "-s": r"\d+m", "-l": "[a-z0-9-]+"},
             begins=("add",)),
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
            {"--cset-uuid": "[0-9a-f-]{36}",
             **dict.fromkeys(("--bucket", "--block", "--data-offset"), NUMBER)},
            "-B|-C",
        ),
    ),
    "flashcache_create": (Form("", {"-p": "back|thru|around", "-b": r"\d+"}),),
    "modprobe": (Form(begins=("zfs",)), Form(begins=("bcache",))),
    **dict.fromkeys(
        ("blkdiscard", "mkdir", "resize2fs", "rm", "rmdir", "touch", "umount", "wipefs", "xfs_growfs"),
        (_PATHS,),
    ),
}  # fmt: skip
ANSWERS = {"flashcache_create": "y\n"}  # what a program reads as its answer
KINDS = {"path": r"/[^\n]*", "setting": r"/(?:sys|proc/sys)/[^\n]*", "number": r"\d+",
         "value": r"[^\n]*", "name": r"[^\n]*", "mark": r"\.benchlab"}  # fmt: skip


def names_in(words: Sequence[str], stdin: str) -> list[str]:
    """Of each word, and of what is read, the part that can be a name; "" for nothing."""
    program = PurePosixPath(words[0] if words else "")
    if not words or not (words[0] == program.name or str(program.parent) in SYSTEM_PATHS):
        return [*words, stdin]
    said = "" if stdin and stdin == ANSWERS.get(program.name) else stdin
    if program.name == "sh":
        found = _script(words[1:])
    else:
        forms = (form.names_in(words[1:]) for form in FORMS.get(program.name, ()))
        found = next((names for names in forms if names is not None), None)
    return [*words, stdin] if found is None else ["", *found, said]


def _script(words: Sequence[str]) -> list[str] | None:
    """`-c SCRIPT NAME ARGUMENT…` of a script that is ours word for word, with arguments as it takes them."""
    if len(words) < 3 or words[0] != "-c" or words[1] not in ARGUMENTS:
        return None
    (first, more), given = ARGUMENTS[words[1]], words[3:]
    kinds = [*first, *(more[at % len(more)] for at in range(len(given) - len(first)) if more)]
    if len(kinds) != len(given):
        return None
    pairs = list(zip(kinds, given, strict=True))
    if not all(re.fullmatch(KINDS[kind], word) for kind, word in pairs):
        return None
    return ["", "", "", *(word if kind in ("name", "path") else "" for kind, word in pairs)]
