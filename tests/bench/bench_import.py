"""1,000 files imported in one go: figures per second against reading the same texts alone, that against orjson alone on
the same bytes, and memory.

In an archive, as a person hands them in: unpacked, kept, read by what the workers call (so that the progress is that
of the page), agreed to, and stored by what the workers call, with the progress that the page shows. Target: at most 3
times what reading.read takes for the same texts in the same run, that at most 60 times the CPU that orjson takes (most
of a small file's time goes by figures, not by bytes), and memory that does not grow with the number of files.
"""

from __future__ import annotations

import io
import resource
import sys
import time
import zipfile
from pathlib import Path

import django
import orjson

TARGET = 3.0
READING = 60.0  # times orjson
FILES = 1000
MEMORY_MB = 100  # that the import may take, whatever the number of files
CASE = Path(__file__).parent.parent / "cases" / "tools" / "fio" / "3.33-randrw.json"


def main() -> int:
    django.setup()
    from django.core.management import call_command
    from django.test.utils import override_settings

    call_command("migrate", verbosity=0)
    texts = {f"{n:04}.json": sample(n) for n in range(FILES)}
    parsed, size = parsed_alone(texts)
    alone, busy, figures = read_alone(texts)
    reading = busy / parsed
    print(
        f"reading {size / FILES / 1e3:.0f} kB each: {size / busy / 1e6:.1f} MB/s of CPU, {reading:.1f} times orjson's"
        f" ({size / parsed / 1e6:.0f} MB/s), target {READING:g}",
        flush=True,
    )
    packed = pack(texts)
    del texts
    before = memory_mb()
    with override_settings(DEBUG=False):
        took, stored = imported(packed)
    grown = memory_mb() - before
    ratio = took / alone
    print(
        f"import of {FILES} files: {took:.1f} s, {stored / took:,.0f} figures/s; reading alone {alone:.1f} s, "
        f"{figures / alone:,.0f} figures/s; ratio {ratio:.2f}, target {TARGET:g}; "
        f"memory {grown:.0f} MB more, target {MEMORY_MB}"
    )
    return int(ratio > TARGET or reading > READING or grown > MEMORY_MB or stored != figures)


def sample(number: int) -> str:
    """fio's own output, a little different in each file."""
    return CASE.read_text().replace('"jobname" : "', f'"jobname" : "{number}-')


def pack(texts: dict[str, str]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in texts.items():
            archive.writestr(name, text)
    return out.getvalue()


def parsed_alone(texts: dict[str, str]) -> tuple[float, int]:
    """Seconds of CPU that orjson takes for all of them, and their bytes: what this machine can do at this moment."""
    raw = [text.encode() for text in texts.values()]
    started = time.process_time()
    for one in raw:
        orjson.loads(one)
    return time.process_time() - started, sum(map(len, raw))


def read_alone(texts: dict[str, str]) -> tuple[float, float, int]:
    """Seconds, those of CPU, and the figures found."""
    from agents.texts import reading

    started, busy = time.perf_counter(), time.process_time()
    found = [reading.read(text, name) for name, text in texts.items()]
    took, busy = time.perf_counter() - started, time.process_time() - busy
    every = [one for reading in found for one in reading.found]
    assert len(every) == FILES and not any(one.trouble for one in every), every[:1]
    return took, busy, sum(len(one.metrics) for one in every)


def imported(packed: bytes) -> tuple[float, int]:
    """Seconds, and the figures stored."""
    from benchlab.imports import draft_results, drafts, progress, storing_drafts
    from benchlab.imports.checking import Agreement, Chosen
    from benchlab.runs.models import Measurement
    from benchlab.team.models import Team
    from benchlab.workers import messages

    team = Team.objects.create(name=f"bench {time.time()}")
    started = time.perf_counter()
    nudged: list[int] = []

    def note(task: str, pk: int) -> bool:
        nudged.append(pk)
        return False

    send, messages.send = messages.send, note
    tell, progress.told = progress.told, shown
    try:
        draft = drafts.make(
            team=team, user=None, uploads=[drafts.Upload("a.zip", io.BytesIO(packed), len(packed))]
        )
        for number, pk in enumerate(nudged, 1):
            drafts.read(pk)
            if number % 250 == 0:  # `nudged` grows while the archive is unpacked
                standing = drafts.standing(draft)
                print(f"  read: {standing.read} of {standing.files} files", flush=True)
        nudged.clear()
        every = [
            Chosen(one.key, new_host="h", new_topology="t") for one in draft_results.results(draft)
        ]
        storing_drafts.agree(draft, Agreement(every, "1,000 files"), user=None)
        print(f"  agreed after {time.perf_counter() - started:.1f} s", flush=True)
        assert nudged == [draft.pk]
        storing_drafts.store(draft.pk)
    finally:
        messages.send, progress.told = send, tell
    took = time.perf_counter() - started
    draft.refresh_from_db()
    assert draft.outcome and not draft.outcome["failed"], draft.trouble
    made = draft.outcome["campaign"]
    return took, Measurement.objects.filter(attempt__run__campaign=made).count()


def shown(pk: int, done: int) -> None:
    print(f"  stored: {done} of {FILES} results", flush=True)


def memory_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    sys.exit(main())
