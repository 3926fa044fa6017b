# SPDX-License-Identifier: Apache-2.0
"""Protocols of modules in agents/layers, tools, samplers or readers. conformance.py beside holds each to it, for mypy.

All driver functions are pure: no clock, no file, no host. `OptionsT` is the driver's own Options: a function that takes
another's is no part of it. Constants are properties here, for a module may say more exactly what they are.
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
        """Those of NEEDS that these options ask for."""
        ...

    def plan(self, options: OptionsT, target: Target, facts: HostFacts) -> Plan: ...

    def teardown(self, options: OptionsT, target: Target, facts: HostFacts) -> list[Step]:
        """Steps that remove what exists of this layer (target: the one given to plan). Safe to run twice."""
        ...

    def verify(self, options: OptionsT, target: Target, facts: HostFacts) -> list[str]:
        """Differences between wish and host after apply (target: the one given to plan); [] is right."""
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
    """A layer that follows when what it stands on has become larger."""

    def plan_expansion(self, options: OptionsT, target: Target, facts: HostFacts) -> Plan: ...


@runtime_checkable
class BackgroundWork(Layer[OptionsT], Protocol[OptionsT]):
    """A layer in which the kernel works on after the commands have ended."""

    def background_progress(
        self, options: OptionsT, target: Target, facts: HostFacts
    ) -> Progress | None:
        """Background work that still goes on, by the facts; None when nothing does."""
        ...


@runtime_checkable
class InitialResync(Layer[OptionsT], Protocol[OptionsT]):
    """A layer with background work that can say beforehand whether a build starts any."""

    def starts_resync(self, options: OptionsT) -> bool:
        """True when the kernel works on after a layer with these options was built."""
        ...


@runtime_checkable
class HealthCheck(Layer[OptionsT], Protocol[OptionsT]):
    """A layer that serves on when something in it has failed."""

    def health_faults(self, options: OptionsT, target: Target, health: Health) -> list[str]:
        """Faults of the layer at this moment (target: the one given to plan); [] is right.

        What verify finds too is said in the same words: who measures on all the same is not stopped by it.
        """
        ...


@runtime_checkable
class RestoresSettings(Layer[OptionsT], Protocol[OptionsT]):
    """A layer that sets what blank disks do not prove to be undone: a scheduler, a sysctl."""

    def unrestored_settings(self, options: OptionsT, target: Target, facts: HostFacts) -> list[str]:
        """After teardown: what is not as `target.kept` has it from before the plan; [] is right."""
        ...


@runtime_checkable
class ManualStep(Layer[OptionsT], Protocol[OptionsT]):
    """A layer that a person makes: its plan has no steps, and the engine waits until it is done."""

    def manual_task(self, options: OptionsT, target: Target) -> ManualTask: ...


@runtime_checkable
class LayerCommands(Layer[OptionsT], Protocol[OptionsT]):
    """A layer with a program that no other uses: else every word of its commands can be a name (agents/safety)."""

    @property
    def COMMANDS(self) -> Mapping[str, Sequence[Form]]:
        """Program -> each way in which its commands call it, flag by flag."""
        ...


@runtime_checkable
class LayerScripts(Layer[OptionsT], Protocol[OptionsT]):
    """A layer with a script that no other uses: a constant of its module, given as `sh -c SCRIPT NAME ARGUMENT…`."""

    @property
    def SCRIPTS(self) -> Mapping[str, Arguments]:
        """Script -> what its arguments are, as in agents/steps/scripts.py. NAME: the constant's last word, small."""
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
        """Those of NEEDS that these options ask for: one named by its path is not looked for elsewhere."""
        ...


@runtime_checkable
class NamesPrograms(Tool[OptionsT], Protocol[OptionsT]):
    """A tool whose options may name a program of the host."""

    @property
    def PROGRAM_OPTION(self) -> str:
        """The option that names it."""
        ...

    def named_programs(self, options: OptionsT) -> tuple[str, ...]:
        """Those that a person named, as they would be run; none where the driver looks for its own."""
        ...


@runtime_checkable
class RunsUserCode(Tool[OptionsT], Protocol[OptionsT]):
    """A tool that may run what a person wrote."""

    @property
    def OWN_CODE(self) -> bool:
        """True: whoever may write such options is root on the team's hosts, so only an owner may."""
        ...


@runtime_checkable
class LiveOutput(Tool[OptionsT], Protocol[OptionsT]):
    """A tool that tells what happens right now."""

    @property
    def LIVE_FILES(self) -> tuple[str, ...]:
        """Files in the cwd that the sampler reads at each tick, too."""
        ...


@runtime_checkable
class Unprivileged(Tool[OptionsT], Protocol[OptionsT]):
    """A tool that need not be root: it opens the target, and no more. Others run as root."""

    def root_reason(self, options: OptionsT, target: Target) -> str:
        """Reason why only root gets the same figures with these options; "" where any user does who may open it."""
        ...


@runtime_checkable
class SizedTarget(Tool[OptionsT], Protocol[OptionsT]):
    """A tool that works on so many bytes of its target."""

    def required_bytes(self, options: OptionsT, target: Target) -> int:
        """Bytes that must be there; 0: as many as there are, or nobody can tell."""
        ...

    def reads_existing(self, options: OptionsT) -> bool:
        """True when it reads blocks of a volume that it has not written before."""
        ...


@runtime_checkable
class DescribesIO(Tool[OptionsT], Protocol[OptionsT]):
    """A tool of which it is known what it asks of the storage: findings look at it."""

    @property
    def IO_FIELDS(self) -> Mapping[str, tuple[str, ...]]:
        """Field of Access -> the options that it hangs on. A result that somebody else measured tells some only."""
        ...

    def access_pattern(self, options: OptionsT) -> Access:
        """Access while it measures, without a file's layout.

        A field that the options leave open is None, never a guess.
        """
        ...


@runtime_checkable
class ComparableWork(Tool[OptionsT], Protocol[OptionsT]):
    """A tool whose results share a chart with those of other workloads that did the same."""

    def same_work(self, options: Mapping[str, object]) -> SameWork | None:
        """Parts that equal work has equal. The options may be incomplete; None when they do not define the work."""
        ...


@runtime_checkable
class OptionAliases(Tool[OptionsT], Protocol[OptionsT]):
    """A tool whose options have other names, too, in results from elsewhere."""

    def canonical_names(self, options: Mapping[str, object]) -> dict[str, object]:
        """The same by our names."""
        ...


@runtime_checkable
class RecordsSeries(Tool[OptionsT], Protocol[OptionsT]):
    """A tool whose outputs hold figures over time, too: fio's logs."""

    def parse_series(self, outputs: Mapping[str, bytes], options: OptionsT) -> list[Series]:
        """Times are seconds since its one measured window began (see MeasuredWindows).

        Raises ParseError, nothing else.
        """
        ...


@runtime_checkable
class LatencyHistogram(Tool[OptionsT], Protocol[OptionsT]):
    """A tool that counts how many I/Os took how long."""

    def parse_histograms(self, outputs: Mapping[str, bytes], options: OptionsT) -> list[Histogram]:
        """[] where it printed none. Raises ParseError, nothing else."""
        ...


@runtime_checkable
class MeasuredWindows(Tool[OptionsT], Protocol[OptionsT]):
    """A tool that tells what it did when: the mean of a device is over what was measured, not over file layout."""

    def parse_windows(
        self, outputs: Mapping[str, bytes], options: OptionsT, timing: Timing
    ) -> list[Window]:
        """Windows in order, in seconds since the job began. [] where unknown, never a guess. Raises ParseError."""
        ...


@runtime_checkable
class PartialResults(Tool[OptionsT], Protocol[OptionsT]):
    """A tool whose figures are read one by one: where it gave up, those that it had printed stand."""

    def parse_partial(self, outputs: Mapping[str, bytes], options: OptionsT) -> list[Metric]:
        """[] where there are none. Raises ParseError."""
        ...


@runtime_checkable
class KnownClock(Tool[OptionsT], Protocol[OptionsT]):
    """A tool of which it is known by which clock it times. A run of any other fails if the wall clock was set in it."""

    def uses_monotonic_clock(self, options: OptionsT) -> bool:
        """True when it times by a clock that nobody can set."""
        ...


@runtime_checkable
class PrintsVersion(Tool[OptionsT], Protocol[OptionsT]):
    """A tool whose output names its version. A run of another version than its host's facts name fails."""

    def printed_version(self, outputs: Mapping[str, bytes]) -> str:
        """The version as the program's --version prints it; "" where the output names none."""
        ...


@runtime_checkable
class ToolScripts(Tool[OptionsT], Protocol[OptionsT]):
    """A tool whose job is `sh FILE ARGUMENT…` with a script of its own: else every word of the job can be a name."""

    @property
    def SCRIPTS(self) -> Mapping[bytes, Sequence[str]]:
        """Script -> patterns of arguments that can be no names, in their order; the last goes on for ever."""
        ...


class Reader(Protocol):
    """A module in agents/readers/: finds its kind of result in any text that a person pasted or uploaded.

    What merely looks like its kind and cannot be read is a Found with `trouble`; it never raises.
    """

    @property
    def LABEL(self) -> str: ...
    @property
    def KEYWORDS(self) -> tuple[str | re.Pattern[str], ...]:
        """One of these at least is in any text that has such a result. Patterns begin with a literal, to be fast."""
        ...

    def find_results(self, text: str, name: str) -> list[ParsedResult]:
        """`text` has "\n" only; `name` is the file's name, or "". Line numbers are those of `text`, from 1."""
        ...


@runtime_checkable
class JoinsTexts(Reader, Protocol):
    """A reader of texts of which several are of one result, as each job's logs are, and say something together."""

    def join_series(self, texts: Mapping[str, str], result: bytes) -> list[Series]:
        """Series of the texts, by file name. `result` is the output that they stand beside. Raises ParseError."""
        ...


@runtime_checkable
class KnownStart(Reader, Protocol):
    """A reader to whose tool a text belongs that begins as it prints: small files are read by the thousand."""

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
