/* Y = sum of X over r0..r2, for each index of k0..k2, divided by count; the portable kernel defines the order.
 *
 * Neighbouring sums over one loop run four at a time where there are enough for all cores; those of windows of two by two,
 * which the gradient of an image of twice the size has, in a loop of their own; the others one by one. */
#include "reduce_f32.h"
#include "block_sum.h"
#include "flat.h"

static inline float divided(const reduce_f32_args_t *p, float sum) {
    float inverse;
    return inverse_of_power(p->count, &inverse) ? sum * inverse : sum / p->count;
}

#define PLUS(x) "fadd.s %[sum], %[sum], " x "\n"

/* Eight neighbours. */
#define TURN                                                                                                          \
    FLW("ft0", "%[x]", 0) FLW("ft1", "%[x]", 4) PLUS("ft0") FLW("ft2", "%[x]", 8) PLUS("ft1") FLW("ft3", "%[x]", 12)  \
    PLUS("ft2") FLW("ft0", "%[x]", 16) PLUS("ft3") FLW("ft1", "%[x]", 20) PLUS("ft0") FLW("ft2", "%[x]", 24)          \
    PLUS("ft1") FLW("ft3", "%[x]", 28) PLUS("ft2") ADDI("%[x]", 32) PLUS("ft3")

/* sum + x[0] + x[step] + .. */
static inline float run(float sum, const float *x, uint32_t step, uint32_t count) {
    if (step == 4 && count >= 8) {
        __asm__ volatile(LOOP("%[turns]", 17) TURN LOOP_END(17)
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

/* The open group with at least one whole block more. */
static inline float blocks(float group, const float *x, uint32_t step, uint32_t count) {
    float sum = 0.0f;
    if (step == 4)
        __asm__ volatile(LOOP_OUTER("%[count]", 20) LOOP("%[turns]", 17) TURN LOOP_END(17)
                         ADD_BLOCK("%[group]", "%[sum]") LOOP_OUTER_END(20)
                         : [x] "+&r"(x), [sum] "+&f"(sum), [group] "+&f"(group)
                         : [count] "r"(count), [turns] "r"(SUM_BLOCK >> 3)
                         : "ft0", "ft1", "ft2", "ft3", "memory");
    else
        __asm__ volatile(LOOP_OUTER("%[count]", 9) LOOP("%[pairs]", 6)
                         FLW("ft0", "%[x]", 0) ADD("%[x]", "%[step]") FLW("ft1", "%[x]", 0) ADD("%[x]", "%[step]")
                         PLUS("ft0") PLUS("ft1")
                         LOOP_END(6) ADD_BLOCK("%[group]", "%[sum]") LOOP_OUTER_END(9)
                         : [x] "+&r"(x), [sum] "+&f"(sum), [group] "+&f"(group)
                         : [step] "r"(step), [count] "r"(count), [pairs] "r"(SUM_BLOCK >> 1)
                         : "ft0", "ft1", "memory");
    return group;
}

/* A group of so many elements. */
static inline float group(const float *x, uint32_t step, uint32_t count) {
    const uint32_t whole = count >> BLOCK_SHIFT, rest = count & (SUM_BLOCK - 1);
    const float sum = whole ? blocks(0.0f, x, step, whole) : 0.0f;
    return rest ? sum + run(0.0f, at(x, (count - rest) * step), step, rest) : sum;
}

/* All of a long sum over one loop. */
static inline float row(const float *x, uint32_t step, uint32_t left) {
    uint32_t count = hal_min(left, GROUP_LENGTH);
    total_t total = {group(x, step, count), 0.0f};
    if (left == count) return total.high;
    while (left -= count) {
        x = at(x, GROUP_LENGTH * step);
        count = hal_min(left, GROUP_LENGTH);
        total_add(&total, group(x, step, count));
    }
    return total_value(&total);
}

/* A row of four neighbouring sums. */
#define FOUR                                                                                                          \
    FLW("ft0", "%[x]", 0) FLW("ft1", "%[x]", 4) FLW("ft2", "%[x]", 8) FLW("ft3", "%[x]", 12) ADD("%[x]", "%[step]")   \
    "fadd.s %[s0], %[s0], ft0\n fadd.s %[s1], %[s1], ft1\n fadd.s %[s2], %[s2], ft2\n fadd.s %[s3], %[s3], ft3\n"
#define FOUR_SUMS [x] "+&r"(x), [s0] "+&f"(s0), [s1] "+&f"(s1), [s2] "+&f"(s2), [s3] "+&f"(s3)

/* Four neighbouring sums of one block over one loop. */
static inline void short_four(const reduce_f32_args_t *p, const float *x, float *y) {
    const uint32_t step = 4 * p->x_r2, last = p->last;
    float s0 = 0, s1 = 0, s2 = 0, s3 = 0;
    if (!p->first) s0 = y[0], s1 = y[1], s2 = y[2], s3 = y[3];
    __asm__ volatile(LOOP("%[rows]", 9) FOUR LOOP_END(9)
                     : FOUR_SUMS : [step] "r"(step), [rows] "r"(p->r2) : "ft0", "ft1", "ft2", "ft3", "memory");
    y[0] = s0, y[1] = s1, y[2] = s2, y[3] = s3;
    for (uint32_t k = 0; k < 4 && last; k++) y[k] = divided(p, y[k]);
}

/* Four neighbouring sums over one loop. */
static inline void four(const reduce_f32_args_t *p, const float *x, float *y, float *carry) {
    const uint32_t size = SUM_BLOCK, step = 4 * p->x_r2;
    sum_t sums[4];
    for (uint32_t k = 0; k < 4; k++) sums[k] = sum_begin(p->first, size, y[k], carry + k * SUM_CARRIED);
    for (uint32_t position = p->start, left = p->r2; left > 0;) {
        uint32_t count = left;
        for (uint32_t k = 0; k < 4; k++) count = sum_next(&sums[k], size, position, left);
        float s0 = sums[0].block, s1 = sums[1].block, s2 = sums[2].block, s3 = sums[3].block;
        const uint32_t whole = whole_blocks(size, position, left);
        if (whole) {
            __asm__ volatile(LOOP_OUTER("%[count]", 18) LOOP("%[rows]", 9) FOUR LOOP_END(9)
                             ADD_BLOCK("%[g0]", "%[s0]") ADD_BLOCK("%[g1]", "%[s1]") ADD_BLOCK("%[g2]", "%[s2]")
                             ADD_BLOCK("%[g3]", "%[s3]") LOOP_OUTER_END(18)
                             : FOUR_SUMS, [g0] "+&f"(sums[0].group), [g1] "+&f"(sums[1].group),
                               [g2] "+&f"(sums[2].group), [g3] "+&f"(sums[3].group)
                             : [step] "r"(step), [count] "r"(whole), [rows] "r"(SUM_BLOCK)
                             : "ft0", "ft1", "ft2", "ft3", "memory");
            count = whole << BLOCK_SHIFT;
        } else
            __asm__ volatile(LOOP("%[rows]", 9) FOUR LOOP_END(9)
                             : FOUR_SUMS : [step] "r"(step), [rows] "r"(count)
                             : "ft0", "ft1", "ft2", "ft3", "memory");
        sums[0].block = s0, sums[1].block = s1, sums[2].block = s2, sums[3].block = s3;
        position += count, left -= count;
    }
    for (uint32_t k = 0; k < 4; k++, carry += SUM_CARRIED) {
        if (p->last) {
            y[k] = divided(p, sum_value(&sums[k], size));
            sum_end(size, carry);
        } else
            y[k] = sum_wait(&sums[k], size, p->start + p->r2, carry);
    }
}

/* Sums of several blocks, or parts of them. */
static __attribute__((noinline)) void long_sums(const reduce_f32_args_t *p) {
    const uint32_t size = SUM_BLOCK;
    const uint32_t cores = hal_core_count(), id = hal_core_id(), outer = p->k0 * p->k1, step = 4 * p->x_r2;
    const int whole = p->first && p->last && p->r0 * p->r1 == 1;
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
        if (whole) {
            *y = divided(p, row(x, step, p->r2));
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
                    const uint32_t position = p->start + done_r2, left = p->r2 - done_r2;
                    const uint32_t whole_ones = whole_blocks(size, position, left);
                    const float *from = at(line, done_r2 * step);
                    uint32_t count = sum_next(&sum, size, position, left);
                    if (whole_ones) {
                        sum.group = blocks(sum.group, from, step, whole_ones);
                        count = whole_ones << BLOCK_SHIFT;
                    } else
                        sum.block = run(sum.block, from, step, count);
                    done_r2 += count;
                }
            }
        }
        if (p->last) {
            *y = divided(p, sum_value(&sum, size));
            sum_end(size, carry);
        } else
            *y = sum_wait(&sum, size, p->start + p->r2, carry);
    }
}

#define SUM_OF(a, b) "fadd.s " a ", " a ", " b "\n"

/* Lines of sums over two neighbours of two rows each; a core has lines of its own. That a sum begins at +0 is made up for in
 * the end: only one of four -0 is another without. */
static __attribute__((noinline)) void windows(const reduce_f32_args_t *p, float inverse) {
    const share_t share = share_of(p->k1);
    if (share.begin == share.end) return;
    const float *x = p->x + share.begin * p->x_k1, *below = x + p->x_r1;
    float *y = p->y + share.begin * p->y_k1;
    __asm__ volatile("fmv.w.x ft4, zero\n" LOOP_OUTER("%[lines]", 16) LOOP("%[count]", 12)
                     FLW("ft0", "%[x]", 0) FLW("ft1", "%[x]", 4) FLW("ft2", "%[below]", 0) SUM_OF("ft0", "ft1")
                     FLW("ft3", "%[below]", 4) SUM_OF("ft0", "ft2") ADD("%[x]", "%[next]") SUM_OF("ft0", "ft3")
                     ADD("%[below]", "%[next]") "fmadd.s ft0, ft0, %[inverse], ft4\n"
                     FSW("ft0", "%[y]", 0) ADDI("%[y]", 4) LOOP_END(12)
                     ADD("%[x]", "%[x_line]") ADD("%[below]", "%[x_line]") ADD("%[y]", "%[y_line]") LOOP_OUTER_END(16)
                     : [x] "+&r"(x), [below] "+&r"(below), [y] "+&r"(y)
                     : [next] "r"(4 * p->x_k2), [count] "r"(p->k2), [inverse] "f"(inverse),
                       [lines] "r"(share.end - share.begin), [x_line] "r"(4 * (p->x_k1 - p->k2 * p->x_k2)),
                       [y_line] "r"(4 * (p->y_k1 - p->k2))
                     : "ft0", "ft1", "ft2", "ft3", "ft4", "memory");
}

void reduce_f32(const void *args) {
    const reduce_f32_args_t *p = args;
    float inverse;
    if (p->carry) {
        long_sums(p);
        return;
    }
    if (p->r1 == 2 && p->r2 == 2 && p->k0 * p->r0 == 1 && p->x_r2 == 1 && p->first && p->last && p->k2 > 0 &&
        inverse_of_power(p->count, &inverse)) {
        windows(p, inverse);
        return;
    }
    const uint32_t cores = hal_core_count(), id = hal_core_id(), outer = p->k0 * p->k1, step = 4 * p->x_r2;
    uint32_t done = 0;
    if (outer * p->r0 * p->r1 == 1 && p->x_k2 == 1 && p->k2 >= 4 * cores) {
        done = p->k2 & ~3u;
        for (uint32_t i = 4 * id; i < done; i += 4 * cores) short_four(p, p->x + i, p->y + i);
    }
    for (uint32_t i = done + id; i < outer * p->k2; i += cores) {
        uint32_t k2 = i;
        const float *x = p->x;
        float *y = p->y;
        if (outer > 1) {
            const uint32_t k01 = i / p->k2, k0 = k01 / p->k1, k1 = k01 - k0 * p->k1;
            k2 = i - k01 * p->k2;
            x += k0 * p->x_k0 + k1 * p->x_k1;
            y += k0 * p->y_k0 + k1 * p->y_k1;
        }
        x += k2 * p->x_k2, y += k2;
        float sum = p->first ? 0.0f : *y;
        for (uint32_t r0 = p->r0; r0 > 0; r0--, x += p->x_r0) {
            const float *line = x;
            for (uint32_t r1 = p->r1; r1 > 0; r1--, line += p->x_r1) sum = run(sum, line, step, p->r2);
        }
        *y = p->last ? divided(p, sum) : sum;
    }
}
