# SPDX-License-Identifier: Apache-2.0
"""dm-crypt: what is written to one device is encrypted on its way, with LUKS2 or without a header ("plain").

Sources: cryptsetup(8), cryptsetup-open(8), cryptsetup-luksFormat(8) of 2.6, the kernel's admin-guide on dm-crypt; tried
with cryptsetup 2.6.1 on Linux 6.1.

The key is drawn on the host from /dev/urandom when the layer is built, and only the kernel has it: it is in no word of
a command, in no output and in no file. What has lost its mapping cannot be read again, and need not be. The passphrase
of a LUKS header is drawn likewise, known to one shell for as long as that builds, and forgotten.
A header is recognised as ours by its UUID.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from agents.command_forms import Form
from agents.contracts import Need, OptionsError, Part, Plan, PlanError, Step, Target, Use, claims_of
from agents.facts.graph import Graph
from agents.facts.health import Health
from agents.facts.model import HostFacts
from agents.layers._lvm import NEED_DMSETUP, device_table
from agents.options import option
from agents.steps.common import MIB, Place, erase_all, member_nodes, still_there, without_uses
from agents.uuids import uuid_of

LABEL = "dm-crypt"
# Debian's package named cryptsetup reads /etc/crypttab at boot and builds initramfs anew: the program is not in it.
CRYPTSETUP = Need(
    "cryptsetup",
    {
        "debian": "cryptsetup-bin",
        **dict.fromkeys(("rhel", "suse", "arch", "alpine"), "cryptsetup"),
    },
    minimum="2.3.4",
)
NEEDS = (CRYPTSETUP, NEED_DMSETUP)
USES = {"data": Use("the disk that is encrypted", most=1)}
REQUIRES = "devices"
PROVIDES = "volume"
SECTOR = 512
WORKS = ("no_read_workqueue", "no_write_workqueue", "same_cpu_crypt", "submit_from_crypt_cpus")
# of LUKS2: two copies of its text, and the key slots
HEADER = 16 * MIB
KEYS = {
    "aes-xts-plain64": (256, 512),
    "aes-cbc-essiv:sha256": (128, 192, 256),
    "serpent-xts-plain64": (256, 512),
    "twofish-xts-plain64": (256, 512),
    "xchacha12,aes-adiantum-plain64": (256,),
    "xchacha20,aes-adiantum-plain64": (256,),
}
# 256 random bits are not guessed, so they are not stretched. echo is the shell's own: no process list has its words. A
# variable that was exported before would be handed on to every program with what is put into it.
LUKS = """
node=$1 name=$2 uuid=$3 offset=$4 cipher=$5 bits=$6 sector=$7
shift 7
unset key
key=$(od -An -v -tx1 -N32 /dev/urandom | tr -d ' \\n')
[ ${#key} = 64 ] || exit
echo "$key" | cryptsetup luksFormat --batch-mode --type luks2 --uuid "$uuid" --offset "$offset" \\
    --cipher "$cipher" --key-size "$bits" --sector-size "$sector" \\
    --pbkdf pbkdf2 --pbkdf-force-iterations 1000 --key-file - "$node" || exit
echo "$key" | cryptsetup open --type luks2 "$@" --key-file - "$node" "$name"
"""
SCRIPTS = {
    LUKS: (("path", "name", "value", "number", "value", "number", "number"), ("flag",)),
}
COMMANDS = {
    "cryptsetup": (
        Form(
            "--batch-mode|--allow-discards|--perf-[a-z_]+",
            {
                "--type": "plain",
                "--cipher": "[a-z0-9:,-]+",
                "--key-file": "/dev/urandom",
                **dict.fromkeys(("--key-size", "--sector-size", "--keyfile-size"), r"\d+"),
            },
            begins=("open",),
        ),
        Form(begins=("close",)),
    ),
}


@dataclass(frozen=True, slots=True)
class Options:
    type: str = option(
        "luks2",
        "LUKS2 with its header of 16 MiB, or plain: no header, the same encryption",
        choices=("luks2", "plain"),
    )
    cipher: str = option("aes-xts-plain64", "Cipher, mode and IV", choices=tuple(KEYS))
    key_size: int = option(512, "Key size in bits; XTS uses two keys: 512 is AES-256", minimum=128)
    sector_size: int = option(
        512, "Encryption sector size; 4096 uses less CPU", unit="B", choices=(512, 1024, 2048, 4096)
    )
    discards: bool = option(False, "Pass discards on: the disk then sees which blocks are free")
    no_read_workqueue: bool = option(False, "Decrypt reads without a workqueue (Linux 5.9)")
    no_write_workqueue: bool = option(False, "Encrypt writes without a workqueue (Linux 5.9)")
    same_cpu_crypt: bool = option(False, "Encrypt on the CPU that submitted the I/O")
    submit_from_crypt_cpus: bool = option(
        False, "Submit writes unsorted, from the CPU that encrypted them"
    )

    def __post_init__(self) -> None:
        key_sizes = KEYS.get(self.cipher, ())
        if key_sizes and self.key_size not in key_sizes:
            raise OptionsError(
                f"key_size: {self.key_size}; {self.cipher} takes {' or '.join(map(str, key_sizes))} bits"
            )


def required_programs(options: Options) -> tuple[Need, ...]:
    return NEEDS


def plan(options: Options, target: Target, facts: HostFacts) -> Plan:
    """Plan the layer. Raises PlanError unless there is one device, large enough and of whole sectors."""
    piece, offset = _piece(target), _offset(options, target)
    if piece.size % options.sector_size:
        raise PlanError(
            f"{piece.node} has {piece.size} B, not a multiple of {options.sector_size} B (sector_size)"
        )
    if piece.size - offset < MIB:
        raise PlanError(
            f"{piece.node} has {piece.size // MIB} MiB: too few for a header of {offset // MIB} MiB and data"
        )
    gives = _gives(target, piece, offset)
    volume_part = Part(gives.volume, gives.size)
    undo = (_close_step(target), *erase_all(target, [piece], facts, _header(piece, offset)))
    steps = (
        *erase_all(target, [piece], facts),
        Step(
            _open(options, target, piece, offset),
            f"Encrypt {piece.node} as {volume_part.node} with a random key that only the kernel holds",
            destroys=claims_of(target),
            undo=undo,
        ),
        # What was zeros below is noise here, and in noise some see a table or a superblock.
        *erase_all(target, [volume_part], facts),
    )
    return Plan(steps, gives)


def _piece(target: Target) -> Part:
    nodes = member_nodes(target, "data", main=True)
    if len(nodes) != 1:
        raise PlanError(f"data: needs exactly one disk or volume, got {len(nodes)}")
    if not claims_of(target):
        raise PlanError(f"the disks under {nodes[0].node} are unknown")
    return nodes[0]


def _mapping_name(target: Target) -> str:
    return f"{target.name}-crypt"


def _offset(options: Options, target: Target) -> int:
    """Start of the data (bytes): behind a header, and on a striped volume at a full stripe."""
    if options.type == "plain":
        return 0
    stripe = target.stripe_unit * target.stripe_count
    return -(-HEADER // stripe) * stripe if stripe and not stripe % 4096 else HEADER


def _header(piece: Part, offset: int) -> list[Place]:
    """The whole header with its key slots. Its first MiB is erased anyway."""
    return [(piece.node, at) for at in range(MIB, offset, MIB)]


def _gives(target: Target, piece: Part, offset: int) -> Target:
    below = target if piece.node == target.volume else without_uses(target, "data")
    stripe = below.stripe_unit * below.stripe_count
    straight = bool(stripe) and not offset % stripe
    note = f"dm-crypt data begins {offset} B into {piece.node}"
    return replace(
        below,
        volume=f"/dev/mapper/{_mapping_name(target)}",
        size=piece.size - offset,
        stripe_unit=below.stripe_unit if straight else 0,
        stripe_count=below.stripe_count if straight else 0,
        notes=(*target.notes, note),
    )


def _open(options: Options, target: Target, piece: Part, offset: int) -> tuple[str, ...]:
    name, flags = _mapping_name(target), _flags(options)
    sizes = (str(options.key_size), str(options.sector_size))
    if options.type == "luks2":
        words = (piece.node, name, uuid_of(target.name, "crypt"), str(offset // SECTOR))
        return ("sh", "-c", LUKS, "luks", *words, options.cipher, *sizes, *flags)
    return (
        *("cryptsetup", "open", "--batch-mode", "--type", "plain", "--cipher", options.cipher),
        *("--key-size", sizes[0], "--sector-size", sizes[1]),
        *("--key-file", "/dev/urandom", "--keyfile-size", str(options.key_size // 8)),
        *(*flags, piece.node, name),
    )


def _flags(options: Options) -> tuple[str, ...]:
    flag_values = {"--allow-discards": options.discards} | {
        f"--perf-{name}": getattr(options, name) for name in WORKS
    }
    return tuple(flag for flag, enabled in flag_values.items() if enabled)


def _close_step(target: Target) -> Step:
    name = _mapping_name(target)
    purpose = f"Close {name}and drop its key"
    return Step(("cryptsetup", "close", name), purpose, destroys=claims_of(target), quiet=True)


def teardown(options: Options, target: Target, facts: HostFacts) -> list[Step]:
    """Remove the mapping, then erase the whole header with its key slots."""
    piece = _piece(target)
    close = [_close_step(target)] if device_table(_mapping_name(target), facts) else []
    header = _header(piece, _offset(options, target))
    return close + (
        erase_all(target, [piece], facts, header) if still_there(target, [piece], facts) else []
    )


def health_faults(options: Options, target: Target, health: Health) -> list[str]:
    return [] if _mapping_name(target) in health.mapped else [_missing_disk(target)]


def _missing_disk(target: Target) -> str:
    return f"/dev/mapper/{_mapping_name(target)} is not there"


def verify(options: Options, target: Target, facts: HostFacts) -> list[str]:
    """The kernel's own table: "0 LENGTH crypt CIPHER KEY IV DEVICE OFFSET [COUNT OPTION…]". dmsetup prints no key."""
    piece, offset = _piece(target), _offset(options, target)
    graph, rows = Graph(facts), device_table(_mapping_name(target), facts)
    device = graph.find_device(f"/dev/mapper/{_mapping_name(target)}")
    if device is None or len(rows) != 1:
        return [_missing_disk(target)]
    row, wrong = rows[0], []
    if row[2:3] != ["crypt"] or len(row) < 8:
        return [f"{device.path} is {' '.join(row[2:3])}, not crypt"]
    below = graph.find_device(piece.node)
    if below is None or below.name not in graph.below[device.name]:
        wrong.append(f"{device.path} is not on {piece.node}")
    for what, wish, is_now in (
        ("cipher", options.cipher, row[3]),
        ("key", f"{options.key_size} bits", f"{_bits(row[4])} bits"),
        ("data's beginning", f"{offset} B", f"{int(row[7]) * SECTOR} B"),
        ("size", f"{piece.size - offset} B", f"{int(row[1]) * SECTOR} B"),
    ):
        if wish != is_now:
            wrong.append(f"{device.path}: the {what} is {is_now}, not {wish}")
    return wrong + _features(options, device.path, set(row[9:]))


def _bits(key: str) -> int:
    """Bits of a key that dmsetup shows as zeros, or ":BYTES:logon:NAME" of one in the kernel's keyring."""
    return int(key.split(":")[1]) * 8 if key.startswith(":") else len(key) * 4


def _features(options: Options, path: str, table_features: set[str]) -> list[str]:
    wished = {name for name in WORKS if getattr(options, name)}
    wished |= {"allow_discards"} if options.discards else set()
    wished |= {f"sector_size:{options.sector_size}"} if options.sector_size > SECTOR else set()
    return [
        *(f"{path}: {name} is not set" for name in sorted(wished - table_features)),
        *(f"{path}: {name} is set" for name in sorted(table_features - wished)),
    ]
