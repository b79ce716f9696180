"""Transfers as a script that one C program interprets on a target, and the bytes that they must leave behind."""

import struct
from dataclasses import dataclass, field

PROGRAM = r"""
#include "hal.h"
const uint32_t hal_plan_cores = 8;
extern uint8_t hal_memory_l1[], hal_memory_l2[], hal_memory_l3[];
static uint8_t *const levels[] = {hal_memory_l1, hal_memory_l2, hal_memory_l3};
enum { END, FILL, DUMP, WAIT, IN_1D, IN_2D, IN_3D, OUT_1D, OUT_2D, OUT_3D };
static hal_ticket_t tickets[128];

static hal_ticket_t start(uint32_t op, uint32_t hop, uint8_t *inner, uint8_t *outer, const uint32_t *box) {
    switch (op) {
    case IN_1D: return hal_dma_in_1d(hop, inner, outer, box[0]);
    case IN_2D: return hal_dma_in_2d(hop, inner, outer, box[0], box[1], box[2]);
    case IN_3D: return hal_dma_in_3d(hop, inner, outer, box[0], box[1], box[2], box[3], box[4]);
    case OUT_1D: return hal_dma_out_1d(hop, outer, inner, box[0]);
    case OUT_2D: return hal_dma_out_2d(hop, outer, inner, box[0], box[1], box[2]);
    default: return hal_dma_out_3d(hop, outer, inner, box[0], box[1], box[2], box[3], box[4]);
    }
}

int main(int argc, char **argv) {
    hal_init(argc, argv);
    hal_step(4);
    for (;;) {
        struct {
            uint32_t op, ticket, level, inner, outer, box[5];
        } x;
        hal_read(&x, sizeof(x));
        if (x.op == END) break;
        if (x.op == FILL)
            hal_read(levels[x.level] + x.inner, x.box[0]);
        else if (x.op == DUMP)
            hal_write(levels[x.level] + x.inner, x.box[0]);
        else if (x.op == WAIT)
            hal_dma_wait(tickets[x.ticket]);
        else
            tickets[x.ticket] = start(x.op, x.level, levels[x.level] + x.inner, levels[x.level + 1] + x.outer, x.box);
    }
    hal_exit(0);
}
"""
"""Reads commands, one transfer each, from its input file; level numbers and hops are those of hal.h."""

_END, _FILL, _DUMP, _WAIT, _IN, _OUT = 0, 1, 2, 3, 4, 7
SIZES = (200_000, 1_800_000, 8_388_608)
"""Bytes of each level that a script may use on every target."""


def full(run: int, count: int = 1, stride: int = 0, planes: int = 1, plane_stride: int = 0) -> tuple[int, ...]:
    """A box with all its numbers."""
    return run, count, stride, planes, plane_stride


@dataclass
class Script:
    """Commands for PROGRAM, and its memories as the transfers must leave them.

    A transfer's bytes move here when it starts: a script touches neither end of one in flight.
    """

    levels: list[bytearray] = field(default_factory=lambda: [bytearray(n) for n in SIZES])
    commands: bytearray = field(default_factory=bytearray)
    dumps: list[tuple[str, bytes]] = field(default_factory=list)

    def fill(self, level: int, at: int, data: bytes) -> None:
        """Write data into a level."""
        self._command(_FILL, 0, level, at, 0, (len(data),))
        self.commands += data
        self.levels[level][at : at + len(data)] = data

    def dump(self, level: int, at: int, size: int, label: str) -> None:
        """Expect these bytes of a level to be right."""
        self._command(_DUMP, 0, level, at, 0, (size,))
        self.dumps.append((label, bytes(self.levels[level][at : at + size])))

    def start(self, way: str, ticket: int, hop: int, inner: int, outer: int, *box: int) -> None:
        """A transfer "in" or "out"; `box` is bytes, or run, count, stride, or these, planes and plane stride."""
        self._command((_IN if way == "in" else _OUT) + len(box) // 2, ticket, hop, inner, outer, box)
        run, count, stride, planes, plane_stride = full(*box)
        near, far = self.levels[hop], self.levels[hop + 1]
        for line in range(planes * count):
            plane, row = divmod(line, count)
            a, b = inner + line * run, outer + plane * plane_stride + row * stride
            if way == "in":
                near[a : a + run] = far[b : b + run]
            else:
                far[b : b + run] = near[a : a + run]

    def wait(self, ticket: int) -> None:
        """Wait for the transfer last started under this number."""
        self._command(_WAIT, ticket, 0, 0, 0, ())

    def input(self) -> bytes:
        """The program's input file."""
        return bytes(self.commands) + struct.pack("<10I", *[_END] * 10)

    def faults(self, output: bytes) -> list[str]:
        """The dumps that are wrong, and where."""
        messages = []
        at = 0
        for label, expected in self.dumps:
            dump = output[at : at + len(expected)]
            at += len(expected)
            if dump != expected:
                bad = [i for i, byte in enumerate(expected) if i >= len(dump) or dump[i] != byte]
                messages.append(f"{label}: {len(bad)} of {len(expected)} B wrong, from byte {bad[0]} to {bad[-1]}")
        return messages + ([f"{len(output)} B written, {at} expected"] if len(output) != at else [])

    def _command(self, op: int, ticket: int, level: int, inner: int, outer: int, box: tuple[int, ...]) -> None:
        self.commands += struct.pack("<10I", op, ticket, level, inner, outer, *box, *[0] * (5 - len(box)))
