/* Any product whose sums are of one block of products. */
#include "gemm_f32.h"
#define MATRICES gemm_f32_args_t
#define SEVERAL_BLOCKS 0
#include "gemm_lines.h"
#include "matrix_blocks.h"

void gemm_f32_one_block(const void *args) {
    const gemm_f32_args_t *p = args;
    if (p->m < 4 || p->n < 4) {
        lines(p);
    } else {
        matrix_blocks(p);
        rest(p);
    }
}
