"""Record anew what the machines of bench_hosts answer, from a practice host: `python -m tests.bench.record_machine`.

It has as many disks as a machine, and one fio runs on the first of them.
"""

from __future__ import annotations

import re
import secrets
import sys
import time
from dataclasses import replace

from agents.contracts import Secret, Shell, Target
from agents.drivers import registry
from agents.facts import health, reading
from agents.jobs import job
from agents.jobs.spool import Spool
from agents.ssh.shell import Address, connect_shell
from agents.tools import fio
from benchlab.practice import DiskSpec, UmlHost
from tests.bench.machine import BOOT_ID, DISKS, NAME, RECORDED, RECORDED_MS, SERIAL

NODE = "/dev/ubdb"
OPTIONS = fio.Options(rw="randread", iodepth=8, size=256 << 20, runtime_s=RECORDED_MS // 1000)


def main() -> int:
    host = UmlHost(NAME.decode())
    host.start([DiskSpec(512, serial=f"{SERIAL.decode()}D{n}") for n in range(DISKS)])
    try:
        record(shell_of(host))
    finally:
        host.stop()
    return 0


def shell_of(host: UmlHost) -> Shell:
    from agents.ssh.shell import offered_host_key

    key = offered_host_key("127.0.0.1", host.port).public_key
    private = Secret(host.key_path.read_text())
    return connect_shell(Address("127.0.0.1", host.port, "root", private, key))


def record(shell: Shell) -> None:
    boot = shell.run(("cat", "/proc/sys/kernel/random/boot_id")).stdout.strip()
    needs = [need for kinds in (registry.all_layers(), registry.all_tools()) for one in kinds.values()
             for need in one.NEEDS]  # fmt: skip
    nonce = secrets.token_hex(8)
    commands = {
        "facts.out": reading.linux_command({need.program: need for need in needs}.values(), nonce),
        "health.out": ("sh", "-c", health.SCRIPT, "facts", nonce, "", "", NODE),
        "glance.out": ("sh", "-c", reading.GLANCE_SCRIPT, "glance", NODE.removeprefix("/dev/")),
    }
    for name, argv in commands.items():
        ran = shell.run(argv, root=True)
        assert boot in ran.stdout, ran  # grep misses files, as on every host
        (RECORDED / name).write_bytes(ran.stdout.replace(boot, BOOT_ID))
    files = measured(shell)
    for name in (fio.RESULT, "samples"):
        (RECORDED / name).write_bytes(files[name])


def measured(shell: Shell) -> dict[str, bytes]:
    from agents.drivers import registry

    work = fio.build_job(OPTIONS, Target(name="bl1", volume=NODE, size=512 << 20))
    spool = Spool("recorded")
    job.start_job(shell, spool, replace(work, timeout_s=120.0), registry.sampled_sources("debian"))
    while not (polled := job.poll(shell, spool, 2.0, 0, work.outputs)).state.is_over:
        time.sleep(0.2)
    job.remove_spool(shell, spool)
    assert polled.fetched and polled.exit_code == 0, polled
    samples = re.sub(rb"^# \|.*?(?=^[#.])", b"", polled.fetched.samples, flags=re.M | re.S)
    return {**polled.fetched.files, "samples": samples}


if __name__ == "__main__":
    import os

    import django

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "benchlab.settings")
    django.setup()
    sys.exit(main())
