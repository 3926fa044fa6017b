# SPDX-License-Identifier: Apache-2.0
"""Queue settings of some disks (/sys/block/X/queue) at one moment: one command that only reads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from agents.contracts import AgentError, Reason, Shell

# A scheduler brings its own number of requests.
ATTRIBUTES = ("scheduler", "nr_requests")

# kernel name -> attribute -> what is in force
Queues = Mapping[str, Mapping[str, str]]


def selected_value(attribute: str, line: str) -> str:
    """Value that the kernel's line means: "[none] mq-deadline" is none."""
    if attribute != "scheduler" or "[" not in line:
        return line.strip()
    return line.partition("[")[2].partition("]")[0]


def attribute_path(name: str, attribute: str) -> str:
    return f"/sys/block/{name}/queue/{attribute}"


def kernel_name(node: str) -> str:
    """The kernel writes cciss!c0d0 for /dev/cciss/c0d0."""
    return node.removeprefix("/dev/").replace("/", "!")


def read_queues(shell: Shell, nodes: Iterable[str]) -> Queues:
    """Queue settings of these disks. Raises AgentError: BAD_FACTS names the first disk without any."""
    names = [kernel_name(node) for node in nodes]
    paths = [attribute_path(name, attribute) for name in names for attribute in ATTRIBUTES]
    ran = shell.run(("grep", "-Hs", "", *paths))
    lines = ran.stdout.decode("utf-8", "backslashreplace").splitlines()
    values_by_path = dict(line.split(":", 1) for line in lines if ":" in line)
    queues = {
        name: {
            attribute: selected_value(
                attribute, values_by_path.get(attribute_path(name, attribute), "")
            )
            for attribute in ATTRIBUTES
        }
        for name in names
    }
    for name, values in queues.items():
        if not values["scheduler"]:
            where = attribute_path(name, "scheduler")
            raise AgentError(f"{where} cannot be read: is the disk still there?", Reason.BAD_FACTS)
    return queues
