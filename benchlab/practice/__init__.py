# SPDX-License-Identifier: Apache-2.0
"""Practice hosts: real Linux machines to try layouts on without risking a disk.

Each is Debian under User Mode Linux, a kernel as a process: no virtualisation is needed, but root,
x86_64 and Debian 12 or 13. Standard library only; nothing here imports Django.

    reason = available()                    None, or why no host can run on this machine
    ensure_image(progress=print)            build the root image once, in the cache (paths.py)
    host = boot_practice_host("practice")   one fast disk, four slow ones
    host = UmlHost("mine").start([DiskSpec(512), DiskSpec(512, serial="A1")], [SlowDisk()])
    host.port, host.key_path                sshd on 127.0.0.1; users root, lab, nosudo
    host.cut(), host.heal()                 the network goes silent, and comes back
    host.kill(), host.restart()             power loss, power on: disks keep what was synced
    host.stop()                             nothing stays behind
    list_hosts(), sweep_leftovers()         hosts that exist; end those whose owner has died

By hand: `python -m benchlab.practice build|start|stop|kill|restart|cut|heal|ssh|list`
(`--zfs` for the second kind).
"""

from benchlab.practice.disks import DiskSpec, SlowDisk
from benchlab.practice.errors import PracticeError
from benchlab.practice.fleet import boot_practice_host, list_hosts, open_host, sweep_leftovers
from benchlab.practice.host import PracticeHost, add_scsi_disks
from benchlab.practice.machine import QEMU_TOOLS, available
from benchlab.practice.qemu import QemuHost
from benchlab.practice.store import Image
from benchlab.practice.uml import UmlHost, ensure_image
from benchlab.practice.zfs_image import ensure_zfs_image

__all__ = [
    "QEMU_TOOLS",
    "DiskSpec",
    "Image",
    "PracticeError",
    "PracticeHost",
    "QemuHost",
    "SlowDisk",
    "UmlHost",
    "add_scsi_disks",
    "available",
    "boot_practice_host",
    "ensure_image",
    "ensure_zfs_image",
    "list_hosts",
    "open_host",
    "sweep_leftovers",
]
