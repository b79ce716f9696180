/* A convolution of one tap without stride or padding, on whole planes, as a product of matrices: weights times a plane of
 * each channel. */
#ifndef CONV_MATRIX_H
#define CONV_MATRIX_H

#include <stdint.h>

typedef struct {
    const float *a, *b, *c, *gate;
    float *y;
    uint32_t batch, m, n, k, a_b, a_m, a_k, b_b, b_k, b_n, c_b, c_m, c_n, y_b, y_m, gate_b, gate_m;
    uint32_t relu, first, last, single;
    float alpha, beta;
} matrices_t;

#define MATRICES matrices_t
#define SEVERAL_BLOCKS 1
#include "matrix_blocks.h"

#endif
