/* Y = X repeated along the axes X was broadcast on; an image of twice the height and width has a loop of its own. */
#include "expand_f32.h"
#include "copy_f32.h"

COPY_RUN_F32(expand_f32)

/* Each pixel of X is two in two lines of Y; a core has rows of X, a turn two of their pixels. */
static inline void doubled(const expand_f32_args_t *p) {
    const share_t share = share_of(p->n0);
    if (share.begin == share.end) return;
    const float *x = p->x + share.begin * p->x0;
    float *y = p->y + share.begin * p->y0, *below = y + p->y1;
    const uint32_t x_next = 4 * (p->x0 - p->n2), y_next = 4 * (p->y0 - 2 * p->n2);
    __asm__ volatile(LOOP_OUTER("%[rows]", 14) LOOP("%[pairs]", 10)
                     LW_NEXT("t0", "%[x]", 4) LW_NEXT("t1", "%[x]", 4)
                     SW_NEXT("t0", "%[y]", 4) SW_NEXT("t0", "%[y]", 4) SW_NEXT("t1", "%[y]", 4) SW_NEXT("t1", "%[y]", 4)
                     SW_NEXT("t0", "%[below]", 4) SW_NEXT("t0", "%[below]", 4)
                     SW_NEXT("t1", "%[below]", 4) SW_NEXT("t1", "%[below]", 4)
                     LOOP_END(10)
                     ADD("%[x]", "%[x_next]") ADD("%[y]", "%[y_next]") ADD("%[below]", "%[y_next]") LOOP_OUTER_END(14)
                     : [x] "+&r"(x), [y] "+&r"(y), [below] "+&r"(below)
                     : [rows] "r"(share.end - share.begin), [pairs] "r"(p->n2 >> 1), [x_next] "r"(x_next),
                       [y_next] "r"(y_next)
                     : "t0", "t1", "memory");
}

void expand_f32(const void *args) {
    const expand_f32_args_t *p = args;
    if (p->n1 == 2 && p->n3 == 2 && p->x1 + p->x3 == 0 && p->x2 == 1 && p->y2 == 2 && p->n2 > 0 && (p->n2 & 1) == 0)
        doubled(p);
    else
        expand_f32_run(p);
}
