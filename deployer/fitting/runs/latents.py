"""Latent replay: what frozen layers make of each sample, computed once, for epochs that run the head alone."""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from deployer.core.errors import RunFailed
from deployer.core.ir import Program, TensorType
from deployer.core.operator import Array
from deployer.core.plan import Options
from deployer.core.target import native
from deployer.fitting.engine import INPUT_BYTES, Built
from deployer.fitting.history import ReplayRecord
from deployer.fitting.segments import build_segment
from deployer.planning.frozen_part import FrozenPart, split_frozen
from deployer.planning.plan_choice import Progress
from deployer.training.order import Samples


@dataclass(frozen=True)
class LatentFeatures:
    """A program in two, whose first part is compiled in a folder; `names` leads from its data inputs to samples'."""

    part: FrozenPart
    built: Built
    names: Mapping[str, str]

    def replayed(self, samples: Samples, latents: Mapping[str, Array]) -> Samples:
        """The samples as the head takes them: latents first, then the data inputs that it keeps, then targets."""
        kept = [self.names[name] for name in self.part.head.data if name in self.names]
        others = [name for name in samples.types if name not in self.names.values()]
        own = {name: samples.types[name] for name in (*kept, *others)}
        types = {latent.name: latent.type for latent in self.part.latents} | own
        arrays = {**latents, **{name: samples.arrays[name] for name in own}}
        return replace(samples, types=types, arrays=arrays)

    def latents(self, samples: Samples) -> dict[str, Array]:
        """The latents of all samples by name; what fills up the last batch is left out."""
        places = [list(samples.types).index(self.names[name]) for name in self.built.program.data]
        batches = ([batch[place] for place in places] for batch in samples.in_order())
        rows = [self._outputs(chunk) for chunk in _chunks(batches)]
        found = {}
        for index, latent in enumerate(self.part.latents):
            array = np.concatenate([row[index] for row in rows])
            found[latent.name] = array.reshape(-1, *latent.type.shape[1:])[: samples.count]
        return found

    def _outputs(self, batches: Sequence[Sequence[Array]]) -> list[Array]:
        """Each latent of batches, with an axis for these in front."""
        dump = np.frombuffer(self.built.run({}, 0, batches), np.uint8)
        sizes = [latent.type.bytes for latent in self.part.latents]
        if len(dump) != len(batches) * sum(sizes):
            cause = f"the frozen part dumped {len(dump)} B, and {len(batches)} batches have {sum(sizes)} B each"
            raise RunFailed(cause)
        ends = np.cumsum(sizes)
        parts = np.split(dump.reshape(len(batches), -1), ends[:-1], axis=1)
        kinds = [latent.type for latent in self.part.latents]
        return [
            np.ascontiguousarray(part).view(kind.dtype).reshape(len(batches), *kind.shape)
            for part, kind in zip(parts, kinds, strict=True)
        ]


@dataclass
class LatentReplay:
    """Latent replay of a run: the split of its training program, which has so many `steps`, and what is kept.

    The features of a set of samples are computed once; `seconds` is how long that took in all, `bytes` is their size.
    """

    training: LatentFeatures
    steps: int
    seconds: float = 0.0
    bytes: int = 0
    known: list[tuple[Samples, Built, dict[str, Array]]] = field(default_factory=list)

    def replayed(self, samples: Samples, features: LatentFeatures) -> Samples:
        """The samples as the head of these features takes them: latents in front, then what else it reads."""
        found = [kept for of, by, kept in self.known if of is samples and by is features.built]
        if not found:
            begin = time.perf_counter()
            found = [features.latents(samples)]
            self.seconds += time.perf_counter() - begin
            self.bytes += sum(array.nbytes for array in found[0].values())
            self.known.append((samples, features.built, found[0]))
        return features.replayed(samples, found[0])

    def other(
        self, program: Program, names: Mapping[str, str], folder: Path, force: bool, progress: Progress
    ) -> LatentFeatures:
        """The split of a program whose data inputs are all the model's; built where it has another frozen part."""
        part = split_frozen(program, program.data)
        if part.features == self.training.part.features:
            return LatentFeatures(part, self.training.built, names)
        return latent_features(part, names, folder, force, progress)

    def times(self, seconds: float, passes: int, per_epoch: int) -> str:
        """The times of all features, and of an epoch after so many seconds for some passes, in a sentence."""
        each = seconds / max(passes, 1) * per_epoch
        return f"latent replay: features took {self.seconds:.3g} s, once; an epoch takes {each:.3g} s"

    @property
    def record(self) -> ReplayRecord:
        """Numbers of the latents."""
        part = self.training.part
        kinds = {each.name: TensorType(each.type.dtype, each.type.shape[1:]) for each in part.latents}
        shown = {name: str(kind) for name, kind in kinds.items()}
        frozen = len(part.features.graphs[0].nodes)
        return ReplayRecord(shown, part.sample_bytes, self.bytes, frozen, self.steps, part.stopped[0])


def _chunks(batches: Iterator[list[Array]]) -> Iterator[list[list[Array]]]:
    """The batches in lists that a program is given at once."""
    chunk, size = list[list[Array]](), 0
    for batch in batches:
        chunk.append(batch)
        size += sum(array.nbytes for array in batch)
        if size >= INPUT_BYTES:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


def latent_features(
    part: FrozenPart, names: Mapping[str, str], folder: Path, force: bool, progress: Progress
) -> LatentFeatures:
    """The split of a program, with its first part built for this machine.

    `names` leads from data inputs of the program to what the samples call them.
    """
    plan = build_segment(part.features, Options(native().name), folder, force, progress)
    return LatentFeatures(part, Built(part.features, plan, folder), names)
