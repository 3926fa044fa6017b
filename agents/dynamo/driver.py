# SPDX-License-Identifier: Apache-2.0
"""The program on the host: plays IOmeter's console for one dynamo, beside it. Standard library, Python 3.6 or later.

    python3 console.pyz check config.json    checks whether it could run; touches nothing
    python3 console.pyz run config.json      runs; files are written into the current directory:

    messages.bin   every message, as it came: see transcript.py. Whole only if its end is there
    result.json    the figures, or {"error", "kind"}
    live.jsonl     each second one line: {"t", "phase", …figures of the last second}
    dynamo.log     what dynamo printed

It exits with 0 only if there is a complete result. TERM and INT stop the test cleanly: STOP, EXIT.
"""

import json
import secrets
import signal
import sys
from pathlib import Path
from typing import Dict, List, NamedTuple, Optional, Sequence

from agents.dynamo import account, areas, hostfacts, summary, transcript
from agents.dynamo.areas import Area, TestSettings
from agents.dynamo.console import Paused
from agents.dynamo.hostfacts import Place
from agents.dynamo.link import Link, Live, Stopper, clock
from agents.dynamo.process import DynamoProcess
from agents.dynamo.script import BEFORE_RECORDING, Phase, session
from agents.dynamo.wire import DynamoError

MESSAGES, RESULT, LIVE = "messages.bin", "result.json", "live.jsonl"
# s that dynamo gets to end by itself: after EXIT, after its connection was closed (it takes 1 s), when we are stopped
LEAVING, CLOSED, STOPPED = 5.0, 2.5, 1.5


def main(arguments: Sequence[str]) -> int:
    if len(arguments) != 2 or arguments[0] not in ("check", "run"):
        print("usage: console.pyz check|run CONFIG.json", file=sys.stderr)
        return 2
    try:
        settings = areas.parse_settings(json.loads(Path(arguments[1]).read_text()))
        if arguments[0] == "check":
            print(json.dumps(check_host(settings)._asdict()))
        else:
            run_test(settings, Path().resolve())
    except (OSError, ValueError) as error:
        return _report_failure(
            DynamoError("host", f"{type(error).__name__}: {error}"), arguments[0]
        )
    except DynamoError as error:
        return _report_failure(error, arguments[0])
    return 0


def _report_failure(error: DynamoError, doing: str) -> int:
    print(f"console: {error}", file=sys.stderr)
    if doing == "run":
        _write_json(RESULT, {"error": str(error), "kind": error.kind})
    return 1


class Usable(NamedTuple):
    """The binary and the CPUs with which dynamo would run."""

    binary: str
    sha256: str
    cpus: int


def check_host(settings: TestSettings) -> Usable:
    """The binary and CPUs that dynamo would use. Raises DynamoError for every error that can be found in advance."""
    binary = hostfacts.find_program(settings.binary)
    missing = hostfacts.missing_libraries(binary)
    if missing:
        raise DynamoError("host", hostfacts.missing_libraries_message(binary, missing))
    place = areas.find_place(settings)
    areas.build_trial(settings, place, areas.target_areas(settings, place))
    return Usable(binary, hostfacts.sha256(binary), hostfacts.cpus())


def run_test(settings: TestSettings, work: Path) -> None:
    """Run one whole test. Raises DynamoError after removing what it made and ending dynamo."""
    facts = check_host(settings)
    place = areas.find_place(settings)
    targets = areas.target_areas(settings, place)
    unready = [area for area in targets if not area.is_ready()]
    existed = [area for area in targets if not area.raw and Path(area.path).is_dir()]
    with (work / MESSAGES).open("wb", buffering=0) as file:
        began = clock()
        writer = transcript.Writer(file.write, began)
        notes = dict(facts._asdict(), sector=place.sector, block=place.block, size=settings.size)
        writer.write_note(clock(), {**notes, transcript.STARTED: began})
        running = _HostRun(settings, place, targets, writer, work)
        try:
            running.run_dynamo(facts.binary)
        except DynamoError as error:
            writer.write_end(clock(), error.kind, str(error))
            if not running.laid_out:
                areas.remove_files([area for area in unready if area not in existed], unready)
            raise
        writer.write_end(clock(), transcript.COMPLETED)
    if not settings.keep:
        leftover = areas.remove_files(targets, ())
        if leftover:
            raise DynamoError("host", leftover)
    write_result(work)


def write_result(work: Path) -> None:
    """Write the result, from the written transcript that all later readers use, too."""
    tests = account.reconstruct_tests(transcript.parse_transcript((work / MESSAGES).read_bytes()))
    if len(tests) != 1:
        raise DynamoError("result", f"{len(tests)} tests in one session")
    _write_json(str(work / RESULT), summary.summary_json(tests[0]))


class _HostRun:
    def __init__(
        self,
        settings: TestSettings,
        place: Place,
        targets: List[Area],
        writer: transcript.Writer,
        work: Path,
    ) -> None:
        self._settings, self._place, self._targets = settings, place, targets
        self._writer, self._work = writer, work
        self._live = Live(work / LIVE, clock())
        # The files were checked to be complete.
        self.laid_out = False

    def run_dynamo(self, binary: str) -> None:
        # The name distinguishes our dynamo from another one that finds our port.
        name = f"{self._settings.name}-{secrets.token_hex(6)}"
        stopper = Stopper()
        dynamo: Optional[DynamoProcess] = None
        try:
            self._lay_out(stopper)
            trial = areas.build_trial(self._settings, self._place, self._targets)
            link = Link(self._writer, stopper, self._handle_event, lambda now: "")
            with link:
                argv = [
                    binary,
                    "-i",
                    "127.0.0.1",
                    "-m",
                    "127.0.0.1",
                    "-p",
                    str(link.port),
                    "-n",
                    name,
                ]
                directories = sorted({area.path for area in self._targets if not area.raw})
                started = dynamo = DynamoProcess(argv, self._work, directories)
                info = link.log_in(name, lambda: started.has_ended)
                self._live.updates.ticks = info.ticks
                link.run_script(session([trial]))
        except DynamoError as error:
            stopped = error.kind == "cancelled"
            if dynamo is not None:
                dynamo.wait_or_kill(STOPPED if stopped else CLOSED)
            last_words = dynamo.last_words() if dynamo is not None and not stopped else ""
            raise DynamoError(error.kind, f"{error}{last_words}") from None
        finally:
            if dynamo is not None:
                # Its output in a file is complete only after it has ended.
                dynamo.wait_or_kill(CLOSED if sys.exc_info()[0] else LEAVING)
                self._writer.write_note(clock(), {"version": dynamo.printed_version()})
            stopper.close()

    def _lay_out(self, stopper: Stopper) -> None:
        unready = [area for area in self._targets if not area.is_ready()]
        if unready:
            self._live.handle_event(Phase("prepare"), clock())
            areas.lay_out(unready, self._settings.pattern, self._layout_watcher(stopper))
        trouble = areas.incomplete_file(self._targets)
        if trouble:
            raise DynamoError("host", trouble)
        self.laid_out = True

    def _layout_watcher(self, stopper: Stopper) -> areas.Watch:
        def watch(written: int, total: int) -> None:
            if stopper.stopped:
                raise DynamoError("cancelled", "stopped on request")
            self._live.laid_out(written, total, clock())

        return watch

    def _handle_event(self, event: object, now: float) -> str:
        """Handle an event of the console; return the error, if any, for a Paused event."""
        self._live.handle_event(event, now)
        if isinstance(event, Phase) and event.name == "stop":
            self._note_disk_counts("after")
        if isinstance(event, Paused) and event.reason == BEFORE_RECORDING:
            self._note_disk_counts("before")
        return ""

    def _note_disk_counts(self, when: str) -> None:
        """Note the kernel's counts so far with the time, as dynamo counts over a different span."""
        if self._place.device:
            at, counted = clock(), hostfacts.read_diskstats([self._place.device])
            self._writer.write_note(at, {f"diskstats_{when}": counted, f"counted_{when}": at})


def _write_json(name: str, content: Dict[str, object]) -> None:
    """Write the file completely or not at all."""
    half = Path(name + ".part")
    half.write_text(json.dumps(content, indent=1, sort_keys=True, allow_nan=False))
    half.replace(name)


def entry() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    sys.exit(main(sys.argv[1:]))
