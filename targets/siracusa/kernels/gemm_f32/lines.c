/* A product of less than four rows or columns, sums of one block of products. */
#include "gemm_f32.h"
#define SEVERAL_BLOCKS 0
#include "gemm_lines.h"

void gemm_f32_lines(const void *args) { lines(args); }
