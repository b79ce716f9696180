/* Three by three taps of one output and one channel, over all of a small plane whose border is one row or column at most.
 * What takes time there is code that is fetched, so all rows take the same: where a tap of the first or the last row lies
 * outside of X, its sums get what lies nearest, and are then set to what they were. */
#ifndef CONV_GRAD_W_PLANE_H
#define CONV_GRAD_W_PLANE_H

#include "conv_grad_w_args.h"
#include "hal.h"
#include "pulp.h"

#define PLANE_TAP(h, k, x) FMA("%[s" #h #k "]", "fa0", x)
/* A column with taps a and b of each row, whose elements lie so many bytes from the row's first one. */
#define PLANE_EDGE(a, b, at_a, at_b)                                                                                  \
    FLW("fa0", "%[dy]", 0) FLW("ft0", "%[x0]", at_a) FLW("ft1", "%[x0]", at_b) PLANE_TAP(0, a, "ft0")                 \
    FLW("ft2", "%[x1]", at_a) PLANE_TAP(0, b, "ft1") FLW("ft0", "%[x1]", at_b) PLANE_TAP(1, a, "ft2")                 \
    FLW("ft1", "%[x2]", at_a) PLANE_TAP(1, b, "ft0") FLW("ft2", "%[x2]", at_b) PLANE_TAP(2, a, "ft1")                 \
    ADDI("%[dy]", 4) PLANE_TAP(2, b, "ft2") ADD("%[x0]", "t3") ADD("%[x1]", "t3") ADD("%[x2]", "t3")
#define PLANE_COLUMN                                                                                                  \
    FLW("ft0", "%[x0]", 0) FLW("fa0", "%[dy]", 0) FLW("ft1", "%[x0]", 4) PLANE_TAP(0, 0, "ft0")                       \
    FLW("ft2", "%[x0]", 8) PLANE_TAP(0, 1, "ft1") FLW("ft0", "%[x1]", 0) PLANE_TAP(0, 2, "ft2")                       \
    FLW("ft1", "%[x1]", 4) PLANE_TAP(1, 0, "ft0") FLW("ft2", "%[x1]", 8) PLANE_TAP(1, 1, "ft1")                       \
    FLW("ft0", "%[x2]", 0) PLANE_TAP(1, 2, "ft2") FLW("ft1", "%[x2]", 4) PLANE_TAP(2, 0, "ft0")                       \
    FLW("ft2", "%[x2]", 8) ADD("%[x0]", "t3") PLANE_TAP(2, 1, "ft1") ADD("%[x1]", "t3")                           \
    ADDI("%[dy]", 4) PLANE_TAP(2, 2, "ft2") ADD("%[x2]", "t3")
/* What all rows have in common: columns without a tap to their left, with all taps, and without one to their right; and
 * steps, in bytes, to the next column of X and from the end of a row to the next row. An asm statement has no room for it. */
typedef struct {
    uint32_t before, middle, behind, column, x_next, dy_next;
} columns_t;

/* `rows` rows. */
#define PLANE_ROWS                                                                                                    \
    "lw t0, 0(%[v])\n lw t1, 4(%[v])\n lw t2, 8(%[v])\n lw t3, 12(%[v])\n lw t4, 16(%[v])\n lw t5, 20(%[v])\n"    \
    "1: beqz t0, 2f\n" PLANE_EDGE(1, 2, 4, 8)                                                                         \
    "2: beqz t1, 3f\n" LOOP("t1", 23) PLANE_COLUMN LOOP_END(23)                                                       \
    "3: beqz t2, 4f\n" PLANE_EDGE(0, 1, 0, 4)                                                                         \
    "4: " ADD("%[x0]", "t4") ADD("%[x1]", "t4") ADDI("%[rows]", -1) ADD("%[x2]", "t4") ADD("%[dy]", "t5")              \
    "bnez %[rows], 1b\n"

/* Cores take turns at channels. */
static inline void planes(const args_t *p) {
    const uint32_t cores = hal_core_count(), sw = p->sw, columns = p->ow, x_h = p->x_h;
    const uint32_t above = 0 - (uint32_t)p->top, before = 0 - (uint32_t)p->left;
    const uint32_t below = p->oh * p->sh + 2 - p->sh - above >= p->x_rows;
    const uint32_t behind = columns * sw + 2 - sw - before >= p->x_cols;
    const columns_t v = {before, columns - before - behind, behind, 4 * sw, 4 * (p->sh * x_h - columns * sw),
                         4 * (p->dy_h - columns)};
    for (uint32_t g = hal_core_id(); g < p->g; g += cores) {
        const float *dy = p->dy + g * p->dy_g, *x1 = p->x + g * p->x_g + (1 - above) * x_h - before, *x0 = x1;
        float *dw = p->grad + g * p->dw_g, s[3][3] = {{0.0f}}, kept[3] = {0.0f};
        uint32_t rows = above;
        for (uint32_t part = 0;; part++) {
            const float *x2 = part < 2 ? x1 + x_h : x1;
            if (rows > 0)
                __asm__ volatile(PLANE_ROWS
                                 : [s00] "+f"(s[0][0]), [s01] "+f"(s[0][1]), [s02] "+f"(s[0][2]), [s10] "+f"(s[1][0]),
                                   [s11] "+f"(s[1][1]), [s12] "+f"(s[1][2]), [s20] "+f"(s[2][0]), [s21] "+f"(s[2][1]),
                                   [s22] "+f"(s[2][2]), [x0] "+r"(x0), [x1] "+r"(x1), [x2] "+r"(x2), [dy] "+r"(dy),
                                   [rows] "+r"(rows)
                                 : [v] "r"(&v)
                                 : "t0", "t1", "t2", "t3", "t4", "t5", "ft0", "ft1", "ft2", "fa0", "memory");
            if (part == 2) break;
            x0 = x1 - x_h;
            if (part == 0) {
                rows = p->oh - above - below;
                UNROLL for (uint32_t k = 0; k < 3; k++) s[0][k] = 0.0f;
            } else {
                rows = below;
                UNROLL for (uint32_t k = 0; k < 3; k++) kept[k] = s[2][k];
            }
        }
        UNROLL for (uint32_t k = 0; k < 3; k++) {
            const float last = below ? kept[k] : s[2][k];
            dw[k] = stepped(p, dw + k, s[0][k]), dw[3 + k] = stepped(p, dw + 3 + k, s[1][k]);
            dw[6 + k] = stepped(p, dw + 6 + k, last);
        }
    }
}

#endif
