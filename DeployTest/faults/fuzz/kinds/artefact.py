"""plan.json and tiling.json: edited as JSON and as bytes, through every command that reads them."""

import hashlib
import json
from collections.abc import Callable
from typing import Any

from DeployTest.faults.fuzz import bases
from DeployTest.faults.fuzz.building import command, judge_exit
from DeployTest.faults.fuzz.draw import HOSTILE, Draw
from DeployTest.faults.fuzz.edits.register import edits_of
from DeployTest.faults.fuzz.output_text import check_text
from DeployTest.faults.fuzz.register import kind
from DeployTest.faults.fuzz.trial import Finding, Trial

from .graph import damage

Holder = tuple[Any, Any]
DEEP = 5000
"""Lists inside of one another that no reader by recursion outlives."""


@kind(5)
def plan(trial: Trial) -> str:
    """An edited plan, given to `emit` with or without its tiling, or to --skipgen."""
    draw = trial.draw("which")
    base = bases.compiled(draw.number(0, len(bases.COMPILED) - 1))
    folder = trial.work / "out"
    bases.write(base.output, folder)
    edited = _edited(trial, base.output["plan.json"], draw)
    (folder / "plan.json").write_bytes(edited)
    way = draw.one(("emit", "beside", "skipgen"))
    if way == "skipgen" or trial.build:
        bases.write(base.files, trial.case)
        if way != "skipgen":
            return _rerun(trial, folder)
        return _skipgen(trial, folder)
    if way == "emit":
        (folder / "tiling.json").unlink()
    code, _, errors = command(trial, ["emit", "--plan", folder / "plan.json", "-o", trial.work / "again"])
    verdict = judge_exit("emit", code, errors)
    _check_folder(trial)
    return verdict


@kind(4)
def tiling(trial: Trial) -> str:
    """An edited tiling, given to `compile --from`, or to --skipgen with an unedited plan."""
    draw = trial.draw("which")
    base = bases.compiled(draw.number(0, len(bases.COMPILED) - 1))
    bases.write(base.files, trial.case)
    folder = trial.work / "out"
    edited = _edited(trial, base.output["tiling.json"], draw)
    if draw.chance(0.25) and not trial.build:
        bases.write(base.output, folder)
        (folder / "tiling.json").write_bytes(edited)
        return _skipgen(trial, folder)
    path = trial.work / "edited.json"
    path.write_bytes(edited)
    code, _, errors = command(trial, ["compile", "-t", trial.case, "--from", path, "-o", folder])
    verdict = judge_exit("compile --from", code, errors)
    _check_folder(trial)
    return _skipgen(trial, folder) if trial.build else verdict


def _skipgen(trial: Trial, folder: "bases.Path") -> str:
    """--skipgen: up to the build, or through it."""
    words: list[object] = ["train", "-t", trial.case, "-o", folder, "--skipgen"]
    code, out, errors = command(trial, words, programs=trial.build, reach=not trial.build)
    if trial.build and code == 1:
        raise Finding("wrong run", f"{errors}\n{out}"[-3000:])
    verdict = judge_exit("--skipgen", code, errors)
    return "built and passed" if trial.build else verdict


def _rerun(trial: Trial, folder: "bases.Path") -> str:
    """Check that the program of an accepted plan trains to the same bits, or fails by name."""
    code, _, errors = command(trial, ["emit", "--plan", folder / "plan.json", "-o", folder])
    judge_exit("emit", code, errors)
    return _skipgen(trial, folder)


def _check_folder(trial: Trial) -> None:
    texts = {p.name: p.read_text() for p in sorted(trial.work.rglob("*.[ch]"))}
    check_text(texts)


def _edited(trial: Trial, data: bytes, draw: Draw) -> bytes:
    """The file after edits; its digest is mended half of the time, since an editor may do so as well."""
    if draw.chance(0.15):
        return damage(trial, data)
    envelope = json.loads(data)
    part = envelope["body"]["steps"] if draw.chance(0.5) else envelope
    trial.edit("artefact", part)
    if draw.chance(0.5) and isinstance(envelope, dict) and "body" in envelope:
        text = json.dumps(envelope["body"], sort_keys=True)
        envelope["digest"] = hashlib.sha256(text.encode()).hexdigest()[:16]
    data = json.dumps(envelope, indent=1, ensure_ascii=draw.chance(0.8)).encode("utf-8", "surrogatepass")
    return data.replace(b"[]", b"[" * DEEP + b"]" * DEEP, 1) if draw.chance(0.02) else data


def leaves(value: Any, predicate: Callable[[Any], bool]) -> list[Holder]:
    """(container, key) of all values inside of `value` for which the predicate holds."""
    holders: list[Holder] = []
    items: Any = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        if predicate(item):
            holders.append((value, key))
        holders += leaves(item, predicate)
    return holders


def _pick(envelope: Any, predicate: Callable[[Any], bool], draw: Draw) -> Holder | None:
    holders = leaves(envelope, predicate)
    return draw.one(holders) if holders else None


def _number(item: Any) -> bool:
    return isinstance(item, (int, float)) and not isinstance(item, bool)


@edits_of("artefact")
def number_moved(envelope: Any, draw: Draw) -> None:
    """A number a little more or less, negative, doubled, extreme."""
    place = _pick(envelope, _number, draw)
    if place is not None:
        holder, key = place
        old = holder[key]
        holder[key] = draw.one(
            (
                old + 1,
                old - 1,
                old + 4,
                old - 4,
                -old,
                old * 2,
                0,
                draw.integer(),
                old + 0.5,
                1e30,
                1 << 53,
                (1 << 53) + 1,
            )
        )


@edits_of("artefact")
def number_moved_again(envelope: Any, draw: Draw) -> None:
    """The same, since numbers are most of a plan."""
    number_moved(envelope, draw)


@edits_of("artefact")
def text_changed(envelope: Any, draw: Draw) -> None:
    """A text replaced by another one of the file, or by a hostile one."""
    place = _pick(envelope, lambda v: isinstance(v, str), draw)
    other = _pick(envelope, lambda v: isinstance(v, str), draw)
    if place is not None and other is not None:
        place[0][place[1]] = other[0][other[1]] if draw.chance(0.6) else draw.one(HOSTILE)


@edits_of("artefact")
def flag_turned(envelope: Any, draw: Draw) -> None:
    """A truth value turned."""
    place = _pick(envelope, lambda v: isinstance(v, bool), draw)
    if place is not None:
        place[0][place[1]] = not place[0][place[1]]


@edits_of("artefact")
def kind_replaced(envelope: Any, draw: Draw) -> None:
    """A value of another kind in a place."""
    place = _pick(envelope, lambda v: True, draw)
    if place is not None:
        deep: Any = []
        for _ in range(draw.one((1, 3, 60))):
            deep = [deep]
        others = ({"_": "Whole"}, {"_": "float", "text": "nan"}, deep)
        place[0][place[1]] = draw.one((None, True, "x", 0, 1.5, [], {}, [1], *others))


@edits_of("artefact")
def list_changed(envelope: Any, draw: Draw) -> None:
    """A list with an item less, one twice, two swapped, or none."""
    place = _pick(envelope, lambda v: isinstance(v, list) and len(v) > 0, draw)
    if place is None:
        return
    items = place[0][place[1]]
    at, other = draw.number(0, len(items) - 1), draw.number(0, len(items) - 1)
    match draw.number(0, 3):
        case 0:
            del items[at]
        case 1:
            items.insert(other, items[at])
        case 2:
            items[at], items[other] = items[other], items[at]
        case _:
            items.clear()


@edits_of("artefact")
def table_changed(envelope: Any, draw: Draw) -> None:
    """A table with a key less, one more, or one renamed."""
    place = _pick(envelope, lambda v: isinstance(v, dict) and len(v) > 0, draw)
    if place is None:
        return
    table = place[0][place[1]]
    key = draw.one(list(table))
    match draw.number(0, 2):
        case 0:
            del table[key]
        case 1:
            table[draw.one(("evil", "_", draw.one(HOSTILE)))] = table[key]
        case _:
            table[draw.one(HOSTILE)] = table.pop(key)


@edits_of("artefact")
def envelope_changed(envelope: Any, draw: Draw) -> None:
    """The head of the file."""
    key = draw.one(("kind", "version", "digest", "body"))
    if isinstance(envelope, dict):
        envelope[key] = draw.one(("Plan", "Tiling", 1, 2, None, [], {}, "0" * 16))
