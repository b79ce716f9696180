/* Any product whose sums are of one block of products. */
#include "gemm_f32.h"
#define SEVERAL_BLOCKS 0
#include "gemm_products.h"

void gemm_f32_one_block(const void *args) { products(args); }
