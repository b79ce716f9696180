/* The common kernel with many outputs at a time: 16 channels in lanes by 4 columns, over packed weights of a block. A call
 * has the whole of its sums, as there are no tiles. */
#include "conv_f32.h"
#include "activation_f32.h"
#include "hal.h"
#include "lanes.h"
#include "products_f32.h"
#include "taps_f32.h"

/* Outputs of an image in `lanes`: channels of a group, or groups of one channel; the next is so many elements on. */
typedef struct {
    const float *x, *b;
    float *y;
    uint32_t lanes, b_next, y_next;
} part_t;

static inline void epilogue(const conv_f32_args_t *p, const part_t *part, float *y, uint32_t columns, uint32_t first, uint32_t last,
                          float sums[][WIDTH]) {
    for (uint32_t lane = 0; lane < part->lanes; lane++) {
        float *at = y + lane * part->y_next;
        for (uint32_t s = 0; s < columns; s++) at[s] = products_add(at[s], sums[s][lane], first);
        if (last && part->b)
            for (uint32_t s = 0; s < columns; s++) at[s] += part->b[lane * part->b_next];
        if (last && p->relu)
            for (uint32_t s = 0; s < columns; s++) at[s] = relu_f32_of(at[s]);
    }
}

/* One block of channels c.., with weights `w`, for all columns of the strip's rows. */
static inline void add_block(const conv_f32_args_t *p, const part_t *part, strip_t strip, const float *w, uint32_t c,
                             uint32_t channels) {
    const uint32_t first = c == 0, last = c + channels == p->c;
    const int32_t unit = part->lanes == 1 ? 1 : (int32_t)WIDTH;
    const int32_t next = part->lanes == 1 ? (int32_t)p->w_c : unit * (int32_t)(p->kh * p->kw);
    const loop_t outer = {channels, (int32_t)p->x_c, next};
    for (uint32_t oh = strip.begin; oh < strip.end; oh++) {
        const int32_t top = p->top + (int32_t)(oh * p->sh);
        const share_t kh = taps_inside(top, p->kh, p->dh, p->x_rows);
        const loop_t row = {kh.end - kh.begin, (int32_t)(p->dh * p->x_h), unit * (int32_t)p->kw};
        float sums[COLUMNS][WIDTH];
        for (uint32_t ow = 0, from = 0, spots; ow < p->ow; ow += spots) {
            const int32_t left = p->left + (int32_t)(ow * p->sw), beyond = left + (int32_t)((SPOTS - 1) * p->sw);
            const share_t kw = taps_inside(left, p->kw, p->dw, p->x_cols), end = taps_inside(beyond, p->kw, p->dw, p->x_cols);
            const uint32_t stop = hal_min(p->ow, from + COLUMNS);
            spots = ow + SPOTS <= stop && kw.begin == end.begin && kw.end == end.end ? SPOTS : 1;
            const loop_t column = {kw.end - kw.begin, (int32_t)p->dw, unit};
            const int32_t begin = (top + (int32_t)(kh.begin * p->dh)) * (int32_t)p->x_h + left + (int32_t)(kw.begin * p->dw);
            block_sums(spots, part->lanes, part->x + c * p->x_c + begin, (int32_t)p->sw,
                       w + unit * (int32_t)(kh.begin * p->kw + kw.begin), outer, row, column, sums + (ow - from), 1);
            if (ow + spots < stop) continue;
            epilogue(p, part, part->y + oh * p->y_h + from, stop - from, first, last, sums);
            from = stop;
        }
    }
}

/* Groups of one channel, in lanes: an image's rows are packed as well. */
static void by_channel(const conv_f32_args_t *p) {
    const uint32_t taps = p->kh * p->kw, groups = parts_of(p->g, WIDTH);
    const share_t share = share_of(p->n * groups * p->oh);
    float w[PACKED * WIDTH], x[PACKED * WIDTH];
    strip_t strip;
    for (uint32_t at = share.begin; at < share.end; at += strip.end - strip.begin) {
        strip = strip_at(at, share.end, p->oh);
        const uint32_t n = strip.unit / groups, g = strip.unit % groups * WIDTH;
        const part_t part = {p->x + n * p->x_n + g * p->x_g, p->b ? p->b + g * p->b_g : 0, p->y + n * p->y_n + g * p->y_g,
                             hal_min(WIDTH, p->g - g), p->b_g, p->y_g};
        lanes_pack(w, p->w + g * p->w_g, part.lanes, p->w_g, 1, 0, taps);
        for (uint32_t oh = strip.begin; oh < strip.end; oh++) {
            const int32_t top = p->top + (int32_t)(oh * p->sh);
            const share_t kh = taps_inside(top, p->kh, p->dh, p->x_rows);
            const loop_t row = {kh.end - kh.begin, (int32_t)(p->x_cols * WIDTH), (int32_t)(p->kw * WIDTH)};
            const float *from = part.x + (top + (int32_t)(kh.begin * p->dh)) * (int32_t)p->x_h;
            if (row.count) lanes_pack(x, from, part.lanes, p->x_g, row.count, (int32_t)(p->dh * p->x_h), p->x_cols);
            float sums[COLUMNS][WIDTH];
            for (uint32_t ow = 0, first = 0; ow < p->ow; ow++) {
                const int32_t left = p->left + (int32_t)(ow * p->sw);
                const share_t kw = taps_inside(left, p->kw, p->dw, p->x_cols);
                const loop_t column = {kw.end - kw.begin, (int32_t)(p->dw * WIDTH), (int32_t)WIDTH};
                pair_sums(x + (left + (int32_t)(kw.begin * p->dw)) * (int32_t)WIDTH, w + (kh.begin * p->kw + kw.begin) * WIDTH,
                          row, column, sums + (ow - first));
                if (ow + 1 < p->ow && ow + 1 < first + COLUMNS) continue;
                epilogue(p, &part, part.y + oh * p->y_h + first, ow + 1 - first, 1, 1, sums);
                first = ow + 1;
            }
        }
    }
}

void conv_f32(const void *args) {
    const conv_f32_args_t *p = args;
    if (p->m == 1 && p->c == 1 && p->kh * p->x_cols <= PACKED && p->kh * p->kw <= PACKED) {
        by_channel(p);
        return;
    }
    const uint32_t taps = p->kh * p->kw, channels = products_block(p->c, taps);
    const uint32_t width = channels * taps <= PACKED ? WIDTH : 1, parts = parts_of(p->m, width);
    const share_t share = share_of(p->n * p->g * parts * p->oh);
    float packed[PACKED * WIDTH];
    strip_t strip;
    for (uint32_t at = share.begin; at < share.end; at += strip.end - strip.begin) {
        strip = strip_at(at, share.end, p->oh);
        const uint32_t n = strip.unit / (p->g * parts), g = strip.unit / parts % p->g, m = strip.unit % parts * width;
        const part_t part = {p->x + n * p->x_n + g * p->x_g, p->b ? p->b + g * p->b_g + m : 0,
                             p->y + n * p->y_n + g * p->y_g + m * p->y_m, hal_min(width, p->m - m), 1, p->y_m};
        for (uint32_t c = 0; c < p->c; c += channels) {
            const float *w = p->w + g * p->w_g + m * p->w_m + c * p->w_c;
            const uint32_t count = hal_min(channels, p->c - c);
            if (part.lanes > 1) lanes_pack(packed, w, part.lanes, p->w_m, count, (int32_t)p->w_c, taps);
            add_block(p, &part, strip, part.lanes > 1 ? packed : w, c, count);
        }
    }
}
