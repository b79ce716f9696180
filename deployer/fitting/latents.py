"""Latent replay: what frozen layers make of each sample, computed once, for epochs that run the head alone."""

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from deployer.core.errors import RunFailed
from deployer.core.ir import Program, TensorType
from deployer.core.operator import Array
from deployer.core.plan import Options
from deployer.core.target import native
from deployer.fitting.engine import INPUT_BYTES, Built
from deployer.fitting.segments import build_segment
from deployer.planning.frozen_part import FrozenPart, split_frozen
from deployer.planning.plan_choice import Progress
from deployer.training.order import Samples


@dataclass(frozen=True)
class ReplayRecord:
    """Latents of a run: the type of each for one sample by name, and their bytes for one sample and for all samples.

    `bytes` are those of all samples that are trained on or measured. The frozen part has `frozen_steps` of the `steps`
    of a pass that trains, before rewrites.
    """

    latents: dict[str, str]
    sample_bytes: int
    bytes: int
    frozen_steps: int
    steps: int

    @property
    def text(self) -> str:
        """The record in one line."""
        named = ", ".join(f"{name} {kind}" for name, kind in self.latents.items())
        steps = f"{self.frozen_steps} of {self.steps} steps of a pass run once for each sample"
        return f"latent replay: {steps}; {named}: {self.sample_bytes} B a sample, {self.bytes} B in all"


@dataclass(frozen=True)
class LatentFeatures:
    """A program in two, whose first part is compiled in a folder; `names` leads from its data inputs to samples'."""

    part: FrozenPart
    built: Built
    names: Mapping[str, str]

    def replayed(self, samples: Samples) -> Samples:
        """The samples as the head takes them: latents first, then the data inputs that it keeps, then targets."""
        kept = [self.names[name] for name in self.part.head.data if name in self.names]
        others = [name for name in samples.types if name not in self.names.values()]
        own = {name: samples.types[name] for name in (*kept, *others)}
        types = {latent.name: latent.type for latent in self.part.latents} | own
        arrays = self._latents(samples) | {name: samples.arrays[name] for name in own}
        return replace(samples, types=types, arrays=arrays)

    def _latents(self, samples: Samples) -> dict[str, Array]:
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
            raise RunFailed(
                f"the frozen part dumped {len(dump)} B, and {len(batches)} batches have {sum(sizes)} B each"
            )
        ends = np.cumsum(sizes)
        parts = np.split(dump.reshape(len(batches), -1), ends[:-1], axis=1)
        kinds = [latent.type for latent in self.part.latents]
        return [
            np.ascontiguousarray(part).view(kind.dtype).reshape(len(batches), *kind.shape)
            for part, kind in zip(parts, kinds, strict=True)
        ]


@dataclass
class LatentReplay:
    """Latent replay of a run: features of the program that trains, and of the one that is measured with.

    The features of a set of samples are computed once; `seconds` is how long that took in all.
    """

    training: LatentFeatures
    steps: int
    evaluation: LatentFeatures | None = None
    seconds: float = 0.0
    sizes: dict[str, int] = field(default_factory=dict)

    def trained(self, samples: Samples) -> Samples:
        """The training samples as the head takes them."""
        return self._timed(self.training, samples, "training")

    def measured(self, samples: Samples | None, name: str) -> Samples | None:
        """Samples as the head of the program takes them that is measured with."""
        assert self.evaluation is not None, "something is measured"
        return self._timed(self.evaluation, samples, name) if samples else None

    def _timed(self, features: LatentFeatures, samples: Samples, name: str) -> Samples:
        begin = time.perf_counter()
        found = features.replayed(samples)
        self.seconds += time.perf_counter() - begin
        self.sizes[name] = samples.count * features.part.sample_bytes
        return found

    @property
    def record(self) -> ReplayRecord:
        """Numbers of the latents."""
        part = self.training.part
        kinds = {each.name: TensorType(each.type.dtype, each.type.shape[1:]) for each in part.latents}
        shown = {name: str(kind) for name, kind in kinds.items()}
        frozen = len(part.features.graphs[0].nodes)
        return ReplayRecord(shown, part.sample_bytes, sum(self.sizes.values()), frozen, self.steps)


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
    program: Program, inputs: Collection[str], names: Mapping[str, str], folder: Path, force: bool, progress: Progress
) -> LatentFeatures:
    """The split of a program, with its first part built for this machine; errors are those of `split_frozen`.

    `inputs` are those of the model among its data inputs, `names` leads from these to what the samples call them.
    """
    part = split_frozen(program, inputs)
    plan = build_segment(part.features, Options(native().name), folder, force, progress)
    return LatentFeatures(part, Built(part.features, plan, folder), names)
