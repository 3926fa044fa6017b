# SPDX-License-Identifier: Apache-2.0
"""Anything else: a script of the person's own, and lines that say which figures its output holds.

The script is the person's own code. It runs on the host with the layout's mount point, volume and size in its
environment, as a user who may open these and nothing of root's, or as root where its writer says why. Beyond the
guard's look at the devices and paths that it names, BenchLab does not understand what it does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from agents.contracts import Access, AgentError, Job, Metric, Need, OptionsError, ParseError, Target
from agents.jobs.spool import check_file_name
from agents.options import option
from agents.texts import extraction, extraction_sandbox

LABEL = "command"
# whoever may write one may run it as root on the team's hosts
OWN_CODE = True
# nobody can tell; a missing program fails with its own words
NEEDS: tuple[Need, ...] = ()
IO_FIELDS = {"outstanding": ("outstanding",)}
SCRIPT = "command.sh"
# characters
WHY_MAX = 200
EXAMPLE = """cd "${BENCHLAB_MOUNT:?this needs a file system}"
LC_ALL=C dd if=/dev/zero of=mine bs=8192 count=10000 conv=fsync 2>&1
rm mine"""
EXAMPLE_EXTRACT = ("runtime [s] = regex: copied, ([0-9.e-]+) s",)


@dataclass(frozen=True, slots=True)
class Options:
    command: str = option(
        EXAMPLE,
        "a POSIX sh script. It is your own code, and BenchLab does not know what it does. It begins in an "
        "empty directory; $BENCHLAB_MOUNT is the layout's directory or $BENCHLAB_VOLUME its device (the other one "
        "is not set), $BENCHLAB_SIZE its bytes, $BENCHLAB_OUTSTANDING and $BENCHLAB_PARAMETER are the options "
        "below",
        multiline=True,
    )
    why_root: str = option(
        "",
        "reason why root must run it, which the plan shows; empty: it runs as a user of its own, who may "
        "open the layout's directory or device and else what every user of the host may",
    )
    extract: tuple[str, ...] = option(
        EXAMPLE_EXTRACT,
        f"the figures to read, each as {extraction.FORM}; try them below",
        multiline=True,
    )
    outputs: tuple[str, ...] = option((), "output files that it leaves in its working directory")
    outstanding: int = option(0, "outstanding I/Os that it keeps; 0: unknown", minimum=0)
    parameter: str = option("", "a parameter of the script that can be swept")
    seconds: int = option(60, "expected duration", unit="s", minimum=1)
    timeout_s: int = option(3600, "it is stopped after this time", unit="s", minimum=1)
    writes: int = option(0, "the most that it writes; 0: unknown", unit="B", minimum=0)

    def __post_init__(self) -> None:
        if not self.command.strip():
            raise OptionsError("command: there is nothing to run")
        if "\0" in self.command + self.parameter:
            raise OptionsError("command: it holds a NUL character")
        if len(self.why_root) > WHY_MAX or not self.why_root.isprintable():
            raise OptionsError(f"why_root: one line of at most {WHY_MAX} characters")
        if self.seconds > self.timeout_s:
            raise OptionsError(
                f"timeout_s: {self.timeout_s} s is less than the {self.seconds} s it takes"
            )
        for name in self.outputs:
            _check_name(name)
        self.check_extract()

    def check_extract(self) -> None:
        output_names = {"stdout", "stderr", *self.outputs}
        for rule in extraction.parse_extractions(self.extract):
            if rule.file not in output_names:
                raise OptionsError(
                    f"extract: {rule.name} reads {rule.file}, which is not in outputs"
                )


def build_job(options: Options, target: Target) -> Job:
    if not (target.mount or target.volume):
        raise OptionsError(f"target {target.name!r} has neither a volume nor a mount point")
    # A browser ends lines as Windows does, and sh would take the return for a part of the word.
    script = options.command.replace("\r\n", "\n").rstrip("\n") + "\n"
    return Job(
        argv=("sh", SCRIPT),
        outputs=options.outputs,
        inputs={SCRIPT: script.encode()},
        env=_environment(options, target),
        expected_s=float(options.seconds),
        timeout_s=float(options.timeout_s),
        writes=options.writes or None,
        keeps=True,
    )


def root_reason(options: Options, target: Target) -> str:
    return options.why_root.strip()


def build_precheck(options: Options, target: Target) -> Job | None:
    """sh reads the script and runs nothing of it."""
    return replace(
        build_job(options, target),
        argv=("sh", "-n", SCRIPT),
        outputs=(),
        expected_s=1.0,
        timeout_s=30.0,
        writes=0,
        drop_caches=False,
    )


def outstanding_ios(options: Options) -> int | None:
    return options.outstanding or None


def access_pattern(options: Options) -> Access:
    """Nobody knows what a script does, but for what its writer says."""
    return Access(outstanding=outstanding_ios(options))


def parse(outputs: Mapping[str, bytes], options: Options) -> list[Metric]:
    """Figures that the lines of `extract` find in stdout, stderr and the outputs. Raises ParseError for none."""
    metrics = extraction_sandbox.extract_metrics(options.extract, outputs)
    if not metrics:
        raise ParseError("no figure is read: add a line to extract")
    return metrics


def parse_partial(outputs: Mapping[str, bytes], options: Options) -> list[Metric]:
    """Figures of a script that failed: those lines of `extract` that match."""
    return extraction_sandbox.extract_available_metrics(options.extract, outputs)


def _environment(options: Options, target: Target) -> dict[str, str]:
    """Environment of the script; what there is none of is not set, so that ${…:?} ends it."""
    variables = {
        "BENCHLAB_MOUNT": target.mount,
        "BENCHLAB_VOLUME": "" if target.mount else target.volume,
        "BENCHLAB_SIZE": str(target.size) if target.size else "",
        "BENCHLAB_OUTSTANDING": str(options.outstanding) if options.outstanding else "",
        "BENCHLAB_PARAMETER": options.parameter,
    }
    return {name: value for name, value in variables.items() if value}


def _check_name(name: str) -> None:
    try:
        clash = check_file_name(name) in (SCRIPT, "stdout", "stderr")
    except AgentError as error:
        raise OptionsError(f"outputs: {error}") from None
    if clash:
        raise OptionsError(f"outputs: {name} is reserved; use another file name")
