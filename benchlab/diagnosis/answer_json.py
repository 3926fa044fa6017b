# SPDX-License-Identifier: Apache-2.0
"""An answer as JSON: what the API and the command print, what a draft and a campaign store, and what pages render.

Each quoted line comes with its number and its text, so nobody needs the paste again.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypedDict

from agents import options as driver_options
from agents.drivers import registry
from agents.errors import AgentError
from agents.plaintext import one_line, visible
from benchlab.diagnosis.answers import MAX_SHOWN, Answer, diagnose
from benchlab.diagnosis.evidence import Evidence, Result
from benchlab.diagnosis.model import Diagnosis, NextStep, Proof, Verdict

# characters of a quoted line
MAX_QUOTE = 200
# lines that one proof quotes
MAX_QUOTED_LINES = 5
# Rules compare results with each other: 60 of them take up to 2 s of CPU time, 150 take 30 s.
MAX_RESULTS = 60
# runs of a campaign that one diagnosis names
MAX_RUNS = 1000


class LineJson(TypedDict):
    """A line of the text. `file`: id of the draft's file, 0 for a single text."""

    number: int
    text: str
    file: int


class ProofJson(TypedDict):
    text: str
    lines: list[LineJson]


class WorkloadJson(TypedDict):
    """A workload that takes the next step; lists are in `sweep`."""

    tool: str
    options: dict[str, Any]
    sweep: dict[str, list[Any]]


class NextStepJson(TypedDict):
    text: str
    command: str
    expect: str
    risk: str
    options: dict[str, Any]
    workload: WorkloadJson | None


class DiagnosisJson(TypedDict):
    """A diagnosis. `runs`: ids of the runs of a campaign that it is about. `also`: other files that have it, too."""

    rule: str
    label: str
    verdict: str
    claim: str
    meaning: str
    proofs: list[ProofJson]
    alternatives: list[str]
    next_steps: list[NextStepJson]
    runs: list[int]
    also: int


class AnswerJson(TypedDict):
    """An answer. `readable`: results that were read. `note`: what was left out, "" if nothing was."""

    headline: str
    nothing_unusual: bool
    readable: int
    shown: list[DiagnosisJson]
    folded: list[DiagnosisJson]
    checked: list[str]
    note: str


def diagnose_text_evidence(evidence: Evidence, unreadable: Sequence[str] = ()) -> AnswerJson:
    """The answer for a text. Of very many results only the first MAX_RESULTS are diagnosed, and the note says so.

    `unreadable`: why results of the text could not be read, a reason for each.
    """
    results = evidence.results[:MAX_RESULTS]
    limited = dataclasses.replace(evidence, results=results)
    return answer_to_json(diagnose(limited), limited, _note(evidence, unreadable))


def _note(evidence: Evidence, unreadable: Sequence[str]) -> str:
    """Sentences on what was left out or is missing; "" if nothing is."""
    sentences = []
    if (count := len(evidence.results)) > MAX_RESULTS:
        sentences.append(f"Only the first {MAX_RESULTS} of {count} results were diagnosed.")
    if unreadable:
        noun = "result" if len(unreadable) == 1 else "results"
        sentences.append(
            f"{len(unreadable)} {noun} could not be read: {one_line(unreadable[0], MAX_QUOTE)}."
        )
    if any(evidence.facts) and not evidence.results and not unreadable:
        sentences.append(
            "The text describes the machine, but has no figures. Paste what a benchmark printed with it."
        )
    return " ".join(sentences)


def answer_to_json(answer: Answer, evidence: Evidence, note: str = "") -> AnswerJson:
    """The answer with the lines that it quotes from the evidence."""
    return _with_headline(
        {
            "headline": "",
            "nothing_unusual": answer.nothing_unusual,
            "readable": answer.readable,
            "shown": [_diagnosis(diagnosis, evidence) for diagnosis in answer.shown],
            "folded": [_diagnosis(diagnosis, evidence) for diagnosis in answer.folded],
            "checked": list(answer.checked),
            "note": note,
        }
    )


def assign_lines(answer: AnswerJson, places: Sequence[tuple[int, int]]) -> AnswerJson:
    """The answer for joined texts, with each quoted line under the number that it has in its own file.

    `places`: for each file the lines before it, and its id.
    """
    for row in _all_rows(answer):
        for line in (line for proof in row["proofs"] for line in proof["lines"]):
            before, file = max(place for place in places if place[0] < line["number"])
            line["number"], line["file"] = line["number"] - before, file
    return answer


def merge_answers(answers: Sequence[AnswerJson], note: str = "") -> AnswerJson:
    """One answer for several files. A diagnosis that several files share appears once, with the number of the others.

    Doubts and limits come first, and those of more files before those of fewer.
    """
    if len(answers) == 1:
        notes = filter(None, [answers[0]["note"], note])
        return {**answers[0], "note": " ".join(notes)}
    merged: dict[tuple[str, str], DiagnosisJson] = {}
    for answer in answers:
        rows = {(row["rule"], row["verdict"]): row for row in reversed(_all_rows(answer))}
        for key, row in rows.items():
            if key in merged:
                merged[key]["also"] += 1
            else:
                merged[key] = row
    ranked = sorted(merged.values(), key=lambda row: (row["verdict"] == Verdict.FINE, -row["also"]))
    return _with_headline(
        {
            "headline": "",
            "nothing_unusual": any(answer["readable"] for answer in answers)
            and all(row["verdict"] == Verdict.FINE for row in ranked),
            "readable": sum(answer["readable"] for answer in answers),
            "shown": ranked[:MAX_SHOWN],
            "folded": ranked[MAX_SHOWN:],
            "checked": answers[0]["checked"] if answers else [],
            "note": note,
        }
    )


def _all_rows(answer: AnswerJson) -> list[DiagnosisJson]:
    return [*answer["shown"], *answer["folded"]]


def _with_headline(answer: AnswerJson) -> AnswerJson:
    return {**answer, "headline": _headline(answer)}


def _headline(answer: AnswerJson) -> str:
    """The answer in one sentence, for the top of a card or of a terminal's output."""
    results = answer["readable"]
    found = sum(row["verdict"] != Verdict.FINE for row in _all_rows(answer))
    causes = f"{found} likely cause{'' if found == 1 else 's'} found"
    if not results and found:
        return f"{causes}, but no result was recognised."
    if not results and answer["note"]:
        return "Nothing was diagnosed."
    if not results:
        return "No result was recognised, so there is nothing to diagnose."
    read = f"{results} result{'' if results == 1 else 's'}"
    if answer["nothing_unusual"]:
        return f"Nothing unusual in {read}."
    return f"{causes} in {read}."


def _diagnosis(diagnosis: Diagnosis, evidence: Evidence) -> DiagnosisJson:
    about = [evidence.results[at] for at in diagnosis.results if at < len(evidence.results)]
    measured = next(iter(about or evidence.tests), None)
    return {
        "rule": diagnosis.rule,
        "label": diagnosis.label,
        "verdict": diagnosis.verdict.value,
        "claim": one_line(diagnosis.claim),
        "meaning": one_line(diagnosis.meaning),
        "proofs": [_proof(proof, evidence) for proof in diagnosis.proofs],
        "alternatives": [one_line(text) for text in diagnosis.alternatives],
        "next_steps": [_next_step(step, measured) for step in diagnosis.next_steps],
        "runs": sorted({result.run for result in about} - {0})[:MAX_RUNS],
        "also": 0,
    }


def _proof(proof: Proof, evidence: Evidence) -> ProofJson:
    numbers: Iterable[int] = [line for line in proof.lines if line > 0][:MAX_QUOTED_LINES]
    return {
        "text": one_line(proof.text),
        "lines": [
            {"number": line, "text": one_line(evidence.quote(line), MAX_QUOTE), "file": 0}
            for line in numbers
        ],
    }


def _next_step(step: NextStep, measured: Result | None) -> NextStepJson:
    return {
        "text": one_line(step.text),
        "command": visible(step.command),
        "expect": one_line(step.expect),
        "risk": one_line(step.risk),
        "options": dict(step.options),
        "workload": _workload(step.options, measured) if step.options and measured else None,
    }


def _workload(wanted: Mapping[str, Any], measured: Result) -> WorkloadJson | None:
    """The result's own options with those of the next step; None where no tool of ours takes them."""
    if (own := _tool_workload(measured.kind, wanted, measured.options)) or "rw" not in wanted:
        return own
    # The step names fio's access pattern for a result of another tool.
    return _tool_workload("fio", wanted, {})


def _tool_workload(
    tool: str, wanted: Mapping[str, Any], own: Mapping[str, Any]
) -> WorkloadJson | None:
    driver = registry.all_tools().get(tool)
    if driver is None:
        return None
    specs = {spec.name: spec for spec in dataclasses.fields(driver.Options)}
    options = {name: value for name, value in own.items() if name in specs}
    sweep: dict[str, list[Any]] = {}
    extra: list[str] = []
    for name, value in wanted.items():
        values = [_typed(item, specs.get(name)) for item in _as_list(value)]
        if len(values) > 1:
            sweep[name] = values
            options.pop(name, None)
        elif name in specs:
            options[name] = values[0]
        else:
            extra.append(f"{name}={values[0]}")
    if extra:
        options["extra"] = [*options.get("extra", ()), *extra]
    try:
        point = {name: values[0] for name, values in sweep.items()}
        driver_options.build_options(driver.Options, {**options, **point})
    except AgentError:
        # Options that were read from a text need not be those that the tool takes.
        return None
    return {"tool": tool, "options": options, "sweep": sweep}


def _as_list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [value]


def _typed(value: Any, spec: dataclasses.Field[Any] | None) -> Any:
    """The value as the option's type: fio says direct=1, and the driver's option is true or false."""
    return bool(value) if spec is not None and spec.type in (bool, "bool") else value
