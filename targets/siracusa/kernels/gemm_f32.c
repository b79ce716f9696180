/* Y = alpha * A B + beta * C on strided operands; the portable kernel defines the bits: each output sums k in blocks, as
 * products_f32.h says, and adds them to what waits in Y.
 *
 * This is for all calls; gemm_f32/variants.toml has functions for those that matter. */
#include "gemm_f32.h"
#define SEVERAL_BLOCKS 1
#include "gemm_products.h"

void gemm_f32(const void *args) { products(args); }
