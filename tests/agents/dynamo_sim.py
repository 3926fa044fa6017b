"""A dynamo that is none: speaks the protocol over real sockets and does no I/O; it misbehaves on request.

Run as a program with dynamo's options. SIM in the environment: words, each a way to misbehave (see `Sim`), with
`=value` where it has one. Where the real one would crash or hang, so does this one. It writes sim.log: one line for
each message it got, so that a test can see the order.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from agents.dynamo import messages, results, wire
from agents.dynamo.messages import AccessSpec, Disk, Target
from agents.dynamo.wire import DATA_BYTES, Message

TICKS = 1e9
READS = 0.5
IOPS = 1000.0
LATENCY = 0.004  # s, of each I/O


def crash(how: signal.Signals) -> None:
    signal.signal(how, signal.SIG_DFL)
    os.kill(os.getpid(), how)


class Sim:
    def __init__(self, options: dict[str, str], ways: dict[str, str]) -> None:
        self.options, self.ways = options, ways
        self.access: list[AccessSpec | None] = []
        self.targets: list[tuple[Target, ...]] = []
        self.running = self.recording = False
        self.on = self.off = self.updated = 0.0
        self.log = Path("sim.log").open("w", buffering=1)  # noqa: SIM115 - as long as we live
        self.listener = socket.socket()
        self.listener.bind(("0.0.0.0", 0))

    def grid(self) -> float:
        """Seconds between two looks at the preparation; 3 in the real one."""
        return float(self.ways.get("grid", "0.1"))

    def run(self) -> None:
        print("Dynamo version 1.1.0, x86-64, built by nobody", flush=True)
        if "no_name" in self.ways:
            print('Getting host name for "nobody" failed', flush=True)
            sys.exit(1)
        if "never_logs_in" in self.ways:
            time.sleep(60)
        while True:
            self.log_in()
            self.listen()
            if not self.serve():
                return

    def log_in(self) -> None:
        login = socket.create_connection((self.options["-i"], int(self.options["-p"])))
        version = int(self.ways.get("version", hex(wire.VERSION_1_1_0)), 16)
        size = int(self.ways.get("size", DATA_BYTES))
        name = self.ways.get("name", self.options["-n"])
        address = "" if "no_address" in self.ways else self.options["-m"]
        ticks = TICKS * float(self.ways.get("ticks", "1"))
        port = self.listener.getsockname()[1]
        info = messages.ManagerInfo(size, "1.1.0", name, address, port, 2, ticks)
        login.sendall(Message(wire.LOGIN, version).encode() + info.encode())
        reply = wire.message(self.exactly(login, 8))
        if reply.data != wire.LOGIN_OK:
            print("*** Incorrect version of Dynamo for this Iometer", flush=True)
            sys.exit(0)
        login.close()

    def listen(self) -> None:
        if "never_listens" in self.ways:
            time.sleep(60)
        time.sleep(0.03)
        self.listener.listen(0)
        self.stream, _ = self.listener.accept()

    def exactly(self, stream: socket.socket, size: int) -> bytes:
        held = b""
        while len(held) < size:
            data = stream.recv(size - len(held))
            if not data:
                print("Error receiving message.", flush=True)
                sys.exit(0)
            held += data
        return held

    def data(self) -> bytes:
        return self.exactly(self.stream, DATA_BYTES)

    def reply(self, purpose: int, data: int, more: bytes = b"") -> None:
        raw = Message(purpose, data).encode() + more
        name = wire.NAMES[purpose]
        if name == self.ways.get("silent"):
            time.sleep(100)
        if name == self.ways.get("answers_wrongly"):
            raw = Message(wire.READY if hasattr(wire, "READY") else 0x01000001, data).encode()
        self.put(name, raw)

    def put(self, name: str, raw: bytes) -> None:
        if name == self.ways.get("cut", "").split(":")[0]:
            self.stream.sendall(raw[: int(self.ways["cut"].split(":")[1])])
            sys.exit(0)
        self.stream.sendall(raw)
        if name == self.ways.get("says_more_after"):
            self.stream.sendall(b"\0" * 8)

    def serve(self) -> bool:
        """False: dynamo is to end."""
        while True:
            request = wire.message(self.exactly(self.stream, 8))
            self.log.write(f"{request.name} {request.data}\n")
            if request.name == self.ways.get("crashes_at"):
                crash(signal.SIGSEGV)
            if request.purpose == wire.EXIT and request.data == wire.MANAGER:
                if self.running:
                    crash(signal.SIGSEGV)
                return False
            if request.purpose == wire.RESET:
                self.access, self.targets = [], []
                self.stream.close()
                return True
            handler = getattr(self, f"do_{request.name.lower()}", None)
            if handler is None:
                print("*** Unknown purpose found in message.", flush=True)
                return False
            handler(request)

    def do_add_workers(self, request: Message) -> None:
        count = 0 if "no_workers" in self.ways else request.data
        self.access += [None] * count
        self.targets += [()] * count
        self.reply(request.purpose, count)

    def do_set_access(self, request: Message) -> None:
        self.access[request.data] = messages.access_spec(self.data())
        self.reply(request.purpose, 0 if "no_memory" in self.ways else 1)

    def do_set_targets(self, request: Message) -> None:
        raw = self.data()
        self.targets[request.data] = found = messages.targets(raw)
        good = "refuses_targets" not in self.ways
        for target in found:
            where = Path(target.name) if target.is_raw else self.directory(target)
            if not os.access(where, os.W_OK) or target.queue_depth < 1:
                print(
                    f'Set_Sizes: Open on "{self.directory(target)}/iobw.tst" failed (error 2)',
                    flush=True,
                )
                good = False
        self.reply(request.purpose, int(good), raw)

    @staticmethod
    def directory(target: Target) -> Path:
        return Path(target.name.partition(" [")[0] if " [" in target.name else "/")

    def file(self, target: Target) -> Path:
        return self.directory(target) / "iobw.tst"

    def do_report_targets(self, request: Message) -> None:
        where = self.ways.get("reports", "/srv")
        ready = int(Path(where, "iobw.tst").exists())
        disk = Target(f"{where} [ext4]", messages.LOGICAL, Disk(ready=ready, sector_size=4096))
        raw = Target("sdz", messages.PHYSICAL, Disk(ready=1))
        for found in ([disk, raw], [], []):
            self.stream.sendall(messages.encode_targets(found))

    def do_prep_disks(self, request: Message) -> None:
        if "cannot_prepare" in self.ways:
            self.reply(request.purpose, 0)
            return
        for targets in self.targets:
            for target in targets:
                disk = target.details
                assert isinstance(disk, Disk)
                wanted = disk.maximum_size * 4096
                if target.data_pattern == 2 or "prepares_little" in self.ways:
                    wanted = min(wanted, 4096)
                with self.file(target).open("ab") as file:  # it appends, always
                    file.write(b"x" * wanted)
        self.stream.setblocking(False)
        purpose, forever = request.purpose, "prepares_for_ever" in self.ways
        while True:
            time.sleep(self.grid())
            try:
                more = wire.message(self.stream.recv(8))
                self.log.write(f"{more.name} {more.data}\n")
                purpose, forever = more.purpose, False
            except BlockingIOError:
                pass
            if not forever:
                break
        self.stream.setblocking(True)
        self.reply(purpose, 1)

    def active(self) -> list[tuple[Target, ...]]:
        return [
            targets for spec, targets in zip(self.access, self.targets, strict=True)
            if spec is not None and spec.lines and targets
        ]  # fmt: skip

    def do_start(self, request: Message) -> None:
        for targets in self.active():
            for target in targets:
                if not target.is_raw and not self.file(target).exists():
                    crash(signal.SIGFPE)
        self.reply(request.purpose, 1)

    def do_begin_io(self, request: Message) -> None:
        self.running = "cannot_open" not in self.ways
        self.reply(request.purpose, int(self.running))

    def do_record_on(self, request: Message) -> None:
        self.on = self.updated = time.monotonic()
        self.recording = True

    def do_record_off(self, request: Message) -> None:
        self.off, self.recording = time.monotonic(), False
        self.reply(request.purpose, request.data)

    def do_stop(self, request: Message) -> None:
        if "vanishes_at_stop" in self.ways:
            sys.exit(0)
        self.running = False
        print("*** Grunt thread exiting with 1 still active", flush=True)
        self.reply(request.purpose, request.data)

    def do_report_update(self, request: Message) -> None:
        now = time.monotonic()
        self.report("REPORT_UPDATE", self.updated, now)
        self.updated = now

    def do_report_results(self, request: Message) -> None:
        self.report("REPORT_RESULTS", self.on, time.monotonic() if self.recording else self.off)

    def clock(self, at: float) -> int:
        true = TICKS * float(self.ways.get("true", "1"))
        return round(1e15 + at * true * (-1 if "backwards" in self.ways else 1))

    def report(self, name: str, first: float, last: float) -> None:
        cpus = 128 if "many_cpus" in self.ways else 2
        cpu = results.Cpu(25.0, 5.0, 20.0, 0.0, 0.0, 500.0)
        manager = results.ManagerResults(100, 200, cpus, (cpu,) * 2).encode()
        if cpus == 128:
            manager = manager[:24] + b"\0\0\0\0" + manager[28:]
        raw = manager
        for targets in self.active():
            rows = tuple(self.result(last - first, target) for target in targets)
            raw += results.WorkerResults(self.clock(first), self.clock(last), rows).encode()
        self.put(name, raw)

    def result(self, seconds: float, target: Target) -> results.RawResult:
        """IOPS of LATENCY each. The real ones go into the bins as dynamo believes its clock to be."""
        ios = round(IOPS * max(seconds, 0.0))
        reads = round(ios * READS)
        size = 8192
        one = round(LATENCY * TICKS * float(self.ways.get("true", "1")))
        if "too_fast" in self.ways:
            one //= 1000
        believed = one / (TICKS * float(self.ways.get("ticks", "1")))
        bins = [0] * results.BINS
        bounds = (50e-6, 100e-6, 200e-6, 500e-6, 1e-3, 2e-3, 5e-3, 10e-3)
        bins[next(n for n, bound in enumerate(bounds) if believed < bound)] = ios
        writes = ios - reads
        return results.RawResult(
            reads * size, writes * size, reads, writes, ios, 0, 0, 0, one, one * reads, one, one * writes,
            one, 0, one * ios, 0, 0, () if "rc1" in self.ways else tuple(bins),
        )  # fmt: skip


if __name__ == "__main__":
    said = os.environ.get("SIM", "").split()
    Sim(
        dict(zip(sys.argv[1::2], sys.argv[2::2], strict=True)),
        {word.partition("=")[0]: word.partition("=")[2] for word in said},
    ).run()
