/* A convolution of one tap without stride or padding, on whole planes, as a product of matrices: weights times a plane of
 * each channel. */
#ifndef CONV_MATRIX_H
#define CONV_MATRIX_H

#include "conv.h"

typedef struct {
    const float *a, *b, *c, *gate;
    float *y;
    uint32_t batch, m, n, k, a_b, a_m, a_k, b_b, b_k, b_n, c_b, c_m, c_n, y_b, y_m, gate_b, gate_m;
    uint32_t relu, first, last, single;
    float alpha, beta;
} matrices_t;

#define MATRICES matrices_t
#include "matrix_blocks.h"

/* Whether blocks of four channels by four outputs are all of it, enough for the cores, and steps by images or groups. */
static inline int is_matrix(uint32_t n, uint32_t g, uint32_t channels, uint32_t outputs) {
    return ((channels | outputs) & 3) == 0 && (n == 1 || g == 1) && worth_fours(n * g * (channels >> 2) * (outputs >> 2));
}

#endif
