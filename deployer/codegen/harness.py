"""The render model of the harness, and the input file that it reads; the order of both is defined here."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from deployer.codegen.c_names import Names
from deployer.codegen.c_text import decimal_literal
from deployer.codegen.render import loaded_homes, number_count
from deployer.core.ir import Program
from deployer.core.operator import Array
from deployer.core.plan import Home, Plan
from deployer.core.safe_text import CText, c_comment, c_string, code, identifier
from deployer.core.target import Target
from deployer.frontend.dataset import Dataset
from deployer.loops.tile_loop import NUMBERS
from deployer.lr_schedules.run_time import update_numbers
from deployer.lr_schedules.windows import Updates
from deployer.verify.checked import moments, state_homes
from deployer.verify.reference import as_float32


@dataclass(frozen=True)
class HarnessView:
    """A training or inference main program: what it loads once (`loaded`) and per pass (`data`), and its `results`.

    `state` is what it dumps before a pass where its input file asks for that, `numbers` what it reads at an update, if
    anything. An update is `due` where that condition holds, and `made` have been at the end.
    """

    provenance: CText
    passes: int
    accumulate: int
    updates: int
    tolerance: CText
    loaded: tuple[tuple[CText, int], ...]
    data: tuple[tuple[CText, int], ...]
    results: tuple[tuple[CText, int], ...]
    state: tuple[tuple[CText, int], ...]
    loss: CText
    optimizer: tuple[CText, ...]
    run: CText
    label: CText
    footprint: CText
    clock: CText
    cores: int
    numbers: tuple[tuple[CText, int], ...]
    due: CText
    made: CText
    each: CText


def harness_view(plan: Plan, target: Target, origin: CText) -> HarnessView:
    """The harness of a plan."""
    names = Names(plan)
    accumulate, passes = plan.options.accumulate, plan.running.passes
    levels = {level.name: level.peak for level in plan.levels}
    footprint = " ".join(f"{x.name.lower()}_bytes={levels.get(x.name, 0)}" for x in target.levels)
    order = plan.graphs
    training = "train" in order
    flush = plan.running.flush
    windows = Updates(passes, accumulate, flush)
    updates = windows.count if "optimizer" in order or plan.options.fuse_update else 0
    results = plan.weights if training else plan.outputs
    each = "ACCUMULATE"

    def sized(homes: list[Home]) -> tuple[tuple[CText, int], ...]:
        return tuple((names.home(h.storage), h.bytes) for h in homes)

    return HarnessView(
        provenance=origin,
        passes=passes,
        accumulate=accumulate,
        updates=updates,
        tolerance=code(decimal_literal(plan.running.tolerance)),
        loaded=sized(loaded_homes(plan)),
        data=sized(data_homes(plan)),
        results=sized([*(plan.home(plan.storage_of[n]) for n in results), *plan.accumulators]),
        state=sized(list(state_homes(plan))) if training else (),
        loss=names.home(plan.storage_of[plan.outputs[0]]),
        optimizer=(code("optimizer_network_run();"),) if "optimizer" in order else (),
        run=code(f"{identifier(order[0])}_network_run();"),
        label=identifier("opt_cycles" if plan.storage_of[plan.outputs[0]] in plan.weights else "infer_cycles"),
        footprint=c_string(footprint),
        clock=c_string(target.clock),
        cores=target.cores,
        numbers=((identifier(NUMBERS), number_count(plan)),) if number_count(plan) else (),
        due=code("pass % ACCUMULATE == ACCUMULATE - 1" + (" || passes == PASSES" if flush else "")),
        made=code(f"(passes + ACCUMULATE - 1) / {each}" if flush else f"passes < {each} ? 1u : passes / {each}"),
        each=c_comment(f"each, the last of {windows.left}" if flush else "each"),
    )


@dataclass(frozen=True)
class SegmentView:
    """Main program of a segment of a run: passes of training or batches of inference; its input gives their number.

    It loads `loaded` and, where gradients outlive a pass, `carried` once, and `data` for each pass; of each it writes
    `results`, and at the end `state`. `run` is a call of the graph, `optimizer` that of the update, if there is one,
    which follows a pass where `due` holds, and `numbers` what it reads for such a pass, if anything.
    """

    provenance: CText
    accumulate: int
    loaded: tuple[tuple[CText, int], ...]
    carried: tuple[tuple[CText, int], ...]
    data: tuple[tuple[CText, int], ...]
    results: tuple[tuple[CText, int], ...]
    state: tuple[tuple[CText, int], ...]
    loss: tuple[CText, ...]
    optimizer: tuple[CText, ...]
    due: tuple[CText, ...]
    numbers: tuple[tuple[CText, int], ...]
    run: CText
    footprint: CText
    clock: CText
    cores: int


def segment_view(plan: Plan, target: Target, origin: CText) -> SegmentView:
    """The main program of segments of a plan's run."""
    names = Names(plan)
    levels = {level.name: level.peak for level in plan.levels}
    training = "train" in plan.graphs
    flag, updates = "accumulated == 0" if training else "", "optimizer" in plan.graphs
    is_told = training and (updates or number_count(plan) > 0)  # whether anything depends on the end of an update

    def sized(homes: Sequence[Home]) -> tuple[tuple[CText, int], ...]:
        return tuple((names.home(h.storage), h.bytes) for h in homes)

    return SegmentView(
        provenance=origin,
        accumulate=plan.options.accumulate,
        loaded=sized(loaded_homes(plan)),
        carried=sized(plan.accumulators),
        data=sized(data_homes(plan)),
        results=sized([plan.home(plan.storage_of[n]) for n in plan.outputs]),
        state=sized(state_homes(plan)) if training else (),
        loss=(names.home(plan.storage_of[plan.outputs[0]]),) if training else (),
        optimizer=(code("optimizer_network_run();"),) if updates else (),
        due=(code("accumulated + 1 == ACCUMULATE || (due.flushes && pass + 1 == due.passes)"),) if is_told else (),
        numbers=((identifier(NUMBERS), number_count(plan)),) if number_count(plan) else (),
        run=code(f"{identifier(plan.graphs[0])}_network_run({flag});"),
        footprint=c_string(" ".join(f"{x.name.lower()}_bytes={levels.get(x.name, 0)}" for x in target.levels)),
        clock=c_string(target.clock),
        cores=target.cores,
    )


def data_read(plan: Plan) -> list[str]:
    """The data inputs that some step reads, in the program's order."""
    homes = {h.storage for h in plan.homes}
    return [n for n in plan.data if plan.storage_of[n] in homes]


def data_homes(plan: Plan) -> list[Home]:
    """Homes of the data inputs that some step reads, in the program's order."""
    return [plan.home(plan.storage_of[n]) for n in data_read(plan)]


def training_input(plan: Plan, program: Program, dataset: Dataset) -> bytes:
    """The harness's input file: loaded homes, then per pass the reference loss, whether to dump first, the sample, and
    before an update the numbers that it reads.
    """
    blocks = [_content(program, h.storage, dataset.weights) for h in loaded_homes(plan)]
    indices = [plan.data.index(n) for n in data_read(plan)]
    dumped = set(moments(plan.running))
    for index in range(dataset.n_batches):
        blocks.append(as_float32(np.array(dataset.expected_losses[index])).tobytes())
        blocks.append(np.uint32(index in dumped).tobytes())
        sample = dataset.sample(index)
        blocks += [_packed(program, plan.data[i], sample[i]) for i in indices]
        if dataset.updates_after(index) and number_count(plan):
            blocks.append(update_numbers(program, dataset.rates_of(index)).tobytes())
    return b"".join(blocks)


def inference_input(plan: Plan, program: Program, inputs: Mapping[str, Array]) -> bytes:
    """The inference harness's input file: constants and weights, then the data inputs."""
    blocks = [_content(program, h.storage, inputs) for h in loaded_homes(plan)]
    blocks += [_packed(program, name, inputs[name]) for name in data_read(plan)]
    return b"".join(blocks)


def segment_input(
    plan: Plan,
    program: Program,
    state: Mapping[str, Array],
    accumulated: int,
    samples: Sequence[Sequence[Array]],
    rates: Sequence[Sequence[float]] = (),
    flushes: bool = False,
) -> bytes:
    """The input file of a segment: the state by storages, how many passes, the first one's place in its update, whether
    an update `flushes` what is behind the last full one, and samples.

    A storage that `state` has not holds what the program says; an accumulator then begins with zeros. `rates` are those
    of each update of the segment by groups, for a program that takes them when it runs: the numbers of an update
    stand behind the sample of the pass before it.
    """
    blocks = [_content(program, h.storage, state) for h in loaded_homes(plan)]
    empty = {h.storage: np.zeros(h.type.shape, h.type.dtype) for h in plan.accumulators}
    blocks += [_content(program, storage, {**empty, **state}) for storage in empty]
    blocks.append(np.array([len(samples), accumulated, flushes], np.uint32).tobytes())
    homes = {h.storage for h in plan.homes}
    read = [(i, n) for i, n in enumerate(plan.data) if plan.storage_of[n] in homes]
    coming = iter(rates if number_count(plan) else ())
    for index, sample in enumerate(samples, accumulated + 1):
        blocks += [_packed(program, name, sample[i]) for i, name in read]
        is_last = flushes and index == accumulated + len(samples)
        if number_count(plan) and (is_last or index % plan.options.accumulate == 0):
            blocks.append(update_numbers(program, next(coming)).tobytes())
    return b"".join(blocks)


def _content(program: Program, storage: str, weights: Mapping[str, Array]) -> bytes:
    if storage in weights:
        return _packed(program, storage, weights[storage])
    return program.tensors[storage].array.tobytes()


def _packed(program: Program, name: str, value: Array) -> bytes:
    return np.ascontiguousarray(value, dtype=program.tensors[name].type.dtype).tobytes()
