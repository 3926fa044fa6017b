"""Settings before and after a run: by the facts and by the health check alike, and what changed in words."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from agents import options
from agents.contracts import Target
from agents.drivers import registry
from agents.facts import health, reading, settings, volumes
from agents.facts.health import Health
from agents.facts.model import Bcache, Dataset, HostFacts, MdArray, Mount, Zpool
from agents.facts.sections import Section, succeeded
from agents.facts.settings import Change, Scope
from agents.plans import applied_part as plan_settings
from agents.plans import stack
from agents.plans.chain import DiskRequest, LayerSpec
from agents.steps import queues
from tests.agents import layer_cases, made_up
from tests.agents.made_up import disk, host, spare

QUEUE = {"scheduler": "[none] mq-deadline", "nr_requests": "256", "read_ahead_kb": "128"}
SDB = replace(disk("sdb", 1), queue=QUEUE)
MD0 = replace(disk("md127", 2), type="raid5", links=("/dev/md/bl17",))
STRIPES = {"stripe_cache_size": "256"}
ARRAY = MdArray("md127", "active", "raid5", chunk=65536, bitmap=True, settings=STRIPES)
CACHED = Bcache(values={"cache_mode": "writethrough [writeback] none", "state": "clean"})
CACHE = "0 100 cache 254:1 254:2 254:3 128 2 metadata2 writeback smq 0"
RW = "rw,noatime,rw,attr2"
SCOPE = Scope("bl17", ("/dev/sdb",), ("/dev/md/bl17",), frozenset({"/mnt/benchlab/bl17"}))


def verified():
    """A host on which each kind of setting is."""
    facts = host(SDB, MD0, sysctls={"vm.dirty_ratio": "20"}, governors={"policy0": "performance"})
    return replace(
        facts,
        bcache={"sdb": CACHED},
        md_arrays=(ARRAY,),
        dm_tables=(f"bl17-data: {CACHE}", "bl170-data: 0 1 linear 8:0 0"),
        mounts=(Mount("/dev/md127", "/mnt/benchlab/bl17", "xfs", RW),),
        zpools=(Zpool("bl17", properties={"ashift": "12", "free": "9"}),),
        datasets=(Dataset("bl17/data", {"recordsize": "131072", "used": "7"}),),
    )


def seen() -> Health:
    """The same host by the health check, after a run in which pools filled."""
    return Health(
        names={"/dev/sdb": "sdb", "/dev/md/bl17": "md127"},
        values={
            "sdb": {
                **{f"queue/{name}": value for name, value in QUEUE.items()},
                **{f"bcache/{name}": value for name, value in CACHED.values.items()},
                "bcache/state": "dirty",
            },
            "md127": {"md/stripe_cache_size": "256"},
        },
        arrays=(replace(ARRAY, settings={}),),
        tables=(f"bl17-data: {CACHE}",),
        mounts=(Mount("/dev/md127", "/mnt/benchlab/bl17", "xfs", RW),),
        pool_properties={"bl17": {"ashift": "12"}},
        dataset_properties={"bl17/data": {"recordsize": "131072"}},
        sysctls={"vm.dirty_ratio": "20"},
        governors={"policy0": "performance"},
    )


def changed(now: Health, scope: Scope = SCOPE, faulty: bool = False) -> list[str]:
    before = settings.settings_from_facts(verified(), scope)
    found = settings.changed_settings(before, settings.settings_from_health(now, scope), faulty)
    return [one.describe("before", "now") for one in found]


def with_values(name: str, **more: str) -> Health:
    now = seen()
    values = {key.replace("__", "/"): value for key, value in more.items()}
    return replace(now, values={**now.values, name: {**now.values[name], **values}})


def test_nothing_changed_where_nothing_was_set():
    assert changed(seen()) == []
    names = {name for name, _ in settings.settings_from_facts(verified(), SCOPE)}
    assert {"scheduler", "bcache cache_mode", "md chunk", "md stripe_cache_size", "zfs recordsize",
            "device-mapper table", "mount options", "zpool ashift", "vm.dirty_ratio",
            "CPU governor policy0"} <= names  # fmt: skip


@pytest.mark.parametrize(
    ("now", "words"),
    [
        (
            with_values("sdb", bcache__cache_mode="writethrough writeback [none]"),
            "bcache cache_mode of /dev/sdb was writeback before and is none now",
        ),
        (with_values("sdb", queue__scheduler="none [mq-deadline]"),
         "scheduler of /dev/sdb was none before and is mq-deadline now"),
        (with_values("sdb", queue__read_ahead_kb="4096"),
         "read_ahead_kb of /dev/sdb was 128 before and is 4096 now"),
        (with_values("md127", md__stripe_cache_size="8192"),
         "md stripe_cache_size of /dev/md/bl17 was 256 before and is 8192 now"),
        (replace(seen(), arrays=(replace(ARRAY, bitmap=False),)),
         "md bitmap of /dev/md/bl17 was internal before and is none now"),
        (replace(seen(), tables=(f"bl17-data: {CACHE.replace('writeback', 'writethrough')}",)),
         "device-mapper table of bl17-data was writeback before and is writethrough now"),
        (replace(seen(), mounts=(replace(seen().mounts[0], options="rw,relatime,rw,attr2"),)),
         "mount options of /mnt/benchlab/bl17 was noatime before and is relatime now"),
        (replace(seen(), dataset_properties={"bl17/data": {"recordsize": "4096"}}),
         "zfs recordsize of bl17/data was 131072 before and is 4096 now"),
        (replace(seen(), pool_properties={"bl17": {"ashift": "9"}}),
         "zpool ashift of bl17 was 12 before and is 9 now"),
        (replace(seen(), sysctls={"vm.dirty_ratio": "5"}),
         "vm.dirty_ratio was 20 before and is 5 now"),
        (replace(seen(), governors={"policy0": "powersave"}),
         "CPU governor policy0 was performance before and is powersave now"),
    ],
)  # fmt: skip
def test_what_changed_is_named_with_both_values(now, words):
    assert changed(now) == [words]


def test_what_cannot_be_read_has_changed_unless_a_fault_says_why():
    now = replace(seen(), tables=())
    assert changed(now) == [
        f"device-mapper table of bl17-data was {CACHE} before and is not there now"
    ]
    assert changed(now, faulty=True) == []
    error = replace(seen(), tables=("bl17-data: 0 100 error",))
    assert changed(error) == changed(now) and changed(error, faulty=True) == []
    gone = replace(seen(), names={"/dev/md/bl17": "md127"})
    assert [words.split(" was ")[0] for words in changed(gone)] == [
        "scheduler of /dev/sdb", "nr_requests of /dev/sdb", "read_ahead_kb of /dev/sdb",
        "bcache cache_mode of /dev/sdb",
    ]  # fmt: skip
    assert changed(gone, faulty=True) == []


def test_a_mount_that_became_read_only_is_a_fault_and_no_setting():
    mount = Mount("/dev/md127", "/mnt/benchlab/bl17", "xfs", RW.replace("rw", "ro"))
    assert changed(replace(seen(), mounts=(mount,))) == []
    assert changed(replace(seen(), mounts=None)) == [], "FreeBSD's health check lists none"


def test_while_a_volume_grows_only_disks_and_host_are_compared():
    growing = replace(SCOPE, growing=True)
    now = replace(with_values("md127", md__stripe_cache_size="8192"), tables=())
    assert changed(now, growing) == []
    assert changed(with_values("sdb", queue__nr_requests="1"), growing) == [
        "nr_requests of /dev/sdb was 256 before and is 1 now"
    ]


def test_a_table_in_which_its_target_counts_is_compared_by_its_type():
    facts = host(dm_tables=("bl17: 0 100 flashcache 7 reads",))
    was = settings.settings_from_facts(facts, SCOPE)
    now = settings.settings_from_health(Health(tables=("bl17: 0 100 flashcache 9 reads",)), SCOPE)
    assert settings.changed_settings(was, now) == []


def test_order_alone_is_a_difference_too():
    said = Change(("mount options", "/mnt"), "a,b", "b,a").describe("before", "now")
    assert said == "mount options of /mnt was a,b before and is b,a now"


@pytest.mark.parametrize("script", [reading.FACTS_SCRIPT, health.SCRIPT], ids=["facts", "health"])
def test_both_scripts_read_what_is_compared(script):
    for _, names in settings.SYSFS.values():
        assert [name for name in names if name not in script] == []
    assert set(queues.ATTRIBUTES) <= set(settings.QUEUE), "what the tuning layer sets"


def test_statistics_of_a_pool_are_no_settings():
    lines = b"bl17\tused\t7\t-\nbl17\trecordsize\t131072\tdefault\nbl17\tsync\tdisabled\tlocal\n"
    assert volumes.settable_properties(Section("zfs_get", 0, lines, "")) == {
        "bl17": {"recordsize": "131072", "sync": "disabled"}
    }
    failed = {"zfs_get": Section("zfs_get", 1, b"", "no such pool")}
    assert volumes.settable_properties(succeeded(failed, "zfs_get")) == {}


def test_a_plan_tells_its_disks_volumes_and_mounts():
    disks = [disk("ubdc", 1), disk("ubdd", 2)]
    both = (DiskRequest("data", "ssd", 2),)
    specs = [LayerSpec("md", {"level": 1}, both), LayerSpec("filesystem", {"type": "ext4"})]
    made = stack.plan_stack(specs, "bl17", host(*disks), spare(*disks, role="ssd").values())
    assert plan_settings.scope(made) == Scope(
        "bl17", ("/dev/ubdc", "/dev/ubdd"), ("/dev/md/bl17",), frozenset({"/mnt/benchlab/bl17"})
    )


def test_layers_that_only_set_something_can_set_it_again():
    queue = {"scheduler": "[none]", "read_ahead_kb": "128"}
    ubdc = replace(disk("ubdc", 1), queue=queue)
    specs = [
        LayerSpec("raw", {}, (DiskRequest("data", "ssd"),)),
        LayerSpec("tuning", {"read_ahead_kb": 512}),
    ]
    made = stack.plan_stack(specs, "bl17", host(ubdc), spare(ubdc, role="ssd").values())
    assert [step.says for step in plan_settings.setting_steps(made)] == [
        "Set read_ahead_kb to 512 on ubdc"
    ]


# Of bcache: what the health check sees to, and what only a new superblock changes.
FIXED = {"state", "running", "dirty_data", "bucket_size", "block_size"}


def mutants(facts: HostFacts) -> Iterator[tuple[str, HostFacts]]:
    """The facts with one setting changed, and what kind of setting it is."""
    for kind, where, rows in changed_rows(facts):
        yield kind, varied(facts, **{where: rows})


def changed_rows(facts: HostFacts) -> Iterator[tuple[str, str, Any]]:
    """Kind of the setting, field of the facts, and all that is then in it."""
    for at, device in enumerate(facts.devices):
        for name in device.queue:
            one = varied(device, queue={**device.queue, name: "[other]"})
            yield f"queue {name}", "devices", exchanged(facts.devices, at, one)
    for name, cached in facts.bcache.items():
        for key in cached.values.keys() - FIXED:
            one = varied(cached, values={**cached.values, key: "[other]"})
            yield f"bcache {key}", "bcache", {**facts.bcache, name: one}
    for at, array in enumerate(facts.md_arrays):
        other = {"level": "raid9", "chunk": 512, "layout": "f3", "bitmap": not array.bitmap}
        for key, value in other.items():
            one = varied(array, **{key: value})
            yield f"md {key}", "md_arrays", exchanged(facts.md_arrays, at, one)
    for at, line in enumerate(facts.dm_tables):
        words = line.split(" ")
        for place in range(3, len(words)):
            table = " ".join(exchanged(words, place, "7"))
            yield "table", "dm_tables", exchanged(facts.dm_tables, at, table)
    for at, mount in enumerate(facts.mounts):
        for word in mount.options.split(","):
            one = varied(mount, options=mount.options.replace(word, "other"))
            yield "mount", "mounts", exchanged(facts.mounts, at, one)
    for where in ("zpools", "datasets"):
        rows = getattr(facts, where)
        for at, row in enumerate(rows):
            for key in row.properties:
                one = varied(row, properties={**row.properties, key: "other"})
                yield f"{where} {key}", where, exchanged(rows, at, one)
    for where in ("sysctls", "governors"):
        for key in getattr(facts, where):
            yield where, where, {**getattr(facts, where), key: "other"}


def varied(row: Any, **fields: Any) -> Any:
    return replace(row, **fields)


def exchanged(rows: Sequence[Any], at: int, other: Any) -> tuple[Any, ...]:
    return (*rows[:at], other, *rows[at + 1 :])


def verified_by(driver: Any, chosen: Any, target: Target, facts: HostFacts) -> list[str] | None:
    """None: it cannot read that, which is a difference too."""
    try:
        return list(driver.verify(chosen, target, facts))
    except (ValueError, LookupError):
        return None


def test_whatever_a_layer_verifies_is_compared_between_runs():
    """By every layer's cases: each setting whose change its `verify` would see is seen here too."""
    noticed = set[str]()
    for path in layer_cases.FILES:
        case = json.loads(path.read_text())
        if "verify" not in case:
            continue
        facts = made_up.facts(case.get("facts", {}))
        target = layer_cases.target_of(case.get("target", {}), facts)
        driver = registry.layer(path.parent.name)
        chosen = options.build_options(driver.Options, case.get("options", {}))
        spec = LayerSpec(path.parent.name, case.get("options", {}))
        gives = replace(
            target, mount=f"/mnt/benchlab/{target.name}", volume=volume_of(case, target)
        )
        placed = stack.Placed(spec, target, gives, ())
        scope = plan_settings.scope(stack.StackPlan(target.name, (placed,), ""))
        before = settings.settings_from_facts(facts, scope)
        said = verified_by(driver, chosen, target, facts)
        for kind, other in mutants(facts):
            if verified_by(driver, chosen, target, other) != said:
                noticed.add(kind)
                changed = settings.changed_settings(
                    before, settings.settings_from_facts(other, scope)
                )
                assert changed, f"{path.parent.name}/{path.name}: {kind}"
    assert {"queue scheduler", "bcache cache_mode", "md chunk", "table", "mount", "sysctls",
            "datasets recordsize"} <= noticed  # fmt: skip


def volume_of(case: dict[str, Any], target: Target) -> str:
    """Of a case that does not say it: an array's."""
    return case.get("gives", {}).get("volume") or target.volume or f"/dev/md/{target.name}"
