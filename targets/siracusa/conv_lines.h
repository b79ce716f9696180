/* One channel in, one out, and whole sums. The weights of a channel stay in registers for a line of outputs. */
#ifndef CONV_LINES_H
#define CONV_LINES_H

#include "conv_sums.h"
#include "scheduled_taps.h"

/* Taps x0[0], x0[1], .. of the first row, then those of the next ones, as scheduled_taps.h has them. */
#define TAP(x, w) FMA("%[sum]", x, "%[w" #w "]")
#define FIRST_TAP "fmadd.s %[sum], ft0, %[w00], %[zero]\n"
#define STEP ADD("%[x0]", "%[x_step]")
#define LINE(rows)                                                                                                    \
    __asm__ volatile(LOOP("%[count]", rows##_LENGTH + 5) rows ADD("%[x1]", "%[x_step]")                               \
                     "fadd.s %[sum], %[sum], %[bias]\n" ADD("%[x2]", "%[x_step]") FSW("%[sum]", "%[y]", 0)            \
                     ADD("%[y]", "%[y_step]") LOOP_END(rows##_LENGTH + 5)                                             \
                     : [sum] "=&f"(sum), [x0] "+&r"(x), [x1] "+&r"(x1), [x2] "+&r"(x2), [y] "+&r"(y)                  \
                     : [w00] "f"(w[0][0]), [w01] "f"(w[0][1]), [w02] "f"(w[0][2]), [w10] "f"(w[1][0]),                \
                       [w11] "f"(w[1][1]), [w12] "f"(w[1][2]), [w20] "f"(w[2][0]), [w21] "f"(w[2][1]),                \
                       [w22] "f"(w[2][2]), [zero] "f"(zero), [bias] "f"(bias), [x_step] "r"(4 * x_step),              \
                       [y_step] "r"(4 * y_step), [count] "r"(count)                                                   \
                     : "ft0", "ft1", "ft2", "ft3", "memory")

/* A line of outputs with h x w taps. */
INLINE void line(uint32_t h, uint32_t w_, const float *x, int32_t x_h, float w[3][3], float bias, float *y,
                 uint32_t count, int32_t x_step, uint32_t y_step) {
    const float *x1 = x + x_h, *x2 = x1 + x_h;
    float sum, zero = 0.0f;
    if (h == 3 && w_ == 3) LINE(ROWS_33);
    else if (h == 3 && w_ == 2) LINE(ROWS_32);
    else if (h == 2 && w_ == 3) LINE(ROWS_23);
    else if (h == 2 && w_ == 2) LINE(ROWS_22);
    else if (h == 1 && w_ == 1) LINE(ROWS_11);
    else if (h == 1 && w_ == 2) LINE(ROWS_12);
    else if (h == 2) LINE(ROWS_21);
    else if (h == 1) LINE(ROWS_13);
    else LINE(ROWS_31);
}

/* A rectangle as `others` lines along its longer side; steps to the weights of taps are zero behind the last. */
typedef struct {
    const float *x, *weights;
    float *y;
    uint32_t h, w, length, others, y_step, y_next, h_1, h_2, w_1, w_2;
    int32_t x_step, x_next, x_h;
} lines_t;

enum { LINES_MOST = 9 }; /* rectangles of one plane that wait, as many as a window of three by three has */

static inline void add_lines(lines_t *to, const rectangle_t *r) {
    const int down = r->rows > r->columns;
    to->x = r->x, to->weights = r->weights, to->y = r->y, to->h = r->h, to->w = r->w, to->x_h = r->x_step[1];
    to->length = down ? r->rows : r->columns, to->others = down ? r->columns : r->rows;
    to->x_step = down ? r->x_row : r->x_column, to->x_next = down ? r->x_column : r->x_row;
    to->y_step = down ? r->y_row : r->y_column, to->y_next = down ? r->y_column : r->y_row;
    to->w_1 = r->w > 1 ? (uint32_t)r->w_step[0] : 0, to->w_2 = r->w > 2 ? 2 * (uint32_t)r->w_step[0] : 0;
    to->h_1 = r->h > 1 ? (uint32_t)r->w_step[1] : 0, to->h_2 = r->h > 2 ? 2 * (uint32_t)r->w_step[1] : 0;
}

/* Cores take turns at channels; where these are few, at halves or quarters of all lines of one. */
static __attribute__((noinline)) uint32_t lines(const conv_t *v, const lines_t *from, uint32_t count, uint32_t turn) {
    const uint32_t cores = hal_core_count(), images = v->n * v->g;
    uint32_t shift = 0;
    while (shift < 2 && images << shift < 4 * cores && images << shift != cores * rounds_of(images << shift, cores))
        shift++;
    for (; turn < images << shift; turn += cores) {
        uint32_t g = turn, part = 0, n = 0;
        while (g >= images) g -= images, part++;
        while (g >= v->g) g -= v->g, n++;
        const uint32_t x_at = n * v->x_n + g * v->x_g, y_at = n * v->y_n + g * v->y_g;
        const float *const added = bias_of(v, g, 0), bias = added ? *added : LITERAL_F32(-0.0f); /* to which every sum stays itself */
        for (const lines_t *at = from; at < from + count; at++) {
            const uint32_t piece = (at->length + (1u << shift) - 1) >> shift, first = part * piece;
            if (first >= at->length) continue;
            const uint32_t length = hal_min(piece, at->length - first);
            const float *w0 = at->weights + g * v->w_g, *w1 = w0 + at->h_1, *w2 = w0 + at->h_2;
            const uint32_t w_1 = at->w_1, w_2 = at->w_2;
            float w[3][3] = {{w0[0], w0[w_1], w0[w_2]}, {w1[0], w1[w_1], w1[w_2]}, {w2[0], w2[w_1], w2[w_2]}};
            const float *x = at->x + x_at + (int32_t)first * at->x_step;
            float *y = at->y + y_at + first * at->y_step;
            for (uint32_t i = at->others; i > 0; i--, x += at->x_next, y += at->y_next)
                line(at->h, at->w, x, at->x_h, w, bias, y, length, at->x_step, at->y_step);
            if (!has_epilogue(v)) continue;
            y = at->y + y_at + first * at->y_step;
            const uint32_t gate_step = gate_step_of(v, y, at->y_step);
            for (uint32_t i = at->others; i > 0; i--, y += at->y_next) epilogue_line(v, y, length, at->y_step, gate_step);
        }
    }
    return turn - (images << shift);
}

/* Outputs without a tap: zero and the bias. */
static __attribute__((noinline)) uint32_t empty(const conv_t *v, const rectangle_t *r, uint32_t turn) {
    const uint32_t cores = hal_core_count(), images = v->n * v->g;
    for (; turn < images; turn += cores) {
        uint32_t g = turn, n = 0;
        while (g >= v->g) g -= v->g, n++;
        const float *const bias = bias_of(v, g, 0), zero = LITERAL_F32(0.0f), value = bias ? zero + *bias : zero;
        float *y = r->y + n * v->y_n + g * v->y_g;
        for (uint32_t row = 0; row < r->rows; row++, y += r->y_row) {
            for (uint32_t column = 0; column < r->columns; column++) y[column * r->y_column] = value;
            if (has_epilogue(v)) epilogue_row(v, y, r->columns, r->y_column);
        }
    }
    return turn - images;
}

/* Rectangles that wait: cores take turns at channels with all rectangles of a plane. */
typedef struct {
    lines_t listed[LINES_MOST];
    uint32_t waiting;
} list_t;

static uint32_t listed_lines(const conv_t *v, list_t *list, uint32_t turn) {
    const uint32_t count = list->waiting;
    list->waiting = 0;
    return count ? lines(v, list->listed, count, turn) : turn;
}

static inline uint32_t wait_in_list(const conv_t *v, const rectangle_t *r, list_t *list, uint32_t turn) {
    if (r->h * r->w == 0) return empty(v, r, turn);
    add_lines(list->listed + list->waiting++, r);
    return list->waiting == LINES_MOST ? listed_lines(v, list, turn) : turn;
}

#define LIST list_t
#define EACH_RECTANGLE wait_in_list
#include "conv_rectangles.h"

/* All outputs of a class of rows and a class of columns. */
static uint32_t plane_lines(const conv_t *v, const axis_t *rows, const axis_t *columns, uint32_t turn) {
    list_t list;
    list.waiting = 0;
    turn = rectangles(v, rows, columns, &list, turn);
    return listed_lines(v, &list, turn);
}

#endif
