/* Y = X inv_std scale with inv_std = 1 / sqrt(mean of X X + epsilon) of each row; the portable kernel defines the order. A core has
 * whole rows. inv_std may be absent. */
#include "rms_rows_f32.h"
#include "centred_sum.h"
#include "hal.h"
#include "mean_f32.h"

#define TIMES(x, factor) "fmul.s " x ", " x ", " factor "\n"
/* 10 instructions for two neighbours. */
#define PAIR(x, at, z, behind)                                                                                        \
    FLW(x, "%[x]", at) FLW(z, "%[x]", behind) FLW("fa0", "%[scale]", at) TIMES(x, "%[inv_std]") TIMES(z, "%[inv_std]") \
    FLW("fa1", "%[scale]", behind) TIMES(x, "fa0") TIMES(z, "fa1") FSW(x, "%[y]", at) FSW(z, "%[y]", behind)

static inline void scale_row(float *y, const float *x, const float *scale, float inv_std, uint32_t count) {
    __asm__ volatile(ROW_LOOP(23,
                              PAIR("ft0", 0, "ft1", 4) PAIR("ft2", 8, "ft3", 12) ADDI("%[x]", 16) ADDI("%[scale]", 16)
                              ADDI("%[y]", 16),
                              8,
                              FLW("ft0", "%[x]", 0) FLW("fa0", "%[scale]", 0) TIMES("ft0", "%[inv_std]") ADDI("%[x]", 4)
                              TIMES("ft0", "fa0") ADDI("%[scale]", 4) FSW("ft0", "%[y]", 0) ADDI("%[y]", 4))
                     : [x] "+&r"(x), [scale] "+&r"(scale), [y] "+&r"(y)
                     : [inv_std] "f"(inv_std), [turns] "r"(count >> 2), [rest] "r"(count & 3)
                     : "ft0", "ft1", "ft2", "ft3", "fa0", "fa1", "memory");
}

void rms_rows_f32(const void *args) {
    const rms_rows_f32_args_t *p = args;
    const uint32_t cores = hal_core_count(), columns = p->c;
    for (uint32_t r = hal_core_id(); r < p->r; r += cores) {
        const float *const row = p->x + r * p->x_r, *x = row;
        const float squares = p->block ? centred_row(1, &x, 0.0f, columns) : centred_part(1, 0.0f, &x, 0.0f, columns);
        const float inv_std = deviation_of(squares, p->inverse_count, p->epsilon, 0.0f);
        if (p->inv_std) p->inv_std[r] = inv_std;
        scale_row(p->y + r * p->y_r, row, p->scale, inv_std, columns);
    }
}
