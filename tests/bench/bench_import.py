"""1,000 files imported in one go, against what cannot be saved: reading them once, and a bare COPY of what is kept.

In an archive, as a person hands them in: unpacked, kept, read by what the workers call (so that the progress is that
of the page), agreed to, and stored by what the workers call, with the progress that the page shows. All in CPU, of this
process and of PostgreSQL's for its connection: what it takes where nothing else works. Targets: so many files per
second of CPU, and no more than so many times the reading and the COPY; the reading at most 60 times the CPU that orjson
takes (most of a small file's time goes by figures, not by bytes); memory that does not grow with the number of files.

It was measured against reading alone once, which fell to a tenth as fio's JSON came to be read faster: the ratio went
from 2 to 18 while an import took less time than before, and told nothing of what had become dear in it meanwhile.
"""

from __future__ import annotations

import io
import sys
import time
import zipfile
from dataclasses import dataclass
from pathlib import Path

import django
import orjson

from tests.bench import options
from tests.bench.bench_findings import cpu

FILES_PER_S = 50.0
TARGET = 6.0  # times reading and COPY
READING = 60.0  # times orjson
FILES = 1000
MEMORY_MB = 100  # that the import may take, whatever the number of files
# What an import leaves, table by table; {} for the campaign's id.
OF_ATTEMPTS = "JOIN runs_attempt a ON a.id = one.attempt_id JOIN campaigns_run r ON r.id = a.run_id"
KEPT = {
    "imports_source": "SELECT * FROM imports_source WHERE campaign_id = {}",
    "campaigns_run": "SELECT * FROM campaigns_run WHERE campaign_id = {}",
    "runs_attempt": "SELECT one.* FROM runs_attempt one JOIN campaigns_run r ON r.id = one.run_id"
    " WHERE r.campaign_id = {}",
    "runs_artifact": f"SELECT one.* FROM runs_artifact one {OF_ATTEMPTS} WHERE r.campaign_id = {{}}",
    "runs_histogram": f"SELECT one.* FROM runs_histogram one {OF_ATTEMPTS} WHERE r.campaign_id = {{}}",
    "runs_measurement": f"SELECT one.* FROM runs_measurement one {OF_ATTEMPTS} WHERE r.campaign_id = {{}}",
}
CASE = Path(__file__).parent.parent / "cases" / "tools" / "fio" / "3.33-randrw.json"


def main() -> int:
    options.none(__doc__)
    django.setup()
    from django.core.management import call_command
    from django.test.utils import override_settings

    call_command("migrate", verbosity=0)
    with override_settings(DEBUG=False):
        imported(1, pack(1))  # what is loaded once is not a file's
        packed = pack(FILES)
        before = memory_mb("VmRSS")
        done = imported(FILES, packed)
        grown = memory_mb("VmHWM") - before
    del packed
    copied = copied_alone(done.campaign)
    texts = {f"{n:04}.json": sample(n) for n in range(FILES)}
    parsed, size = parsed_alone(texts)
    alone, figures = read_alone(texts)
    print(
        f"reading {size / FILES / 1e3:.0f} kB each: {size / alone / 1e6:.1f} MB/s of CPU, {alone / parsed:.1f} times"
        f" orjson's ({size / parsed / 1e6:.0f} MB/s), target {READING:g}"
    )
    pace, ratio = FILES / done.busy, done.busy / (alone + copied)
    print(
        f"import of {FILES} files: {done.busy:.1f} s of CPU, {pace:.0f} files/s, target {FILES_PER_S:g};"
        f" reading alone {alone:.1f} s, COPY of what is kept {copied:.1f} s; ratio {ratio:.2f}, target {TARGET:g};"
        f" {done.took:.1f} s passed; memory {grown:.0f} MB more, target {MEMORY_MB}"
    )
    assert done.figures == figures, (done.figures, figures)
    missed = ratio > TARGET or pace < FILES_PER_S or alone / parsed > READING or grown > MEMORY_MB
    return int(missed)


def sample(number: int) -> str:
    """fio's own output, a little different in each file."""
    return CASE.read_text().replace('"jobname" : "', f'"jobname" : "{number}-')


def pack(files: int) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for n in range(files):
            archive.writestr(f"{n:04}.json", sample(n))
    return out.getvalue()


def parsed_alone(texts: dict[str, str]) -> tuple[float, int]:
    """Seconds of CPU that orjson takes for all of them, and their bytes: what this machine can do at this moment."""
    raw = [text.encode() for text in texts.values()]
    started = time.process_time()
    for one in raw:
        orjson.loads(one)
    return time.process_time() - started, sum(map(len, raw))


def read_alone(texts: dict[str, str]) -> tuple[float, int]:
    """Seconds of CPU, and the figures found."""
    from agents.drivers import text_reading

    figures, busy = 0, time.process_time()
    for name, text in texts.items():
        (one,) = text_reading.read_text(text, name).results
        assert not one.trouble, one
        figures += len(one.metrics)
    return time.process_time() - busy, figures


def copied_alone(campaign: int) -> float:
    """Seconds of CPU that a bare COPY takes for the rows of a campaign, into tables with the same indexes."""
    from django.db import connection

    spent = 0.0
    with connection.cursor() as cursor:
        for table, rows in KEPT.items():
            with cursor.copy(f"COPY ({rows.format(campaign)}) TO STDOUT") as out:
                raw = [bytes(part) for part in out]
            cursor.execute(f"CREATE TABLE bench_{table} (LIKE {table} INCLUDING ALL)")
            before = cpu()
            with cursor.copy(f"COPY bench_{table} FROM STDIN") as to:
                for part in raw:
                    to.write(part)
            spent += cpu() - before
            cursor.execute(f"DROP TABLE bench_{table}")
    return spent


@dataclass(frozen=True, slots=True)
class Imported:
    """Seconds passed, those of CPU, the campaign's id, and the figures stored."""

    took: float
    busy: float
    campaign: int
    figures: int


def imported(files: int, packed: bytes) -> Imported:
    from benchlab.imports import draft_store, drafts, readings
    from benchlab.imports.agreements import Agreement, ResultChoice
    from benchlab.runs.models import Measurement
    from benchlab.team.models import Team
    from benchlab.workers import messages

    team = Team.objects.create(name=f"bench {time.time()}")
    started, before = time.perf_counter(), cpu()
    nudged: list[int] = []

    def note(task: str, pk: int) -> bool:
        nudged.append(pk)
        return False

    send, messages.send = messages.send, note
    tell, draft_store.set_progress = draft_store.set_progress, shown
    try:
        draft = drafts.create_draft(
            team=team, user=None, uploads=[drafts.Upload("a.zip", io.BytesIO(packed), len(packed))]
        )
        for number, pk in enumerate(nudged, 1):
            drafts.read_file(pk)
            if number % 250 == 0:  # `nudged` grows while the archive is unpacked
                standing = drafts.reading_progress(draft)
                print(f"  read: {standing.read} of {standing.files} files", flush=True)
        nudged.clear()
        every = [
            ResultChoice(one.result_key, new_host="h", new_topology="t")
            for one in readings.offered_results(draft)
        ]
        draft_store.agree(draft, Agreement(every, f"{files} files"), user=None)
        print(f"  agreed after {time.perf_counter() - started:.1f} s", flush=True)
        assert nudged == [draft.pk]
        draft_store.store_draft(draft.pk)
    finally:
        messages.send, draft_store.set_progress = send, tell
    took, busy = time.perf_counter() - started, cpu() - before
    draft.refresh_from_db()
    assert draft.outcome and not draft.outcome["failed"], draft.trouble
    made = draft.outcome["campaign"]
    assert draft.outcome["stored"] == files
    figures = Measurement.objects.filter(attempt__run__campaign=made).count()
    return Imported(took, busy, made, figures)


def shown(pk: int, stored: int) -> None:
    print(f"  stored: {stored} of {FILES} results", flush=True)


def memory_mb(field: str) -> float:
    """VmRSS: what the process has; VmHWM: the most that it ever had."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition(f"{field}:")[2].split()[0]) / 1024


if __name__ == "__main__":
    sys.exit(main())
