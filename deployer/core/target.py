"""A target as data: memories, DMA hops, costs and toolchain, from a TOML file, of which all faults are reported."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, dataclass, field, fields, replace
from functools import cache, lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, get_type_hints

import deployer.targets
from deployer.core.artefact import from_jsonable
from deployer.core.errors import OptionProblem, UserError, facts_of
from deployer.core.files.reading import CONFIGURATION_BYTES, parse_toml, text_of
from deployer.core.kernel_model import KernelModel
from deployer.core.level import ALIASES, DEPTH, L_HOME, Channel, Hop, InstructionCache, Level
from deployer.core.limits import NUMBER, numbers_beyond
from deployer.core.packages import PackageProblem, target_folders
from deployer.core.safe_text import is_identifier

TARGETS_DIR = Path(deployer.targets.__file__).parent
DEFAULT_MODEL = TARGETS_DIR / "common/kernel_model.toml"
"""The kernel model of a target that has none and inherits none."""
COSTS = ("dispatch", "step", "double_buffer_setup", "tile", "dma_issue", "arg_patch", "prefetch_issue", "contention")
"""The keys of a target's costs besides those of kernels, each a number."""


FILE_KEYS = {
    "inherits": "Another target that supplies every key that this file lacks, except the toolchain.",
    "measured": "Simulator or machine on which costs were measured, for the record; `deployer calibrate` writes it.",
    "cost": "Costs outside the kernels, in cycles.",
}
"""Keys of a target's file that are no field of `Target`, and what they mean."""


class TargetInvalid(UserError):
    """A target's TOML does not describe a machine; its faults are listed."""


@dataclass(frozen=True)
class KernelCost:
    """Cycles of a core: per call, more where its code is cold, then thousandths per multiply-accumulate, per element,
    and per run of an inner loop."""

    call: int
    """Cycles per call, with warm caches."""
    cold: int
    """Additional cycles of a call whose code is not in the instruction cache."""
    mac_milli: int
    """Thousandths of a cycle per multiply-accumulate of the busiest core."""
    element_milli: int
    """Thousandths of a cycle per element of the busiest core."""
    run_milli: int = 0
    """Thousandths of a cycle per start of an inner loop."""


@dataclass(frozen=True)
class Toolchain:
    """Commands and flags that compile and start a program.

    `compiler` may be replaced through the environment variable `compiler_env`. `flags` know `{cores}`, the plan's; each
    of the flags `optional` is given where the compiler takes it. `link` knows `{targets}`, the folder of the deployer's
    targets, `{folder}`, that of a package's target, `{libgcc}`, the compiler's library under the flags `libgcc`, and
    `{NAME_bytes}`, what the plan takes of the level of that name in small letters. `sources` are folders beside the
    TOML, or else among the deployer's targets.
    `run` knows `{program}`, `{input}`, `{output}`, `{directory}`; `{flags}` stands for the simulator's options as words
    of their own, `{semihosting}` for the same as `,arg=` items; `run_flags` are those it heeds. Its first word is
    searched in `$run_env/bin` and PATH.
    `profile` says that the HAL can record where cycles go.
    """

    compiler: tuple[str, ...]
    """Command of the C compiler, one item per word."""
    compiler_env: str
    """Environment variable that replaces `compiler`."""
    flags: tuple[str, ...]
    """Compiler flags. `{cores}` is the plan's number of cores."""
    optional: tuple[str, ...]
    """Flags that are used if the compiler accepts them."""
    sanitize: tuple[str, ...]
    """Flags of `--sanitize`; empty if the target has no sanitizers."""
    libgcc: tuple[str, ...]
    """Flags for finding the compiler's libgcc, which is `{libgcc}` in `link`."""
    link: tuple[str, ...]
    """Linker flags. `{targets}` is the deployer's folder of targets, `{folder}` the package's own, `{NAME_bytes}` the
    bytes that the plan takes of the level NAME (small letters)."""
    sources: tuple[str, ...]
    """Folders of C files (HAL, kernels): beside the TOML file, or among the deployer's targets."""
    run: tuple[str, ...]
    """Command that runs `{program}`. `{input}`, `{output}` and `{directory}` are paths, `{flags}` the simulator's
    options, `{semihosting}` the same as `,arg=` items."""
    run_flags: tuple[str, ...]
    """Options of the simulator that the program supports."""
    run_env: str
    """Environment variable with a folder; the first word of `run` is searched in its `bin`, then in PATH."""
    run_hint: str
    """Hint for the error message if the first word of `run` is not found."""
    profile: bool
    """Whether the HAL can record where cycles go (`--profileTiling`)."""
    library: tuple[str, ...] = ()
    """Flags of a shared library that this process loads; empty if the target's programs run elsewhere."""


@dataclass(frozen=True)
class Target:
    """Everything the compiler knows of a machine.

    A plan has `cores` cores unless it is told another number, up to `most_cores`. Kernels named in `whole_sums` have no
    code for a sum that goes on in another call. Costs are those of the kernels of `cost_sources`, folders as those of a
    toolchain.
    """

    name: str
    """Name of the target; the file has the same name."""
    description: str
    """One-line description for `deployer targets`."""
    clock: str
    """Name of the clock of `BENCH` lines, such as `model`, `instret` or `ns`."""
    cores: int
    """Number of cores that share a kernel; default of `--cores`."""
    alignment: int
    """Alignment of buffers and slots in bytes."""
    pointer_bytes: int
    """Bytes of a pointer in argument tables."""
    icache: InstructionCache
    """The instruction cache."""
    levels: tuple[Level, ...]
    """Memory levels, from the innermost one outwards; a plan uses up to three."""
    hops: tuple[Hop, ...]
    """DMA engines, one between each two neighbouring levels; `hops = []` if there is one level."""
    dispatch: int
    """Cycles of an empty kernel on all cores, from call to return."""
    step: int
    """Cycles of the code of a step."""
    double_buffer_setup: int
    """Cycles to start and end a double-buffered loop over tiles."""
    tile: int
    """Cycles of loop code per tile after a step's first."""
    dma_issue: int
    """Cycles of code per transfer that a loop over tiles starts, besides `issue`."""
    arg_patch: int
    """Cycles to set an address in an argument table that steps share."""
    prefetch_issue: int
    """Cycles to start the first fetch of a step in an earlier step."""
    contention: int
    """Slowdown of transfers per byte while kernels run, in thousandths."""
    kernels: dict[str, KernelCost]
    """Costs by kernel, variant and cost class, such as `conv_f32.pointwise.relu`; `default` is required."""
    toolchain: Toolchain | None
    """Compiler and run command; without it the target can be planned for but not run."""
    kernel_model: KernelModel
    """Work split of the kernels, and its relative costs (default: `targets/common/kernel_model.toml`)."""
    guard_bytes: int = 0
    """Bytes between buffers that a simulating HAL watches; 0 for real memory."""
    most_cores: int = 0
    """Largest number for `--cores`; by default `cores`."""
    whole_sums: tuple[str, ...] = ()
    """Kernels that cannot continue a sum in another call; for targets of one level."""
    cost_sources: tuple[str, ...] = ()
    costs_of: str = ""
    """The target whose costs of kernels these are."""
    model_of: str = ""
    """The target whose kernel model this is; empty for the default."""

    def level(self, name: str) -> Level:
        """The level of that name; OptionProblem where there is none."""
        for level in self.levels:
            if level.name == name:
                return level
        names = ", ".join(x.name for x in self.levels)
        raise OptionProblem(f"target {self.name!r} has no level {name!r}", hint=f"one of {names}")

    @property
    def least_depth(self) -> int:
        """Levels that every plan uses: two, or the only one."""
        return min(1 + L_HOME, len(self.levels))

    @property
    def usual(self) -> Level:
        """The level of homes that are neither resident nor spilled; by default the outermost one of a plan."""
        return self.levels[self.least_depth - 1]

    def within(self, outermost: str) -> tuple[Level, ...]:
        """The levels up to `outermost`, in which tensors may live; OptionProblem where a plan cannot use that level."""
        level_names = [level.name for level in self.levels[:DEPTH]]
        allowed = level_names[1:] or level_names
        if outermost not in allowed:
            names = ", ".join(level.name for level in self.levels)
            raise OptionProblem(
                f"tensors of target {self.name!r} cannot live up to level {outermost!r}",
                [("levels", names if len(self.levels) <= DEPTH else f"{names}, of which a plan uses {DEPTH}")],
                f"--defaultMemLevel {' or '.join(allowed)}",
            )
        return self.levels[: level_names.index(outermost) + 1]

    def outer_level(self, level: Level) -> Level | None:
        """The next level out that a plan may use."""
        return next(iter(self.levels[self.levels.index(level) + 1 : DEPTH]), None)

    def budget_flag(self, level: Level, size: int | None = None) -> str:
        """The option that limits a level, with a size in bytes or without: its alias, or else `--budget NAME`."""
        alias = dict(zip((x.name for x in self.levels), ALIASES, strict=False)).get(level.name)
        flag, between = (f"--{alias}", " ") if alias == level.name.lower() else (f"--budget {level.name}", "=")
        return flag if size is None else f"{flag}{between}{size}"

    def larger(self, level: Level, size: int) -> list[str]:
        """The option that gives a level this budget, where the machine has as much; empty where it has not."""
        return [self.budget_flag(level, size)] if 0 < size <= level.room else []

    def with_options(self, budgets: dict[str, int], cores: int | None) -> "Target":
        """The same machine with other level budgets (bytes) or cores; OptionProblem beyond what it has."""
        levels = []
        for name in budgets:
            self.level(name)
        for level in self.levels:
            budget = budgets.get(level.name, level.budget)
            if not 0 < budget <= level.room:
                raise OptionProblem(
                    f"{self.budget_flag(level, budget)} is not within target {self.name!r}",
                    [("physical", f"{level.bytes} B, of which {level.reserved} B are reserved (stacks)")],
                    f"{self.budget_flag(level)} between 1 and {level.room}",
                )
            levels.append(replace(level, budget=budget))
        if cores is not None and not 1 <= cores <= self.most_cores:
            raise OptionProblem(f"--cores {cores}: target {self.name!r} has 1 to {self.most_cores}")
        return replace(self, levels=tuple(levels), cores=cores or self.cores)


@dataclass
class _Faults:
    """Collects the faults of a file, so that one message shows all of them."""

    path: Path
    texts: list[str] = field(default_factory=list)

    def section(self, cls: type, data: Any, where: str) -> Any:
        """An instance of `cls` from a table, or None after recording all faults of the table."""
        if not isinstance(data, dict):
            self.texts.append(f"{where} is not a table")
            return None
        kinds, values = _kinds(cls), {f.name: f.default for f in fields(cls) if f.default is not MISSING}
        self.unknown(where, data, kinds)
        for name, kind in kinds.items():
            if name not in data and name in values:
                continue
            if name not in data:
                self.texts.append(f"{where} lacks {name!r}")
                continue
            try:
                values[name] = from_jsonable(kind, data[name])
            except (TypeError, ValueError) as error:
                values.pop(name, None)
                self.texts.append(f"{where}.{name}: {error}")
        return cls(**values) if len(values) == len(kinds) else None

    def table(self, raw: dict[str, Any], key: str, kind: type) -> Any:
        """The list or table at a key; an empty one, after recording the fault, where the value is of another kind."""
        value = raw.get(key, kind())
        self.check(isinstance(value, kind), f"{key} is not of type {kind.__name__}")
        return value if isinstance(value, kind) else kind()

    def unknown(self, where: str, data: Mapping[str, Any], known: Iterable[str]) -> None:
        """Record the keys of a table that are not known."""
        self.texts += [f"{where} has no key {key!r}" for key in sorted({*data} - {*known})]

    def check(self, holds: bool, text: str) -> None:
        """Record `text` unless the condition holds."""
        if not holds:
            self.texts.append(text)


def files() -> dict[str, Path]:
    """The file of each target of the deployer and of packages; PackageProblem where two have the same name."""
    paths: dict[str, Path] = {}
    for path in (p for folder in (TARGETS_DIR, *target_folders()) for p in sorted(folder.glob("*.toml"))):
        if path.stem in paths:
            facts = [("files", f"{paths[path.stem]}\n{path}")]
            raise PackageProblem(f"target {path.stem!r} is defined twice", facts, "another name for one of them")
        paths[path.stem] = path
    return paths


def names() -> list[str]:
    """The names of all targets, sorted."""
    return sorted(files())


def load(name: str) -> Target:
    """The target of that name; OptionProblem where it does not exist, TargetInvalid where its file is faulty."""
    paths = files()
    if name not in paths:
        raise OptionProblem(f"there is no target {name!r}", hint=f"-p {' | '.join(sorted(paths))}")
    return parse(paths[name])


def native() -> Target:
    """The target that is this machine itself: one memory, and programs that run without a simulator."""
    found = (target for target in map(load, names()) if target.toolchain and not target.hops)
    return next(target for target in found if target.toolchain and target.toolchain.run[0] == "{program}")


def parse(path: Path) -> Target:
    """The target of a TOML file; files that have not changed since the last call are not parsed again."""
    texts: list[str] = []
    merged = _merged(path, texts)
    key = tuple(texts)
    if key not in _checked:
        _checked[key] = _check(path, merged)
    return _checked[key]


_checked: dict[tuple[str, ...], Target] = {}
"""Targets by the paths and texts of all files that describe them."""


@cache
def _kinds(cls: type) -> dict[str, Any]:
    return get_type_hints(cls)


class _Merged(NamedTuple):
    """Keys of a target's files and of those it inherits from, and where costs and kernel model come from."""

    raw: dict[str, Any]
    sources: tuple[str, ...]
    """Folders of the kernels whose costs these are."""
    costs_of: str
    model_of: str


def _check(path: Path, merged: _Merged) -> Target:
    """The target of these keys; TargetInvalid with all its faults."""
    faults, raw = _Faults(path), merged.raw
    levels = [faults.section(Level, v, f"levels[{i}]") for i, v in enumerate(faults.table(raw, "levels", list))]
    hops = [_hop(faults, v, f"hops[{i}]") for i, v in enumerate(faults.table(raw, "hops", list))]
    tables = sorted(faults.table(raw, "kernels", dict).items())
    kernels = {k: faults.section(KernelCost, v, f"kernels.{k}") for k, v in tables}
    toolchain = faults.section(Toolchain, raw["toolchain"], "toolchain") if "toolchain" in raw else None
    cost = faults.table(raw, "cost", dict)
    icache = faults.section(InstructionCache, raw.get("icache"), "icache")
    numbers = ("cores", "alignment", "pointer_bytes")
    model = faults.section(KernelModel, raw.get("kernel_model"), "kernel_model")
    faults.texts += [f"kernel_model.{text}" for text in model.faults()] if model else []
    optional = {"description": str, "guard_bytes": int, "most_cores": int}
    keys = {"name", "clock", "levels", "hops", "kernels", "toolchain", "whole_sums", "icache", *FILE_KEYS}
    keys |= {"kernel_model", *numbers, *optional}
    faults.check(not set(raw) - keys, f"unknown keys {sorted(set(raw) - keys)}")
    faults.texts += [f"{place} is {number}, beyond {NUMBER}" for place, number in numbers_beyond(raw)]
    for key, kind in (("name", str), ("clock", str), *((key, int) for key in numbers)):
        faults.check(isinstance(raw.get(key), kind), f"{key} is missing or no {kind.__name__}")
    for key, kind in optional.items():
        faults.check(isinstance(raw.get(key, kind()), kind), f"{key} is not of type {kind.__name__}")
    guard = raw.get("guard_bytes", 0)
    faults.check(not isinstance(guard, int) or guard >= 0, "guard_bytes is negative")
    faults.unknown("cost", cost, COSTS)
    for key in COSTS:
        faults.check(isinstance(cost.get(key), int), f"cost.{key} is missing or no int")
    faults.check(raw.get("name") == path.stem, f"name is {raw.get('name')!r}, the file is {path.stem!r}")
    faults.check(bool(levels), "at least one level is needed")
    faults.check(len(hops) == len(levels) - 1, f"{len(levels)} levels need {len(levels) - 1} hops, found {len(hops)}")
    faults.check("default" in kernels, "kernels.default is missing")
    for level in levels:
        fits = level is None or 0 < level.budget <= level.room
        faults.check(fits, f"level {level and level.name}: budget + reserved exceeds bytes, or nothing is left")
        named = level is None or is_identifier(level.name)
        faults.check(named, f"level {level and level.name!r} is not an identifier of C")
    level_names = [level.name.lower() for level in levels if level is not None]
    faults.check(
        len(set(level_names)) == len(level_names), f"levels {level_names} have one name, but for the case of letters"
    )
    filled = {"targets", "folder", "libgcc", *(f"{name}_bytes" for name in level_names)}
    for key, known in (("link", filled), ("flags", {"cores"})):
        unfilled = {x for word in getattr(toolchain, key, ()) for x in re.findall(r"{(\w*)}", word)} - known
        faults.check(not unfilled, f"toolchain.{key} has placeholders {sorted(unfilled)} of nothing")
    for key in numbers:
        faults.check(not isinstance(raw.get(key), int) or raw[key] > 0, f"{key} is not positive")
    cores, most = raw.get("cores"), raw.get("most_cores", raw.get("cores"))
    enough = not (isinstance(cores, int) and isinstance(most, int)) or cores <= most
    faults.check(enough, f"most_cores is {most}, below cores, which is {cores}")
    whole = faults.table(raw, "whole_sums", list)
    faults.check(all(isinstance(name, str) for name in whole), "whole_sums does not list names of kernels")
    faults.check(not whole or len(levels) == 1, "whole_sums is for one level: with more, tiles end inside of sums")
    if faults.texts:
        raise TargetInvalid(f"{path} has {len(faults.texts)} faults", facts_of("fault", faults.texts))
    return Target(
        name=raw["name"],
        description=raw.get("description", ""),
        clock=raw["clock"],
        cores=raw["cores"],
        alignment=raw["alignment"],
        pointer_bytes=raw["pointer_bytes"],
        icache=icache,
        levels=tuple(levels),
        hops=tuple(hop for hop in hops if hop is not None),
        **{key: cost[key] for key in COSTS},
        kernels=kernels,
        kernel_model=model,
        toolchain=_placed(toolchain, path.parent) if toolchain else None,
        guard_bytes=raw.get("guard_bytes", 0),
        most_cores=raw.get("most_cores", raw["cores"]),
        whole_sums=tuple(whole),
        cost_sources=merged.sources,
        costs_of=merged.costs_of,
        model_of=merged.model_of,
    )


def _placed(tools: Toolchain, folder: Path) -> Toolchain:
    """The toolchain with absolute paths of files in a package's target folder."""
    if folder == TARGETS_DIR:
        return tools
    sources = _sources(tools.sources, folder)
    link = tuple(word.replace("{folder}", str(folder)) for word in tools.link)
    return replace(tools, sources=sources, link=link)


def _sources(sources: Iterable[str], folder: Path) -> tuple[str, ...]:
    return tuple(str(folder / source) if (folder / source).is_dir() else source for source in sources)


def costs_file(name: str) -> Path:
    """The path of a target's measured costs, which `deployer calibrate` writes."""
    return files()[name].with_suffix("") / "costs.toml"


def rack_file(name: str) -> Path:
    """The path of the rules by which a target is a rack of simulated devices; the file exists if it is one."""
    return files()[name].with_suffix("") / "rack.toml"


@lru_cache(maxsize=64)
def _toml(text: str, path: str) -> Mapping[str, Any]:
    return MappingProxyType(parse_toml(text, path, "a target's file, such as those in targets", TargetInvalid))


def _read(path: Path, texts: list[str]) -> Mapping[str, Any]:
    text = text_of(path, CONFIGURATION_BYTES, "a target's file, such as those in targets", TargetInvalid)
    texts += str(path), text
    return _toml(text, str(path))


def _merged(path: Path, texts: list[str], above: tuple[Path, ...] = ()) -> _Merged:
    """The file's own keys over its measured costs and its kernel model, and over those of the target that it inherits,
    but for the toolchain; without a kernel model the default one.

    Appends the path and the text of each file to `texts`. `above` are the files that inherit this one; TargetInvalid
    where this file is one of them.
    """
    if path in above:
        raise TargetInvalid(f"target {path.stem!r} inherits from itself", [("file", str(above[-1]))])
    raw = dict(_read(path, texts))
    costs = path.with_suffix("") / "costs.toml"
    if costs.is_file():
        raw = {**_read(costs, texts), **raw}
    model = path.with_suffix("") / DEFAULT_MODEL.name
    if model.is_file():
        raw = {"kernel_model": dict(_read(model, texts)), **raw}
    tools = raw.get("toolchain")
    listed = tools.get("sources") if isinstance(tools, dict) else None
    names = [str(name) for name in listed] if isinstance(listed, list) else []
    own = tuple(names) if path.parent == TARGETS_DIR else _sources(names, path.parent)
    base = raw.get("inherits")
    if base is None:
        model_of = path.stem if "kernel_model" in raw else ""
        return _Merged({"kernel_model": dict(_read(DEFAULT_MODEL, texts)), **raw}, own, path.stem, model_of)
    if not isinstance(base, str) or not re.fullmatch(r"\w+", base):
        raise TargetInvalid(f"{path}: inherits is {base!r}, which is not a target's name")
    sibling = path.with_name(f"{base}.toml")
    found = _merged(sibling if sibling.is_file() else files().get(base, sibling), texts, (*above, path))
    inherited = {name: value for name, value in found.raw.items() if name != "toolchain"}
    sources, costs_of = (own, path.stem) if "kernels" in raw else (found.sources, found.costs_of)
    model_of = path.stem if "kernel_model" in raw else found.model_of
    return _Merged({**inherited, **raw}, sources, costs_of, model_of)


def _hop(faults: _Faults, data: Any, where: str) -> Hop | None:
    if not isinstance(data, dict):
        faults.texts.append(f"{where} is not a table")
        return None
    channels = {side: faults.section(Channel, data.get(side), f"{where}.{side}") for side in ("in", "out")}
    plain = {key: data.get(key) for key in ("issue", "wait", "shared")}
    faults.unknown(where, data, (*plain, *channels))
    for key, value in plain.items():
        faults.check(isinstance(value, int), f"{where}.{key} is missing or no number")
    if None in channels.values() or not all(isinstance(v, int) for v in plain.values()):
        return None
    return Hop(int(data["issue"]), int(data["wait"]), bool(data["shared"]), channels["in"], channels["out"])
