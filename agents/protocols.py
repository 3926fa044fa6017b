"""What a module in agents/layers, tools or samplers must offer, so that mypy checks every driver against it.

All driver functions are pure: no clock, no file, no host.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from agents.contracts import (
    Ask,
    Claim,
    Frame,
    Job,
    Metric,
    Need,
    Plan,
    Progress,
    Series,
    Step,
    Target,
    Timing,
    Use,
    Watch,
    Window,
)
from agents.facts.health import Health
from agents.facts.model import HostFacts
from agents.found import Found


class Layer(Protocol):
    """A module in agents/layers/. `Options` is a frozen dataclass: the form and the JSON schema.

    A layer that wants "devices" takes disks of its own, by use; those of its first use may instead be the volume
    below it, and any use may be filled by `target.parts`. It may also have the functions of Growing, Stretching,
    Awaiting, Ailing, Restoring and Asking.
    """

    LABEL: str
    NEEDS: tuple[Need, ...]  # every program that it may use, whatever its options
    USES: Mapping[str, Use]  # the first one is the main use; empty: needs a volume or nothing
    WANTS: str  # below it: "nothing", "devices", "own" (disks of its own only), "volume", "lv", "pool", "any"
    GIVES: str  # "parts", "volume", "lv", "pool", "mount", or "same": what was below
    Options: type[Any]

    def needs(self, options: Any) -> tuple[Need, ...]:
        """Those of NEEDS that these options ask for."""
        ...

    def plan(self, options: Any, target: Target, facts: HostFacts) -> Plan: ...

    def teardown(self, options: Any, target: Target, facts: HostFacts) -> list[Step]:
        """Steps that remove what exists of this layer (target: the one given to plan). Safe to run twice."""
        ...

    def verify(self, options: Any, target: Target, facts: HostFacts) -> list[str]:
        """Differences between wish and host after apply (target: the one given to plan); [] is right."""
        ...


class Growing(Layer, Protocol):
    """A layer that can take more disks while it stands."""

    Grow: type[Any]  # options of one growth, a frozen dataclass

    def grow(
        self,
        options: Any,
        grow: Any,
        target: Target,
        more: Mapping[str, tuple[Claim, ...]],
        facts: HostFacts,
    ) -> Plan:
        """Steps that add `more` (by use). `target` is the one given to plan with `more` in its devices already."""
        ...


class Stretching(Layer, Protocol):
    """A layer that follows when what it stands on has become larger."""

    def stretch(self, options: Any, target: Target, facts: HostFacts) -> Plan: ...


class Awaiting(Layer, Protocol):
    """A layer in which the kernel works on after the commands have ended."""

    def awaits(self, options: Any, target: Target, facts: HostFacts) -> Progress | None:
        """What is still going on, by the facts; None when nothing is."""
        ...


class Ailing(Layer, Protocol):
    """A layer that serves on when something in it has failed."""

    def ails(self, options: Any, target: Target, health: Health) -> list[str]:
        """What is not in order any more (target: the one given to plan); [] is right.

        What verify finds too is said in the same words: who measures on all the same is not stopped by it.
        """
        ...


class Restoring(Layer, Protocol):
    """A layer that sets what blank disks do not prove to be undone: a scheduler, a sysctl."""

    def restored(self, options: Any, target: Target, facts: HostFacts) -> list[str]:
        """After teardown: what is not as `target.kept` has it from before the plan; [] is right."""
        ...


class Asking(Layer, Protocol):
    """A layer that a person makes: its plan has no steps, and the engine waits until it is done."""

    def asks(self, options: Any, target: Target) -> Ask: ...


class Tool(Protocol):
    """A module in agents/tools/."""

    LABEL: str
    NEEDS: tuple[Need, ...]
    Options: type[Any]

    def job(self, options: Any, target: Target) -> Job: ...

    def precheck(self, options: Any, target: Target) -> Job | None:
        """A quick run that touches no data and fails when the options are wrong (fio --parse-only); or None."""
        ...

    def outstanding(self, options: Any) -> int | None:
        """Outstanding I/Os: queue depth times jobs."""
        ...

    def parse(self, outputs: Mapping[str, bytes], options: Any) -> list[Metric]:
        """Figures from {"stdout": …, "stderr": …, each of Job.outputs}. Raises ParseError, nothing else."""
        ...


class Naming(Tool, Protocol):
    """A tool whose options may name a program of the host."""

    def programs(self, options: Any) -> tuple[str, ...]:
        """Those that a person named, as they would be run; none where the driver looks for its own."""
        ...


class Sized(Tool, Protocol):
    """A tool that works on so many bytes of its target."""

    def room(self, options: Any, target: Target) -> int:
        """Bytes that must be there; 0: as many as there are, or nobody can tell."""
        ...

    def reads(self, options: Any) -> bool:
        """Whether it reads blocks of a volume that it has not written before."""
        ...


class Recording(Tool, Protocol):
    """A tool whose outputs hold figures over time, too: fio's logs."""

    def series(self, outputs: Mapping[str, bytes], options: Any) -> list[Series]:
        """Times are seconds since its one measured window began (see Marking). Raises ParseError, nothing else."""
        ...


class Marking(Tool, Protocol):
    """A tool that tells what it did when: the mean of a device is over what was measured, not over file layout."""

    def windows(self, outputs: Mapping[str, bytes], options: Any, timing: Timing) -> list[Window]:
        """In order, seconds since the job began. [] where they are not told; never guessed. Raises ParseError."""
        ...


class Salvaging(Tool, Protocol):
    """A tool whose figures are read one by one: where it gave up, those that it had printed stand."""

    def salvage(self, outputs: Mapping[str, bytes], options: Any) -> list[Metric]:
        """[] where there are none. Raises ParseError."""
        ...


class Reader(Protocol):
    """A module in agents/readers/: finds its kind of result in any text that a person pasted or uploaded.

    What merely looks like its kind and cannot be read is a Found with `trouble`; it never raises.
    """

    LABEL: str
    WORDS: tuple[
        str | re.Pattern[str], ...
    ]  # of these one at least stands in any text that has such a result; patterns begin with a literal, to be fast

    def find(self, text: str, name: str) -> list[Found]:
        """`text` has "\n" only; `name` is the file's name, or "". Line numbers are those of `text`, from 1."""
        ...


class Sampler(Protocol):
    """A module in agents/samplers/. FILES are read on the host once per tick by hostside/sampler.sh.

    WATCHES are commands that run there: see contracts.Watch, and samplers/_stamped.py for reading their lines.
    """

    LABEL: str
    FILES: tuple[str, ...]
    WATCHES: tuple[Watch, ...]

    def series(self, frames: Sequence[Frame]) -> list[Series]: ...
