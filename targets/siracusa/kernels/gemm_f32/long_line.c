/* A vector times a matrix, sums of several blocks of products. */
#include "gemm_f32.h"
#define SEVERAL_BLOCKS 1
#include "gemm_line.h"

void gemm_f32_long_line(const void *args) { line_of(args); }
