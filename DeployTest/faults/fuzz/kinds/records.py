"""Records of runs and files by people: checkpoints, options in TOML, boards."""

import hashlib
import json
import math
import tomllib
from collections.abc import Mapping
from typing import Any

import numpy as np

from deployer.core import target
from deployer.core.errors import OptionProblem, UserError
from deployer.fitting import checkpoint as checkpoints
from deployer.fitting.history import EpochRow
from deployer.fitting.safetensors import read_safetensors, safetensors_bytes
from deployer.sizing import boards
from DeployTest.faults.fuzz.building import command, judge_exit
from DeployTest.faults.fuzz.draw import HOSTILE, Draw
from DeployTest.faults.fuzz.edits.register import edits_of
from DeployTest.faults.fuzz.register import kind
from DeployTest.faults.fuzz.told import refusing, same_arrays
from DeployTest.faults.fuzz.trial import Finding, Trial

from .graph import damage
from .samples import by_json, strict_json

FIELD = '{"rows":[],"passes":4,"best":1,"best_epoch":0,"ended":"x"}'
ORIGIN = {"model": "0123456789abcdef", "data": "x", "options": '{"epochs":3,"rate":0.1}'}
RECORD_KEYS = ("origin", "place", "format", "digest")


@kind(3)
def checkpoint(trial: Trial) -> str:
    """A checkpoint: its bytes, or its records under a digest that is right."""
    draw, path = trial.draw("which"), trial.case / "checkpoint.safetensors"
    metrics = {"loss": draw.one((0.5, math.nan, math.inf))}
    more = ({}, {"recall": (0.5, 1.0)}, ((1, 0), (2, 3))) if draw.chance(0.5) else ()
    rows = tuple(EpochRow(n, 2 * n, draw.random.random(), 0.1, metrics, *more) for n in (1, 2))
    state = {"w": draw.array((3, 2)), "step": np.array([4], np.int32)}
    place = checkpoints.CheckpointPlace(4, draw.array((4,)), state, rows, 0.5, 2, draw.one(("", "patience")))
    content = checkpoints.checkpoint_bytes(place, ORIGIN)
    path.write_bytes(content)
    whole, like = read_safetensors(path), place.state if draw.chance(0.5) else None
    if draw.chance(0.7):
        arrays, metadata = read_safetensors(path)
        if draw.chance(0.9):
            trial.edit("record", arrays, metadata)
        signed = {name: text for name, text in metadata.items() if name != "digest"}
        digest = metadata.get("digest", "") if draw.chance(0.1) else _digest(arrays, signed)
        content = safetensors_bytes(arrays, signed | {"digest": digest})
        due = _due_place(arrays, signed, like) if digest == _digest(arrays, signed) else None
    else:
        content = damage(trial, content)
        read = by_json(content)
        same = read is not None and (_digest(*whole), whole[1]) == (_digest(read[0], whole[1]), read[1])
        due = _due_place(*whole, like) if same else None
    path.write_bytes(content)
    try:
        with refusing(trial, path, right=due is not None):
            found = checkpoints.read_checkpoint(path, ORIGIN, like)
    except OptionProblem as error:
        if "another run" in str(error):
            _differs_so(metadata["origin"], error)
        raise
    assert due is not None
    same_arrays({"losses": found.losses, **found.state}, {"losses": due.losses, **due.state})
    mine, theirs = ([getattr(each, key) for key in (*DEFAULTS, "rows")] for each in (found, due))
    if repr(mine) != repr(theirs):
        raise Finding("read otherwise", f"{mine}, not {theirs}")
    return "equal to its records"


def _digest(arrays: dict[str, np.ndarray], metadata: dict[str, str]) -> str:
    """The digest of a checkpoint, by its description."""
    texts = {name: metadata[name] for name in sorted(metadata) if name != "digest"}
    parts = [json.dumps(texts, separators=(",", ":")).encode()]
    for name in sorted(arrays):
        array = arrays[name]
        parts.append(json.dumps([name, array.dtype.name, list(array.shape)], separators=(",", ":")).encode())
        parts.append(array.tobytes())
    return hashlib.sha256(b"".join(parts)).hexdigest()


DEFAULTS: dict[str, Any] = {"passes": 0, "best": None, "best_epoch": 0, "ended": ""}


def _due_place(
    arrays: dict[str, np.ndarray], metadata: dict[str, str], like: Mapping[str, np.ndarray] | None
) -> checkpoints.CheckpointPlace | None:
    """The place that records say; None where they break a rule, or are of another run."""
    try:
        origin, place = (strict_json(metadata[key], nonfinite=key == "place") for key in ("origin", "place"))
    except (ValueError, KeyError, RecursionError):
        return None
    if metadata.get("format") != "deployer checkpoint 2" or origin != ORIGIN or not isinstance(place, dict):
        return None
    state = {name[6:]: array for name, array in arrays.items() if name.startswith("state/")}
    kinds = [None if each is None else {n: (a.dtype, a.shape) for n, a in each.items()} for each in (state, like)]
    losses, rows = arrays.get("losses"), place.pop("rows", None)
    if (like is not None and kinds[0] != kinds[1]) or losses is None or not isinstance(rows, list):
        return None
    made = [_record(row, ROW, ROW_DEFAULTS) for row in rows]
    fields = _record(place, {"passes": int, "best": float | None, "best_epoch": int, "ended": str}, DEFAULTS)
    if fields is None or any(row is None for row in made):
        return None
    if losses.dtype != np.float32 or losses.shape != (fields["passes"],):
        return None
    rows = tuple(EpochRow(**row) for row in made if row)
    return checkpoints.CheckpointPlace(**fields, losses=losses, state=state, rows=rows)


PER_CLASS, MATRIX = dict[str, tuple[float, ...]], tuple[tuple[int, ...], ...]
ROW: dict[str, Any] = {
    **{"epoch": int, "passes": int, "loss": float, "rate": float, "metrics": dict, "train_metrics": dict},
    **{"per_class": PER_CLASS, "confusion_matrix": MATRIX},
}
ROW_DEFAULTS: dict[str, Any] = {"metrics": {}, "train_metrics": {}, "per_class": {}, "confusion_matrix": []}


def _record(table: Any, kinds: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any] | None:
    """The fields of a table in their types; None where one is missing, unknown or of another type."""
    if not isinstance(table, dict) or not {*table} <= {*kinds} or not {*kinds} <= {*table, *defaults}:
        return None
    found: dict[str, Any] = {}
    for name, value in {**defaults, **table}.items():
        if kinds[name] in (PER_CLASS, MATRIX):
            found[name] = _per_class(value) if kinds[name] == PER_CLASS else _matrix(value)
            if found[name] is None:
                return None
            continue
        metrics = [_number(each) for each in value.values()] if isinstance(value, dict) else []
        if kinds[name] is dict:
            if not isinstance(value, dict) or None in metrics:
                return None
            found[name] = dict(zip(value, metrics, strict=True))
        elif kinds[name] in (float, float | None):
            found[name] = _number(value)
            if found[name] is None and (value is not None or kinds[name] is float):
                return None
        elif type(value) is not kinds[name] or (isinstance(value, str) and not _is_text(value)):
            return None
        else:
            found[name] = value
    return found


def _per_class(value: Any) -> dict[str, tuple[float | None, ...]] | None:
    """Lists of numbers by name as tuples; None where it is something else."""
    if not isinstance(value, dict) or not all(isinstance(each, list) for each in value.values()):
        return None
    found = {name: tuple(map(_number, each)) for name, each in value.items()}
    return None if any(None in each for each in found.values()) else found


def _matrix(value: Any) -> tuple[tuple[int, ...], ...] | None:
    """Rows of whole numbers as tuples; None where it is something else."""
    if not isinstance(value, list) or not all(isinstance(row, list) for row in value):
        return None
    return None if any(type(n) is not int for row in value for n in row) else tuple(map(tuple, value))


def _number(value: Any) -> float | None:
    """A number of a record, where infinities may be tables; None where it is none."""
    if isinstance(value, dict):
        text = value.get("text") if value.get("_") == "float" and len(value) == 2 else None
        return float(text) if text in ("inf", "-inf") else None
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _is_text(value: str) -> bool:
    return not any(0xD800 <= ord(character) < 0xE000 for character in value)


def _differs_so(text: str, error: UserError) -> None:
    """Finding where an error does not name all members that differ, or others, with both values."""
    theirs = json.loads(text)
    named = {label: value for label, value in error.facts if label != "tensors"}
    due: dict[str, str] = {}
    for name in sorted({*theirs, *ORIGIN}):
        ours, other = (each.get(name, "none") for each in (ORIGIN, theirs))
        if ours != other:
            due |= _members(name, ours, other)
    if list(named.items()) != list(due.items()):
        raise Finding("message", f"{named}, not {due}")


def _members(name: str, ours: str, theirs: str) -> dict[str, str]:
    try:
        mine, other = strict_json(ours, nonfinite=True), strict_json(theirs, nonfinite=True)
    except (ValueError, RecursionError):
        mine = other = None
    if not isinstance(mine, dict) or not isinstance(other, dict):
        return {name: f"{ours}, in the file {theirs}"}
    keys = [key for key in sorted({*mine, *other}) if mine.get(key) != other.get(key)]
    texts = {key: [json.dumps(each.get(key), separators=(",", ":")) for each in (mine, other)] for key in keys}
    return {key: f"{first}, in the file {second}" for key, (first, second) in texts.items()}


@edits_of("record")
def record_edited(arrays: dict[str, np.ndarray], metadata: dict[str, str], draw: Draw) -> None:
    """A record in JSON, edited as artefacts are."""
    from .artefact import flag_turned, kind_replaced, list_changed, number_moved, table_changed, text_changed

    key = draw.one(("origin", "place", "place"))
    try:
        holder = [json.loads(metadata[key])]
    except (ValueError, KeyError, RecursionError):
        return
    change = draw.one((flag_turned, kind_replaced, list_changed, number_moved, table_changed, text_changed))
    if key == "origin" and isinstance(holder[0], dict) and draw.chance(0.5):
        options = ('{"epochs":4,"rate":0.1}', '{"epochs":3}', '{"epochs":3,"rate":NaN}', "[]", '{"epochs":3,"more":1}')
        holder[0]["options"] = draw.one(options)
    else:
        change(holder, draw)
    metadata[key] = json.dumps(holder[0] if holder else None)


@edits_of("record")
def record_replaced(arrays: dict[str, np.ndarray], metadata: dict[str, str], draw: Draw) -> None:
    """Another text for a record, or none."""
    key = draw.one(RECORD_KEYS)
    texts = (
        "[]",
        "null",
        "1",
        '"x"',
        "{",
        "",
        "{}",
        "[" * 5000,
        '{"rows":[],"passes":4}',
        "NaN",
        '{"a":1,"a":2}',
        FIELD,
    )
    texts += ('{"rows":[],"passes":4,"best":{"_":"float","text":"inf"}}', '{"rows":[],"passes":4,"state":{}}')
    texts += ('{"rows":[],"passes":true}', '{"rows":[],"passes":4,"best":true}', '{"rows":[],"passes":4,"losses":[]}')
    if draw.chance(0.3):
        rows = list(metadata.items())
        draw.random.shuffle(rows)
        metadata.clear()
        metadata.update(rows)
    elif draw.chance(0.2):
        metadata.pop(key, None)
    else:
        metadata[key] = draw.one((*texts, draw.one(HOSTILE)))


@edits_of("record")
def state_changed(arrays: dict[str, np.ndarray], metadata: dict[str, str], draw: Draw) -> None:
    """Another array of losses or of the state, or one less or more."""
    key = draw.one((*sorted(arrays), "state/new", "statement"))
    if draw.chance(0.3):
        rows = list(arrays.items())
        draw.random.shuffle(rows)
        arrays.clear()
        arrays.update(rows)
    elif draw.chance(0.3):
        arrays.pop(key, None)
    else:
        kinds = (np.float32, np.float64, np.int32, np.uint8)
        arrays[key] = draw.array(draw.one(((4,), (3, 2), (), (0,), (4, 1)))).astype(draw.one(kinds))


OPTIONS = """[train]
budget = ["L1=2000", "L2=64k"]
buffering = "double"
verbose = true
n-steps = 2

[fit]
epochs = 3
"""
BOARD = """name = "Board"
source = "its sheet"
core = "cortex-m4"
mhz = 180
flash = 524288

[[memory]]
name = "small"
bytes = 1024

[[memory]]
name = "large"
bytes = 131072

[energy]
milliamperes = 1.5
volts = 3
source = "its sheet"
"""
TARGET_BOARD = """name = "Board"
source = "its sheet"
target = "siracusa"
"""


MOST_BYTES = 1 << 20
"""Longest file of options, or of a board."""


def _toml(trial: Trial, text: str, draw: Draw) -> bytes:
    """The file with some edits of lines or bytes, or none."""
    lines = text.splitlines()
    if draw.chance(0.8):
        trial.edit("toml", lines, least=0)
    content = "".join(f"{line}\n" for line in lines).encode()
    content = content.replace(b"[]", b"[" * 5000 + b"]" * 5000, 1) if draw.chance(0.02) else content
    if draw.chance(0.03):
        trial.log.append("about as long as a file may be")
        return b"#".ljust(MOST_BYTES - len(content) + draw.number(-1, 1), b"x") + b"\n" + content
    return damage(trial, content) if draw.chance(0.25) else content


GIVEN: tuple[tuple[list[str], set[str]], ...] = (
    ([], set()),
    (["-t", "x"], {"test"}),
    (["--buffering", "auto"], {"buffering"}),
    (["--singlebuffer"], {"buffering"}),
    (["--budg", "L1=3"], {"budget"}),
    (["--epochs=4"], {"epochs"}),
    (["-v", "--n-steps", "3"], {"verbose", "n_steps"}),
    (["--json"], {"json", "quiet"}),
    (["--quiet"], {"json", "quiet"}),
    (["--no-fusion"], {"no_fusion"}),
    (["--no-fusion", "Relu"], {"no_fusion"}),
    (["--nobody", "1"], set()),
)
"""Words of a command line, and the arguments that they overrule."""


@kind(4)
def configuration(trial: Trial) -> str:
    """Options in a file, whose words stand before those of the command line."""
    from deployer.commands.config import with_config

    from .command import commands

    draw, path = trial.draw("which"), trial.case / "options.toml"
    lines = OPTIONS.splitlines()
    if draw.chance(0.5):
        trial.edit("options", lines)
    path.write_bytes(_toml(trial, "\n".join(lines) + "\n", draw))
    name = draw.one(("train", "train", "fit"))
    more, overruled = draw.one(GIVEN)
    words = [name, "--config", str(path), *more]
    parsers: Any = commands()
    if draw.chance(0.05):
        plain = draw.one(([], ["nobody", "--config", str(path)], ["--config", str(path)], ["-h"], ["train"]))
        if (found := with_config(plain, parsers)) != plain:
            raise Finding("read otherwise", f"{found}, not {plain}")
    due = _due_words(path.read_bytes(), name, parsers, overruled)
    fits = all(any(word.startswith(option) for option in _options(parsers[name])) for word in more[:1])
    with refusing(trial, path, right=(due is not None) if fits else None):
        found = with_config(words, parsers)
    if fits and due is not None and found != [name, *due, *words[1:]]:
        raise Finding("read otherwise", f"{found}, not {[name, *due, *words[1:]]}")
    if draw.chance(0.3):
        code, _, errors = command(trial, ["train", "--config", path, "-t", trial.case])
        return judge_exit("train --config", code, errors)
    return "equal to Python's reader"


def _options(parser: Any) -> dict[str, Any]:
    """The options of a command by their words."""
    parser.complete()
    return dict(parser._option_string_actions)


def _due_words(content: bytes, name: str, parsers: Any, overruled: set[str]) -> list[str] | None:
    """The words that a file of options stands for; None where it breaks a rule."""
    if len(content) > MOST_BYTES:
        return None
    try:
        tables = tomllib.loads(content.decode())
    except (ValueError, RecursionError):
        return None
    if not all(isinstance(table, dict) and key in parsers for key, table in tables.items()):
        return None
    options, words = _options(parsers[name]), []
    for key, value in tables.get(name, {}).items():
        option = options.get(f"--{key}")
        if option is None or key in ("config", "help", "version"):
            return None
        for item in value if isinstance(value, list) else [value]:
            switch = isinstance(item, bool)
            if (switch and option.nargs is None) or (not switch and option.nargs == 0):
                return None
            if not isinstance(item, str | int | float):
                return None
            if option.dest not in overruled:
                words += [f"--{key}"] * item if switch else [f"--{key}={item}"]
    return words


ENTRIES = (
    'partial-accumulation = "x"',
    "doublebuffer = true",
    "no-fusion = true",
    'no-fusion = "Relu"',
    "no-fusion = false",
)
ENTRIES += ("json = true", "quiet = true", "verbose = 1", "verbose = [true, false]", "budget = true", "cores = [1, 2]")
ENTRIES += (
    'help = "x"',
    'config = "x"',
    "t = 1",
    'test = "x"',
    "n_steps = 1",
    "n-step = 1",
    "cores = 1.5",
    "cores = {}",
)
ENTRIES += ("cores = 1979-05-27", "cores = [[1]]", "cores = []", "fused = false", "epochs = 5", "[infer]", "[nobody]")
ENTRIES += ("singlebuffer = [true]", 'no-fusion = ["a", true]', "axis = [1, true]", "version = true")


@edits_of("options")
def entry_added(lines: list[str], draw: Draw) -> None:
    """A key more at a place, or one in the place of another."""
    at = draw.number(0, len(lines))
    lines[at : at + draw.number(0, 1)] = [draw.one(ENTRIES)]


@kind(3)
def board(trial: Trial) -> str:
    """A board's file."""
    draw, path = trial.draw("which"), trial.case / "board.toml"
    lines = draw.one((BOARD, BOARD, BOARD, TARGET_BOARD)).splitlines()
    if draw.chance(0.1):
        trial.log.append("keys that have no effect, or are none")
        extra = ("mhz = 1", "memory = 1", "flash = 1", "energy = 1")
        extra = extra if draw.chance(0.6) else ("z = 1", "b = 2", "y = 1", "c = 2", 'core = "cortex-m4"')
        lines = draw.some(extra, 4) + (lines if draw.chance(0.3) else TARGET_BOARD.splitlines())
    if draw.chance(0.5):
        trial.edit("board", lines)
    if draw.chance(0.02):
        trial.log.append("a file that the system writes as it is read, of 0 bytes")
        path.symlink_to("/proc/version")
    else:
        path.write_bytes(_toml(trial, "\n".join(lines) + "\n", draw))
    due = _due_board(path.read_bytes())
    try:
        with refusing(trial, path, right=due is not None):
            found = boards.read_board(path)
    except UserError as error:
        _names_in_order(path.read_bytes(), error)
        raise
    assert due is not None
    sizes = [(memory.name, memory.bytes) for memory in found.memories]
    power = None if found.energy is None else vars(found.energy)
    mine = {"name": found.name, "source": found.source, "mhz": found.mhz, "flash": found.flash, "energy": power}
    mine |= {"core": found.core and found.core.name, "target": found.target and found.target.name}
    if mine != {key: due[key] for key in mine} or sorted(sizes) != sorted(due["memory"]) or found.stem != "board":
        raise Finding("read otherwise", f"{mine}, {sizes}, not {due}")
    if [size for _, size in sizes] != sorted((size for _, size in sizes), reverse=True):
        raise Finding("read otherwise", f"sizes {sizes}")
    return "equal to Python's reader"


def _names_in_order(content: bytes, error: UserError) -> None:
    """Finding where an error names another key than the first of those that a board does not have, or not by name."""
    listed = [text.split(", ") for label, text in error.facts if label == "keys"]
    if any(names != sorted(names) for names in listed):
        raise Finding("message", f"{listed} are not in order")
    said = [part for part in ("there is no key ", " has no effect on a board with a target") if part in error.cause]
    if said:
        keys = BOARD_KEYS if said[0].startswith("there") else {"name", "source", "target"}
        first = min({*tomllib.loads(content.decode())} - keys)
        if repr(first) not in error.cause:
            raise Finding("message", f"{error.cause}, not {first!r}")


BOARD_KEYS = {"name", "source", "core", "target", "mhz", "flash", "memory", "energy"}


def _due_board(content: bytes) -> dict[str, Any] | None:
    """Return the expected content of a board's file; None if it breaks a rule."""
    if len(content) > MOST_BYTES:
        return None
    try:
        raw = tomllib.loads(content.decode())
    except (ValueError, RecursionError):
        return None
    texts = all(isinstance(raw.get(key), str) and raw[key] for key in ("name", "source"))
    given = {"name": raw.get("name"), "source": raw.get("source"), "core": None, "target": None, "mhz": 0, "flash": 0}
    given |= {"energy": None, "memory": []}
    if texts and {*raw} == {"name", "source", "target"}:
        return given | {"target": raw["target"]} if raw["target"] in list(target.names()) else None
    keys = {"name", "source", "core", "mhz", "flash", "memory"}
    rows, power = raw.get("memory"), raw.get("energy")
    if not texts or not keys <= {*raw} <= keys | {"energy"} or not isinstance(rows, list) or not rows:
        return None
    if not all(isinstance(row, dict) and {*row} == {"name", "bytes"} and isinstance(row["name"], str) for row in rows):
        return None
    counts = [raw["mhz"], raw["flash"], *(row["bytes"] for row in rows)]
    if not all(type(n) is int and 0 < n <= 1 << 32 for n in counts) or raw["core"] not in list(boards.cores()):
        return None
    if power is not None:
        if not isinstance(power, dict) or {*power} != {"milliamperes", "volts", "source"}:
            return None
        numbers = [_number(power[key]) for key in ("milliamperes", "volts")]
        if not all(n is not None and 0 < n < math.inf for n in numbers) or not isinstance(power["source"], str):
            return None
        if not power["source"]:
            return None
        power = {"milliamperes": numbers[0], "volts": numbers[1], "source": power["source"]}
    memory = [(row["name"], row["bytes"]) for row in rows]
    return given | {key: raw[key] for key in ("core", "mhz", "flash")} | {"energy": power, "memory": memory}


LINES = ("bytes = 1", f"bytes = {1 << 32}", f"bytes = {(1 << 32) + 1}", "bytes = 0", "bytes = true", "bytes = 131072")
LINES += ("mhz = 0", "mhz = 1", f"flash = {1 << 32}", f"flash = {(1 << 32) + 1}", 'core = "cortex-m33"', "core = []")
LINES += ("volts = 0", "volts = inf", "volts = nan", "volts = 1", "milliamperes = 0.0", "volts = true", 'source = ""')
LINES += (
    "milliamperes = -1",
    "memory = []",
    "memory = 1",
    "energy = {}",
    "energy = 1",
    'target = "host"',
    "target = 1",
)
LINES += ('core = "nobody"', 'name = ""', "name = 1", "[[memory]]", "target = []", 'target = "nobody"', 'source = "x"')


@edits_of("board")
def line_at_a_bound(lines: list[str], draw: Draw) -> None:
    """A line for a key that is there, with a value at a bound, or one more."""
    line = draw.one(LINES)
    key = line.partition(" =")[0]
    places = [at for at, each in enumerate(lines) if each.startswith(f"{key} =")]
    if places and draw.chance(0.9):
        lines[draw.one(places)] = line
    else:
        lines.insert(draw.one((0, len(lines))), line)


@edits_of("board")
def part_left_out(lines: list[str], draw: Draw) -> None:
    """The board without a line, without its energy, or with its memories the other way round."""
    energy = lines.index("[energy]") if "[energy]" in lines else len(lines)
    match draw.number(0, 3):
        case 0:
            del lines[draw.number(0, len(lines) - 1)]
        case 1:
            del lines[energy:]
        case 2 if "[[memory]]" in lines:
            del lines[lines.index("[[memory]]") : energy]
            values = ("1", "[]", "[1]", '"x"', "{}", '[{name="a",bytes=1}]', "true", '{name="a",bytes=1}', "[[]]")
            lines.insert(0, f"memory = {draw.one(values)}")
        case _:
            sizes = [at for at, line in enumerate(lines) if line.startswith("bytes =")]
            if len(sizes) == 2:
                lines[sizes[0]], lines[sizes[1]] = lines[sizes[1]], lines[sizes[0]]
