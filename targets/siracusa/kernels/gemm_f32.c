/* Y = alpha * A B + beta * C on strided operands; the portable kernel defines the bits: each output sums k in blocks, as
 * products_f32.h says, and adds them to what waits in Y.
 *
 * This is for all calls; gemm_f32/specializations.toml has functions for those that matter. */
#include "gemm_f32.h"
#define MATRICES gemm_f32_args_t
#define SEVERAL_BLOCKS 1
#include "gemm_lines.h"
#include "matrix_blocks.h"

void gemm_f32(const void *args) {
    const gemm_f32_args_t *p = args;
    if (p->m < 4 || p->n < 4) {
        lines(p);
    } else {
        matrix_blocks(p);
        rest(p);
    }
}
