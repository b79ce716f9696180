/* Sums of dY ((X - mean) inv_std + rest) and of dY per channel; the portable kernel defines the order. */
#include "channel_grad_sums_f32.h"
#include "block_sum.h"
#include "hal.h"
#include "row_loop.h"

#define CENTRE(x) "fsub.s " x ", " x ", %[mean]\n"
#define PLUS(dy) "fadd.s %[sum], %[sum], " dy "\n"

/* Four elements, and one. */
#define TURN                                                                                                          \
    FLW("ft0", "%[x]", 0) FLW("fa0", "%[dy]", 0) CENTRE("ft0") PLUS("fa0")                                            \
    FLW("ft1", "%[x]", 4) FMA("%[dot]", "fa0", "ft0") FLW("fa1", "%[dy]", 4)                                          \
    CENTRE("ft1") PLUS("fa1") FLW("ft2", "%[x]", 8) FMA("%[dot]", "fa1", "ft1")                                       \
    FLW("fa2", "%[dy]", 8) CENTRE("ft2") PLUS("fa2") FLW("ft3", "%[x]", 12)                                           \
    FMA("%[dot]", "fa2", "ft2") FLW("fa3", "%[dy]", 12) CENTRE("ft3") PLUS("fa3")                                     \
    ADDI("%[x]", 16) FMA("%[dot]", "fa3", "ft3") ADDI("%[dy]", 16)
#define ONE                                                                                                           \
    FLW("ft0", "%[x]", 0) FLW("fa0", "%[dy]", 0) CENTRE("ft0") ADDI("%[x]", 4)                                        \
    PLUS("fa0") FMA("%[dot]", "fa0", "ft0") ADDI("%[dy]", 4)
#define OPERANDS [dy] "+&r"(*dy), [x] "+&r"(*x), [dot] "+&f"(dot), [sum] "+&f"(sum)
#define CLOBBERS "ft0", "ft1", "ft2", "ft3", "fa0", "fa1", "fa2", "fa3", "memory"

typedef struct {
    float dot, sum;
} both_t;

/* The finished sum of dY normal X, by those of dY (X - mean) and of dY; rest may be absent. */
static inline float scale_of(const channel_grad_sums_f32_args_t *p, uint32_t c, float dot, float sum) {
    const float scale = dot * p->inv_std[c];
    return p->rest ? __builtin_fmaf(p->rest[c], sum, scale) : scale;
}

/* The open blocks with `count` elements more; leaves dy and x behind them. */
static inline both_t part(float dot, float sum, const float **dy, const float **x, float mean, uint32_t count) {
    __asm__ volatile(ROW_LOOP(22, TURN, 7, ONE)
                     : OPERANDS : [mean] "f"(mean), [turns] "r"(count >> 2), [rest] "r"(count & 3) : CLOBBERS);
    return (both_t){dot, sum};
}

/* The open groups with so many blocks more, and with elements of another one. */
static inline both_t blocks(both_t group, const float **dy, const float **x, float mean, uint32_t whole) {
    float dot = 0.0f, sum = 0.0f;
    __asm__ volatile(LOOP_OUTER("%[blocks]", 27) LOOP("%[turns]", 22) TURN LOOP_END(22)
                     ADD_BLOCK("%[dots]", "%[dot]") ADD_BLOCK("%[sums]", "%[sum]") LOOP_OUTER_END(27)
                     : OPERANDS, [dots] "+&f"(group.dot), [sums] "+&f"(group.sum)
                     : [mean] "f"(mean), [blocks] "r"(whole), [turns] "r"(SUM_BLOCK >> 2) : CLOBBERS);
    return group;
}

static inline both_t group(const float **dy, const float **x, float mean, uint32_t count) {
    const uint32_t whole = count >> BLOCK_SHIFT, rest = count & (SUM_BLOCK - 1);
    both_t sums = {0.0f, 0.0f};
    if (whole) sums = blocks(sums, dy, x, mean, whole);
    if (rest) {
        const both_t last = part(0.0f, 0.0f, dy, x, mean, rest);
        sums.dot += last.dot, sums.sum += last.sum;
    }
    return sums;
}

/* All of one image. */
static __attribute__((noinline)) void rows(const channel_grad_sums_f32_args_t *p) {
    const uint32_t cores = hal_core_count();
    for (uint32_t c = hal_core_id(); c < p->c; c += cores) {
        const float mean = p->mean[c], *dy = p->dy + c * p->dy_c, *x = p->x + c * p->x_c;
        uint32_t left = p->s, count = hal_min(left, GROUP_LENGTH);
        both_t sums = group(&dy, &x, mean, count);
        if (left -= count) {
            total_t dot = {sums.dot, 0.0f}, sum = {sums.sum, 0.0f};
            for (; left > 0; left -= count) {
                count = hal_min(left, GROUP_LENGTH);
                sums = group(&dy, &x, mean, count);
                total_add(&dot, sums.dot), total_add(&sum, sums.sum);
            }
            sums = (both_t){total_value(&dot), total_value(&sum)};
        }
        p->dscale[c] = scale_of(p, c, sums.dot, sums.sum);
        p->dbias[c] = sums.sum;
        float *const carry = p->carry + 2 * SUM_CARRIED * c;
        sum_end(1, carry), sum_end(1, carry + SUM_CARRIED);
    }
}

/* Any tile of a sum that is several blocks. */
static __attribute__((noinline)) void any(const channel_grad_sums_f32_args_t *p) {
    const uint32_t cores = hal_core_count(), size = sum_size(p->carry);
    const uint32_t dy_gap = p->dy_n - p->s, x_gap = p->x_n - p->s;
    for (uint32_t c = hal_core_id(); c < p->c; c += cores) {
        const float mean = p->mean[c], *dy = p->dy + c * p->dy_c, *x = p->x + c * p->x_c;
        float *const carry = p->carry + 2 * SUM_CARRIED * c;
        sum_t dots = sum_begin(p->first, size, p->dscale[c], carry);
        sum_t sums = sum_begin(p->first, size, p->dbias[c], carry + SUM_CARRIED);
        for (uint32_t n = 0; n < p->n; n++, dy += dy_gap, x += x_gap) {
            if (n > 0 || !p->first) sum_row(&dots, size, p->start), sum_row(&sums, size, p->start);
            for (uint32_t position = p->start, left = p->s; left > 0;) {
                uint32_t count = sum_next(&dots, size, position, left);
                sum_next(&sums, size, position, count);
                const uint32_t whole = whole_blocks(size, position, left);
                if (whole) {
                    const both_t more = blocks((both_t){dots.group, sums.group}, &dy, &x, mean, whole);
                    dots.group = more.dot, sums.group = more.sum, count = whole << BLOCK_SHIFT;
                } else {
                    const both_t more = part(dots.block, sums.block, &dy, &x, mean, count);
                    dots.block = more.dot, sums.block = more.sum;
                }
                position += count, left -= count;
            }
        }
        if (p->last) {
            const float sum = sum_value(&sums, size);
            p->dscale[c] = scale_of(p, c, sum_value(&dots, size), sum);
            p->dbias[c] = sum;
            sum_end(size, carry), sum_end(size, carry + SUM_CARRIED);
        } else {
            p->dscale[c] = sum_wait(&dots, size, p->start + p->s, carry);
            p->dbias[c] = sum_wait(&sums, size, p->start + p->s, carry + SUM_CARRIED);
        }
    }
}

void channel_grad_sums_f32(const void *args) {
    const channel_grad_sums_f32_args_t *p = args;
    if (p->carry) {
        if (p->n == 1 && p->first && p->last)
            rows(p);
        else
            any(p);
        return;
    }
    const uint32_t cores = hal_core_count(), images = p->n;
    const uint32_t dy_gap = p->dy_n - p->s, x_gap = p->x_n - p->s;
    for (uint32_t c = hal_core_id(); c < p->c; c += cores) {
        const float mean = p->mean[c], *dy = p->dy + c * p->dy_c, *x = p->x + c * p->x_c;
        both_t sums = {0.0f, 0.0f};
        if (__builtin_expect(!p->first, 0)) sums = (both_t){p->dscale[c], p->dbias[c]};
        uint32_t left = images;
        do {
            sums = part(sums.dot, sums.sum, &dy, &x, mean, p->s);
            dy += dy_gap, x += x_gap;
        } while (--left);
        if (__builtin_expect(p->last, 1)) sums.dot = scale_of(p, c, sums.dot, sums.sum);
        p->dscale[c] = sums.dot, p->dbias[c] = sums.sum;
    }
}
