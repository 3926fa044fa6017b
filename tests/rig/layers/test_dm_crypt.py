"""dm-crypt on a real kernel: formatted, opened, taken down, also after a power loss; its key is to be found nowhere."""

from __future__ import annotations

import pytest

from agents.contracts import GuardError
from agents.plans import stack
from agents.plans.chain import DiskRequest, LayerSpec
from agents.uuids import uuid_of
from tests.rig.bench import LAYOUT, Bench, filesystem

MAPPED = f"/dev/mapper/{LAYOUT}-crypt"
HEADER = 16 << 20


@pytest.fixture(scope="module")
def bench(rig_host) -> Bench:
    return Bench(rig_host)


def crypt(**chosen: object) -> LayerSpec:
    return LayerSpec("dm_crypt", chosen, (DiskRequest("data", "ssd"),))


def zeros(bench: Bench, disk: str, length: int) -> bool:
    return bench.run(f"cmp -n {length} {disk} /dev/zero && echo same").strip() == "same"


def key_of(bench: Bench) -> str:
    """The volume's key, which only the kernel tells, and only root."""
    shown = bench.run(f"dmsetup table --showkeys {LAYOUT}-crypt")
    return shown.split()[4]


def test_luks_under_a_file_system(bench):
    made = bench.plan(crypt(sector_size=4096, discards=True), filesystem("ext4"))
    bench.build(made)
    disk = made.claims[0].node
    said = bench.run(f"cryptsetup luksDump {disk}")
    assert uuid_of(LAYOUT, "crypt") in said and "sector: 4096 [bytes]" in said
    bench.run(f"dd if=/dev/zero of={made.target.mount}/f bs=1M count=8 conv=fsync 2>&1")
    assert stack.verify_stack(made, bench.facts()) == []
    assert bench.run(f"od -An -tx8 -N4096 -j{HEADER + (8 << 20)} {disk} | sort -u | wc -l") != "1\n"
    bench.assert_taken_down(made)
    assert zeros(bench, disk, HEADER), "something of the header, or of its key slots, is left"


def test_a_plain_mapping_shows_no_key(bench):
    made = bench.plan(crypt(type="plain", key_size=256))
    bench.build(made)
    key = key_of(bench)
    assert len(key) == 64 and set(key) != {"0"}
    facts = bench.facts()
    assert key not in repr(facts) and facts.dm_tables == (
        f"{LAYOUT}-crypt: 0 {made.target.size // 512} crypt aes-xts-plain64 {'0' * 64} 0"
        f" {facts.device(made.claims[0].node).majmin} 0",
    )
    assert stack.verify_stack(made, facts) == []
    assert zeros(bench, MAPPED, 1 << 20)
    bench.assert_taken_down(made)
    bench.build(made)
    assert key_of(bench) != key, "each build has a key of its own"
    bench.assert_taken_down(made)


def test_every_setting_is_read_back(bench):
    flags = ("no_read_workqueue", "no_write_workqueue", "same_cpu_crypt", "submit_from_crypt_cpus")
    for chosen in (
        {"type": "plain", "cipher": "aes-cbc-essiv:sha256", "key_size": 128},
        {"type": "plain", "cipher": "xchacha12,aes-adiantum-plain64", "key_size": 256},
        {"cipher": "serpent-xts-plain64", "key_size": 256},
        {"type": "plain", "sector_size": 2048, "discards": True, **dict.fromkeys(flags, True)},
    ):
        made = bench.plan(crypt(**chosen))
        bench.build(made)
        assert stack.verify_stack(made, bench.facts()) == [], chosen
        bench.assert_taken_down(made)


def test_on_a_stripe_and_under_a_group(bench):
    """LVM above and below: each takes down its own."""
    stripe = LayerSpec(
        "lvm", {"type": "striped", "stripe_size": 65536}, (DiskRequest("data", "ssd", 2),)
    )
    made = bench.plan(stripe, LayerSpec("dm_crypt"), filesystem("xfs"))
    bench.build(made)
    assert "sunit=16" in bench.run(f"xfs_info {made.target.mount}")
    bench.assert_taken_down(made)
    made = bench.plan(crypt(), LayerSpec("lvm", {}), filesystem("ext4"))
    bench.build(made)
    bench.assert_taken_down(made)


@pytest.mark.parametrize("chosen", [{}, {"type": "plain"}])
def test_a_power_loss_leaves_what_is_ours(bench, chosen):
    made = bench.plan(crypt(**chosen), filesystem("ext4"))
    bench.build(made)
    bench.power_loss()
    facts = bench.facts()
    signed = {s.type for s in facts.device(made.claims[0].node).signatures}
    assert signed == (set() if chosen else {"crypto_LUKS"}) and not facts.device(MAPPED)
    bench.assert_taken_down(made)
    assert zeros(bench, made.claims[0].node, 1 << 20 if chosen else HEADER)


def test_a_foreign_header_and_a_foreign_mapping_are_refused(bench):
    made = bench.plan(crypt())
    disk = made.claims[0].node
    plain = "cryptsetup open --type plain --cipher aes-xts-plain64 --key-size 256 --key-file /dev/urandom -l 32"
    quick = "--pbkdf pbkdf2 --pbkdf-force-iterations 1000"
    try:
        bench.run(f"echo secret | cryptsetup luksFormat -q {quick} {disk} -; udevadm settle")
        with pytest.raises(GuardError, match="crypto_LUKS"):
            bench.build(made)
        assert "LUKS header information" in bench.run(f"cryptsetup luksDump {disk}")
        bench.run(f"wipefs -qa {disk}; {plain} {disk} vault; udevadm settle")
        with pytest.raises(GuardError, match="vault"):
            bench.build(made)
        assert bench.run("dmsetup ls --target crypt").split()[0] == "vault"
    finally:
        bench.run(f"cryptsetup close vault 2>/dev/null; wipefs -qa {disk}; udevadm settle")
