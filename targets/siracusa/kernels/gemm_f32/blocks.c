/* A product in blocks of 4 x 4 outputs, of which the last may overlap others, sums of one block of products. */
#include "gemm_f32.h"
#define MATRICES gemm_f32_args_t
#define SEVERAL_BLOCKS 0
#define OVERLAPPING 1
#include "matrix_blocks.h"

void gemm_f32_blocks(const void *args) { matrix_blocks(args); }
