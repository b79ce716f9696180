# ${v.title}
#
# ${v.provenance}
"""The C library ${v.name} as a class: its bits, in this process, by ctypes and numpy alone.

Build the shared library first: `make -C FOLDER shared`, or CMake's target ${v.name}_shared in FOLDER/build.
"""

from __future__ import annotations

import ctypes
import os
import shlex
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import ${v.typing}

import numpy as np
from numpy.typing import NDArray

FOLDER: Final = Path(__file__).resolve().parent
LIBRARY: Final = FOLDER / "build" / "lib${v.name}.so"
"""The shared library, as both build files name it on every machine."""
BUILD: Final = f"make -C {shlex.quote(str(FOLDER))} shared"
"""The command that builds it."""
STRUCT_BYTES: Final = ${v.struct_bytes}
"""Memory of an instance in bytes."""
% for _ in v.trains:
ACCUMULATE: Final = ${v.accumulate}
"""Training passes per update."""
RATES: Final = ${v.rates}
"""Learning rates: one per group of weights."""
Kind: TypeAlias = Literal[${v.kinds}]
"""Content of an image: all to go on with the same bits; weights alone; weights that differ from the first ones."""
% endfor
% for _ in v.trains:
Image: TypeAlias = bytes | bytearray | memoryview | NDArray[np.uint8]
"""An image, as whatever holds its bytes in one piece."""
% endfor
_SOURCES: Final = b"${v.build}"
_REMEDIES: Final[Mapping[int, str]] = {
% for number, text in v.remedies:
    ${number}: ${text},
% endfor
}


class LibraryError(RuntimeError):
    """A call that the library refuses; `status` is its code in the C header, or -1 for an unusable shared library."""

    def __init__(self, text: str, status: int = -1) -> None:
        super().__init__(text)
        self.status = status


class _Place(NamedTuple):
    """A tensor in the memory of an instance, by its first byte."""

    name: str
    type: np.dtype[Any]
    shape: tuple[int, ...]
    at: int


_INPUTS: Final = (
% for t in v.inputs:
    _Place(${t.label}, np.dtype(np.${t.dtype}), ${t.shape}, ${t.at}),
% endfor
)
_WEIGHTS: Final[tuple[_Place, ...]] = (
% for t in v.weights:
    _Place(${t.label}, np.dtype(np.${t.dtype}), ${t.shape}, ${t.at}),
% endfor
)
_STATE: Final[tuple[_Place, ...]] = (
% for t in v.others:
    _Place(${t.label}, np.dtype(np.${t.dtype}), ${t.shape}, ${t.at}),
% endfor
)
% for p in v.predictions:
_OUTPUTS_${p.name}: Final = (
% for t in p.outputs:
    _Place(${t.label}, np.dtype(np.${t.dtype}), ${t.shape}, ${t.at}),
% endfor
)
% endfor
% for c in v.calls:
_READ_${c.name}: Final[tuple[str, ...]] = (
% for t in c.inputs:
    ${t.label},
% endfor
)
% endfor
% for _ in v.trains:
_IMAGES: Final[Mapping[str, tuple[int, int]]] = {
% for kind, number, most in v.images:
    ${kind}: (${number}, ${most}),
% endfor
}
% endfor


def _loaded(path: Path) -> ctypes.CDLL:
    """The shared library; an error where it is missing, or was built of other sources than this module's."""
    if not path.is_file():
        raise FileNotFoundError(f"{path} does not exist; build it: {BUILD}")
    try:
        code = ctypes.CDLL(str(path))
        build = code.${v.name}_build
    except (OSError, AttributeError) as error:
        raise LibraryError(f"{path} is no shared library of ${v.name} for this machine: {error}; build it: {BUILD}") from error
    build.argtypes, build.restype = (), ctypes.c_char_p
    if build() != _SOURCES:
        raise LibraryError(f"{path} was built of other sources than those beside {Path(__file__).name}; build it: {BUILD}")
    code.${v.name}_status_text.restype = ctypes.c_char_p
    return code


def _bytes_of(image: Any) -> NDArray[np.uint8]:
    """The bytes of an image, where they lie."""
    try:
        return np.frombuffer(image, np.uint8)
    except (TypeError, ValueError, BufferError) as error:
        text = f"the image is {type(image).__name__} without bytes in one piece ({error}); bytes(image) copies them"
        raise TypeError(text) from error


class Model:
    """An instance of the model with its own weights and state, in ${v.struct_bytes} bytes of its own.

    Instances may work in threads side by side: C runs without the interpreter's lock. Calls of one instance wait for
    each other. `library` is the shared library, if it is not at LIBRARY.
    """

    def __init__(self, library: str | os.PathLike[str] | None = None) -> None:
        self._code = _loaded(Path(LIBRARY if library is None else library))
        self._memory: NDArray[np.uint8] | None = np.zeros(STRUCT_BYTES, np.uint8)
        self._struct = ctypes.c_void_p(self._memory.ctypes.data)
        self._lock = threading.Lock()
% for _ in v.trains:
        self._loss = ctypes.c_float(float("nan"))
% endfor
        self._inputs, self._weights, self._state = map(self._views, (_INPUTS, _WEIGHTS, _STATE))
% for p in v.predictions:
        self._outputs_${p.name} = tuple(self._views(_OUTPUTS_${p.name}).values())
% endfor
        self._check(self._code.${v.name}_init(self._struct))

    @property
    def inputs(self) -> Mapping[str, NDArray[Any]]:
        """The arrays that calls read, by the model's names, as views: fill them, then call without arguments."""
        return MappingProxyType(self._inputs)

    @property
    def weights(self) -> Mapping[str, NDArray[np.float32]]:
        """Weights and statistics of norms by name, as views: a call changes them, and what is written into them counts."""
        return MappingProxyType(self._weights)

    @property
    def state(self) -> Mapping[str, NDArray[Any]]:
        """What else lasts, as views: the optimizer's state, counters, and gradients that wait for an update."""
        return MappingProxyType(self._state)

% for c in v.train:
    def train_step(self${c.parameters}) -> float:
        """Make a training pass on a batch, add to the gradients, and return the loss.

% for t in c.inputs:
        `${t.argument}`: ${t.dtype}${t.shape}${t.meaning}.
% endfor
        Without arrays the pass reads what `inputs` holds. Changes no weight: `update` does.
        """
        return self._pass(${c.arguments})

    def _pass(self, given: Sequence[NDArray[Any] | None]) -> float:
        with self._lock:
            self._fill("train_step", _READ_train_step, given)
            self._check(self._code.${v.name}_train_step(self._struct, ctypes.byref(self._loss)))
            return self._loss.value

    @property
    def loss(self) -> float:
        """The loss of the last pass; NaN before the first."""
        return self._loss.value

    def update(self) -> None:
        """Change the weights by the gradients of the passes since the last update, usually ACCUMULATE of them."""
        self._do(self._code.${v.name}_update)

    def drop_passes(self) -> None:
        """Discard the passes since the last update."""
        self._do(self._code.${v.name}_drop_passes)

% for g in v.gradients:
    def get_gradients(self) -> bytes:
        """Return the gradients that the passes since the last update have added up, as an image for `add_gradients`."""
        image = ctypes.create_string_buffer(${g.bytes})
        self._do(self._code.${v.name}_get_gradients, image, ctypes.c_size_t(len(image)))
        return image.raw

    def add_gradients(self, image: Image) -> None:
        """Add gradients of another instance of this model, and the number of their passes, to those of this one.

        ${g.order}
        """
        content = _bytes_of(image)
        self._do(self._code.${v.name}_add_gradients, ctypes.c_void_p(content.ctypes.data), ctypes.c_size_t(content.size))

% endfor
    def set_learning_rate(self, rate: float, group: int = 0) -> None:
        """Set the learning rate of a group (below RATES) from the next update on."""
        self._do(self._code.${v.name}_set_learning_rate, ctypes.c_uint32(group), ctypes.c_float(rate))

    def save(self, kind: Kind = ${v.first_kind}) -> bytes:
        """Return an image of the state; files of images are read by `deployer state`, and by the library on a board."""
        if kind not in _IMAGES:
            raise ValueError(f"kind is {kind!r}; one of {', '.join(_IMAGES)}")
        number, most = _IMAGES[kind]
        image, used = ctypes.create_string_buffer(most), ctypes.c_size_t()
        self._do(self._code.${v.name}_save, number, image, ctypes.c_size_t(most), ctypes.byref(used))
        return image.raw[: used.value]

    def load(self, image: Image) -> None:
        """Load an image of any kind; a foreign or damaged one is refused and changes nothing."""
        content = _bytes_of(image)
        self._do(self._code.${v.name}_load, ctypes.c_void_p(content.ctypes.data), ctypes.c_size_t(content.size))

    def digest(self) -> str:
        """Return the digest of the state: equal states have equal ones."""
        number = ctypes.c_uint64()
        self._do(self._code.${v.name}_digest, ctypes.byref(number))
        return f"{number.value:016x}"

% endfor
% for p in v.predictions:
    def ${p.name}(self${p.parameters}) -> ${p.result}:
        """Return the model's output in inference mode${p.purpose}, as a copy.

% for t in p.inputs:
        `${t.argument}`: ${t.dtype}${t.shape}${t.meaning}.
% endfor
        Without arrays it reads what `inputs` holds.
        """
% for _ in p.single:
        output: ${p.result}
        (output,) = self._infer(self._code.${v.name}_${p.name}, _READ_${p.name}, ${p.arguments}, self._outputs_${p.name})
        return output
% endfor
% for _ in p.several:
        outputs: ${p.result}
        outputs = self._infer(self._code.${v.name}_${p.name}, _READ_${p.name}, ${p.arguments}, self._outputs_${p.name})
        return outputs
% endfor

% endfor
% for _ in v.first_prediction:
    def _infer(
        self, function: Any, read: Sequence[str], given: Sequence[NDArray[Any] | None], outputs: Sequence[NDArray[Any]]
    ) -> Any:
        with self._lock:
            self._fill("predict", read, given)
            self._check(function(self._struct))
            return tuple(output.copy() for output in outputs)

% endfor
    def close(self) -> None:
        """Let go of the memory. Arrays of it stay valid; calls are refused from now on."""
        with self._lock:
            self._memory, self._struct = None, ctypes.c_void_p(None)
            self._inputs, self._weights, self._state = {}, {}, {}

    def __enter__(self) -> Model:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _views(self, places: Sequence[_Place]) -> dict[str, NDArray[Any]]:
        """Arrays over tensors of this instance."""
        assert self._memory is not None
        return {
            place.name: np.frombuffer(self._memory, place.type, int(np.prod(place.shape)), place.at).reshape(place.shape)
            for place in places
        }

    def _open(self) -> None:
        """Refuse a closed instance."""
        if self._memory is None:
            raise ValueError("this Model is closed; Model() makes another one, whose load() takes a saved state")

    def _do(self, function: Any, *arguments: Any) -> None:
        """Call a function of the library with this instance."""
        with self._lock:
            self._open()
            self._check(function(self._struct, *arguments))

    def _check(self, status: int) -> None:
        """Raise LibraryError for a code that is no success."""
        if status:
            text = self._code.${v.name}_status_text(status).decode()
            remedy = _REMEDIES.get(status, "")
            raise LibraryError(f"${v.name}: {text}" + (f"; {remedy}" if remedy else ""), status)

    def _fill(self, call: str, names: Sequence[str], given: Sequence[NDArray[Any] | None]) -> None:
        """Copy arrays into the inputs of a call: all, or none where they are filled already."""
        self._open()
        missing = [name for name, array in zip(names, given, strict=True) if array is None]
        if len(missing) == len(names):
            return
        if missing:
            text = f"{call} lacks {', '.join(missing)}; give all its inputs, or none and fill `inputs`"
            raise TypeError(text)
        places = [self._inputs[name] for name in names]
        for name, place, array in zip(names, places, given, strict=True):
            if not isinstance(array, np.ndarray):
                text = f"{name} is {type(array).__name__}; a numpy array: np.asarray(x, np.{place.dtype})"
                raise TypeError(text)
            if array.dtype != place.dtype:
                text = f"{name} is {array.dtype}, and the library reads {place.dtype}; x.astype(np.{place.dtype})"
                raise TypeError(text)
            if array.shape != place.shape:
                text = f"{name} has shape {array.shape}, and the library reads {place.shape}; x.reshape{place.shape}"
                raise ValueError(text if array.size == place.size else text.partition(";")[0] + "; a batch of that shape")
        for place, array in zip(places, given, strict=True):
            place[...] = array
