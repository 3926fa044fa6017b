"""A Linux host made up for tests: what the script of facts prints on it, section by section, from the manuals."""

from __future__ import annotations

from typing import Any

from agents.facts import reading

ROOT_MOUNT = "27 1 8:2 / / rw,relatime shared:1 - ext4 /dev/sda2 rw"


def sysfs(name: str, number: str, size: int = 2097152, **more: Any) -> list[str]:
    values = {"dev": number, "size": str(size), "ro": "0", "removable": "0", **more}
    return [f"/sys/class/block/{name}/{key}:{value}" for key, value in values.items()]


def pairs(name: str, number: str, kind: str = "disk", **more: str) -> str:
    values = {"NAME": name, "KNAME": name, "MAJ:MIN": number, "TYPE": kind, **more}
    return " ".join(f'{key.replace("_", "-")}="{value}"' for key, value in values.items())


def output(**changed: str | tuple[str, int, str] | None) -> bytes:
    """A reading of a host with sda (sda2 is /), and `changed` sections: text, or (text, exit, stderr)."""
    files = [*sysfs("sda", "8:0"), *sysfs("sda2", "8:2", partition="2")]
    sections: dict[str, str | tuple[str, int, str] | None] = {
        "uid": "0",
        "files": "\n".join([*files, "/proc/self/mountinfo:" + ROOT_MOUNT]),
        "picked": "/proc/cpuinfo:processor\t: 0\n/proc/meminfo:MemTotal:        1024 kB",
        "tree": "/sys/class/block/*/holders/*\n/sys/block/sda/sda2/partition",
        "lsblk": pairs("sda", "8:0") + "\n" + pairs("sda2", "8:2", "part"),
        "signatures": "sda,0x1fe,,,PMBR\nsda2,0x438,u-1,,ext4",
    }
    for key, value in changed.items():
        name = key.replace("__", " ")
        added = isinstance(value, str) and value.startswith("+")
        sections[name] = f"{sections.get(name, '')}\n{value[1:]}" if added else value
    parts = ["=n0 facts"]
    for name, content in sections.items():
        if content is None:
            continue
        out, code, err = (content, 0, "") if isinstance(content, str) else content
        parts.append(f"=n0 begin {name}\n{out}\n=n0 end {code}\n{err}\n=n0 done")
    return "\n".join([*parts, "=n0 complete", ""]).encode("utf-8", "surrogateescape")


def device(name: str, **changed):
    found = reading.parse_linux_facts(output(**changed)).find_device(name)
    assert found is not None
    return found


def extra(name: str, number: str, lsblk: dict[str, str] | None = None, **more: Any) -> dict:
    """Sections of one more disk."""
    return {
        "files": "+" + "\n".join(sysfs(name, number, **more)),
        "lsblk": "+" + pairs(name, number, **(lsblk or {})),
    }
