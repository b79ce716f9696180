"""Siracusa's quotients and roots, which use no divider, have the bits of this machine's."""

import subprocess
from pathlib import Path

import pytest

from deployer.core.target import load
from deployer.running import build
from DeployTest.house.test_layout import ROOT

pytestmark = [pytest.mark.host, pytest.mark.kernels]

PULP = """
#include <stdint.h>
typedef union { float value; uint32_t bits; } word_t;
static inline uint32_t bits_in_core(float x) { return ((word_t){.value = x}).bits; }
static inline float float_in_fpu(uint32_t bits) { return ((word_t){.bits = bits}).value; }
#define LITERAL_F32(x) (x)
"""
"""What quotient.h takes from the cluster's instructions, for any machine."""

PROGRAM = """
#include <stdio.h>
#include "quotient.h"

static uint32_t tried, wrong;

static void judge(float found, float exact) {
    tried++;
    wrong += bits_in_core(found) != bits_in_core(exact) && (found == found || exact == exact);
}

/* b^-1 modulo 2^32 for an odd b. */
static uint32_t inverse(uint32_t b) {
    uint32_t x = b;
    for (int i = 0; i < 5; i++) x *= 2 - b * x;
    return x;
}

/* All A / B of odd significands with A 2^k = B M + c and an odd M of 25 bits: M is the middle of two floats, so no
 * quotient of this B is nearer to one. */
static void hardest(uint32_t b, uint32_t k, int32_t c) {
    const uint32_t m = (uint32_t)(-c) * inverse(b) & ((1u << k) - 1);
    for (uint64_t middle = m; middle < 1u << 25; middle += 1u << k) {
        const uint64_t a = ((uint64_t)b * middle + (uint64_t)(int64_t)c) >> k;
        if (middle < 1u << 24 || a < 1u << 23 || a >= 1u << 24) continue;
        judge(quotient_of((float)a * 0x1p-23f, (float)b * -0x1p-23f), (float)a * 0x1p-23f / ((float)b * -0x1p-23f));
    }
}

/* The same by a prepared inverse, whose quotient is less than six times as far from the exact one before the last
 * rounding: A 2^k = B M + c, for an even B divided by the power of two that it shares with c and 2^k. */
static void prepared(uint32_t b, uint32_t k, int32_t c) {
    const uint32_t twos = (uint32_t)__builtin_ctz(b);
    if (c & (int32_t)((1u << twos) - 1)) return;
    const uint32_t odd = b >> twos, size = k - twos, m = (uint32_t)(-(c >> twos)) * inverse(odd) & ((1u << size) - 1);
    const float by = (float)b * -0x1p-23f, of = inverse_of(by);
    for (uint64_t middle = m; middle < 1u << 25; middle += 1u << size) {
        const uint64_t a = ((uint64_t)odd * middle + (uint64_t)(int64_t)(c >> twos)) >> size;
        if (middle < 1u << 24 || !(middle & 1) || a < 1u << 23 || a >= 1u << 24) continue;
        judge(quotient_by((float)a * 0x1p-23f, by, of), (float)a * 0x1p-23f / by);
    }
}

int main(void) {
    for (uint32_t b = (1u << 23) + 1; b < 1u << 24; b += 2 * STEP)
        for (uint32_t k = 24; k <= 25; k++) hardest(b, k, 1), hardest(b, k, -1);
    for (uint32_t b = 1u << 23; b < 1u << 24; b += 4 * STEP - 3)
        for (int32_t c = -5; c <= 5; c++)
            for (uint32_t k = 24; k <= 25 && c; k++) prepared(b, k, c);
    printf("%u %u\\n", tried, wrong);
    tried = wrong = 0;
    for (uint32_t bits = 0x3f800000u; bits < 0x40800000u; bits += STEP)
        judge(root_of(float_in_fpu(bits)), __builtin_sqrtf(float_in_fpu(bits)));
    printf("%u %u\\n", tried, wrong);
    tried = wrong = 0;
    uint32_t state = 1;
    for (uint32_t i = 0; i < 4000000 / STEP; i++) { /* any two floats, and neighbours of one exponent */
        const uint32_t first = state = state * 1664525u + 1013904223u, second = state = state * 1664525u + 1013904223u;
        const float a = float_in_fpu(first), b = float_in_fpu(i & 1 ? second : (first & 0xff800000u) | second >> 9);
        judge(quotient_of(a, b), a / b);
        if (!unusual_dividend(a) && !unusual_divisor(b)) judge(quotient_by(a, b, inverse_of(b)), a / b);
        judge(root_of(a), __builtin_sqrtf(a));
    }
    printf("%u %u\\n", tried, wrong);
    tried = wrong = 0;
    for (uint32_t i = 0; i < 4000000 / STEP; i++) { /* powers of softmax by their sum, and smaller ones, made larger */
        const uint32_t first = state = state * 1664525u + 1013904223u, second = state = state * 1664525u + 1013904223u;
        const float sum = float_in_fpu(0x3f800000u + (first >> 4) % 0x05000000u), of = inverse_of(sum);
        const float power = float_in_fpu(0x0d800000u + (second >> 4) % 0x32000000u);
        judge(quotient_by(power, sum, of), power / sum);
        const float least = 0x1p-125f * sum, small = float_in_fpu(second >> 5);
        if (small >= least) judge(quotient_by(small * 0x1p100f, sum, of) * 0x1p-100f, small / sum);
    }
    printf("%u %u\\n", tried, wrong);
    return 0;
}
"""


@pytest.mark.parametrize("step", [16, pytest.param(1, marks=pytest.mark.slow)])
def test_bits_of_the_divider(step: int, tmp_path: Path) -> None:
    """The quotients nearest to the middle of two floats, all significands of roots, and floats of every exponent.

    The slow one takes all of them; with the bound on the error that quotient.h states this is a proof.
    """
    (tmp_path / "pulp.h").write_text(PULP)
    (tmp_path / "quotients.c").write_text(PROGRAM)
    (tmp_path / "quotient.h").write_text((ROOT / "targets" / "siracusa" / "quotient.h").read_text())
    tools = build.toolchain(load("host"))
    command = [*build.compiler(tools), *build.flags_of(tools), f"-DSTEP={step}", "quotients.c", "-o", "quotients"]
    subprocess.run([*command, "-lm"], cwd=tmp_path, check=True)
    said = subprocess.run([tmp_path / "quotients"], capture_output=True, text=True, check=True).stdout
    counts = [tuple(map(int, line.split())) for line in said.splitlines()]
    assert [wrong for _, wrong in counts] == [0, 0, 0, 0]
    assert min(tried for tried, _ in counts) >= 300_000 // step
