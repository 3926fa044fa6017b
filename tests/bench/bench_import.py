"""1,000 files imported in one go: figures per second against reading the same texts alone, and memory.

In an archive, as a person hands them in: unpacked, kept, read by what the workers call (so that the progress is that
of the page), agreed to, and stored by what the workers call, with the progress that the page shows. Target: at most 3
times what agents.reading.read takes for the same texts in the same run, and memory that does not grow with the number
of files.
"""

from __future__ import annotations

import io
import resource
import sys
import time
import zipfile
from pathlib import Path

import django

TARGET = 3.0
FILES = 1000
MEMORY_MB = 100  # that the import may take, whatever the number of files
CASE = Path(__file__).parent.parent / "cases" / "tools" / "fio" / "3.33-randrw.json"


def main() -> int:
    django.setup()
    from django.core.management import call_command
    from django.test.utils import override_settings

    call_command("migrate", verbosity=0)
    texts = {f"{n:04}.json": sample(n) for n in range(FILES)}
    alone, figures = read_alone(texts)
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
    return int(ratio > TARGET or grown > MEMORY_MB or stored != figures)


def sample(number: int) -> str:
    """fio's own output, a little different in each file."""
    return CASE.read_text().replace('"jobname" : "', f'"jobname" : "{number}-')


def pack(texts: dict[str, str]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in texts.items():
            archive.writestr(name, text)
    return out.getvalue()


def read_alone(texts: dict[str, str]) -> tuple[float, int]:
    """Seconds, and the figures found."""
    from agents import reading

    started = time.perf_counter()
    found = [reading.read(text, name) for name, text in texts.items()]
    took = time.perf_counter() - started
    every = [one for reading in found for one in reading.found]
    assert len(every) == FILES and not any(one.trouble for one in every), every[:1]
    return took, sum(len(one.metrics) for one in every)


def imported(packed: bytes) -> tuple[float, int]:
    """Seconds, and the figures stored."""
    from benchlab.imports import agreeing, drafts, offered, progress
    from benchlab.imports.checking import Agreement, Chosen
    from benchlab.runs.models import Measurement
    from benchlab.team.models import Team

    team = Team.objects.create(name=f"bench {time.time()}")
    started = time.perf_counter()
    nudged: list[int] = []
    send, drafts._send = drafts._send, lambda task, pk: nudged.append(pk)
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
        every = [Chosen(one.key, new_host="h", new_topology="t") for one in offered.results(draft)]
        agreeing.agree(draft, Agreement(every, "1,000 files"), user=None)
        print(f"  agreed after {time.perf_counter() - started:.1f} s", flush=True)
        assert nudged == [draft.pk]
        agreeing.store(draft.pk)
    finally:
        drafts._send, progress.told = send, tell
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
