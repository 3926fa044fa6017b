# SPDX-License-Identifier: Apache-2.0
"""Protocols of modules in agents/layers, tools, samplers or readers. conformance.py beside holds each to it, for mypy.

All driver functions are pure: no clock, no file, no host. `OptionsT` is the driver's own Options: no function takes
those of another driver. Constants are properties here, so that a module may give them a narrower type.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Protocol, TypeVar, runtime_checkable

from agents.command_forms import Arguments, Form
from agents.contracts import (
    Access,
    Claim,
    Frame,
    Histogram,
    Job,
    ManualTask,
    Metric,
    Need,
    Plan,
    Progress,
    SameWork,
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
from agents.texts.parsed_result import ParsedResult

OptionsT = TypeVar("OptionsT")
GrowT = TypeVar("GrowT")


class Layer(Protocol[OptionsT]):
    """A module in agents/layers/. `Options` is a frozen dataclass: the form and the JSON schema.

    A layer that wants "devices" takes disks of its own, by use; those of its first use may instead be the volume
    below it, and any use may be filled by `target.parts`. It may also follow Growable, Expandable,
    BackgroundWork, InitialResync, HealthCheck, RestoresSettings, ManualStep, LayerCommands and LayerScripts.
    """

    @property
    def LABEL(self) -> str: ...
    @property
    def NEEDS(self) -> tuple[Need, ...]:
        """Every program that it may use, whatever its options."""
        ...

    @property
    def USES(self) -> Mapping[str, Use]:
        """The first one is the main use; empty: needs a volume or nothing."""
        ...

    @property
    def REQUIRES(self) -> str:
        """Below it: "nothing", "devices", "own" (disks of its own only), "volume", "lv", "pool", "any"."""
        ...

    @property
    def PROVIDES(self) -> str:
        """Kind of target for the layer above: "parts", "volume", "lv", "pool", "mount", or "same": what was below."""
        ...

    @property
    def Options(self) -> type[OptionsT]: ...

    def required_programs(self, options: OptionsT) -> tuple[Need, ...]:
        """The programs in NEEDS that these options require."""
        ...

    def plan(self, options: OptionsT, target: Target, facts: HostFacts) -> Plan: ...

    def teardown(self, options: OptionsT, target: Target, facts: HostFacts) -> list[Step]:
        """Steps that remove whatever exists of this layer (target: the one given to plan). Safe to run twice."""
        ...

    def verify(self, options: OptionsT, target: Target, facts: HostFacts) -> list[str]:
        """Differences between plan and host after apply (target: the one given to plan); [] if there are none."""
        ...


@runtime_checkable
class Growable(Layer[OptionsT], Protocol[OptionsT, GrowT]):
    """A layer that can take more disks while it stands."""

    @property
    def Grow(self) -> type[GrowT]:
        """Options of one growth, a frozen dataclass."""
        ...

    def plan_growth(
        self,
        options: OptionsT,
        grow: GrowT,
        target: Target,
        more: Mapping[str, tuple[Claim, ...]],
        facts: HostFacts,
    ) -> Plan:
        """Steps that add `more` (by use). `target` is the one given to plan with `more` in its devices already."""
        ...


@runtime_checkable
class Expandable(Layer[OptionsT], Protocol[OptionsT]):
    """A layer that can grow when the device below it has become larger."""

    def plan_expansion(self, options: OptionsT, target: Target, facts: HostFacts) -> Plan: ...


@runtime_checkable
class BackgroundWork(Layer[OptionsT], Protocol[OptionsT]):
    """A layer in which the kernel continues to work after the commands have ended."""

    def background_progress(
        self, options: OptionsT, target: Target, facts: HostFacts
    ) -> Progress | None:
        """Background work that still goes on, by the facts; None when nothing does."""
        ...


@runtime_checkable
class InitialResync(Layer[OptionsT], Protocol[OptionsT]):
    """A layer with background work that can say beforehand whether a build starts any."""

    def starts_resync(self, options: OptionsT) -> bool:
        """True if the kernel continues to work after a layer with these options is built."""
        ...


@runtime_checkable
class HealthCheck(Layer[OptionsT], Protocol[OptionsT]):
    """A layer that keeps serving I/O when something in it has failed."""

    def health_faults(self, options: OptionsT, target: Target, health: Health) -> list[str]:
        """Faults of the layer at this moment (target: the one given to plan); [] if there are none.

        A fault that verify also finds has the same text, so that it does not stop someone who chose to measure anyway.
        """
        ...


@runtime_checkable
class RestoresSettings(Layer[OptionsT], Protocol[OptionsT]):
    """A layer with settings that blank disks do not prove to be undone: a scheduler, a sysctl."""

    def unrestored_settings(self, options: OptionsT, target: Target, facts: HostFacts) -> list[str]:
        """Settings that after teardown differ from those before the plan (`target.kept`); [] if none do."""
        ...


@runtime_checkable
class ManualStep(Layer[OptionsT], Protocol[OptionsT]):
    """A layer that a person builds: its plan has no steps, and the engine waits until it is done."""

    def manual_task(self, options: OptionsT, target: Target) -> ManualTask: ...


@runtime_checkable
class LayerCommands(Layer[OptionsT], Protocol[OptionsT]):
    """A layer with a program of its own. Without its forms, every word of a command could be a name (agents/safety)."""

    @property
    def COMMANDS(self) -> Mapping[str, Sequence[Form]]:
        """Program -> each way in which its commands call it, flag by flag."""
        ...


@runtime_checkable
class LayerScripts(Layer[OptionsT], Protocol[OptionsT]):
    """A layer with a script that no other uses: a constant of its module, given as `sh -c SCRIPT NAME ARGUMENT…`."""

    @property
    def SCRIPTS(self) -> Mapping[str, Arguments]:
        """Script -> the kinds of its arguments, as in agents/steps/scripts.py.

        NAME is the last word of the constant's name in lower case.
        """
        ...


class Tool(Protocol[OptionsT]):
    """A module in agents/tools/."""

    @property
    def LABEL(self) -> str: ...
    @property
    def NEEDS(self) -> tuple[Need, ...]: ...
    @property
    def Options(self) -> type[OptionsT]: ...

    def build_job(self, options: OptionsT, target: Target) -> Job: ...

    def build_precheck(self, options: OptionsT, target: Target) -> Job | None:
        """A quick run that touches no data and fails when the options are wrong (fio --parse-only); or None."""
        ...

    def outstanding_ios(self, options: OptionsT) -> int | None:
        """Outstanding I/Os: queue depth times jobs."""
        ...

    def parse(self, outputs: Mapping[str, bytes], options: OptionsT) -> list[Metric]:
        """Figures from {"stdout": …, "stderr": …, each of Job.outputs}. Raises ParseError, nothing else."""
        ...


@runtime_checkable
class RequiresPrograms(Tool[OptionsT], Protocol[OptionsT]):
    """A tool whose options decide which programs it needs."""

    def required_programs(self, options: OptionsT) -> tuple[Need, ...]:
        """The programs in NEEDS that these options require; a program named by its path is only looked for there."""
        ...


@runtime_checkable
class NamesPrograms(Tool[OptionsT], Protocol[OptionsT]):
    """A tool whose options may name a program of the host."""

    @property
    def PROGRAM_OPTION(self) -> str:
        """The option that names it."""
        ...

    def named_programs(self, options: OptionsT) -> tuple[str, ...]:
        """The programs that a person named, as they would be run; none if the driver finds its own."""
        ...


@runtime_checkable
class RunsUserCode(Tool[OptionsT], Protocol[OptionsT]):
    """A tool that may run code of a user."""

    @property
    def OWN_CODE(self) -> bool:
        """True if such options make their author root on the team's hosts, so that only an owner may write them."""
        ...


@runtime_checkable
class LiveOutput(Tool[OptionsT], Protocol[OptionsT]):
    """A tool that reports its progress while it runs."""

    @property
    def LIVE_FILES(self) -> tuple[str, ...]:
        """Files in the cwd that the sampler reads at each tick, too."""
        ...


@runtime_checkable
class Unprivileged(Tool[OptionsT], Protocol[OptionsT]):
    """A tool that needs no root, as it only opens the target. Others run as root."""

    def root_reason(self, options: OptionsT, target: Target) -> str:
        """Reason why only root gets the same figures with these options; "" if any user with access does."""
        ...


@runtime_checkable
class SizedTarget(Tool[OptionsT], Protocol[OptionsT]):
    """A tool that needs a known number of bytes on its target."""

    def required_bytes(self, options: OptionsT, target: Target) -> int:
        """Bytes that must be there; 0 if it takes all of them or the number is unknown."""
        ...

    def reads_existing(self, options: OptionsT) -> bool:
        """True if it reads blocks of a volume that it has not written before."""
        ...


@runtime_checkable
class DescribesIO(Tool[OptionsT], Protocol[OptionsT]):
    """A tool whose access to the storage is known, for findings."""

    @property
    def IO_FIELDS(self) -> Mapping[str, tuple[str, ...]]:
        """Field of Access -> the options that determine it. An imported result may have only some of them."""
        ...

    def access_pattern(self, options: OptionsT) -> Access:
        """The access during the measurement, without the layout of files.

        A field that the options leave open is None, never a guess.
        """
        ...


@runtime_checkable
class ComparableWork(Tool[OptionsT], Protocol[OptionsT]):
    """A tool whose results may share a chart with other workloads of the same work."""

    def same_work(self, options: Mapping[str, object]) -> SameWork | None:
        """The parts that are equal for equal work. Options may be incomplete; None if they do not define the work."""
        ...


@runtime_checkable
class OptionAliases(Tool[OptionsT], Protocol[OptionsT]):
    """A tool whose options have other names in imported results."""

    def canonical_names(self, options: Mapping[str, object]) -> dict[str, object]:
        """The same options under our names."""
        ...


@runtime_checkable
class RecordsSeries(Tool[OptionsT], Protocol[OptionsT]):
    """A tool whose outputs also hold figures over time, such as fio's logs."""

    def parse_series(self, outputs: Mapping[str, bytes], options: OptionsT) -> list[Series]:
        """Parse the series; times are seconds since its only measured window began (see MeasuredWindows).

        Raises ParseError, nothing else.
        """
        ...


@runtime_checkable
class LatencyHistogram(Tool[OptionsT], Protocol[OptionsT]):
    """A tool that prints a histogram of I/O times."""

    def parse_histograms(self, outputs: Mapping[str, bytes], options: OptionsT) -> list[Histogram]:
        """Parse the histograms; [] if it printed none. Raises ParseError, nothing else."""
        ...


@runtime_checkable
class MeasuredWindows(Tool[OptionsT], Protocol[OptionsT]):
    """A tool that reports its phases, so that a device's mean covers the measurement and not the file layout."""

    def parse_windows(
        self, outputs: Mapping[str, bytes], options: OptionsT, timing: Timing
    ) -> list[Window]:
        """The windows in order, in seconds since the job began; [] if unknown, never a guess. Raises ParseError."""
        ...


@runtime_checkable
class PartialResults(Tool[OptionsT], Protocol[OptionsT]):
    """A tool whose figures can be read one by one: if it fails, the printed figures remain valid."""

    def parse_partial(self, outputs: Mapping[str, bytes], options: OptionsT) -> list[Metric]:
        """Parse the figures that were printed; [] for none. Raises ParseError."""
        ...


@runtime_checkable
class KnownClock(Tool[OptionsT], Protocol[OptionsT]):
    """A tool whose clock is known. A run of any other tool fails if the wall clock is set during the run."""

    def uses_monotonic_clock(self, options: OptionsT) -> bool:
        """True if it measures time with a clock that nobody can set."""
        ...


@runtime_checkable
class PrintsVersion(Tool[OptionsT], Protocol[OptionsT]):
    """A tool that prints its version. A run fails if that differs from the version in the host's facts."""

    def printed_version(self, outputs: Mapping[str, bytes]) -> str:
        """The version, in the form of --version; "" if the output names none."""
        ...


@runtime_checkable
class ToolScripts(Tool[OptionsT], Protocol[OptionsT]):
    """A tool whose job is `sh FILE ARGUMENT…` with its own script. Undeclared, every word could be a name."""

    @property
    def SCRIPTS(self) -> Mapping[bytes, Sequence[str]]:
        """Script -> patterns, in order, of arguments that cannot be names; the last pattern repeats."""
        ...


class Reader(Protocol):
    """A module in agents/readers/: finds its kind of result in any text that a person pasted or uploaded.

    Text that looks like its kind but cannot be read is a Found with `trouble`; it never raises.
    """

    @property
    def LABEL(self) -> str: ...
    @property
    def KEYWORDS(self) -> tuple[str | re.Pattern[str], ...]:
        """Patterns of which at least one is in any text with such a result. They begin with a literal, for speed."""
        ...

    def find_results(self, text: str, name: str) -> list[ParsedResult]:
        """`text` has "\n" only; `name` is the file's name, or "". Line numbers are those of `text`, from 1."""
        ...


@runtime_checkable
class JoinsTexts(Reader, Protocol):
    """A reader that joins several texts of one result, such as the logs of each job."""

    def join_series(self, texts: Mapping[str, str], result: bytes) -> list[Series]:
        """Series from the texts, by file name. `result` is the output that they belong to. Raises ParseError."""
        ...


@runtime_checkable
class KnownStart(Reader, Protocol):
    """A reader that recognizes its texts by their beginning, as small files are read by the thousand."""

    @property
    def START_PATTERN(self) -> re.Pattern[str]:
        """Pattern of the beginning of such a text."""
        ...


class Sampler(Protocol):
    """A module in agents/samplers/. FILES are read on the host once per tick by hostside/sampler.sh.

    WATCHES are commands that run there: see contracts.Watch, and samplers/_frames.py for reading their lines.
    """

    @property
    def LABEL(self) -> str: ...
    @property
    def FILES(self) -> tuple[str, ...]: ...
    @property
    def WATCHES(self) -> tuple[Watch, ...]: ...

    def frames_to_series(self, frames: Sequence[Frame]) -> list[Series]: ...
