/* A convolution of one tap as a product of matrices: conv_matrix.h. */
#include "conv_f32.h"
#include "conv_matrix.h"

void conv_f32_matrix(const void *args) {
    const conv_f32_args_t *p = args;
    const matrices_t v = {
        .a = p->w, .b = p->x, .c = p->b, .gate = 0, .y = p->y, .batch = p->n * p->g, .m = p->m, .n = p->oh * p->ow,
        .k = p->c, .a_b = p->g > 1 ? p->w_g : 0, .a_m = p->w_m, .a_k = p->w_c, .b_b = p->g > 1 ? p->x_g : p->x_n,
        .b_k = p->x_c, .b_n = 1, .c_b = p->g > 1 ? p->b_g : 0, .c_m = 1, .c_n = 0, .y_b = p->g > 1 ? p->y_g : p->y_n,
        .y_m = p->y_m, .gate_b = 0, .gate_m = 0, .relu = p->relu, .first = p->first, .last = p->last,
        .single = p->single, .alpha = LITERAL_F32(1.0f), .beta = LITERAL_F32(1.0f),
    };
    matrix_blocks(&v);
}
