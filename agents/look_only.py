# SPDX-License-Identifier: Apache-2.0
"""Commands that can only look: an allow-list of whole forms (program, flags, places), never of a program's name.

Many programs that look can do more when they are told to: `lvs --config 'log{file=…}'` and `blkid -c FILE` write
files as root, `zpool status -c SCRIPT` runs one, `udevadm info --cleanup-db` removes udev's own, `hostname NAME`
renames the host, `lspci -O` and `modinfo -k` read files of one's choice, bash's `test -v 'a[$(command)]'` runs the
command, and cat follows /proc/self/root to any file. So what is not named here is refused. Flags are as in the
manuals of util-linux 2.41, lvm2 2.03, mdadm 4.4, systemd 257, OpenZFS 2.3, pciutils 3.13, kmod 34, GNU coreutils 9.7
and grep 3.11; those that older ones do not know fail by themselves.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

SYSTEM_PATHS = ("/bin", "/sbin", "/usr/bin", "/usr/sbin")
WORD = r"[A-Za-z0-9_+.,:@%=\[\] -]*"
COLUMNS = r"[A-Za-z0-9_+,:-]+"
# No part begins with a dot, so that none leads up. Who names a link in /dev/shm learns what kind of thing it leads to.
DEVICE = r"/dev/(?:[A-Za-z0-9_+:@=-][A-Za-z0-9_+.:@=-]*/)*[A-Za-z0-9_+:@=-][A-Za-z0-9_+.:@=-]*"
NAME = r"[A-Za-z0-9_+][A-Za-z0-9_+.:@/-]*"
PATH = r"/[A-Za-z0-9_+.:@%=/-]*"
# What the kernel says of itself. Not /proc/PID, whose links lead to any file, nor debugfs and its like in /sys/kernel.
_KERNEL = (
    r"/proc/(?:mdstat|mounts|partitions|cpuinfo|meminfo|diskstats|swaps|version|cmdline|loadavg|uptime|modules|stat"
    r"|filesystems|devices|interrupts)"
    r"|/proc/sys/(?:dev|fs|kernel|vm)(?:/[A-Za-z0-9_-]+)+"
    r"|/proc/spl/kstat/zfs(?:/[A-Za-z0-9_-]+)+"
    r"|/sys/(?:block|bus|class|dev|devices|fs/bcache|fs/btrfs|fs/xfs|module)(?:/(?!\.\.?(?:/|$))[A-Za-z0-9_+.:@!-]+)+"
)


@dataclass(frozen=True, slots=True)
class Form:
    """One way to call a program: flags that stand alone, flags with the word that follows, and operands."""

    alone: str = ""
    # flag (a pattern), and what may follow
    taking: tuple[tuple[str, str], ...] = ()
    # of each; "" takes none
    operands: str = ""
    least: int = 0
    most: int = 99
    # words that come first
    begins: tuple[str, ...] = ()

    def fits(self, words: Sequence[str]) -> bool:
        if tuple(words[: len(self.begins)]) != self.begins:
            return False
        rest, operand_count = list(words[len(self.begins) :]), 0
        while rest:
            word = rest.pop(0)
            if word.startswith("-") and len(word) > 1:
                if not self._is_flag(word) and not (rest and self._takes(word, rest.pop(0))):
                    return False
            elif not self.operands or not re.fullmatch(self.operands, word):
                return False
            else:
                operand_count += 1
        return self.least <= operand_count <= self.most

    def _is_flag(self, word: str) -> bool:
        return bool(self.alone and re.fullmatch(self.alone, word))

    def _takes(self, word: str, value: str) -> bool:
        """Also as the last of several letters: `-nro NAME`."""
        if not word.startswith("--") and len(word) > 2 and self._is_flag(word[:-1]):
            word = f"-{word[-1]}"
        patterns = (pattern for flag, pattern in self.taking if re.fullmatch(flag, word))
        return any(re.fullmatch(pattern, value) for pattern in patterns)


_LVM = Form(
    r"-a|--all|--noheadings|--nosuffix|--unbuffered|--readonly|--segments|--unquoted",
    (
        (r"-o|--options", COLUMNS),
        (r"--units", "[a-zA-Z]"),
        (r"--separator", WORD),
        (r"--reportformat", "basic|json|json_std"),
    ),
    rf"{NAME}|{DEVICE}",
)
_ZPOOL = r"-[HLPpvxtDsige]+"
FORMS: dict[str, tuple[Form, ...]] = {
    "cat": (Form(operands=_KERNEL, least=1),),
    "dmsetup": tuple(
        Form(r"--noflush", ((r"--target", "[a-z0-9-]+"),), NAME, begins=(begins,))
        for begins in ("status", "table")
    ),
    "df": (Form(r"-[ahHiklPT]+", ((r"-t", "[a-z0-9.]+"),), PATH),),
    "findmnt": (
        Form(
            r"-[abDJlnrRuvA]+",
            (
                (r"-o|--output", COLUMNS),
                (r"-t|--types", COLUMNS),
                (r"-T|--target", PATH),
                (r"-S|--source", PATH),
                (r"-M|--mountpoint", PATH),
            ),
            PATH,
        ),
    ),
    # Without -p it writes its cache, as root.
    "blkid": (
        Form(
            r"-p",
            ((r"-o", "value|export|full|udev|device"), (r"-s", "[A-Z_]+")),
            DEVICE,
            1,
            begins=("-p",),
        ),
    ),
    "hostname": (Form(r"-[sfdiIA]"),),
    "ls": (Form(r"-[1aAdhilLnrRsStFp]+", operands=PATH),),
    "lsblk": (
        Form(
            r"-[abdDfimnlJpPrsStTz]+|--json|--nodeps|--bytes|--paths|--noheadings",
            ((r"-o|--output", COLUMNS), (r"-e|-I", "[0-9,]+")),
            DEVICE,
        ),
    ),
    "lscpu": (Form(r"-[abcehJpx]+"),),
    "lsmod": (Form(),),
    "lspci": (Form(r"-[nkvDmt]+", ((r"-s", "[0-9a-fA-F:.]+"), (r"-d", "[0-9a-fA-F:]+"))),),
    "lvs": (_LVM,),
    "mdadm": (
        Form(r"--brief|--export|--scan|--test", operands=DEVICE, begins=("--detail",)),
        Form(r"--brief|--export|--scan", operands=DEVICE, begins=("--examine",)),
    ),
    "modinfo": (Form(taking=((r"-F", "[a-z]+"),), operands="[A-Za-z0-9_-]+", least=1),),
    "nproc": (Form(r"--all"),),
    "pvs": (_LVM,),
    "readlink": (Form(r"-[efmnqsvz]+", operands=PATH, least=1),),
    "stat": (Form(r"-[Lft]+", ((r"-c", r"[ -~]*"),), PATH, 1),),
    "udevadm": (
        Form(r"--timeout=[0-9]{1,3}", ((r"-t", "[0-9]{1,3}"),), begins=("settle",)),
        Form(
            r"--query=(?:name|path|symlink|property|all)|--name=" + DEVICE,
            ((r"-q", "name|path|symlink|property|all"), (r"-n", DEVICE)),
            begins=("info",),
        ),
    ),
    "uname": (Form(r"-[asnrvmpio]+"),),
    "vgs": (_LVM,),
    "zpool": (
        Form(_ZPOOL, operands=r"[A-Za-z][A-Za-z0-9_.:-]*", begins=("status",)),
        Form(_ZPOOL, ((r"-o", COLUMNS),), r"[A-Za-z][A-Za-z0-9_.:-]*", begins=("list",)),
    ),
}
# Words that begin like an operator are none of these, so that no word is taken for one.
_TEXT = r"(?:[A-Za-z0-9_+.,:@%=/][A-Za-z0-9_+.,:@%=/ -]*)?"
_TESTS = (
    (r"-[bcdefghkLprsSuwxGO]", PATH),
    (PATH, r"-(?:ef|nt|ot)", PATH),
    (r"-[nz]", _TEXT),
    (_TEXT, r"!?=", _TEXT),
    (r"-?[0-9]+", r"-(?:eq|ne|gt|ge|lt|le)", r"-?[0-9]+"),
)
_GREP = re.compile(r"-[qEFGiwxcvsho]+")


def only_looks(words: Sequence[str]) -> bool:
    """True when this very command can change nothing, run nothing, and read nothing but what is named above."""
    if not words or any("\n" in word or "\0" in word for word in words):
        return False
    program = PurePosixPath(words[0])
    if program.is_absolute() and str(program.parent) not in SYSTEM_PATHS:
        return False
    if not program.is_absolute() and "/" in words[0]:
        return False
    if program.name == "test":
        return _only_tests(words[1:])
    if program.name == "grep":
        return _only_greps(words[1:])
    return any(form.fits(words[1:]) for form in FORMS.get(program.name, ()))


def _only_greps(words: Sequence[str]) -> bool:
    """Flags, a pattern that cannot be taken for one, and at least one place: without one it would wait for input."""
    rest = list(words)
    while rest and _GREP.fullmatch(rest[0]):
        rest.pop(0)
    pattern, places = (rest[:1], rest[1:])
    return (
        bool(pattern and places)
        and not pattern[0].startswith("-")
        and all(re.fullmatch(_KERNEL, place) for place in places)
    )


def _only_tests(words: Sequence[str]) -> bool:
    """One test of a place, of text, or of two of them. Not -v and -R: bash runs what stands in a subscript."""
    rest = list(words)
    if rest[:1] == ["!"]:
        rest.pop(0)
    return any(
        len(rest) == len(form)
        and all(re.fullmatch(part, word) for part, word in zip(form, rest, strict=True))
        for form in _TESTS
    )


def known_programs() -> list[str]:
    """Programs of which there is a form."""
    return sorted({*FORMS, "grep", "test"})
