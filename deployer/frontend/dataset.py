"""The arrays of a case: samples and initial weights from inputs.npz, expected results from outputs.npz."""

import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import numpy as np

from deployer.core.errors import DatasetMismatch, OptionProblem
from deployer.core.files.arrays import Arrays, read_npz
from deployer.core.ir import Program, TensorType
from deployer.core.operator import Array
from deployer.frontend.data_numbers import check_classes, check_counts, check_finite, indexed, loss_counts, narrowed
from deployer.lr_schedules.windows import PARTIAL_ACCUMULATION, Updates, mean_shares

FILE_LIMIT = (1 << 31) - 1
"""Bytes of the largest file whose offsets fit 32 bits: input.bin holds every pass, inputs.npz every sample."""
MARK = "meta_float64"
"""The key of `gold_mark` in outputs.npz."""
FLUSH = "meta_flush"
"""The key of inputs.npz that is 1 where the passes left at the end have an update of their own."""
MEAN = "meta_mean_input"
"""The key of the number, from 1 on, of the data input by which an update takes the mean over its passes."""
RATES = "meta_rates"
"""The key of the rates of each update in inputs.npz."""
NO_RATES = np.zeros((0, 0), np.float32)


@dataclass(frozen=True, eq=False)
class Dataset:
    """The inputs and the expected results of a training run.

    `samples` holds the data inputs of each sample in the program's order. The run has `n_batches` forward passes, and
    an update after every `n_accum` of them. `expected_losses` holds the losses of the first passes, as many as
    outputs.npz has for this `n_accum`. `expected_weights` is empty if the run differs from the recorded one.
    `by_reference` says that expected results are of this compiler's own float64 reference. `rates` are float32
    [updates, groups] where the program takes its rates when it runs, and else nothing. `shares` are what the loss of
    each pass counts in its update, which the program reads from data input `share_at`; without them each counts 1.
    With `flush` the passes that are left at the end have an update of their own.
    """

    samples: tuple[tuple[Array, ...], ...]
    weights: Arrays
    n_batches: int
    n_accum: int
    expected_losses: tuple[float, ...]
    expected_weights: Arrays
    by_reference: bool = False
    rates: Array = field(default_factory=lambda: NO_RATES)
    shares: tuple[float, ...] = ()
    share_at: int = -1
    flush: bool = False

    @property
    def _windows(self) -> Updates:
        return Updates(self.n_batches, self.n_accum, self.flush)

    @property
    def updates(self) -> int:
        """Number of runs of the optimizer graph."""
        return self._windows.count

    @property
    def left(self) -> int:
        """Passes behind the last full update."""
        return self._windows.left

    def sample(self, index: int) -> tuple[Array, ...]:
        """The data inputs of forward pass `index`; after the last sample the first follows."""
        sample = self.samples[index % len(self.samples)]
        if not self.shares:
            return sample
        own = np.full(sample[self.share_at].shape, self.shares[index], np.float32)
        return (*sample[: self.share_at], own, *sample[self.share_at + 1 :])

    def updates_after(self, index: int) -> bool:
        """Whether an update follows forward pass `index`."""
        return self._windows.follows(index)

    def rates_of(self, index: int) -> tuple[float, ...]:
        """The rate of each group in the update that pass `index` belongs to; none where rates are constants."""
        row = min(index // self.n_accum, len(self.rates) - 1)
        return tuple(map(float, self.rates[row])) if self.rates.size else ()


def data_inputs(case_dir: Path) -> int | None:
    """Number of graph inputs that change per sample, by the keys of inputs.npz; None if it has a single sample."""
    keys = [k for k in read_npz(case_dir / "inputs.npz") if k.startswith("mb1_arr_")]
    return len(keys) or None


def load(
    case_dir: Path,
    program: Program,
    *,
    n_steps: int | None = None,
    n_accum: int | None = None,
    rated: bool = True,
    flush: bool | None = None,
) -> Dataset:
    """Read a training case; `n_steps` replaces the number of forward passes, `n_accum` those per update.

    Without outputs.npz nothing is expected. The rates of the file, if it has some, are read if `rated`; `flush`
    replaces what it says of passes that are left.
    Raises FileProblem for a missing or damaged file, DatasetMismatch where the arrays do not fit the program.
    """
    source, expected = case_dir / "inputs.npz", case_dir / "outputs.npz"
    inputs, outputs = read_npz(source), read_npz(expected) if expected.exists() else None
    recorded = _meta(inputs, source, "meta_n_batches", n_steps), _meta(inputs, source, "meta_n_accum", 1)
    batches = recorded[0] if n_steps is None else n_steps
    accum = recorded[1] if n_accum is None else n_accum
    flushed = bool(FLUSH in inputs and np.any(inputs[FLUSH]))
    last = flushed if flush is None else flush
    check_run(program, batches, accum, f"{recorded[0]} passes, {recorded[1]} per update", last)
    size = _meta(inputs, source, "meta_data_size", 1 + len({k.split("_")[0] for k in inputs if k.startswith("mb")}))
    samples, weights = _inputs(program, inputs, source, size)
    check_classes(program, weights, f"{source}:")
    check_sample_classes(program, samples, source)
    losses, finals = ((), {}) if outputs is None else _gold(program, outputs, expected, recorded[0])
    same = (batches, accum) == recorded
    valid = min(batches, recorded[0]) if accum == recorded[1] else min(accum, recorded[1], batches, recorded[0])
    own = outputs is not None and MARK in outputs and np.array_equal(outputs[MARK].reshape(-1), [gold_mark(outputs)])
    same &= flushed == last or not batches % accum
    dataset = Dataset(samples, weights, batches, accum, losses[:valid], finals if same else {}, own, flush=last)
    if rated:
        dataset = replace(dataset, rates=_rates(inputs, source, dataset.updates))
    return dataset if MEAN not in inputs else with_shares(dataset, program, _meta(inputs, source, MEAN, None), source)


def with_shares(dataset: Dataset, program: Program, place: int, path: Path | str) -> Dataset:
    """The dataset whose updates take the mean over their passes, by data input number `place`, counted from 1.

    An update then is that of the loss of its passes joined to one batch: a pass counts as many as its labels that
    count, or their weights, of those of the update. DatasetMismatch where that input is not one float.
    """
    name = program.data[place - 1] if place <= len(program.data) else ""
    kind = program.tensors[name].type if name else None
    if kind is None or kind.dtype != "float32" or kind.size != 1:
        facts = [("input", str(place)), ("found", f"{name} {kind}"), ("data inputs", ", ".join(program.data))]
        raise DatasetMismatch(f"{path}: {MEAN} is not a scalar float data input", facts, "make the case again")
    shares = mean_shares(loss_counts(program, dataset.samples), dataset.n_batches, dataset.n_accum)
    return replace(dataset, shares=shares, share_at=place - 1)


def _rates(arrays: Arrays, path: Path, updates: int) -> Array:
    """The rates of so many updates by group, float32 [updates, groups]; of no update where the file has none."""
    if RATES not in arrays:
        return NO_RATES
    rates, place = arrays[RATES], f"{path}: {RATES!r}"
    facts = [("found", f"{rates.dtype}{list(rates.shape)}"), ("expected", "float32 [updates, groups of parameters]")]
    if rates.ndim != 2 or not rates.size or rates.dtype != np.float32:
        raise DatasetMismatch(f"{place} is not the rates of updates", facts, "--lr-scheduler constant, or another")
    check_finite(rates, place)
    if len(rates) < updates:
        facts = [("updates", str(updates)), ("rates", str(len(rates)))]
        raise DatasetMismatch(f"{place} has no rate for each update", facts, "fewer passes, or --lr-scheduler")
    return rates[:updates]


def gold_mark(arrays: Mapping[str, Array]) -> int:
    """Return the checksum by which `train-graph` marks arrays as results of its float64 reference."""
    mark = 0
    for name in sorted(set(arrays) - {MARK}):
        mark = zlib.crc32(np.ascontiguousarray(arrays[name]).tobytes(), zlib.crc32(name.encode(), mark))
    return mark


def check_run(program: Program, passes: int, accum: int, recorded: str, flush: bool = False) -> None:
    """DatasetMismatch where so many passes, with so many per update, make no update; OptionProblem for too many.

    With `flush` any passes make one.
    """
    if not 1 <= accum <= passes and not flush:
        raise DatasetMismatch(
            f"{passes} passes with {accum} per update make no update",
            [("recorded", recorded)],
            "use --n-steps of at least --accumulate-grad-batches, both positive",
        )
    check_passes((program.tensors[n].type for n in program.data), passes)


def check_sample_classes(
    program: Program,
    samples: Sequence[Sequence[Array]],
    place: Path | str,
    where: Callable[[int, str, tuple[int, ...]], str] | None = None,
    from_front: bool = False,
) -> None:
    """DatasetMismatch where a label of a sample is no class of what it labels, or none of its labels counts.

    `where` says where a number is, by the sample, the data input and the index; `from_front` is as in `check_classes`.
    """
    for k, sample in enumerate(samples):
        own = indexed if where is None else partial(where, k)
        values = dict(zip(program.data, sample, strict=True))
        check_classes(program, values, f"{place}: sample {k} of", own, from_front)
    check_counts(program, samples, f"{place}: sample")


def check_passes(data: Iterable[TensorType], passes: int) -> None:
    """Raise OptionProblem where the data inputs and losses of so many passes exceed FILE_LIMIT bytes."""
    each = sum(kind.bytes for kind in data) + np.dtype(np.float32).itemsize
    _check_size(f"{passes} forward passes", each, passes, "--n-steps")


def check_samples(data: Iterable[TensorType], samples: int) -> None:
    """Raise OptionProblem where so many samples, with integers as int64, exceed FILE_LIMIT bytes."""
    each = sum(kind.bytes if kind.dtype == "float32" else 8 * kind.size for kind in data)
    _check_size(f"{samples} samples", each, samples, "--samples")


def _check_size(label: str, each: int, count: int, flag: str) -> None:
    if count * each > FILE_LIMIT:
        facts = [("each", f"{each} B"), ("limit", f"{FILE_LIMIT} B in a file")]
        raise OptionProblem(f"{label} need {count * each} B", facts, f"{flag} {max(FILE_LIMIT // each, 1)}")


def load_inference(case_dir: Path, program: Program) -> tuple[Arrays, Arrays]:
    """Inputs and expected outputs of an inference program by their graph names; without outputs.npz there are none.

    An array belongs to the graph value of its name, else to the first free one in order with its shape.
    """
    pairs: list[Arrays] = []
    for file, names in (("inputs.npz", program.data), ("outputs.npz", program.outputs)):
        path = case_dir / file
        types = {n: program.tensors[n].type for n in names}
        pairs.append(_arrays_by_name(read_npz(path), types, path) if names is program.data or path.exists() else {})
    check_classes(program, pairs[0], f"{case_dir / 'inputs.npz'}:")
    return pairs[0], pairs[1]


def _meta(arrays: Arrays, path: Path, key: str, default: int | None) -> int:
    if key not in arrays:
        if default is None:
            raise DatasetMismatch(f"{path} has no {key}", hint="give --n-steps, or export the case again")
        return default
    array = arrays[key]
    if array.size != 1 or array.dtype.kind not in "iu" or int(array.reshape(-1)[0]) < 1:
        text = np.array2string(array.reshape(-1)[:4])
        raise DatasetMismatch(f"{path}: {key} is not a positive integer", [("found", text)], "export the case again")
    return int(array.reshape(-1)[0])


def _inputs(program: Program, arrays: Arrays, path: Path, size: int) -> tuple[tuple[tuple[Array, ...], ...], Arrays]:
    """Samples and initial weights; `arr_<i>` is the i-th input of the training graph that is no accumulation buffer.

    An optimizer state with a declared initial value has no array.
    """
    order = [t.name for t in program.tensors.values() if t.role in ("data", "weight", "flag") and t.data is None]
    keys = {name: f"arr_{i:04d}" for i, name in enumerate(order)}
    weights = [n for n in program.weights if n in keys]
    name_by_key = {keys[n]: n for n in (*program.data, *weights)}
    first = {n: fitted(arrays, key, program.tensors[n].type, n, path) for key, n in name_by_key.items()}
    samples = [tuple(first[n] for n in program.data)]
    for k in range(1, size):
        names = [(n, f"mb{k}_{keys[n]}") for n in program.data]
        name_by_key.update({key: n for n, key in names})
        samples.append(tuple(fitted(arrays, key, program.tensors[n].type, n, path) for n, key in names))
    legal_keys = {*name_by_key, *(keys[n] for n in order if n == program.flag)}
    extra = [key for key in arrays if re.match(r"(mb\d+_)?arr_\d+$", key) and key not in legal_keys]
    if extra:
        raise DatasetMismatch(
            f"{path} holds {extra[0]!r}, which no graph input takes",
            [
                ("graph inputs", f"{len(order)}: {', '.join(order)}"),
                ("samples", f"{size}, {len(program.data)} data inputs"),
            ],
            "correct meta_data_size or the number of data inputs, or export the case again",
        )
    return tuple(samples), {n: first[n] for n in weights}


def fitted(arrays: Arrays, key: str, kind: TensorType, name: str, path: Path, finite: bool = True) -> Array:
    """The array of a key, converted to the type of a graph value; an array of one element may have any rank.

    NaN and infinity are refused where it has to be `finite`.
    """
    place = f"{path}: {key!r}, for {name!r},"
    if key not in arrays:
        listing = ", ".join(arrays) if len(arrays) < 40 else f"{len(arrays)} arrays"
        raise DatasetMismatch(
            f"{place} is missing", [("expected", str(kind)), ("found", listing)], "export the case again"
        )
    array = arrays[key]
    facts = [("expected", str(kind)), ("found", f"{array.dtype}{list(array.shape)}")]
    if array.shape != kind.shape and not (array.size == 1 and kind.size == 1):
        raise DatasetMismatch(f"{place} has another shape than the graph", facts, "export graph and data together")
    if not _same_kind(array, kind):
        raise DatasetMismatch(f"{place} has another dtype than the graph", facts, "export graph and data together")
    narrow = narrowed(array, kind.dtype, place, facts)
    if finite:
        check_finite(narrow, place)
    return narrow.reshape(kind.shape)


def _same_kind(array: Array, kind: TensorType) -> bool:
    return array.dtype.kind in ("f" if kind.dtype == "float32" else "iub")


def _gold(program: Program, arrays: Arrays, path: Path, batches: int) -> tuple[tuple[float, ...], Arrays]:
    """The loss of each recorded pass and the final value of each updated weight; states may be absent."""
    losses = fitted(arrays, "loss", TensorType("float32", (batches,)), "loss", path)
    absent = {n for n in program.weights if program.tensors[n].data is not None and n not in arrays}
    changed = {program.storage(name) for node in program.nodes for name in node.outputs if name}
    due = set(program.updated.values()) | (changed & set(arrays))
    updated = [n for n in program.weights if n in due and n not in absent]
    weights = {n: fitted(arrays, n, program.tensors[n].type, n, path) for n in updated}
    return tuple(float(v) for v in losses.reshape(-1)), weights


def _arrays_by_name(arrays: Arrays, types: Mapping[str, TensorType], path: Path) -> Arrays:
    key_by_name = {n: n for n in types if n in arrays}
    free = [key for key in arrays if key not in key_by_name]
    for name, kind in types.items():
        if name in key_by_name:
            continue
        fits = [k for k in free if _fits(arrays[k], kind)]
        if not fits:
            listing = ", ".join(f"{k} {a.dtype}{list(a.shape)}" for k, a in arrays.items())
            raise DatasetMismatch(
                f"{path} has no array for {name!r}",
                [("expected", str(kind)), ("found", listing or "nothing")],
                "name the array like the graph value, or give it its shape",
            )
        key_by_name[name] = fits[0]
        free.remove(fits[0])
    return {n: fitted(arrays, key_by_name[n], kind, n, path, finite=False) for n, kind in types.items()}


def _fits(array: Array, kind: TensorType) -> bool:
    return _same_kind(array, kind) and (array.shape == kind.shape or array.size == kind.size == 1)


def windows(dataset: Dataset) -> Iterator[str]:
    """Describe the accumulation where it is not a plain sum over complete windows."""
    if dataset.shares:
        yield "accumulation: mean over the passes of an update, weighted by their label counts"
    if dataset.left:
        rest = f"the last {dataset.left} of {dataset.n_batches} passes"
        own = f"{rest} are an update of their own" if dataset.flush else f"{rest} are in no update"
        yield f"incomplete accumulation window: {own} (--partial-accumulation {PARTIAL_ACCUMULATION[dataset.flush]})"
