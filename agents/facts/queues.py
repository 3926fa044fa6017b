# SPDX-License-Identifier: Apache-2.0
"""Queue settings of some disks (/sys/block/X/queue) at one moment: one command that only reads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from agents.contracts import AgentError, Reason, Shell

# A scheduler brings its own number of requests.
ATTRIBUTES = ("scheduler", "nr_requests")

# kernel name -> attribute -> what is in force
Queues = Mapping[str, Mapping[str, str]]


def selected_value(attribute: str, said: str) -> str:
    """Value that the kernel's line means: "[none] mq-deadline" is none."""
    if attribute != "scheduler" or "[" not in said:
        return said.strip()
    return said.partition("[")[2].partition("]")[0]


def attribute_path(name: str, attribute: str) -> str:
    return f"/sys/block/{name}/queue/{attribute}"


def kernel_name(node: str) -> str:
    """The kernel writes cciss!c0d0 for /dev/cciss/c0d0."""
    return node.removeprefix("/dev/").replace("/", "!")


def read_queues(shell: Shell, nodes: Iterable[str]) -> Queues:
    """Of these disks. Raises AgentError (BAD_FACTS naming the first that tells nothing, or the connection's)."""
    names = [kernel_name(node) for node in nodes]
    paths = [attribute_path(name, attribute) for name in names for attribute in ATTRIBUTES]
    ran = shell.run(("grep", "-Hs", "", *paths))
    lines = ran.stdout.decode("utf-8", "backslashreplace").splitlines()
    told = dict(line.split(":", 1) for line in lines if ":" in line)
    found = {
        name: {
            one: selected_value(one, told.get(attribute_path(name, one), "")) for one in ATTRIBUTES
        }
        for name in names
    }
    for name, values in found.items():
        if not values["scheduler"]:
            where = attribute_path(name, "scheduler")
            raise AgentError(f"{where} cannot be read: is the disk still there?", Reason.BAD_FACTS)
    return found
