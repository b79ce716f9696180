/* dX of a convolution of one tap as a product of matrices: conv_matrix.h. */
#include "conv_grad_x_f32.h"
#include "conv_matrix.h"

void conv_grad_x_f32_matrix(const void *args) {
    const conv_grad_x_f32_args_t *p = args;
    const uint32_t grouped = p->g > 1;
    const matrices_t v = {
        .a = p->w, .b = p->dy, .c = 0, .gate = p->gate, .y = p->dx, .batch = p->n * p->g, .m = p->c,
        .n = p->ih * p->iw, .k = p->m, .a_b = grouped ? p->w_g : 0, .a_m = p->w_c, .a_k = p->w_m,
        .b_b = grouped ? p->dy_g : p->dy_n, .b_k = p->dy_m, .b_n = 1, .c_b = 0, .c_m = 0, .c_n = 0,
        .y_b = grouped ? p->dx_g : p->dx_n, .y_m = p->dx_c, .gate_b = grouped ? p->gate_g : p->gate_n,
        .gate_m = p->gate_c, .relu = 0, .first = p->first, .last = p->last, .single = p->single,
        .alpha = LITERAL_F32(1.0f), .beta = LITERAL_F32(1.0f),
    };
    matrix_blocks(&v);
}
