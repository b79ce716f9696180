/* Y = X, or zeros, and Y[o, ids[o, k, i], i] gets U[o, k, i], k ascending. A core has columns of its own, of all rows; between
 * tiles of k the result so far waits in Y. A number that is no row changes nothing. */
#include "hal.h"
#include "scatter_elements_f32.h"
#include "share_f32.h"
#include "table_row.h"
#include "whole_f32.h"

enum { REPLACE, ADD, MULTIPLY, LARGEST, SMALLEST };

static inline float merged(float y, float u, uint32_t mode) {
    switch (mode) {
        case ADD: return y + u;
        case MULTIPLY: return y * u;
        case LARGEST: return most_f32(y, u);
        case SMALLEST: return least_f32(y, u);
        default: return u;
    }
}

void scatter_elements_f32(const void *args) {
    const scatter_elements_f32_args_t *p = args;
    const share_t share = share_of(p->o * p->i);
    for (uint32_t at = share.begin; at < share.end; at++) {
        const uint32_t o = at / p->i, i = at - o * p->i;
        const int32_t *ids = p->ids + o * p->ids_o + i * p->ids_i;
        const float *u = p->u + o * p->u_o + i;
        float *y = p->y + o * p->y_o + i;
        if (p->first)
            for (uint32_t r = 0; r < p->r; r++) y[r * p->y_r] = p->x ? p->x[o * p->x_o + r * p->x_r + i] : 0.0f;
        for (uint32_t k = 0; k < p->k; k++) {
            const uint32_t row = table_row(ids[k * p->ids_k], p->rows) - p->r_start;
            if (row < p->r) y[row * p->y_r] = merged(y[row * p->y_r], u[k * p->u_k], p->mode);
        }
    }
}
