/* The common kernel with many inputs at a time: 16 channels in lanes by 4 columns, over packed weights of a block. A call has
 * the whole of its sums, as there are no tiles. */
#include "conv_grad_x_f32.h"
#include "activation_f32.h"
#include "hal.h"
#include "lanes.h"
#include "products_f32.h"
#include "taps_f32.h"

/* Inputs of an image in `lanes`: channels of a group, or groups of one channel; the next is so many elements on. */
typedef struct {
    const float *dy, *gate;
    float *dx;
    uint32_t lanes, gate_next, dx_next;
} part_t;

static inline void epilogue(const conv_grad_x_f32_args_t *p, const part_t *part, uint32_t ih, uint32_t iw, uint32_t columns,
                          uint32_t first, uint32_t last, float sums[][WIDTH]) {
    for (uint32_t lane = 0; lane < part->lanes; lane++) {
        float *at = part->dx + lane * part->dx_next + ih * p->dx_h + iw;
        for (uint32_t s = 0; s < columns; s++) at[s] = products_add(at[s], sums[s][lane], first);
        if (!last || !part->gate) continue;
        const float *gate = part->gate + lane * part->gate_next + ih * p->gate_h + iw;
        for (uint32_t s = 0; s < columns; s++) at[s] = gated_f32(at[s], gate[s]);
    }
}

/* One block of outputs m.., with weights `w`, for all columns of the strip's rows; columns of one phase of the stride have
 * taps alike. */
static inline void add_block(const conv_grad_x_f32_args_t *p, const part_t *part, strip_t strip, const float *w, uint32_t m,
                             uint32_t outputs) {
    const uint32_t first = m == 0, last = m + outputs == p->m;
    const int32_t unit = part->lanes == 1 ? 1 : (int32_t)WIDTH;
    const int32_t next = part->lanes == 1 ? (int32_t)p->w_m : unit * (int32_t)(p->kh * p->kw);
    const loop_t outer = {outputs, (int32_t)p->dy_m, next};
    for (uint32_t ih = strip.begin; ih < strip.end; ih++) {
        const taps_t kh = taps_of(p->top + (int32_t)ih, p->kh, p->dh, p->sh, p->dy_rows);
        const loop_t row = {kh.count, -(int32_t)(p->back_h * p->dy_h), unit * (int32_t)(p->step_h * p->kw)};
        float sums[COLUMNS][WIDTH];
        for (uint32_t from = 0, stop; from < p->iw; from = stop) {
            stop = hal_min(p->iw, from + COLUMNS);
            for (uint32_t phase = from; phase < hal_min(stop, from + p->sw); phase++)
                for (uint32_t iw = phase, spots; iw < stop; iw += spots * p->sw) {
                    const uint32_t beyond = iw + (SPOTS - 1) * p->sw;
                    const taps_t kw = taps_of(p->left + (int32_t)iw, p->kw, p->dw, p->sw, p->dy_cols);
                    const taps_t end = taps_of(p->left + (int32_t)beyond, p->kw, p->dw, p->sw, p->dy_cols);
                    const uint32_t same = kw.first == end.first && kw.count == end.count;
                    spots = beyond < stop && same && kw.window + SPOTS - 1 == end.window ? SPOTS : 1;
                    const loop_t column = {kw.count, -(int32_t)p->back_w, unit * (int32_t)p->step_w};
                    block_sums(spots, part->lanes, part->dy + m * p->dy_m + kh.window * p->dy_h + kw.window, 1,
                               w + unit * (int32_t)(kh.first * p->kw + kw.first), outer, row, column, sums + (iw - from), p->sw);
                }
            epilogue(p, part, ih, from, stop - from, first, last, sums);
        }
    }
}

/* Groups of one channel, in lanes: an image's rows are packed as well. */
static void by_channel(const conv_grad_x_f32_args_t *p) {
    const uint32_t groups = parts_of(p->g, WIDTH);
    const share_t share = share_of(p->n * groups * p->ih);
    float w[PACKED * WIDTH], dy[PACKED * WIDTH];
    strip_t strip;
    for (uint32_t at = share.begin; at < share.end; at += strip.end - strip.begin) {
        strip = strip_at(at, share.end, p->ih);
        const uint32_t n = strip.unit / groups, g = strip.unit % groups * WIDTH;
        const part_t part = {p->dy + n * p->dy_n + g * p->dy_g, p->gate ? p->gate + n * p->gate_n + g * p->gate_g : 0,
                             p->dx + n * p->dx_n + g * p->dx_g, hal_min(WIDTH, p->g - g), p->gate_g, p->dx_g};
        lanes_pack(w, p->w + g * p->w_g, part.lanes, p->w_g, 1, 0, p->kh * p->kw);
        for (uint32_t ih = strip.begin; ih < strip.end; ih++) {
            const taps_t kh = taps_of(p->top + (int32_t)ih, p->kh, p->dh, p->sh, p->dy_rows);
            const loop_t row = {kh.count, (int32_t)(p->dy_cols * WIDTH), (int32_t)(p->step_h * p->kw * WIDTH)};
            const int32_t back = -(int32_t)(p->back_h * p->dy_h);
            if (kh.count) lanes_pack(dy, part.dy + kh.window * p->dy_h, part.lanes, p->dy_g, kh.count, back, p->dy_cols);
            float sums[COLUMNS][WIDTH];
            for (uint32_t iw = 0, from = 0; iw < p->iw; iw++) {
                const taps_t kw = taps_of(p->left + (int32_t)iw, p->kw, p->dw, p->sw, p->dy_cols);
                const loop_t column = {kw.count, -(int32_t)(p->back_w * WIDTH), (int32_t)(p->step_w * WIDTH)};
                const float *factors = w + (kh.first * p->kw + kw.first) * WIDTH;
                pair_sums(dy + kw.window * WIDTH, factors, row, column, sums + (iw - from));
                if (iw + 1 < p->iw && iw + 1 < from + COLUMNS) continue;
                epilogue(p, &part, ih, from, iw + 1 - from, 1, 1, sums);
                from = iw + 1;
            }
        }
    }
}

void conv_grad_x_f32(const void *args) {
    const conv_grad_x_f32_args_t *p = args;
    if (p->m == 1 && p->c == 1 && p->kh * p->dy_cols <= PACKED && p->kh * p->kw <= PACKED) {
        by_channel(p);
        return;
    }
    const uint32_t taps = p->kh * p->kw;
    const uint32_t outputs = products_block(p->m, taps_met(p->kh, p->step_h) * taps_met(p->kw, p->step_w));
    const uint32_t width = outputs * taps <= PACKED ? WIDTH : 1, parts = parts_of(p->c, width);
    const share_t share = share_of(p->n * p->g * parts * p->ih);
    float packed[PACKED * WIDTH];
    strip_t strip;
    for (uint32_t at = share.begin; at < share.end; at += strip.end - strip.begin) {
        strip = strip_at(at, share.end, p->ih);
        const uint32_t n = strip.unit / (p->g * parts), g = strip.unit / parts % p->g, c = strip.unit % parts * width;
        const part_t part = {p->dy + n * p->dy_n + g * p->dy_g,
                             p->gate ? p->gate + n * p->gate_n + g * p->gate_g + c * p->gate_c : 0,
                             p->dx + n * p->dx_n + g * p->dx_g + c * p->dx_c, hal_min(width, p->c - c), p->gate_c, p->dx_c};
        for (uint32_t m = 0; m < p->m; m += outputs) {
            const float *w = p->w + g * p->w_g + c * p->w_c + m * p->w_m;
            const uint32_t count = hal_min(outputs, p->m - m);
            if (part.lanes > 1) lanes_pack(packed, w, part.lanes, p->w_c, count, (int32_t)p->w_m, taps);
            add_block(p, &part, strip, part.lanes > 1 ? packed : w, m, count);
        }
    }
}
