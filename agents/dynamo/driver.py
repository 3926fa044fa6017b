# SPDX-License-Identifier: Apache-2.0
"""The program on the host: plays IOmeter's console for one dynamo, beside it. Standard library, Python 3.6 or later.

    python3 console.pyz check config.json    looks whether it could run; touches nothing
    python3 console.pyz run config.json      runs; files are written into the current directory:

    messages.bin   every message, as it came: see transcript.py. Whole only if its end is there
    result.json    the figures, or {"error", "kind"}
    live.jsonl     each second one line: {"t", "phase", …figures of the last second}
    dynamo.log     what dynamo printed

It ends with 0 only if there is a whole result. TERM and INT stop the test in good order: STOP, EXIT.
"""

import json
import secrets
import signal
import sys
from pathlib import Path
from typing import Dict, List, NamedTuple, Optional, Sequence

from agents.dynamo import account, areas, hostfacts, layout, summary, transcript
from agents.dynamo.areas import Area, Wish
from agents.dynamo.console import Paused
from agents.dynamo.hostfacts import Place
from agents.dynamo.link import Link, Stopper, clock
from agents.dynamo.live import Live
from agents.dynamo.process import Dynamo
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
        wanted = areas.wish(json.loads(Path(arguments[1]).read_text()))
        if arguments[0] == "check":
            print(json.dumps(check(wanted)._asdict()))
        else:
            run(wanted, Path().resolve())
    except (OSError, ValueError) as error:
        return _failed(DynamoError("host", f"{type(error).__name__}: {error}"), arguments[0])
    except DynamoError as error:
        return _failed(error, arguments[0])
    return 0


def _failed(error: DynamoError, doing: str) -> int:
    print(f"console: {error}", file=sys.stderr)
    if doing == "run":
        _write(RESULT, {"error": str(error), "kind": error.kind})
    return 1


class Usable(NamedTuple):
    """Binary and CPUs that it would run with."""

    binary: str
    sha256: str
    cpus: int


def check(wanted: Wish) -> Usable:
    """Binary and CPUs that it would use. Raises DynamoError for all that can be known before."""
    binary = hostfacts.program(wanted.binary)
    missing = hostfacts.missing_libraries(binary)
    if missing:
        raise DynamoError("host", hostfacts.lacking(binary, missing))
    here = areas.place(wanted)
    areas.trial(wanted, here, areas.areas(wanted, here))
    return Usable(binary, hostfacts.sha256(binary), hostfacts.cpus())


def run(wanted: Wish, work: Path) -> None:
    """One whole test. Raises DynamoError; then what it made is gone, and dynamo too."""
    facts = check(wanted)
    here = areas.place(wanted)
    found = areas.areas(wanted, here)
    unready = [area for area in found if not area.ready()]
    existed = [area for area in found if not area.raw and Path(area.path).is_dir()]
    with (work / MESSAGES).open("wb", buffering=0) as file:
        began = clock()
        writer = transcript.Writer(file.write, began)
        notes = dict(facts._asdict(), sector=here.sector, block=here.block, size=wanted.size)
        writer.note(clock(), {**notes, transcript.STARTED: began})
        running = _Run(wanted, here, found, writer, work)
        try:
            running.whole(facts.binary)
        except DynamoError as error:
            writer.end(clock(), error.kind, str(error))
            if not running.laid_out:
                areas.clear([area for area in unready if area not in existed], unready)
            raise
        writer.end(clock(), transcript.DONE)
    if not wanted.keep:
        left = areas.clear(found, ())
        if left:
            raise DynamoError("host", left)
    report(work)


def report(work: Path) -> None:
    """Reads what was written, as everybody else does later, and sums it up."""
    done = account.tests(transcript.read((work / MESSAGES).read_bytes()))
    if len(done) != 1:
        raise DynamoError("result", f"{len(done)} tests in one session")
    _write(str(work / RESULT), summary.as_json(done[0]))


class _Run:
    def __init__(
        self, wanted: Wish, here: Place, found: List[Area], writer: transcript.Writer, work: Path
    ) -> None:
        self._wanted, self._here, self._found = wanted, here, found
        self._writer, self._work = writer, work
        self._live = Live(work / LIVE, clock())
        # the files were seen to be whole
        self.laid_out = False

    def whole(self, binary: str) -> None:
        # the name tells ours from another dynamo that finds our port
        name = f"{self._wanted.name}-{secrets.token_hex(6)}"
        stopper = Stopper()
        dynamo: Optional[Dynamo] = None
        try:
            self._lay_out(stopper)
            trial = areas.trial(self._wanted, self._here, self._found)
            link = Link(self._writer, stopper, self._event, lambda now: "")
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
                directories = sorted({area.path for area in self._found if not area.raw})
                started = dynamo = Dynamo(argv, self._work, directories)
                info = link.log_in(name, lambda: started.ended)
                self._live.updates.ticks = info.ticks
                link.talk(session([trial]))
        except DynamoError as error:
            stopped = error.kind == "cancelled"
            if dynamo is not None:
                dynamo.end(STOPPED if stopped else CLOSED)
            said = dynamo.said() if dynamo is not None and not stopped else ""
            raise DynamoError(error.kind, f"{error}{said}") from None
        finally:
            if dynamo is not None:
                # what it prints to a file is all there only when it has ended
                dynamo.end(CLOSED if sys.exc_info()[0] else LEAVING)
                self._writer.note(clock(), {"version": dynamo.version()})
            stopper.close()

    def _lay_out(self, stopper: Stopper) -> None:
        unready = [area for area in self._found if not area.ready()]
        if unready:
            self._live.event(Phase("prepare"), clock())
            layout.lay_out(unready, self._wanted.pattern, self._watch(stopper))
        trouble = areas.trouble(self._found)
        if trouble:
            raise DynamoError("host", trouble)
        self.laid_out = True

    def _watch(self, stopper: Stopper) -> layout.Watch:
        def watch(done: int, wanted: int) -> None:
            if stopper.stopped:
                raise DynamoError("cancelled", "stopped on request")
            self._live.laid_out(done, wanted, clock())

        return watch

    def _event(self, event: object, now: float) -> str:
        """Take an event of the console. Returns what is wrong where it asks (Paused)."""
        self._live.event(event, now)
        if isinstance(event, Phase) and event.name == "stop":
            self._count("after")
        if isinstance(event, Paused) and event.says == BEFORE_RECORDING:
            self._count("before")
        return ""

    def _count(self, when: str) -> None:
        """Note the kernel's counts so far, and the time: dynamo's count is of another span."""
        if self._here.device:
            at, counted = clock(), hostfacts.diskstats([self._here.device])
            self._writer.note(at, {f"diskstats_{when}": counted, f"counted_{when}": at})


def _write(name: str, content: Dict[str, object]) -> None:
    """Whole or not at all."""
    half = Path(name + ".part")
    half.write_text(json.dumps(content, indent=1, sort_keys=True, allow_nan=False))
    half.replace(name)


def entry() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    sys.exit(main(sys.argv[1:]))
