# SPDX-License-Identifier: Apache-2.0
"""Places in a command or job where the name of a device, group, array, pool or mapping can be. Pure.

Installers name the first array `0`, people name a group `data`: such names are words of most commands too, as numbers
and as names of what the command makes. Here are the whole forms of commands that several layers give, flag by flag; a
layer has those of its own programs and scripts (`COMMANDS`, `SCRIPTS`). In a job they are the scripts of the drivers in
agents/tools word for word with the arguments that these take (`SCRIPTS`), fio's job file line by line, and the strings
of dynamo's configuration. In whatever else a command or job holds, a person's own script above all, every word can be a
name. Kernel names, numbers and paths of devices are looked for in every word in any case (`Mentions`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath

from agents.command_forms import KINDS, NUMBER, Form
from agents.contracts import OptionsError
from agents.drivers import registry
from agents.dynamo import bundle
from agents.facts.graph import Graph
from agents.look_only import SYSTEM_PATHS
from agents.outputs import fio_jobfile as jobfile
from agents.steps.fs_words import MKFS, MOUNT
from agents.steps.scripts import ARGUMENTS
from agents.tools import fio

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


HARMLESS = {"null", "zero", "full", "random", "urandom", "stdin", "stdout", "stderr", "tty"}
# Of all arrays, and the directory of all its caches
SYSCTLS = r"raid/speed_limit_m(?:in|ax)|flashcache"
_ENDS = r"(?=[\s,:;='\"\\)]|$)"
_SEPARATORS = re.compile(r"[\s,;='\"()\[\]]+")


class Mentions:
    """Finds devices of one reading in texts."""

    def __init__(self, graph: Graph, groups: bool = True) -> None:
        """`groups`: whether the name of a volume group, array or pool names its members."""
        self.graph = graph
        # what the kernel calls a device, in words and numbers
        self.bare: dict[str, set[str]] = {}
        # what people called it, or its group, array or pool
        self.given: dict[str, set[str]] = {}
        for device in graph.facts.devices:
            # FreeBSD gives no numbers
            for word in filter(None, (device.name, device.majmin)):
                self.bare.setdefault(word, set()).add(device.name)
            self.given.setdefault(device.path.removeprefix("/dev/mapper/"), set()).add(device.name)
        for name, owner in graph.facts.members.items() if groups else ():
            if group := owner.partition(" ")[2]:
                self.given.setdefault(group, set()).add(name)
        owned_paths = sorted(graph.owners, key=len, reverse=True)
        self._path = re.compile(f"(?:{'|'.join(map(re.escape, owned_paths)) or '(?!)'}){_ENDS}")

    def find_devices(self, text: str, names: str | None = None) -> tuple[set[str], list[str]]:
        """Kernel names that the text names, and /dev words that lead to no device known here, or to one of several.

        `names`: the part of the text in which a name that a person gave can stand (name_places.py); None: all of it.
        """
        mentioned: set[str] = set()
        foreign: list[str] = []
        for match in re.finditer(r"/sys/(?:class/|dev/)?block/([^/\s]+)", text):
            mentioned |= self.bare.get(match[1], {match[1]})
        for path, start in _device_paths(text):
            owned_match = self._path.match(path)
            if owned_match is not None and owned_match[0] in self.graph.paths:
                mentioned.add(self.graph.paths[owned_match[0]])
            elif owned_match is not None:
                foreign.append(owned_match[0])
            elif not _harmless(path, start):
                foreign.append(re.split(_ENDS, path, maxsplit=1)[0])
        for part in _split_words(text):
            mentioned |= self.bare.get(part, set())
        for part in _split_words(text if names is None else names):
            mentioned |= self.given.get(part, set())
        foreign += re.findall(r"\b(?:PART)?(?:UUID|LABEL)=\S*", text)
        return mentioned, foreign


def _split_words(text: str) -> Iterator[str]:
    for word in _SEPARATORS.split(text):
        yield from {word, word.partition("/")[0], *word.split(":")}


def _device_paths(text: str) -> Iterator[tuple[str, str]]:
    """The text from each /dev/ to its end (a link may hold colons), and what stood before it."""
    # //dev/./sdb
    plain = re.sub(r"/(?:\.?/)+", "/", text)
    for match in re.finditer(r"/dev/", plain):
        yield plain[match.start() :], plain[: match.start()]
    for match in re.finditer(r"\.\./+(?:\S*/)?dev/+", plain):
        yield "/dev/../" + plain[match.end() :], ""


def _harmless(path: str, before: str) -> bool:
    if before.endswith("/sys") and path.startswith("/dev/block/"):
        # /sys/dev/block/8:16 has its own rule
        return True
    if before.endswith("/proc/sys") and re.match(rf"/dev/(?:{SYSCTLS}){_ENDS}", path):
        return True
    return re.match(rf"/dev/(?:{'|'.join(HARMLESS)}){_ENDS}", path) is not None


# Commands that take nothing but files of the job's own directory.
PLAIN = {
    ("fio", "--output-format=json+", f"--output={fio.RESULT}", "--eta=never", "job.fio"),
    ("sh", "command.sh"),
    ("sh", "-n", "command.sh"),
    ("python3", bundle.NAME, "run", "config.json"),
    ("python3", bundle.NAME, "check", "config.json"),
}
# What the driver itself adds to a job file. Of `directory` and `filename` the value can be a name.
ADDED = re.compile(
    r"(?:unlink|allow_file_create|per_job_logs|invalidate)=[01]|log_(?:avg|hist)_msec=\d+"
    r"|write_(?:bw|iops|lat|hist)_log=fio"
)
# the program in PATH, and how IOmeter writes an access
ACCESS = re.compile(r"dynamo|\d+(?:,\d+)*")
SECTION = re.compile(r"\[[A-Za-z0-9_][A-Za-z0-9_. -]*\]")


def job_names_in(argv: Sequence[str], files: Mapping[str, bytes]) -> list[str | None]:
    """The part of each word, then of each file, that can be a name; None: all of it."""
    return [
        *_job_words(argv, files),
        *(_decode_content(name, content) for name, content in files.items()),
    ]


def _job_words(argv: Sequence[str], files: Mapping[str, bytes]) -> list[str | None]:
    if tuple(argv) in PLAIN:
        return [""] * len(argv)
    script = files.get(argv[1], b"") if len(argv) > 1 and argv[0] == "sh" else b""
    scripts = registry.tool_scripts()
    if script not in scripts:
        return [None] * len(argv)
    kinds, arguments = scripts[script], argv[2:]
    argument_kinds = [kinds[min(at, len(kinds) - 1)] for at in range(len(arguments))]
    plain = (re.fullmatch(kind, word) for kind, word in zip(argument_kinds, arguments, strict=True))
    return ["", "", *("" if is_plain else None for is_plain in plain)]


def _decode_content(name: str, content: bytes) -> str | None:
    if content in registry.tool_scripts() or (
        name == bundle.NAME and content == bundle.build_bundle()
    ):
        return ""
    try:
        text = content.decode()
        if name == "job.fio":
            return "\n".join(map(_setting, text.split("\n")))
        if name == "config.json":
            strings = _strings(json.loads(text))
            return "\n".join(string for string in strings if not ACCESS.fullmatch(string))
        return None
    except (ValueError, RecursionError):
        return None


def _setting(line: str) -> str:
    """The part of a line that can name a file: nothing of a section or of a setting of fio itself."""
    if SECTION.fullmatch(line) or ADDED.fullmatch(line):
        return ""
    key, equals, value = line.partition("=")
    try:
        jobfile.check_setting(key, value if equals else None, "")
    except OptionsError:
        return value if key in ("directory", "filename") else line
    return ""


def _strings(value: object) -> list[str]:
    """Every string that is a value, however deep."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list):
        return [string for member in value for string in _strings(member)]
    return []
