/* Mean and 1 / sqrt(variance + epsilon) per channel; the portable kernel defines the order. */
#include "channel_moments_f32.h"
#include "block_sum.h"
#include "hal.h"
#include "row_loop.h"
#include "math_f32.h"

#define PLUS(x) "fadd.s %[sum], %[sum], " x "\n"
#define CENTRE(x) "fsub.s " x ", " x ", %[mean]\n"
#define SQUARE(x) FMA("%[sum]", x, x)
#define OPERANDS [x] "+&r"(*x), [sum] "+&f"(sum)
#define CLOBBERS "ft0", "ft1", "ft2", "ft3", "memory"

/* A row of 4 turns + rest elements; both leave x behind it. */
static inline float total(float sum, const float **x, uint32_t turns, uint32_t rest) {
    __asm__ volatile(ROW_LOOP(9,
                              FLW("ft0", "%[x]", 0) FLW("ft1", "%[x]", 4) PLUS("ft0") FLW("ft2", "%[x]", 8)
                              PLUS("ft1") FLW("ft3", "%[x]", 12) PLUS("ft2") ADDI("%[x]", 16) PLUS("ft3"),
                              3,
                              FLW("ft0", "%[x]", 0) ADDI("%[x]", 4) PLUS("ft0"))
                     : OPERANDS : [turns] "r"(turns), [rest] "r"(rest) : CLOBBERS);
    return sum;
}

static inline float squares(float sum, const float **x, float mean, uint32_t turns, uint32_t rest) {
    __asm__ volatile(ROW_LOOP(13,
                              FLW("ft0", "%[x]", 0) FLW("ft1", "%[x]", 4) CENTRE("ft0") FLW("ft2", "%[x]", 8)
                              SQUARE("ft0") CENTRE("ft1") FLW("ft3", "%[x]", 12) SQUARE("ft1") CENTRE("ft2")
                              ADDI("%[x]", 16) SQUARE("ft2") CENTRE("ft3") SQUARE("ft3"),
                              4,
                              FLW("ft0", "%[x]", 0) ADDI("%[x]", 4) CENTRE("ft0") SQUARE("ft0"))
                     : OPERANDS : [mean] "f"(mean), [turns] "r"(turns), [rest] "r"(rest) : CLOBBERS);
    return sum;
}

/* A row, or its part from `position` on; both leave x behind it. */
static inline void add_values(sum_t *sum, uint32_t size, const float **x, uint32_t position, uint32_t left) {
    while (left > 0) {
        const uint32_t count = sum_next(sum, size, position, left);
        sum->block = total(sum->block, x, count >> 2, count & 3);
        position += count, left -= count;
    }
}

static inline void add_squares(sum_t *sum, uint32_t size, const float **x, float mean, uint32_t position,
                               uint32_t left) {
    while (left > 0) {
        const uint32_t count = sum_next(sum, size, position, left);
        sum->block = squares(sum->block, x, mean, count >> 2, count & 3);
        position += count, left -= count;
    }
}

/* A row that is one group; both leave x behind it. */
static inline float group_total(const float **x, uint32_t blocks, uint32_t rest) {
    float sum = 0.0f, group = 0.0f;
    __asm__ volatile(LOOP_OUTER("%[blocks]", 12) LOOP("%[turns]", 9)
                     FLW("ft0", "%[x]", 0) FLW("ft1", "%[x]", 4) PLUS("ft0") FLW("ft2", "%[x]", 8)
                     PLUS("ft1") FLW("ft3", "%[x]", 12) PLUS("ft2") ADDI("%[x]", 16) PLUS("ft3")
                     LOOP_END(9) ADD_BLOCK("%[group]", "%[sum]") LOOP_OUTER_END(12)
                     : OPERANDS, [group] "+&f"(group) : [blocks] "r"(blocks), [turns] "r"(SUM_BLOCK >> 2) : CLOBBERS);
    return rest ? group + total(0.0f, x, rest >> 2, rest & 3) : group;
}

static inline float group_squares(const float **x, float mean, uint32_t blocks, uint32_t rest) {
    float sum = 0.0f, group = 0.0f;
    __asm__ volatile(LOOP_OUTER("%[blocks]", 16) LOOP("%[turns]", 13)
                     FLW("ft0", "%[x]", 0) FLW("ft1", "%[x]", 4) CENTRE("ft0") FLW("ft2", "%[x]", 8) SQUARE("ft0")
                     CENTRE("ft1") FLW("ft3", "%[x]", 12) SQUARE("ft1") CENTRE("ft2") ADDI("%[x]", 16) SQUARE("ft2")
                     CENTRE("ft3") SQUARE("ft3")
                     LOOP_END(13) ADD_BLOCK("%[group]", "%[sum]") LOOP_OUTER_END(16)
                     : OPERANDS, [group] "+&f"(group)
                     : [mean] "f"(mean), [blocks] "r"(blocks), [turns] "r"(SUM_BLOCK >> 2) : CLOBBERS);
    return rest ? group + squares(0.0f, x, mean, rest >> 2, rest & 3) : group;
}

/* Any tile: several images, or a part of the sums. */
static __attribute__((noinline)) void any(const channel_moments_f32_args_t *p) {
    const uint32_t gap = p->x_n - p->s, size = sum_size(p->carry);
    for (uint32_t c = hal_core_id(); c < p->c; c += hal_core_count()) {
        const float *const row = p->x + c * p->x_c, *x = row;
        float *const carry = size ? p->carry + 2 * SUM_CARRIED * c : 0;
        sum_t sum = sum_begin(p->first, size, p->mean[c], carry);
        sum_t spread = sum_begin(p->first, size, p->inv_std[c], carry + SUM_CARRIED);
        if (p->phase == 0)
            for (uint32_t n = 0; n < p->n; n++, x += gap) {
                if (n > 0 || !p->first) sum_row(&sum, size, p->start);
                add_values(&sum, size, &x, p->start, p->s);
            }
        sum_t all = sum;
        const float mean = sum_value(&all, size) * p->inverse_count;
        x = row;
        if (p->phase + p->phases == 2)
            for (uint32_t n = 0; n < p->n; n++, x += gap) {
                if (n > 0 || !p->first) sum_row(&spread, size, p->start);
                add_squares(&spread, size, &x, mean, p->start, p->s);
            }
        if (p->last) {
            const float variance = sum_value(&spread, size);
            p->mean[c] = mean;
            p->inv_std[c] = rsqrt_f32(__builtin_fmaf(variance, p->inverse_count, p->epsilon));
            sum_end(size, carry);
            sum_end(size, carry + SUM_CARRIED);
        } else {
            p->mean[c] = sum_wait(&sum, size, carry);
            p->inv_std[c] = sum_wait(&spread, size, carry + SUM_CARRIED);
        }
    }
}

/* All of one image whose sums are one group each. */
static __attribute__((noinline)) void groups(const channel_moments_f32_args_t *p) {
    const uint32_t cores = hal_core_count(), blocks = p->s >> BLOCK_SHIFT, rest = p->s & (SUM_BLOCK - 1);
    const float inverse_count = p->inverse_count, epsilon = p->epsilon;
    for (uint32_t c = hal_core_id(); c < p->c; c += cores) {
        const float *x = p->x + c * p->x_c, *again = x;
        const float mean = group_total(&again, blocks, rest) * inverse_count;
        const float spread = group_squares(&x, mean, blocks, rest);
        p->mean[c] = mean;
        p->inv_std[c] = rsqrt_f32(__builtin_fmaf(spread, inverse_count, epsilon));
        float *const carry = p->carry + 2 * SUM_CARRIED * c;
        sum_end(1, carry), sum_end(1, carry + SUM_CARRIED);
    }
}

void channel_moments_f32(const void *args) {
    const channel_moments_f32_args_t *p = args;
    if (p->phases == 1 || p->n > 1 || (p->carry && !is_one_group(p->s))) {
        any(p);
        return;
    }
    if (p->carry) {
        groups(p);
        return;
    }
    const uint32_t id = hal_core_id(), cores = hal_core_count(), turns = p->s >> 2, rest = p->s & 3;
    const float inverse_count = p->inverse_count, epsilon = p->epsilon, *x = p->x + id * p->x_c;
    const uint32_t gap = cores * p->x_c - p->s;
    float *inv_std = p->inv_std + id;
    for (float *mean = p->mean + id, *end = p->mean + p->c; mean < end; mean += cores, inv_std += cores, x += gap) {
        const float *again = x;
        *mean = total(0.0f, &again, turns, rest) * inverse_count;
        const float spread = squares(0.0f, &x, *mean, turns, rest);
        *inv_std = rsqrt_f32(__builtin_fmaf(spread, inverse_count, epsilon));
    }
}
