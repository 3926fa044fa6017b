"""The captured sessions, said with the pieces of which real ones are made."""

from __future__ import annotations

from agents.dynamo import script, specs, wire
from agents.dynamo.console import Script, Send
from agents.dynamo.messages import AccessLine, AccessSpec, Target
from agents.dynamo.specs import Trial
from agents.dynamo.wire import Message

HALF = AccessSpec("8 KiB; 50% Read; 50% random", (AccessLine(8192, 100, 50, 50),))
MIXED = AccessSpec(
    "mixed 3 lines",
    (
        AccessLine(4096, 50, 100, 100, align=4096),
        AccessLine(65536, 30, 0, 0, align=4096),
        AccessLine(8192, 20, 50, 50),
    ),
)
SEED = 0x1122334455667788


def target(
    directory: str, outstanding: int, seed: int = SEED, size: int = 4096 * 512, pattern: int = 0
) -> Target:
    made = specs.disk_target(
        f"/srv/benchlab/{directory}", size, outstanding, seed, sector=512, pattern=pattern
    )
    return made._replace(name=f"/srv/benchlab/{directory} [ext4]")


def full() -> Script:
    first, second = target("disk1", 8), target("disk1", 8, SEED + 1)
    test = Trial(HALF, ((first,), (second,)), ((first,), ()), ramp=1.0, duration=3.0, poll=1.5)
    yield from script.report_targets()
    yield from script.run_tests([test])
    yield from script.report_targets()
    # Whichever is named, the last worker goes.
    yield Send("removing a worker", (Message(wire.EXIT, 1).encode(),))
    yield from script.exit_dynamo()


def two_targets() -> Script:
    both = (target("disk1", 4), target("disk2", 2, SEED + 1))
    test = Trial(MIXED, (both,), (both,), ramp=0.5, duration=2.0, poll=0)
    yield from script.session([test], report=True)


def stop_preparing() -> Script:
    big = (target("disk2", 1, size=4194304 * 512),)
    yield from script.session([Trial(HALF, (big,), (big,))])


def failing() -> Script:
    yield from script.add_workers(1)
    yield from script.set_access(0, HALF)
    try:
        yield from script.set_targets(0, [target("nosuchdr", 8)])
    except script.DynamoError:
        yield from script.set_targets(0, [target("disk3", 8)])
    yield from script.prepare_files()
    yield from script.set_targets(0, [target("disk3", 8)])
    try:
        yield from script.run_test(Trial(HALF, ((target("disk3", 8),),)))
    except script.DynamoError:
        yield from script.exit_dynamo()
        raise


def resetting() -> Script:
    yield from script.reset_dynamo()


def leaving() -> Script:
    yield from script.exit_dynamo()
