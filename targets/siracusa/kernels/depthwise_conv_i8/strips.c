/* Y = round(ratio * (X * W + bias)) with a filter of 3 x 3 for each channel, line by line of four channels. What the windows of a
 * line see is copied first, with X's zero where they lie outside of X. */
#include "depthwise_conv_i8.h"
#include "hal.h"
#include "share_f32.h"
#include "strip_i8.h"

#define CHANNELS 4
#define WIDE 64 /* four channels each: what a core's stack has room for, three times */

/* Four channels of `count` places, x_w bytes apart. */
static inline uint32_t *copied(uint32_t *to, uintptr_t x, uint32_t x_w, uint32_t count) {
    uint32_t four;
    if (count > 0)
        __asm__ volatile(LOOP("%[count]", 3) LW_STEP("%[four]", "%[x]", "%[x_w]") "nop\n" SW_NEXT("%[four]", "%[to]", 4) LOOP_END(3)
                         : [to] "+r"(to), [x] "+r"(x), [four] "=&r"(four) : [count] "r"(count), [x_w] "r"(x_w) : "memory");
    return to;
}

static inline uint32_t *filled(uint32_t *to, uint32_t four, uint32_t count) {
    while (count-- > 0) *to++ = four;
    return to;
}

/* `count` places of a row from one that may lie in front of X. */
static inline void line(const depthwise_conv_i8_args_t *p, const int8_t *x, int32_t row, int32_t first, uint32_t count,
                        uint32_t *to) {
    const uint32_t zero = (uint8_t)p->x_zero * 0x01010101u;
    if ((uint32_t)row >= p->x_rows) {
        filled(to, zero, count);
        return;
    }
    const uint32_t before = first < 0 ? hal_min((uint32_t)-first, count) : 0, from = (uint32_t)(first + (int32_t)before);
    const uint32_t inside = from < p->x_cols ? hal_min(p->x_cols - from, count - before) : 0;
    to = filled(to, zero, before);
    to = copied(to, (uintptr_t)x + (uint32_t)row * p->x_h + from * p->x_w, p->x_w, inside);
    filled(to, zero, count - before - inside);
}

/* The filters of four channels from `m` on, their biases and ratios. */
static inline void filters(const depthwise_conv_i8_args_t *p, uint32_t m, strip_i8_t *strip) {
    for (uint32_t k = 0; k < CHANNELS; k++) {
        const uint8_t *w = (const uint8_t *)p->w + m + k;
        const uint32_t w_w = p->w_w, w_ww = 2 * w_w;
        const uint8_t *next = w + p->w_h, *last = next + p->w_h;
        strip->w[k] = w[w_w] | (uint32_t)w[w_ww] << 8 | (uint32_t)w[0] << 16 | (uint32_t)last[w_ww] << 24;
        strip->w[4 + k] = next[w_w] | (uint32_t)next[w_ww] << 8 | (uint32_t)next[0] << 16 | (uint32_t)last[w_w] << 24;
        strip->last[k] = (uint32_t)last[0] << (8 * k);
        strip->b[k] = p->b[m + k], strip->ratio[k] = p->ratio[m + k];
    }
}

void depthwise_conv_i8_strips(const void *args) {
    const depthwise_conv_i8_args_t *p = args;
    uint32_t lines[3][WIDE];
    strip_i8_t strip;
    const uint32_t rows = p->n * p->oh, all = rows * ((p->m + CHANNELS - 1) / CHANNELS), sw = p->sw;
    const uint32_t most = (WIDE - 3) / sw + 1;
    const share_t share = share_of(all);
    if (share.begin == share.end) return;
    strip.step = 4 * sw, strip.y_step = p->y_w, strip.low = (int32_t)p->low, strip.high = (int32_t)p->high;
    strip.zero = (uint8_t)p->zero * 0x01010101u;
    uint32_t m = share.begin / rows, row = share.begin - m * rows, n = row / p->oh, oh = row - n * p->oh;
    m = hal_min(CHANNELS * m, p->m - CHANNELS);
    filters(p, m, &strip);
    for (uint32_t left = share.end - share.begin; left > 0; left--) {
        const int32_t top = p->top + (int32_t)(oh * p->sh);
        const int8_t *x = p->x + n * p->x_n + m;
        strip.y = p->y + n * p->y_n + oh * p->y_h + m;
        for (uint32_t ow = 0; ow < p->ow; ow += most) {
            strip.count = hal_min(most, p->ow - ow);
            for (uint32_t a = 0; a < 3; a++) {
                strip.lines[a] = lines[a];
                line(p, x, top + (int32_t)(a * p->dh), p->left + (int32_t)(ow * sw), (strip.count - 1) * sw + 3, lines[a]);
            }
            strip_i8(&strip);
            strip.y += strip.count * p->y_w;
        }
        if (++oh < p->oh) continue;
        oh = 0;
        if (++n < p->n) continue;
        n = 0, m = hal_min(m + CHANNELS, p->m - CHANNELS); /* the last four begin early enough to be four */
        if (left > 1) filters(p, m, &strip);
    }
}
