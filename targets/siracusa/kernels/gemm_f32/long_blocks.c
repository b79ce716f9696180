/* A product in blocks of 4 x 4 outputs without a rest, sums of several blocks of products. */
#include "gemm_f32.h"
#define MATRICES gemm_f32_args_t
#define SEVERAL_BLOCKS 1
#include "matrix_blocks.h"

void gemm_f32_long_blocks(const void *args) { matrix_blocks(args); }
