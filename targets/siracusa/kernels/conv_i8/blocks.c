/* Y = round(ratio * (X * W + bias)) of one group, in blocks of four places by four filters. A table has the address of each tap
 * at four places, or of each row of taps where these lie together; taps in padding lie where X's zero is. */
#include "block_i8.h"
#include "conv_i8.h"
#include "hal.h"
#include "share_f32.h"

#define MOST_CHANNELS 512
#define MOST_TAPS 25

typedef struct {
    int32_t top, left;
    const int8_t *x;
    int8_t *y;
} place_t;

static inline place_t place_of(const conv_i8_args_t *p, uint32_t i) {
    const uint32_t line = i / p->ow, ow = i - line * p->ow, n = line / p->oh, oh = line - n * p->oh;
    return (place_t){p->top + (int32_t)(oh * p->sh), p->left + (int32_t)(ow * p->sw), p->x + n * p->x_n,
                     p->y + n * p->y_n + oh * p->y_h + ow * p->y_w};
}

static inline uint32_t is_inside(const conv_i8_args_t *p, const place_t *at) {
    const int32_t bottom = at->top + (int32_t)((p->kh - 1) * p->dh), right = at->left + (int32_t)((p->kw - 1) * p->dw);
    return at->top >= 0 && at->left >= 0 && bottom < (int32_t)p->x_rows && right < (int32_t)p->x_cols;
}

/* The addresses of all taps of a place, in every fourth entry. */
static void taps_at(const conv_i8_args_t *p, const place_t *at, const int8_t *zeros, const int8_t **table) {
    int32_t row = at->top;
    for (uint32_t a = 0; a < p->kh; a++, row += (int32_t)p->dh) {
        const int8_t *line = at->x + row * (int32_t)p->x_h;
        const uint32_t rows = (uint32_t)row < p->x_rows;
        int32_t column = at->left;
        for (uint32_t b = 0; b < p->kw; b++, column += (int32_t)p->dw, table += PLACES)
            *table = rows && (uint32_t)column < p->x_cols ? line + column * (int32_t)p->x_w : zeros;
    }
}

/* The addresses of all rows of taps of a place inside of X, in every fourth entry. */
static void rows_at(const conv_i8_args_t *p, const place_t *at, const int8_t **table) {
    const int8_t *row = at->x + (uint32_t)at->top * p->x_h + (uint32_t)at->left * p->x_w;
    for (uint32_t a = 0; a < p->kh; a++, row += p->dh * p->x_h, table += PLACES) *table = row;
}

void conv_i8_blocks(const void *args) {
    const conv_i8_args_t *p = args;
    const int8_t *table[MOST_TAPS * PLACES];
    uint32_t zeros[MOST_CHANNELS / 4];
    const uint32_t places = p->n * p->oh * p->ow, filters = p->m / FILTERS, near = p->dw == 1;
    const share_t share = share_of((places + PLACES - 1) / PLACES * filters);
    if (share.begin == share.end) return;
    if (p->c <= MOST_CHANNELS)
        for (uint32_t i = 0; i < p->c / 4; i++) zeros[i] = (uint8_t)p->x_zero * 0x01010101u;
    block_i8_t block = {.w_m = p->w_m, .low = (int32_t)p->low, .high = (int32_t)p->high, .table = table,
                        .zero = (uint8_t)p->zero * 0x01010101u};
    uint32_t first = share.begin / filters, m = share.begin - first * filters;
    first *= PLACES;
    for (uint32_t at = share.begin; at < share.end; at += block.blocks, m = 0, first += PLACES) {
        place_t place[PLACES];
        uint32_t inside = near;
        for (uint32_t j = 0; j < PLACES; j++) { /* the last place fills a block that has fewer */
            place[j] = place_of(p, hal_min(first + j, places - 1));
            inside &= is_inside(p, &place[j]);
            block.y[j] = place[j].y + m * FILTERS;
        }
        for (uint32_t j = 0; j < PLACES; j++) {
            if (inside)
                rows_at(p, &place[j], table + j);
            else
                taps_at(p, &place[j], (const int8_t *)zeros, table + j);
        }
        block.runs = inside ? p->kh : p->kh * p->kw;
        block.words = (inside ? p->kw * p->c : p->c) / 4;
        block.w = p->w + m * FILTERS * p->w_m, block.b = p->b + m * FILTERS, block.ratio = p->ratio + m * FILTERS;
        const uint32_t blocks = block.blocks = hal_min(filters - m, share.end - at);
        block_i8(&block);
        block.blocks = blocks;
    }
}
