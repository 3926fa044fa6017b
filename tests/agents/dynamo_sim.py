"""A dynamo that is none: speaks the protocol over real sockets and does no I/O; it misbehaves on request.

Run as a program with dynamo's options. SIM in the environment: words, each a way to misbehave (see `Sim`), with
`=value` where it has one. Where the real one would crash or hang, so does this one. It writes sim.log: one line for
each message it got, so that a test can see the order. What it prints is all there only when it ends, and what a crash
interrupts is never there.
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
from tests.agents import dynamo_sim_figures as figures
from tests.agents import dynamo_sim_rules as rules
from tests.agents.dynamo_encoding import encode_manager_info, encode_worker_results


class Sim:
    def __init__(self, options: dict[str, str], ways: dict[str, str]) -> None:
        self.options, self.ways = options, ways
        self.access: list[AccessSpec | None] = []
        self.targets: list[tuple[Target, ...]] = []
        self.state, self.blocked = "idle", False
        self.memory = rules.Memory()
        self.slots = rules.Slots(int(ways.get("aio", "65536")))
        self.on = self.off = self.updated = 0.0
        self.log = Path("sim.log").open("w", buffering=1)  # noqa: SIM115 - as long as we live
        self.listener = socket.socket()
        self.listener.bind(("0.0.0.0", 0))

    def file_system(self, target: Target) -> str:
        return self.ways.get("fs") or rules.file_system(rules.file_of(target).parent)

    def grid(self) -> float:
        """Seconds between two looks at the preparation; 3 in the real one."""
        return float(self.ways.get("grid", "0.1"))

    def run(self) -> None:
        print("Dynamo version 1.1.0, x86-64, built by nobody")
        if "no_name" in self.ways:
            print('Getting host name for "nobody" failed')
            sys.exit(1)
        if "never_logs_in" in self.ways:
            time.sleep(60)
        while True:
            self.log_in()
            self.listen()
            if not self.serve():
                return

    def log_in(self) -> None:
        login = self.connect()
        version = int(self.ways.get("version", hex(wire.VERSION_1_1_0)), 16)
        size = int(self.ways.get("size", DATA_BYTES))
        name = self.ways.get("name", self.options["-n"])
        address = "" if "no_address" in self.ways else self.options["-m"]
        ticks = figures.TICKS * float(self.ways.get("ticks", "1"))
        port = self.listener.getsockname()[1]
        info = messages.ManagerInfo(size, "1.1.0", name, address, port, 2, ticks)
        raw = encode_manager_info(info)[:358].ljust(DATA_BYTES, bytes([rules.STALE]))
        login.sendall(Message(wire.LOGIN, version).encode() + raw)
        reply = wire.decode_message(self.exactly(login, 8))
        if reply != Message(wire.LOGIN, wire.LOGIN_OK):
            wrong = reply == Message(wire.LOGIN, wire.WRONG_VERSION)
            print("*** Incorrect version of Dynamo for this Iometer" if wrong
                  else "*** Bad login status reply received")  # fmt: skip
            sys.exit(0)
        login.close()
        print("*** If dynamo and iometer hangs here, please make sure")

    def connect(self) -> socket.socket:
        """For ever, each 200 ms."""
        while True:
            try:
                return socket.create_connection((self.options["-i"], int(self.options["-p"])))
            except OSError:
                time.sleep(0.2)

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
                print("Error receiving message.")
                sys.exit(0)
            held += data
        return held

    def data(self) -> bytes:
        raw = self.exactly(self.stream, DATA_BYTES)
        self.memory.received(raw)
        return raw

    def reply(self, purpose: int, data: int, more: bytes = b"") -> None:
        raw = Message(purpose, data).encode() + more
        name = wire.NAMES[purpose]
        if name == self.ways.get("silent"):
            time.sleep(100)
        if name == self.ways.get("answers_wrongly"):
            raw = Message(0x01000001, data).encode()
        self.put(name, raw)

    def put(self, name: str, raw: bytes) -> None:
        self.stream.setblocking(False)
        try:
            if self.stream.recv(1, socket.MSG_PEEK):
                self.crash_of(f"a request before {name} was answered")
        except BlockingIOError:
            pass
        self.stream.setblocking(True)
        if name == self.ways.get("cut", "").split(":")[0]:
            self.stream.sendall(raw[: int(self.ways["cut"].split(":")[1])])
            sys.exit(0)
        self.stream.sendall(raw)
        if name == self.ways.get("says_more_after"):
            self.stream.sendall(b"\0" * 8)

    def serve(self) -> bool:
        """False: dynamo is to end."""
        while True:
            request = wire.decode_message(self.exactly(self.stream, 8))
            self.log.write(f"{request.purpose_name} {request.data}\n")
            if request.purpose_name == self.ways.get("crashes_at"):
                rules.crash(signal.SIGSEGV)
            if why := rules.wrong(request, self.state, len(self.targets)):
                self.crash_of(why)
            if request.purpose == wire.EXIT and request.data == wire.MANAGER:
                if self.state in ("running", "recording"):
                    rules.crash(signal.SIGSEGV)
                return False
            if request.purpose == wire.RESET:
                self.access, self.targets = [], []  # but no AIO slot comes back
                self.stream.close()
                return True
            handler = getattr(self, f"do_{request.purpose_name.lower()}", None)
            if handler is None:
                print("*** Unknown purpose found in message.")
                return False
            handler(request)

    def crash_of(self, why: str) -> None:
        """Crash as dynamo does at what no console may do, and log `why` for the test to see."""
        self.log.write(f"CRASH {why}\n")
        rules.crash(signal.SIGSEGV)

    def do_add_workers(self, request: Message) -> None:
        count = 0 if "no_workers" in self.ways else request.data
        self.access += [None] * count
        self.targets += [()] * count
        self.reply(request.purpose, count)

    def do_set_access(self, request: Message) -> None:
        spec = messages.decode_access_spec(self.data())
        everyone = request.data == wire.ALL_WORKERS
        for worker in range(len(self.access)) if everyone else (request.data,):
            self.access[worker] = spec
        self.blocked = rules.hangs(spec)
        if rules.reads_past_its_table(spec):
            self.crash_of(f"access specification {spec}")
        self.reply(request.purpose, 0 if "no_memory" in self.ways else 1)

    def do_set_targets(self, request: Message) -> None:
        raw = self.data()
        self.targets[request.data] = found = messages.decode_targets(raw)
        good = "refuses_targets" not in self.ways
        for target in found:
            where = Path(target.name) if target.is_raw else rules.file_of(target).parent
            if not os.access(where, os.W_OK) or target.queue_depth < 1:
                print(f'Set_Sizes: Open on "{rules.file_of(target)}" failed (error 2)')
                good = False
            good = self.slots.take(target.queue_depth) and good
        self.reply(request.purpose, int(good), raw)

    def do_report_targets(self, request: Message) -> None:
        where = self.ways.get("reports", "/srv")
        ready = int(Path(where, "iobw.tst").exists())
        kind = self.ways.get("fs", "ext4")
        disk = Target(f"{where} [{kind}]", messages.LOGICAL, Disk(ready=ready, sector_size=4096))
        raw = Target("sdz", messages.PHYSICAL, Disk(ready=1))
        for found in ([disk, raw], [], []):
            size = 8 + messages.TARGET_BYTES * len(found)
            whole = messages.encode_targets(found)
            self.stream.sendall(self.memory.sent(whole, size, len(found)))

    def do_prep_disks(self, request: Message) -> None:
        if "cannot_prepare" in self.ways:
            self.reply(request.purpose, 0)
            return
        for target in (target for targets in self.targets for target in targets):
            wanted = 0 if target.is_raw else rules.laid_out(target, self.file_system(target))
            if target.data_pattern == 2 or "prepares_little" in self.ways:
                wanted = min(wanted, 4096)
            if not self.slots.take(rules.PREPARING_SLOTS):
                self.reply(request.purpose, 0)
                return
            if not target.is_raw:
                with rules.file_of(target).open("ab") as file:  # it appends, always
                    file.write(b"x" * wanted)
        self.reply(self.prepared(request.purpose), 1)

    def prepared(self, purpose: int) -> int:
        """Purpose of the reply, once it is prepared, or was stopped: looks at neither but each few seconds."""
        forever = "prepares_for_ever" in self.ways
        self.stream.setblocking(False)
        while True:
            time.sleep(self.grid())
            try:
                raw = self.stream.recv(8)
            except BlockingIOError:
                if not forever:
                    break
                continue
            if not raw:
                rules.crash(signal.SIGSEGV)  # takes its last request for a new one, for ever
            more = wire.decode_message(raw)
            self.log.write(f"{more.purpose_name} {more.data}\n")
            if more.purpose != wire.STOP_PREPARE:
                self.crash_of(f"{more.purpose_name} while preparing")
            purpose = wire.STOP_PREPARE
            break
        self.stream.setblocking(True)
        return purpose

    def do_stop_prepare(self, request: Message) -> None: ...  # too late; no reply

    def active(self) -> list[tuple[Target, ...]]:
        return [
            targets for spec, targets in zip(self.access, self.targets, strict=True)
            if spec is not None and spec.lines and targets
        ]  # fmt: skip

    def do_start(self, request: Message) -> None:
        for target in (target for targets in self.active() for target in targets):
            if not target.is_raw and not rules.file_of(target).exists():
                rules.crash(signal.SIGFPE)
            if target.queue_depth < 1:
                rules.crash(signal.SIGSEGV)
        self.state = "started"
        self.reply(request.purpose, 1)

    def do_begin_io(self, request: Message) -> None:
        opened = "cannot_open" not in self.ways
        self.state = "running" if opened else "idle"
        self.reply(request.purpose, int(opened))

    def do_record_on(self, request: Message) -> None:
        # not before the last I/O of the ramp has drained
        self.on = self.updated = time.monotonic() + 0.001
        self.state = "recording"

    def do_record_off(self, request: Message) -> None:
        self.off, self.state = time.monotonic(), "running"
        self.reply(request.purpose, request.data)

    def do_stop(self, request: Message) -> None:
        if "vanishes_at_stop" in self.ways:
            sys.exit(0)
        if self.blocked:
            time.sleep(100)
        self.state = "idle"
        print("*** Grunt thread exiting with 1 still active")
        self.reply(request.purpose, request.data)

    def do_report_update(self, request: Message) -> None:
        now = time.monotonic()
        self.report("REPORT_UPDATE", self.updated, now)
        self.updated = now

    def do_report_results(self, request: Message) -> None:
        recording = self.state == "recording"
        self.report("REPORT_RESULTS", self.on, time.monotonic() if recording else self.off)

    def clock(self, at: float) -> int:
        true = figures.TICKS * float(self.ways.get("true", "1"))
        return round(1e15 + at * true * (-1 if "backwards" in self.ways else 1))

    def report(self, name: str, first: float, last: float) -> None:
        raw = self.memory.sent(figures.machine(self.ways), 4648)
        for targets in self.active():
            rows = tuple(figures.result(last - first, self.ways) for _ in targets)
            whole = encode_worker_results(
                results.WorkerResults(self.clock(first), self.clock(last), rows)
            )
            stride = results.STRIDE_RC1 if "rc1" in self.ways else results.STRIDE
            raw += self.memory.sent(whole, 28 + stride * len(rows))
        self.put(name, raw)


if __name__ == "__main__":
    said = os.environ.get("SIM", "").split()
    Sim(
        rules.options(sys.argv), {word.partition("=")[0]: word.partition("=")[2] for word in said}
    ).run()
