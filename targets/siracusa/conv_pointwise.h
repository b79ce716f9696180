/* A convolution of one tap without stride or padding over whole planes of one image, or its dX: weights times planes, in blocks
 * of four channels by four outputs, where neither bias nor Relu follow and every sum is one block of one tile. conv_matrix.h
 * has the rest; this reads the kernel's own arguments, which is less code to fetch. */
#ifndef CONV_POINTWISE_H
#define CONV_POINTWISE_H

#include "conv_ends.h"
#include "gemm_block.h"
#include "hal.h"
#include "matrix_epilogue.h"

/* Every core has as many blocks one after the other as any, along a row of blocks, then along the next one. */
static inline void pointwise(const ends_t *p) {
    const uint32_t columns = p->SIZE(h) * p->SIZE(w);
#if CONV_APART == 1
    product_t product = {.a_m = 4 * p->w_m, .a_k = 4 * p->w_c, .b_k = 4 * p->x_c, .b_n = 4, .k = p->c};
    const uint32_t all = (p->m >> 2) * (columns >> 2), y_m = p->y_m;
#else
    product_t product = {.a_m = 4 * p->w_c, .a_k = 4 * p->w_m, .b_k = 4 * p->dy_m, .b_n = 4, .k = p->m};
    const uint32_t all = (p->c >> 2) * (columns >> 2), y_m = p->dx_c;
#endif
    const uint32_t each = rounds_of(all, hal_core_count());
    uint32_t at = 4 * hal_core_id() * each, m = 0;
    if (hal_core_id() * each >= all) return;
    uint32_t count = hal_min(each, all - hal_core_id() * each);
    while (at >= columns) at -= columns, m += 4;
    product.a = p->w + m * (product.a_m >> 2), product.b = p->IN() + at;
    float *y = p->OUT() + m * y_m + at;
    for (;;) {
        float s[4][4];
        gemm_block(&product, 0, 0, s);
        put_rows(s, y, y_m);
#if CONV_APART == -1
        if (p->gate) {
            const float *gate = p->gate + m * p->gate_c + at;
            float *gated = y;
            ACTIVATE(MASK_OPEN, gate, p->gate_c, gated, y_m);
        }
#endif
        if (--count == 0) return;
        product.b += 4, y += 4, at += 4;
        if (at < columns) continue;
        at = 0, m += 4, product.b -= columns, product.a += product.a_m, y += 4 * y_m - columns;
    }
}

#endif
