"""An LVM cache over a stripe of four, with xfs: built, verified, taken down and proven blank, by us and by Ansible.

The same practice host and the same disks, in turns. Ansible gets what makes it fast: pipelining, one lasting
connection, and facts of the hardware alone, gathered once by each play, which asserts that nobody else uses the disks.
Ours reads facts before every layer and asks the guard before every command that destroys. Target: ours is at least
8 x faster (ratio of medians).
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import yaml

from benchlab.practice import DiskSpec, UmlHost
from benchlab.practice.paths import images_dir
from tests.bench import options

TARGET = 8.0
ROUNDS = 3
HERE = Path(__file__).parent / "ansible"
SLOW, FAST = ["/dev/ubdb", "/dev/ubdc", "/dev/ubdd", "/dev/ubde"], "/dev/ubdf"


def main() -> int:
    options.none(__doc__)
    playbook = install()
    rig = UmlHost("bench-ansible")
    rig.start([DiskSpec(256, serial=f"ANS{n}") for n in range(5)], memory_mb=768, owned=True)
    try:
        with tempfile.TemporaryDirectory() as place:
            theirs = ansible(rig, playbook, Path(place))
            ours = benchlab(rig)
            found: dict[str, list[float]] = {"ansible": [], "benchlab": []}
            for _ in range(ROUNDS):
                found["ansible"].append(timed(theirs))
                found["benchlab"].append(timed(ours))
    finally:
        rig.stop()
    for name, seconds in found.items():
        print(f"{name}: {', '.join(f'{s:.1f}' for s in seconds)} s")
    ratio = statistics.median(found["ansible"]) / statistics.median(found["benchlab"])
    print(f"ansible takes {ratio:.1f} x as long, target {TARGET:g} x")
    return int(ratio < TARGET)


def timed(work: Callable[[], None]) -> float:
    begun = time.monotonic()
    work()
    return time.monotonic() - begun


def install() -> Path:
    """ansible-playbook of an environment of its own, kept in the cache: 500 MB that nothing else here needs."""
    place = images_dir().parent / "ansible"
    wanted = (HERE / "requirements.txt").read_text()
    done = place / "installed.txt"
    if not done.exists() or done.read_text() != wanted:
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(place)], check=True)
        pip = [str(place / "bin/python"), "-m", "pip", "install", "-q", "-r"]
        subprocess.run([*pip, str(HERE / "requirements.txt")], check=True)
        done.write_text(wanted)
    return place / "bin/ansible-playbook"


def ansible(rig: UmlHost, playbook: Path, place: Path) -> Callable[[], None]:
    """Function that runs both playbooks against the host; CalledProcessError when one fails."""
    reach = {
        "ansible_host": "127.0.0.1",
        "ansible_port": rig.port,
        "ansible_user": "root",
        "ansible_ssh_private_key_file": str(rig.key_path),
        "ansible_python_interpreter": "/usr/bin/python3",
    }
    (place / "hosts.yml").write_text(yaml.safe_dump({"lab": {"hosts": {"rig": reach}}}))
    sizes = {"data_size": "960m", "cache_size": "200m", "slow": SLOW, "fast": FAST}
    (place / "vars.yml").write_text(yaml.safe_dump(sizes))
    for name in ("up.yml", "down.yml"):
        (place / name).write_text((HERE / name).read_text())
    env = {
        **os.environ,
        "ANSIBLE_HOST_KEY_CHECKING": "0",
        "ANSIBLE_PIPELINING": "1",
        "ANSIBLE_SSH_ARGS": "-F none -o ControlMaster=auto -o ControlPersist=300 -o UserKnownHostsFile=/dev/null",
        "ANSIBLE_SSH_CONTROL_PATH_DIR": str(place),
        "ANSIBLE_HOME": str(place / "home"),
    }

    def run() -> None:
        for name in ("up.yml", "down.yml"):
            argv = [str(playbook), "-i", "hosts.yml", name]
            ran = subprocess.run(argv, cwd=place, env=env, capture_output=True, text=True)
            if ran.returncode:
                raise SystemExit(f"{name}: {ran.stdout[-3000:]}{ran.stderr[-2000:]}")

    return run


def benchlab(rig: UmlHost) -> Callable[[], None]:
    """The same by our layers, with guard, verification and proof."""
    from agents.plans import stack
    from agents.plans.blank import not_blank
    from agents.plans.chain import DiskRequest, LayerSpec
    from agents.safety.apply import Look
    from tests.rig.bench import Bench
    from tests.rig.every_stack import mark

    bench = Bench(rig)
    mark(bench, {"hdd": len(SLOW), "ssd": 1})
    specs = (
        LayerSpec(
            "lvm", {"type": "striped", "stripe_size": 4096}, (DiskRequest("data", "hdd", 4),)
        ),
        LayerSpec("lvm_cache", {"mode": "writeback"}, (DiskRequest("cache", "ssd"),)),
        LayerSpec("filesystem", {"type": "xfs"}),
    )

    def run() -> None:
        with bench.quicker():  # the looks before and after share the channel, as the engine's do
            began = time.monotonic()
            look = Look(bench.facts(), began)
            made = stack.plan_stack(specs, "bl17", look.facts, bench.spares.values())
            bench.build(made, look)
        with bench.quicker():
            bench.take_down(made)
            assert not_blank(made.claims, bench.facts(), "bl17") == []

    return run


if __name__ == "__main__":
    sys.exit(main())
