"""Interface of a rack's machine, which a driver or an emulation has: memory, and launches of entries."""

import struct
from dataclasses import astuple, dataclass
from typing import Protocol

from deployer.racks.launch import MachineLimits


@dataclass(frozen=True)
class RackCall:
    """The arguments of an entry, as `rack_call_t` has them: addresses, then numbers."""

    models: int = 0
    statuses: int = 0
    samples: int = 0
    order: int = 0
    losses: int = 0
    rates: int = 0
    images: int = 0
    digests: int = 0
    count: int = 0
    passes: int = 0
    image_bytes: int = 0
    stride: int = 0
    keep: int = 0
    spare: int = 0

    def packed(self) -> bytes:
        """The bytes of the struct."""
        return struct.pack("<8Q6I", *astuple(self))


class Machine(Protocol):
    """Memory and launches of a machine that has the code of a library."""

    @property
    def limits(self) -> MachineLimits:
        """The machine's name and sizes."""

    def allocate(self, count: int) -> int:
        """Return the address of so many bytes; RunFailed without that much memory."""

    def free(self, address: int) -> None:
        """Give memory back."""

    def write(self, address: int, content: bytes) -> None:
        """Copy bytes to the machine."""

    def read(self, address: int, count: int) -> bytes:
        """Copy bytes from the machine, after all launches."""

    def launch(self, entry: str, groups: int, lanes: int, scratch: int, call: RackCall) -> None:
        """Run an entry on so many groups of lanes, each with bytes of scratch memory; RunFailed where it fails."""

    def close(self) -> None:
        """Give everything back."""
