/* The common kernel with many taps at a time: 16 outputs in lanes by 4 channels, over the packed dY of a block. A call has the
 * whole of its sums, as there are no tiles. */
#include "conv_grad_w_f32.h"
#include "hal.h"
#include "lanes.h"
#include "products_f32.h"
#include "taps_f32.h"

/* Rows a..a_end and columns b..b_end of an image's dY; blocks are cut by these, not by what lies in padding. */
typedef struct {
    uint32_t n, a, a_end, b, b_end;
} block_t;

/* Channels of a piece, which is a row of taps of SPOTS channels: what cores share. */
typedef struct {
    uint32_t kh, c, end;
} piece_t;

static inline piece_t piece_of(const conv_grad_w_f32_args_t *p, uint32_t piece, uint32_t parts) {
    const uint32_t kh = piece / parts, c = (piece - kh * parts) * SPOTS;
    return (piece_t){kh, c, hal_min(p->c, c + SPOTS)};
}

/* A tap has nothing of a first block that lies in padding: zeros for a row of taps, of outputs `apart` elements on. */
static inline void clear(float *row, uint32_t taps, uint32_t lanes, uint32_t apart) {
    for (uint32_t lane = 0; lane < lanes; lane++)
        for (uint32_t i = 0; i < taps; i++) row[lane * apart + i] = 0.0f;
}

/* The sums of one block for the strip's taps of outputs m.. of a group, in `lanes`, with dY of the block in `dy`. */
static inline void add_block(const conv_grad_w_f32_args_t *p, uint32_t g, uint32_t m, uint32_t lanes, strip_t strip,
                             const float *dy, const block_t *block) {
    const int32_t unit = lanes == 1 ? 1 : (int32_t)WIDTH;
    const int32_t next = lanes == 1 ? (int32_t)p->dy_h : unit * (int32_t)(block->b_end - block->b);
    const uint32_t first = block->n == 0 && block->a == 0 && block->b == 0;
    const float *x = p->x + block->n * p->x_n + g * p->x_g;
    float *grad = p->grad + g * p->dw_g + m * p->dw_m;
    for (uint32_t piece = strip.begin; piece < strip.end; piece++) {
        const piece_t at = piece_of(p, piece, parts_of(p->c, SPOTS));
        const int32_t top = p->top + (int32_t)(at.kh * p->dh);
        const share_t oh = taps_inside(top, p->oh, p->sh, p->x_rows);
        const uint32_t a = oh.begin > block->a ? oh.begin : block->a, a_end = hal_min(oh.end, block->a_end);
        for (uint32_t c = at.c; c < at.end && first && a >= a_end; c++)
            clear(grad + c * p->dw_c + at.kh * p->kw, p->kw, lanes, p->dw_m);
        if (a >= a_end) continue;
        const loop_t outer = {1, 0, 0}, row = {a_end - a, (int32_t)(p->sh * p->x_h), next};
        for (uint32_t kw = 0; kw < p->kw; kw++) {
            const int32_t left = p->left + (int32_t)(kw * p->dw);
            const share_t ow = taps_inside(left, p->ow, p->sw, p->x_cols);
            const uint32_t b = ow.begin > block->b ? ow.begin : block->b, b_end = hal_min(ow.end, block->b_end);
            const loop_t column = {b < b_end ? b_end - b : 0, (int32_t)p->sw, unit};
            const int32_t begin = (top + (int32_t)(a * p->sh)) * (int32_t)p->x_h + left + (int32_t)(b * p->sw);
            const float *factors = dy + (int32_t)(a - block->a) * next + (int32_t)(b - block->b) * unit;
            for (uint32_t c = at.c, spots; c < at.end; c += spots) {
                float sums[SPOTS][WIDTH];
                spots = c + SPOTS <= at.end ? SPOTS : 1;
                block_sums(spots, lanes, x + c * p->x_c + begin, (int32_t)p->x_c, factors, outer, row, column, sums, 1);
                for (uint32_t lane = 0; lane < lanes; lane++)
                    for (uint32_t s = 0; s < spots; s++) {
                        float *to = grad + lane * p->dw_m + (c + s) * p->dw_c + at.kh * p->kw + kw;
                        *to = products_add(*to, sums[s][lane], first);
                    }
            }
        }
    }
}

/* The sums of one block for rows of taps of groups g.. of one channel, in `lanes`, with dY of the block in `dy`. */
static inline void add_channels(const conv_grad_w_f32_args_t *p, uint32_t g, uint32_t lanes, strip_t strip, const float *dy,
                                const block_t *block) {
    const uint32_t first = block->n == 0 && block->a == 0 && block->b == 0, wide = block->b_end - block->b;
    float x[PACKED * WIDTH];
    for (uint32_t kh = strip.begin; kh < strip.end; kh++) {
        const int32_t top = p->top + (int32_t)(kh * p->dh);
        const share_t oh = taps_inside(top, p->oh, p->sh, p->x_rows);
        const uint32_t a = oh.begin > block->a ? oh.begin : block->a, a_end = hal_min(oh.end, block->a_end);
        if (first && a >= a_end) clear(p->grad + g * p->dw_g + kh * p->kw, p->kw, lanes, p->dw_g);
        if (a >= a_end) continue;
        const loop_t row = {a_end - a, (int32_t)(p->x_cols * WIDTH), (int32_t)(wide * WIDTH)};
        const float *from = p->x + block->n * p->x_n + g * p->x_g + (top + (int32_t)(a * p->sh)) * (int32_t)p->x_h;
        lanes_pack(x, from, lanes, p->x_g, row.count, (int32_t)(p->sh * p->x_h), p->x_cols);
        for (uint32_t kw = 0; kw < p->kw; kw++) {
            const int32_t left = p->left + (int32_t)(kw * p->dw);
            const share_t ow = taps_inside(left, p->ow, p->sw, p->x_cols);
            const uint32_t b = ow.begin > block->b ? ow.begin : block->b, b_end = hal_min(ow.end, block->b_end);
            const loop_t column = {b < b_end ? b_end - b : 0, (int32_t)(p->sw * WIDTH), (int32_t)WIDTH};
            float sums[SPOTS][WIDTH];
            const float *factors = dy + ((a - block->a) * wide + b - block->b) * WIDTH;
            pair_sums(x + (left + (int32_t)(b * p->sw)) * (int32_t)WIDTH, factors, row, column, sums);
            for (uint32_t lane = 0; lane < lanes; lane++) {
                float *at = p->grad + (g + lane) * p->dw_g + kh * p->kw + kw;
                *at = products_add(*at, sums[0][lane], first);
            }
        }
    }
}

/* Groups of one channel, in lanes. */
static void by_channel(const conv_grad_w_f32_args_t *p, uint32_t rows, uint32_t columns) {
    const share_t share = share_of(parts_of(p->g, WIDTH) * p->kh);
    float packed[PRODUCTS_BLOCK * WIDTH];
    strip_t strip;
    for (uint32_t at = share.begin; at < share.end; at += strip.end - strip.begin) {
        strip = strip_at(at, share.end, p->kh);
        const uint32_t g = strip.unit * WIDTH, lanes = hal_min(WIDTH, p->g - g);
        for (uint32_t n = 0; n < p->n; n++)
            for (uint32_t a = 0; a < p->oh; a += rows)
                for (uint32_t b = 0; b < p->ow; b += columns) {
                    const block_t block = {n, a, hal_min(a + rows, p->oh), b, hal_min(b + columns, p->ow)};
                    const float *dy = p->dy + n * p->dy_n + g * p->dy_g + a * p->dy_h + b;
                    lanes_pack(packed, dy, lanes, p->dy_g, block.a_end - a, (int32_t)p->dy_h, block.b_end - b);
                    add_channels(p, g, lanes, strip, packed, &block);
                }
    }
}

void conv_grad_w_f32(const void *args) {
    const conv_grad_w_f32_args_t *p = args;
    const uint32_t rows = products_block(p->oh, p->ow), columns = PRODUCTS_BLOCK;
    if (p->m == 1 && p->c == 1 && rows * p->x_cols <= PACKED) {
        by_channel(p, rows, columns);
        return;
    }
    const uint32_t parts = parts_of(p->m, WIDTH), pieces = parts_of(p->c, SPOTS) * p->kh;
    const share_t share = share_of(p->g * parts * pieces);
    float packed[PRODUCTS_BLOCK * WIDTH];
    strip_t strip;
    for (uint32_t at = share.begin; at < share.end; at += strip.end - strip.begin) {
        strip = strip_at(at, share.end, pieces);
        const uint32_t g = strip.unit / parts, m = strip.unit % parts * WIDTH, lanes = hal_min(WIDTH, p->m - m);
        for (uint32_t n = 0; n < p->n; n++)
            for (uint32_t a = 0; a < p->oh; a += rows)
                for (uint32_t b = 0; b < p->ow; b += columns) {
                    const block_t block = {n, a, hal_min(a + rows, p->oh), b, hal_min(b + columns, p->ow)};
                    const float *dy = p->dy + n * p->dy_n + g * p->dy_g + m * p->dy_m + a * p->dy_h + b;
                    if (lanes > 1) lanes_pack(packed, dy, lanes, p->dy_m, block.a_end - a, (int32_t)p->dy_h, block.b_end - b);
                    add_block(p, g, m, lanes, strip, lanes > 1 ? packed : dy, &block);
                }
    }
}
