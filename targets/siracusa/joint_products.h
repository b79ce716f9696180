/* Products of matrices that share an operand or their result, one after the other: joint_products_f32.h. PRODUCT is `products`,
 * or `matrix_blocks` where all have blocks without a rest; SEVERAL_BLOCKS is that of each. */
#ifndef JOINT_PRODUCTS_H
#define JOINT_PRODUCTS_H

#include "joint_products_f32.h"
#define MATRICES joint_product_t
#define WAITS_ASIDE 1
#include "gemm_products.h"

static inline void joint(const void *args) { joint_products(args, LITERAL_F32(1.0f), PRODUCT); }

#endif
