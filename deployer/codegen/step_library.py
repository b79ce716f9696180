"""The render model of a shared library that makes one pass per call, and the order of the tensors that it exports."""

from collections.abc import Mapping
from dataclasses import dataclass

from deployer.codegen.c_names import Names
from deployer.codegen.generate import generate_files, rendered
from deployer.codegen.harness import data_read
from deployer.codegen.render import loaded_homes, number_count, provenance
from deployer.core.plan import Plan, target_of
from deployer.core.safe_text import CText, code, identifier
from deployer.loops.tile_loop import NUMBERS

INT32 = (-(1 << 31), (1 << 31) - 1)
"""The integers that a program holds."""


@dataclass(frozen=True)
class IntegerLimits:
    """Integers from `least` to `most`, and `ignored`, that a data input may hold."""

    least: int = INT32[0]
    most: int = INT32[1]
    ignored: int | None = None


@dataclass(frozen=True)
class DataView:
    """Data input: its index among those of the program, its place, elements and bytes, and limits of integers."""

    index: int
    name: CText
    count: int
    bytes: int
    least: CText
    most: CText
    ignored: CText


@dataclass(frozen=True)
class StepLibraryView:
    """Main file of the library: exported `tensors`, data inputs, and the calls of a pass and of its update."""

    provenance: CText
    cores: int
    numbers: tuple[tuple[CText, int], ...]
    tensors: tuple[CText, ...]
    floats: tuple[DataView, ...]
    integers: tuple[DataView, ...]
    run: CText
    result: CText
    optimizer: tuple[CText, ...]


def exported(plan: Plan) -> tuple[str, ...]:
    """Storages in the order in which the library exports them: what is loaded once, accumulators, results."""
    homes = [h.storage for h in (*loaded_homes(plan), *plan.accumulators)]
    return tuple(dict.fromkeys([*homes, *(plan.storage_of[name] for name in plan.outputs)]))


def step_library_files(plan: Plan, limits: Mapping[str, IntegerLimits]) -> dict[str, str]:
    """The C files of a plan as a library; `limits` are those of integer data inputs by storage."""
    return generate_files(plan, rendered("step.c", _view(plan, limits)))


def _view(plan: Plan, limits: Mapping[str, IntegerLimits]) -> StepLibraryView:
    names, target = Names(plan), target_of(plan.options)
    data = [_data_view(plan, names, name, limits) for name in data_read(plan)]
    integer = {x.index for x in data if plan.home(plan.storage_of[plan.data[x.index]]).type.dtype == "int32"}
    flag = "is_first" if "train" in plan.graphs else ""
    return StepLibraryView(
        provenance=provenance(plan),
        cores=target.cores,
        numbers=((identifier(NUMBERS), number_count(plan)),) if number_count(plan) else (),
        tensors=tuple(names.home(storage) for storage in exported(plan)),
        floats=tuple(x for x in data if x.index not in integer),
        integers=tuple(x for x in data if x.index in integer),
        run=code(f"{identifier(plan.graphs[0])}_network_run({flag});"),
        result=names.home(plan.storage_of[plan.outputs[0]]),
        optimizer=(code("optimizer_network_run();"),) if "optimizer" in plan.graphs else (),
    )


def _data_view(plan: Plan, names: Names, name: str, limits: Mapping[str, IntegerLimits]) -> DataView:
    storage = plan.storage_of[name]
    home, given = plan.home(storage), limits.get(storage, IntegerLimits())
    ignored = given.least if given.ignored is None else given.ignored
    numbers = (code(f"({number}LL)") for number in (given.least, given.most, ignored))
    return DataView(plan.data.index(name), names.home(storage), home.type.size, home.bytes, *numbers)
