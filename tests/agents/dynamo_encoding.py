# SPDX-License-Identifier: Apache-2.0
"""Data messages that dynamo sends, encoded: for a dynamo of the tests. The product only decodes them."""

from __future__ import annotations

from agents.dynamo import messages, results
from agents.dynamo.messages import ManagerInfo
from agents.dynamo.results import ManagerResults, WorkerResults
from agents.dynamo.wire import DATA_HEADER, encode_string, pad_message


def encode_manager_info(info: ManagerInfo) -> bytes:
    names = encode_string(info.version, 80, "version") + encode_string(info.name, 128, "name")
    names += encode_string(info.address, 128, "address")
    whole = pad_message(names + messages._LOGIN.pack(info.port, info.processors, info.ticks))
    return DATA_HEADER.pack(info.size, 0) + whole[DATA_HEADER.size :]


def encode_manager_results(manager: ManagerResults) -> bytes:
    raw = bytearray(4640)
    first, last, count = manager.jiffies_first, manager.jiffies_last, manager.cpu_count
    results._MANAGER.pack_into(raw, 0, first, last, count)
    for number, cpu in enumerate(manager.cpus):
        results._CPU.pack_into(raw, 20 + 48 * number, *cpu)
    results._TCP.pack_into(raw, 3092, manager.segments_resent, len(manager.interfaces))
    for number, interface in enumerate(manager.interfaces):
        results._INTERFACE.pack_into(raw, 3104 + 24 * number, *interface)
    return pad_message(bytes(raw))


def encode_worker_results(worker: WorkerResults) -> bytes:
    """Results without bins are laid out as rc1 does."""
    rows = [results._WORKER.pack(worker.first, worker.last, len(worker.targets))]
    for target in worker.targets:
        rows.append(results._COUNTERS.pack(*target[:17]))
        rows.append(results._BINS.pack(*target.bins) if target.bins else b"")
    return pad_message(b"".join(rows))
