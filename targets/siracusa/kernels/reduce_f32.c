/* Y = sum of X over r0..r2, for each index of k0..k2, divided by count; the portable kernel defines the order.
 *
 * Neighbouring sums over one loop run four at a time where there are enough for all cores; the others one by one. */
#include "reduce_f32.h"
#include "block_sum.h"
#include "flat.h"

static inline const float *at(const float *base, uint32_t bytes) {
    return (const float *)((uintptr_t)base + bytes);
}

static inline float divided(const reduce_f32_args_t *p, float sum) {
    float inverse;
    return inverse_of_power(p->count, &inverse) ? sum * inverse : sum / p->count;
}

#define PLUS(x) "fadd.s %[sum], %[sum], " x "\n"

/* sum + x[0] + x[step] + .. */
static inline float run(float sum, const float *x, uint32_t step, uint32_t count) {
    if (step == 4 && count >= 8) {
        __asm__ volatile(LOOP("%[turns]", 17)
                         FLW("ft0", "%[x]", 0) FLW("ft1", "%[x]", 4) PLUS("ft0") FLW("ft2", "%[x]", 8) PLUS("ft1")
                         FLW("ft3", "%[x]", 12) PLUS("ft2") FLW("ft0", "%[x]", 16) PLUS("ft3") FLW("ft1", "%[x]", 20)
                         PLUS("ft0") FLW("ft2", "%[x]", 24) PLUS("ft1") FLW("ft3", "%[x]", 28) PLUS("ft2")
                         ADDI("%[x]", 32) PLUS("ft3")
                         LOOP_END(17)
                         : [x] "+&r"(x), [sum] "+&f"(sum)
                         : [turns] "r"(count >> 3)
                         : "ft0", "ft1", "ft2", "ft3", "memory");
        count &= 7;
    }
    if (count & 1) sum += *x, x = at(x, step);
    if (count >= 2)
        __asm__ volatile(LOOP("%[pairs]", 6)
                         FLW("ft0", "%[x]", 0) ADD("%[x]", "%[step]") FLW("ft1", "%[x]", 0) ADD("%[x]", "%[step]")
                         PLUS("ft0") PLUS("ft1")
                         LOOP_END(6)
                         : [x] "+&r"(x), [sum] "+&f"(sum)
                         : [step] "r"(step), [pairs] "r"(count >> 1)
                         : "ft0", "ft1", "memory");
    return sum;
}

/* All of a sum over one loop that is one group: whole blocks, then the rest. */
static inline float group(const float *x, uint32_t step, uint32_t count) {
    float sum = 0.0f;
    for (; count >= SUM_BLOCK; count -= SUM_BLOCK, x = at(x, SUM_BLOCK * step))
        sum += run(0.0f, x, step, SUM_BLOCK);
    return count ? sum + run(0.0f, x, step, count) : sum;
}

/* Four neighbouring sums over one loop. */
static inline void four(const reduce_f32_args_t *p, const float *x, float *y, float *carry) {
    const uint32_t size = sum_size(p->carry);
    sum_t sums[4];
    for (uint32_t k = 0; k < 4; k++) sums[k] = sum_begin(p->first, size, y[k], carry + k * SUM_CARRIED);
    for (uint32_t position = p->start, left = p->r2; left > 0;) {
        uint32_t count = left;
        for (uint32_t k = 0; k < 4; k++) count = sum_next(&sums[k], size, position, left);
        float s0 = sums[0].block, s1 = sums[1].block, s2 = sums[2].block, s3 = sums[3].block;
        __asm__ volatile(LOOP("%[rows]", 9)
                         FLW("ft0", "%[x]", 0) FLW("ft1", "%[x]", 4) FLW("ft2", "%[x]", 8) FLW("ft3", "%[x]", 12)
                         ADD("%[x]", "%[step]") "fadd.s %[s0], %[s0], ft0\n fadd.s %[s1], %[s1], ft1\n"
                         "fadd.s %[s2], %[s2], ft2\n fadd.s %[s3], %[s3], ft3\n"
                         LOOP_END(9)
                         : [x] "+&r"(x), [s0] "+&f"(s0), [s1] "+&f"(s1), [s2] "+&f"(s2), [s3] "+&f"(s3)
                         : [step] "r"(4 * p->x_r2), [rows] "r"(count)
                         : "ft0", "ft1", "ft2", "ft3", "memory");
        sums[0].block = s0, sums[1].block = s1, sums[2].block = s2, sums[3].block = s3;
        position += count, left -= count;
    }
    for (uint32_t k = 0; k < 4; k++, carry += SUM_CARRIED) {
        if (p->last) {
            y[k] = divided(p, sum_value(&sums[k], size));
            sum_end(size, carry);
        } else
            y[k] = sum_wait(&sums[k], size, carry);
    }
}

void reduce_f32(const void *args) {
    const reduce_f32_args_t *p = args;
    const uint32_t size = sum_size(p->carry);
    const uint32_t cores = hal_core_count(), id = hal_core_id(), outer = p->k0 * p->k1, step = 4 * p->x_r2;
    const int groups = p->carry && p->first && p->last && p->r0 * p->r1 == 1 && is_one_group(p->r2);
    uint32_t done = 0;
    if (outer * p->r0 * p->r1 == 1 && p->x_k2 == 1 && p->k2 >= 4 * cores) {
        done = p->k2 & ~3u;
        for (uint32_t i = 4 * id; i < done; i += 4 * cores) four(p, p->x + i, p->y + i, p->carry + i * SUM_CARRIED);
    }
    for (uint32_t i = done + id; i < outer * p->k2; i += cores) {
        uint32_t k2 = i;
        const float *x = p->x;
        float *y = p->y, *carry = p->carry;
        if (outer > 1) {
            const uint32_t k01 = i / p->k2, k0 = k01 / p->k1, k1 = k01 - k0 * p->k1;
            k2 = i - k01 * p->k2;
            x += k0 * p->x_k0 + k1 * p->x_k1;
            y += k0 * p->y_k0 + k1 * p->y_k1;
            carry += k0 * p->carry_k0 + k1 * p->carry_k1;
        }
        x += k2 * p->x_k2, y += k2, carry += k2 * SUM_CARRIED;
        if (groups) {
            *y = divided(p, group(x, step, p->r2));
            sum_end(1, carry);
            continue;
        }
        sum_t sum = sum_begin(p->first, size, *y, carry);
        uint32_t rows = 0;
        for (uint32_t r0 = p->r0; r0 > 0; r0--, x += p->x_r0) {
            const float *line = x;
            for (uint32_t r1 = p->r1; r1 > 0; r1--, line += p->x_r1) {
                if (rows++ > 0 || !p->first) sum_row(&sum, size, p->start);
                for (uint32_t done_r2 = 0; done_r2 < p->r2;) {
                    const uint32_t count = sum_next(&sum, size, p->start + done_r2, p->r2 - done_r2);
                    sum.block = run(sum.block, at(line, done_r2 * step), step, count);
                    done_r2 += count;
                }
            }
        }
        if (p->last) {
            *y = divided(p, sum_value(&sum, size));
            sum_end(size, carry);
        } else
            *y = sum_wait(&sum, size, carry);
    }
}
