/* A vector times a matrix, sums of one block of products. */
#include "gemm_f32.h"
#define SEVERAL_BLOCKS 0
#include "gemm_line.h"

void gemm_f32_line(const void *args) { line_of(args); }
