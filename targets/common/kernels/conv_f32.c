/* Y = X * W + B with groups. Each output sums channels, kernel rows and kernel columns in blocks of whole channels, as
 * products_f32.h says, and skips taps in padding; the bias comes last, and Relu behind it. So the bits do not depend on
 * tiles or cores; between tiles of channels the raw total waits in Y. Four filters at a time share what is read of X. */
#include "conv_f32.h"
#include "activation_f32.h"
#include "four_f32.h"
#include "hal.h"
#include "products_f32.h"
#include "share_f32.h"
#include "taps_f32.h"

/* The taps of a window that lie inside the input, and where it begins. */
typedef struct {
    share_t kh, kw;
    const float *x; /* of the first tap inside, in the first channel */
    uint32_t w;     /* the same in a filter */
} window_t;

/* The total of one filter at a window. */
static void filter_sum(const conv_f32_args_t *p, const window_t *v, const float *w, float *y, uint32_t channels) {
    const uint32_t dw = p->dw, taps = v->kw.end - v->kw.begin;
    uint32_t first = p->first;
    float sum = first ? 0.0f : *y;
    for (uint32_t c = 0; c < p->c;) {
        const uint32_t end = hal_min(c + channels, p->c);
        float block = p->single ? sum : 0.0f;
        for (; c < end; c++) {
            const float *x_row = v->x + c * p->x_c, *w_row = w + v->w + c * p->w_c;
            for (uint32_t a = v->kh.begin; a < v->kh.end; a++, x_row += p->dh * p->x_h, w_row += p->kw)
                for (uint32_t b = 0; b < taps; b++) block = __builtin_fmaf(x_row[b * dw], w_row[b], block);
        }
        sum = products_add(sum, block, first | p->single);
        first = 0;
    }
    *y = sum;
}

/* The totals of four filters at a window. */
static void filter_sums(const conv_f32_args_t *p, const window_t *v, const float *w, float *y, uint32_t channels) {
    const uint32_t dw = p->dw, w_m = p->w_m, taps = v->kw.end - v->kw.begin;
    uint32_t first = p->first;
    four_t sums = first ? four_zero() : four_load(y, p->y_m);
    for (uint32_t c = 0; c < p->c;) {
        const uint32_t end = hal_min(c + channels, p->c);
        four_t blocks = p->single ? sums : four_zero();
        for (; c < end; c++) {
            const float *x_row = v->x + c * p->x_c, *w_row = w + v->w + c * p->w_c;
            for (uint32_t a = v->kh.begin; a < v->kh.end; a++, x_row += p->dh * p->x_h, w_row += p->kw) {
                const float *x = x_row, *tap = w_row;
                for (uint32_t b = taps; b > 0; b--, x += dw) blocks = four_fma(*x, tap++, w_m, blocks);
            }
        }
        sums = four_add(sums, blocks, first | p->single);
        first = 0;
    }
    four_store(y, p->y_m, sums);
}

/* Bias and Relu on the totals of a row of outputs. */
static void epilogue_filter(const conv_f32_args_t *p, const float *bias, float *y) {
    for (uint32_t ow = 0; ow < p->ow; ow++) {
        const float sum = bias ? y[ow] + *bias : y[ow];
        y[ow] = p->relu ? relu_f32_of(sum) : sum;
    }
}

void conv_f32(const void *args) {
    const conv_f32_args_t *p = args;
    const uint32_t channels = products_block(p->c, p->kh * p->kw), groups = (p->m + FOUR - 1) / FOUR;
    const share_t share = share_of(p->n * p->g * groups * p->oh);
    for (uint32_t i = share.begin; i < share.end; i++) {
        const uint32_t oh = i % p->oh, part = i / p->oh, m = part % groups * FOUR;
        const uint32_t g = part / groups % p->g, n = part / groups / p->g, filters = hal_min(FOUR, p->m - m);
        const int32_t top = p->top + (int32_t)(oh * p->sh);
        const float *x = p->x + n * p->x_n + g * p->x_g, *w = p->w + g * p->w_g + m * p->w_m;
        float *y = p->y + n * p->y_n + g * p->y_g + m * p->y_m + oh * p->y_h;
        window_t v = {.kh = taps_inside(top, p->kh, p->dh, p->x_rows)};
        x += (uint32_t)(top + (int32_t)(v.kh.begin * p->dh)) * p->x_h;
        for (uint32_t ow = 0; ow < p->ow; ow++) {
            const int32_t left = p->left + (int32_t)(ow * p->sw);
            v.kw = taps_inside(left, p->kw, p->dw, p->x_cols);
            v.x = x + (left + (int32_t)(v.kw.begin * p->dw));
            v.w = v.kh.begin * p->kw + v.kw.begin;
            if (filters == FOUR)
                filter_sums(p, &v, w, y + ow, channels);
            else
                for (uint32_t f = 0; f < filters; f++) filter_sum(p, &v, w + f * p->w_m, y + f * p->y_m + ow, channels);
        }
        for (uint32_t f = 0; f < filters && p->last && (p->b || p->relu); f++)
            epilogue_filter(p, p->b ? p->b + g * p->b_g + m + f : 0, y + f * p->y_m);
    }
}
