/* The peaks of this machine by processor time: float operations, and bytes moved in a working set of so many bytes. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { LANES = 8, SUMS = 12, ROUNDS = 40, FACTORS = 200000, MOVED = 1 << 24 };

typedef float lanes_t __attribute__((vector_size(32)));

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static inline lanes_t lanes_fma(lanes_t x, lanes_t y, lanes_t sum) {
    lanes_t lanes;
    for (uint32_t i = 0; i < LANES; i++) lanes[i] = __builtin_fmaf(x[i], y[i], sum[i]);
    return lanes;
}

/* Enough sums side by side that none waits for its own last product; they begin apart, so that each is computed. */
static float multiply(lanes_t x, lanes_t y) {
    lanes_t sums[SUMS];
    _Pragma("GCC unroll 12") for (uint32_t s = 0; s < SUMS; s++) sums[s] = x + (float)s;
    for (uint32_t i = 0; i < FACTORS; i++)
        _Pragma("GCC unroll 12") for (uint32_t s = 0; s < SUMS; s++) sums[s] = lanes_fma(x, y, sums[s]);
    lanes_t total = x;
    _Pragma("GCC unroll 12") for (uint32_t s = 0; s < SUMS; s++) total += sums[s];
    return total[0] + total[LANES - 1];
}

static void add(float *y, const float *x, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) y[i] = __builtin_fmaf(0.5f, x[i], y[i]);
    __asm__ volatile("" ::: "memory");
}

int main(int argc, char **argv) {
    const uint32_t count = (argc > 1 ? (uint32_t)atoi(argv[1]) : 1 << 20) / (2 * sizeof(float));
    float *x = calloc(count, sizeof(float)), *y = calloc(count, sizeof(float)), kept = 0;
    double operations = 0, bytes = 0;
    if (!x || !y) return 1;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        const lanes_t a = {0.5f, 0.25f}, b = {(float)round};
        const double begin = seconds();
        kept += multiply(a, b);
        const double rate = 2.0 * LANES * SUMS * FACTORS / (seconds() - begin);
        if (rate > operations) operations = rate;
    }
    for (uint32_t round = 0; round < ROUNDS; round++) {
        const uint32_t times = MOVED / (count * 3 * sizeof(float)) + 1;
        const double begin = seconds();
        for (uint32_t i = 0; i < times; i++) add(y, x, count);
        const double rate = 3.0 * sizeof(float) * count * times / (seconds() - begin);
        if (rate > bytes) bytes = rate;
    }
    printf("%.0f %.0f\n", operations, bytes);
    return kept + y[count - 1] < 0;
}
