/* Several products of matrices that share an operand or their result, as products one after the other. Those that share
 * their result add it: each reads what the one before has left there; others may each add a C of their own. A kernel
 * deals out the outputs of a product by its rows and columns alone, so that every core reads none but its own. */
#ifndef JOINT_PRODUCTS_F32_H
#define JOINT_PRODUCTS_F32_H

#include "gemms_f32.h"

/* The members of a Gemm's arguments; batch is 1, alpha and beta too, and no gate or Relu is fused. */
typedef struct {
    const float *a, *b, *c, *gate;
    float *y;
    uint32_t batch, m, n, k, a_b, a_m, a_k, b_b, b_k, b_n, c_b, c_m, c_n, y_b, y_m, gate_b, gate_m;
    uint32_t relu, first, last, single;
    float alpha, beta;
} joint_product_t;

/* The next product, of the operands that are its own, where there are some. */
#define NEXT_PRODUCT(i)                                                                                                   \
    if (!p->a##i && !p->b##i) return;                                                                                    \
    if (p->a##i) g.a = p->a##i;                                                                                          \
    if (p->b##i) g.b = p->b##i;                                                                                          \
    if (p->y##i) g.y = p->y##i, g.c = p->c##i, g.c_m = p->c_m##i, g.c_n = p->c_n##i;                                     \
    else g.c = g.y, g.c_m = g.y_m, g.c_n = 1;                                                                            \
    g.m = p->m##i, g.n = p->n##i, g.k = p->k##i, g.a_m = p->a_m##i, g.a_k = p->a_k##i;                                  \
    g.b_k = p->b_k##i, g.b_n = p->b_n##i, g.y_m = p->y_m##i;                                                            \
    each(&g);

/* Calls `each` for every product. */
static inline void joint_products(const gemms_f32_args_t *p, float one, void (*each)(const joint_product_t *)) {
    joint_product_t g = {
        .a = p->a, .b = p->b, .c = p->c, .gate = 0, .y = p->y, .batch = 1, .m = p->m, .n = p->n, .k = p->k, .a_b = 0,
        .a_m = p->a_m, .a_k = p->a_k, .b_b = 0, .b_k = p->b_k, .b_n = p->b_n, .c_b = 0, .c_m = p->c_m, .c_n = p->c_n,
        .y_b = 0, .y_m = p->y_m, .gate_b = 0, .gate_m = 0, .relu = 0, .first = p->first, .last = p->last,
        .single = p->single, .alpha = one, .beta = one,
    };
    each(&g);
    NEXT_PRODUCT(1)
    NEXT_PRODUCT(2)
}

#endif
