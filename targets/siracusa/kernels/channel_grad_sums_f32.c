/* Sums of dY (X - mean) and of dY per channel; the portable kernel defines the order. */
#include "channel_grad_sums_f32.h"
#include "hal.h"
#include "row_loop.h"
#include "sum_f32.h"

#define CENTRE(x) "fsub.s " x ", " x ", %[mean]\n"
#define PLUS(dy) "fadd.s %[sum], %[sum], " dy "\n"

void channel_grad_sums_f32(const void *args) {
    const channel_grad_sums_f32_args_t *p = args;
    const uint32_t cores = hal_core_count(), images = p->n, size = p->block;
    const uint32_t dy_gap = p->dy_n - p->s, x_gap = p->x_n - p->s;
    for (uint32_t c = hal_core_id(); c < p->c; c += cores) {
        const float mean = p->mean[c], *dy = p->dy + c * p->dy_c, *x = p->x + c * p->x_c;
        float *const carry = size ? p->carry + 4 * c : 0;
        sum_t dots = sum_begin(p->first, size, p->dscale[c], carry);
        sum_t sums = sum_begin(p->first, size, p->dbias[c], carry + 2);
        uint32_t images_left = images, position = p->start, left = p->s;
        if (!p->first) sum_row(&dots, size, position), sum_row(&sums, size, position);
        for (;;) {
            const uint32_t count = sum_next(&dots, size, position, left), turns = count >> 2, rest = count & 3;
            sum_next(&sums, size, position, count);
            float dot = dots.block, sum = sums.block;
            __asm__ volatile(ROW_LOOP(22,
                                      FLW("ft0", "%[x]", 0) FLW("fa0", "%[dy]", 0) CENTRE("ft0") PLUS("fa0")
                                      FLW("ft1", "%[x]", 4) FMA("%[dot]", "fa0", "ft0") FLW("fa1", "%[dy]", 4)
                                      CENTRE("ft1") PLUS("fa1") FLW("ft2", "%[x]", 8) FMA("%[dot]", "fa1", "ft1")
                                      FLW("fa2", "%[dy]", 8) CENTRE("ft2") PLUS("fa2") FLW("ft3", "%[x]", 12)
                                      FMA("%[dot]", "fa2", "ft2") FLW("fa3", "%[dy]", 12) CENTRE("ft3") PLUS("fa3")
                                      ADDI("%[x]", 16) FMA("%[dot]", "fa3", "ft3") ADDI("%[dy]", 16),
                                      7,
                                      FLW("ft0", "%[x]", 0) FLW("fa0", "%[dy]", 0) CENTRE("ft0") ADDI("%[x]", 4)
                                      PLUS("fa0") FMA("%[dot]", "fa0", "ft0") ADDI("%[dy]", 4))
                             : [dy] "+&r"(dy), [x] "+&r"(x), [dot] "+&f"(dot), [sum] "+&f"(sum)
                             : [mean] "f"(mean), [turns] "r"(turns), [rest] "r"(rest)
                             : "ft0", "ft1", "ft2", "ft3", "fa0", "fa1", "fa2", "fa3", "memory");
            dots.block = dot, sums.block = sum;
            position += count, left -= count;
            if (left > 0) continue;
            if (--images_left == 0) break;
            dy += dy_gap, x += x_gap, position = p->start, left = p->s;
            sum_row(&dots, size, position), sum_row(&sums, size, position);
        }
        if (__builtin_expect(p->last, 1)) {
            p->dscale[c] = sum_value(&dots, size) * p->inv_std[c];
            p->dbias[c] = sum_value(&sums, size);
            sum_end(size, carry);
            sum_end(size, carry + 2);
        } else {
            p->dscale[c] = sum_wait(&dots, size, carry);
            p->dbias[c] = sum_wait(&sums, size, carry + 2);
        }
    }
}
