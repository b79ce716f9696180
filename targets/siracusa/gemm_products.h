/* Any product: in blocks of 4 x 4 outputs and, where rows or columns do not fill one, in lines. SEVERAL_BLOCKS says whether its
 * sums may be of several blocks of products. */
#ifndef GEMM_PRODUCTS_H
#define GEMM_PRODUCTS_H

#include "gemm_lines.h"
#include "matrix_blocks.h"

static inline void products(const MATRICES *p) {
    if (p->m < 4 || p->n < 4) {
        lines(p);
    } else {
        matrix_blocks(p);
        rest(p);
    }
}

#endif
