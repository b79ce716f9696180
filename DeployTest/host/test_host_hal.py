"""The host simulator: a right program passes in every order, and each planted fault is named."""

import math
import os
import random
import re
import struct
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from DeployTest.host.host_hal_faults import FAULTS
from DeployTest.host.host_hal_program import HEADER, MAP, PROGRAM

pytestmark = [pytest.mark.host, pytest.mark.kernels]

TARGETS = Path(__file__).resolve().parents[2] / "targets"
FLAGS = ["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-ffp-contract=off"]
INCLUDES = [f"-I{TARGETS / 'host'}", f"-I{TARGETS / 'common/include'}"]
SANITIZE = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-g"]
ORDERS = [("early",), ("late",), ("random", "--seed", "7")]


def run(command, **options):
    return subprocess.run([str(c) for c in command], capture_output=True, timeout=60, **options)


def compile_c(output, sources, *flags):
    result = run(["gcc", *FLAGS, *flags, *INCLUDES, f"-I{output.parent}", "-o", output, *sources, "-lm"])
    assert result.returncode == 0, result.stderr.decode()
    return output


def hal_objects(folder, *flags):
    sources = [*sorted((TARGETS / "host").glob("*.c")), TARGETS / "common/runtime/format.c"]
    folder.mkdir()
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(lambda s: compile_c(folder / f"{s.stem}.o", [s], "-c", *flags), sources))


def edited(edits):
    """PROGRAM, MAP and HEADER after edits like those of FAULTS."""
    text = {"program": PROGRAM, "map": MAP, "header": HEADER}
    for edit in edits:
        place, old, new = re.fullmatch(r"(\w+): (.+?) => ?(.*)", edit, re.DOTALL).groups()
        file = place if place in text else "program"
        source = text[file]
        scope = source if place in text else re.search(rf"^[^\n;]*\b{place}\(.*?^}}$", source, re.M | re.S)[0]
        assert scope.count(old) == 1, edit
        text[file] = source.replace(scope, scope.replace(old, new))
    return text


def build(folder, objects, edits=(), *flags):
    text = edited(edits)
    folder.mkdir()
    (folder / "program.h").write_text(text["header"])
    (folder / "program.c").write_text(text["program"])
    (folder / "SimulationMap.c").write_text(text["map"])
    return compile_c(folder / "program", [folder / "program.c", folder / "SimulationMap.c", *objects], *flags)


@pytest.fixture(scope="module")
def objects(tmp_path_factory):
    return hal_objects(tmp_path_factory.mktemp("hal") / "plain")


@pytest.fixture(scope="module")
def sanitized(tmp_path_factory):
    return hal_objects(tmp_path_factory.mktemp("hal") / "sanitized", *SANITIZE)


@pytest.fixture(scope="module")
def good(objects, tmp_path_factory):
    return build(tmp_path_factory.mktemp("good") / "program", objects)


def floats(values):
    return struct.pack(f"<{len(values)}f", *values)


W, U = [0.5 * i for i in range(16)], [100.0 + i for i in range(64)]
XS = [[float(i) for i in range(62)], [3.0 - i for i in range(62)]]
INPUT = floats(W + U + XS[0] + XS[1])


def expected_output():
    """Step 1 adds w by the element's index in its packed tile: 2 rows of 8 columns, of 7 in the last."""
    out = []
    for x in XS:
        w = [W[i // 31 * (7 if i % 31 >= 24 else 8) + i % 31 % 8] for i in range(62)]
        out += [2 * a + b for a, b in zip(x, w, strict=True)] + [2 * u for u in U]
    return floats(out)


def simulate(program, *flags, data=INPUT):
    source, sink = program.parent / "input.bin", program.parent / "output.bin"
    source.write_bytes(data)
    result = run([program, "--input", source, "--output", sink, *flags])
    return result, sink.read_bytes()


def test_results_and_clock_in_all_orders(good):
    flag_sets = [["--dma-order", *order] for order in ORDERS[:2]]
    flag_sets += [["--dma-order", "random", "--seed", s] for s in range(12)]
    core_orders = ("forward", "reverse", "random")
    flag_sets += [["--core-order", order, "--cores", cores] for order in core_orders for cores in (1, 3, 8)]
    printed = set()
    for flags in flag_sets:
        result, output = simulate(good, *flags)
        assert result.returncode == 0, (flags, result.stderr.decode())
        assert output == expected_output(), flags
        printed.add(result.stdout)
    assert len(printed) == 1


def test_clock_of_double_buffering(good):
    """The stated rules, replayed by hand for step 0."""
    now, engines, ends = 11, {"in": 0, "out": 0}, {}

    def start(direction, part, size):
        nonlocal now
        setup, milli = {"in": (20, 125), "out": (30, 250)}[direction]
        now += 5
        engines[direction] = max(now, engines[direction]) + setup + (size * milli + 1500 + 999) // 1000
        ends[direction, part] = engines[direction]

    def wait(direction, part):
        nonlocal now
        now = max(now, ends.pop((direction, part))) + 3

    sizes = [64, 64, 64, 56]
    start("in", 0, 64)
    for t in range(4):
        if t < 3:
            start("in", 1 - t % 2, sizes[t + 1])
        wait("in", t % 2)
        if t >= 2:
            wait("out", t % 2)
        now += [90, 90, 90, 80][t]
        start("out", t % 2, sizes[t])
    wait("out", 0)
    wait("out", 1)
    assert simulate(good)[0].stdout.decode().splitlines()[0] == f"step 0 {now}"


@pytest.mark.parametrize("fault", FAULTS)
def test_fault_is_named(fault, objects, tmp_path):
    check, words, *edits = FAULTS[fault]
    program = build(tmp_path / "program", objects, edits)
    for order in ORDERS:
        result, _ = simulate(program, "--dma-order", *order)
        message = result.stderr.decode()
        assert result.returncode == 3, (order, message)
        assert re.match(rf"hal: step (\d+|-) '[^']+': {check}: ", message), (order, message)
        assert words in message, (order, message)
        assert message.count("\n") == 1


def test_a_run_may_end_after_a_pass(objects, tmp_path):
    """One that diverges does; that it had a reason to is asked where its passes are counted."""
    program = build(tmp_path / "program", objects, ["main: pass < 2; => pass < 1;"])
    assert simulate(program, "--dma-order", "late")[0].returncode == 0


def test_dead_and_newborn_buffers_are_nan(objects, tmp_path):
    """x ends with step 0, y is born in it, z in step 1: these two begin with nothing in them, x ends so."""
    edits = [
        "step_0: hal_step(0); => hal_step(0); hal_write(Y, 248);",
        "step_1: hal_step(1); => hal_step(1); hal_write(X, 248); hal_write(Z, 248);",
    ]
    result, output = simulate(build(tmp_path / "program", objects, edits))
    assert result.returncode == 0, result.stderr.decode()
    one_pass = bytes.fromhex("addea07f") * 62 * 3
    assert output[:744] == one_pass
    assert output[1248 : 1248 + 744] == one_pass


DUMP = r"""
    for (uint32_t i = 0; i < 4; i++) {
        char text[FORMAT_U64_CHARS];
        format_u64(text, ((const uint32_t *)%s)[i]);
        hal_print("word ");
        hal_print(text);
        hal_print("\n");
    }
"""


@pytest.mark.parametrize(("guards", "order"), [("off", "late"), ("fast", "early"), ("full", "random")])
def test_slots_are_nan_until_something_comes(guards, order, objects, tmp_path):
    """Each step's slots begin so, whatever the step before left there, and an ingress ends what they held."""
    begin = f"step_1: hal_step(1); => hal_step(1); {DUMP % 'YZ_L1(0)'}"
    program = build(tmp_path / "begin", objects, [begin])
    result, _ = simulate(program, "--dma-order", order, "--guards", guards)
    words = [int(x.split()[1]) for x in result.stdout.decode().splitlines() if x.startswith("word")]
    assert len(words) == 8
    assert all(math.isnan(struct.unpack("<f", struct.pack("<I", word))[0]) for word in words)


def test_ingress_in_flight_is_nan(objects, tmp_path):
    """Until it is waited for, where it comes late: the tile before is gone."""
    begin = f"step_0: hal_dma_wait(out[p]); => hal_dma_wait(out[p]); if (t == 2) {{ {DUMP % 'X_L1(1)'} }}"
    result, _ = simulate(build(tmp_path / "begin", objects, [begin]), "--dma-order", "late")
    words = [int(x.split()[1]) for x in result.stdout.decode().splitlines() if x.startswith("word")]
    assert len(words) == 8
    assert all(math.isnan(struct.unpack("<f", struct.pack("<I", word))[0]) for word in words)


def test_accumulator_needs_no_ingress(objects, tmp_path):
    """An operand that is read and written starts from nothing in the passes that overwrite it: here in each."""
    edits = ["map: offsetof(add_args_t, y), 1, 0, 1, 0, 1, 7 => offsetof(add_args_t, y), 1, 1, 1, 1, 1, 7"]
    result, output = simulate(build(tmp_path / "program", objects, edits))
    assert result.returncode == 0, result.stderr.decode()
    assert output == expected_output()


EMPTY = [
    "map: offsetof(add_args_t, b), 0, 0, 0, 0, 4, 11, 9, 1, 1, 4, 1, axes_2 => "
    "offsetof(add_args_t, b), 0, 1, 0, 0, 4, 12, NONE, 1, 1, 4, 1, axes_none",
    "step_2: call(U_L1, U_L1, => hal_dma_in_1d(0, V_L1, V_L2(o), 0); call(U_L1, V_L1,",
]


def test_empty_transfer_fills_a_slot(objects, tmp_path):
    """A kernel may be told of a slot whose box is empty; what it reads there all the same is NaN. It costs no time."""
    program, same = build(tmp_path / "program", objects, EMPTY), build(tmp_path / "same", objects)
    result, output = simulate(program)
    assert result.returncode == 0, result.stderr.decode()
    assert result.stdout == simulate(same)[0].stdout
    assert output[248:504] == bytes.fromhex("addee07f") * 64
    assert output[:248] == expected_output()[:248]


def test_empty_transfer_is_demanded(objects, tmp_path):
    """As one that moves bytes is."""
    edits = [EMPTY[0], EMPTY[1].replace("hal_dma_in_1d(0, V_L1, V_L2(o), 0); ", "")]
    program = build(tmp_path / "program", objects, edits)
    result, _ = simulate(program)
    assert b"kernel call 0 reads box 1 of operand 'b' from part 0 of 'v_l1', which nobody filled" in result.stderr
    both = subprocess.run(result.args, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60).stdout
    assert both == result.stdout + result.stderr, "what was printed before stands before the fault"


def test_sanitized_program_passes(sanitized, tmp_path):
    program = build(tmp_path / "program", sanitized, (), *SANITIZE)
    for order in ORDERS:
        result, output = simulate(program, "--dma-order", *order)
        assert result.returncode == 0, result.stderr.decode()
        assert output == expected_output()


@pytest.mark.parametrize(
    ("numbers", "words"),
    [
        ("7, 176, 64, 1", "'v_l1' lies in level 7"),
        ("0, 176, {beyond}, 1", "'v_l1' ends at byte {end} of L1"),
        ("0, {all_but_four}, 64, 1", "'v_l1' ends at byte"),
        ("0, 4294967292, 64, 1", "'v_l1' ends at byte 4294967356 of L1"),
        ("0, 176, 0, 1", "'v_l1' of 0 B in 1 parts"),
        ("0, 176, 64, 0", "'v_l1' of 64 B in 0 parts"),
        ("0, 176, 64, 3", "'v_l1' of 64 B in 3 parts"),
    ],
)
def test_map_is_checked(numbers, words, objects, tmp_path):
    """A buffer lies within its level, and its parts are alike; else the map is at fault, not the program."""
    room = int(re.search(r'"L1", \w+, (\d+)', MAP)[1])
    places = {"beyond": room - 176 + 4, "end": room + 4, "all_but_four": room - 4}
    edit = "map: " + '"v_l1", HAL_SIM_SLOT, 0, 176, 64, 1 => "v_l1", HAL_SIM_SLOT, ' + numbers.format(**places)
    program = build(tmp_path / "program", objects, [edit])
    (program.parent / "input.bin").write_bytes(INPUT)
    result = run([program, "--input", program.parent / "input.bin"])
    assert result.returncode not in (0, 1, 3)
    assert f"simulation map: {words.format(**places)}" in result.stderr.decode()


@pytest.mark.parametrize("slot", [0, 99], ids=["further out", "no buffer"])
def test_operands_of_the_map_are_checked(slot, objects, tmp_path):
    """The slot of an operand is a buffer of the innermost level."""
    edit = f"map: (add_args_t, y), 1, 0, 1, 0, 1, 7 => (add_args_t, y), 1, 0, 1, 0, 1, {slot}"
    result = run([build(tmp_path / "program", objects, [edit])])
    assert result.returncode not in (0, 1, 3)
    assert b"simulation map: operand 'y' of 'double' is not within its step" in result.stderr


def test_full_disk_is_named(good):
    """A failed write ends with an error that names it."""
    (good.parent / "input.bin").write_bytes(INPUT)
    result = run([good, "--input", good.parent / "input.bin", "--output", "/dev/full"])
    assert result.returncode not in (0, 1)
    assert b"--output /dev/full: writing failed" in result.stderr


@pytest.mark.parametrize("access", ["in_flight", "dead"])
def test_sanitizer_sees_hidden_reads(access, sanitized, tmp_path):
    """Reads that no argument struct shows and that change nothing."""
    place = {"in_flight": "X_L1(0)", "dead": "V"}[access]
    edit = f"step_0: hal_dma_wait(in[p]); => (void)*(volatile uint8_t *){place}; hal_dma_wait(in[p]);"
    result, _ = simulate(build(tmp_path / "program", sanitized, [edit], *SANITIZE))
    assert b"use-after-poison" in result.stderr


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--colour"], "unknown flag '--colour'"),
        (["--seed"], "--seed needs a value"),
        (["--cores", "0"], "--cores 0: give a number from 1"),
        (["--dma-order", "soon"], "choose early, late or random"),
        (["--input", "/nonexistent"], "--input /nonexistent cannot be opened"),
    ],
)
def test_wrong_command_line(good, flags, words):
    result = run([good, *flags])
    assert result.returncode == 2
    assert words in result.stderr.decode()


def test_short_input(good):
    result, _ = simulate(good, data=INPUT[:-3])
    assert result.returncode == 2
    assert f"ends at byte {len(INPUT) - 3}" in result.stderr.decode()


def test_reads_and_writes_in_chunks(objects, tmp_path):
    """A range of the program's own, larger than a chunk, is copied whole; a file that ends within counts all chunks."""
    edit = (
        "program: hal_read(W, 64); => static uint8_t large[9000]; hal_read(W, 64); hal_read(large, sizeof large); "
        "hal_write(large, sizeof large);"
    )
    program, large = build(tmp_path / "program", objects, [edit]), random.Random(1).randbytes(9000)
    result, _ = simulate(program, data=INPUT[:64] + large[:6000])
    assert result.returncode == 2
    assert "ends at byte 6064; this read began at byte 64 and wants 9000 B" in result.stderr.decode()
    result, output = simulate(program, data=INPUT[:64] + large + INPUT[64:])
    assert (result.returncode, output) == (0, large + expected_output())


def test_trace_names_steps_and_transfers(good):
    lines = simulate(good, "--trace")[0].stderr.decode().splitlines()
    transfers = 2 * (8 + 8 + 4 + 8)
    assert sum("start ticket" in line for line in lines) == transfers
    assert sum("ended ticket" in line for line in lines) == transfers
    assert sum(line.endswith("step 1 add_w") for line in lines) == 2


FORMATTER = r"""
#include <stdio.h>
#include <string.h>
#include "format.h"
int main(void) {
    char a[FORMAT_F32_CHARS], b[FORMAT_E6_CHARS], c[FORMAT_U64_CHARS];
    for (uint64_t value; fread(&value, sizeof value, 1, stdin) == 1;) {
        const uint32_t bits = (uint32_t)value;
        float f;
        memcpy(&f, &bits, sizeof f);
        const uint32_t lengths[] = {format_f32(a, f), format_e6(b, f), format_u64(c, value)};
        if (lengths[0] != strlen(a) || lengths[1] != strlen(b) || lengths[2] != strlen(c)) return 1;
        printf("%s %s %s\n", a, b, c);
    }
    return 0;
}
"""


def bits_of(value):
    return struct.unpack("<I", struct.pack("<f", value))[0]


def test_format_is_exact(sanitized, tmp_path):
    """Against Python's exact printing; a NaN has no sign there either."""
    pick = random.Random(1)
    bits = [0, 1 << 31, 0x7F800000, 0xFF800000, 0x7FC00000, 0xFFC00000, 1, 0x7FFFFF, 0x800000, 0x7F7FFFFF]
    bits += [bits_of(float(f"{digits}e{e}")) for e in range(-45, 38) for digits in (1, 5, 9.9999995)]
    bits += [bits_of(i / 64) for i in range(4096)]
    bits += [exponent << 23 for exponent in range(255)]
    bits += [pick.getrandbits(23) for _ in range(4000)] + [pick.getrandbits(32) for _ in range(40000)]
    values = [pick.getrandbits(32) * (i % 5 > 0) << 32 | b for i, b in enumerate(bits)]
    (tmp_path / "main.c").write_text(FORMATTER)
    objects = [o for o in sanitized if o.stem == "format"]
    program = compile_c(tmp_path / "format", [tmp_path / "main.c", *objects], *SANITIZE)
    result = run([program], input=struct.pack(f"<{len(values)}Q", *values))
    assert result.returncode == 0, result.stderr.decode()
    reals = struct.unpack(f"<{len(bits)}f", struct.pack(f"<{len(bits)}I", *bits))
    expected = [f"{r:.9g} {r:.6e} {v}" for r, v in zip(reals, values, strict=True)]
    assert result.stdout.decode().splitlines() == expected
