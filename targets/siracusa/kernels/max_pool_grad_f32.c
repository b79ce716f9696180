/* dX = 0, then each window, in ascending order, adds its dY to its first maximum of X, where that is in the tile; gated, where
 * it is above zero besides. Windows of 2 x 2 and of 3 x 3 neighbours, of which the core has all rows, are computed a row of
 * them at a time; the portable way takes the others.
 *
 * A comparison says whether an element is larger than all before it; the place of the last one that is follows without a
 * branch. A first element that is NaN stays the maximum, as +inf does, but opens no gate. */
#include "max_pool_grad_f32.h"
#include "lines_f32.h"

static inline void add_to(float *dx, float dy) { *dx += dy; }

#include "max_pool_grad.h"
#include "pulp.h"

/* Rows of windows: dY of the first one, and where it begins in its rows of X and of dX; windows of a row, rows, and what is
 * added to each place behind a row, in bytes. */
typedef struct {
    const float *dy, *a, *b, *c;
    float *dx;
    uint32_t next, count, lines, dy_line, x_line, dx_line;
} windows_t;

/* The first element, in ft0, is the maximum in fa0. */
#define BEGIN "fmin.s fa0, ft0, %[infinite]\n"
#define LARGER(is, x) "flt.s " is ", fa0, " x "\n fmax.s fa0, fa0, " x "\n"
/* dY to the place in t0: 5 instructions, or 10 with a gate. */
#define ADDED "fmv.w.x ft1, t2\n flw ft2, 0(t0)\n fadd.s ft1, ft2, ft1\n fsw ft1, 0(t0)\n"
#define ADD_DY LW_NEXT("t2", "%[dy]", 4) ADDED
#define GATE_DY                                                                                                       \
    "feq.s t1, ft0, ft0\n flt.s t2, %[zero], fa0\n and t1, t1, t2\n" LW_NEXT("t2", "%[dy]", 4)                        \
    "neg t1, t1\n and t2, t2, t1\n" ADDED

/* 19 instructions: places grow, so the largest of those that won is the last one's. */
#define PAIR                                                                                                          \
    FLW("ft0", "%[a]", 0) FLW("ft1", "%[a]", 4) BEGIN FLW("ft2", "%[b]", 0) LARGER("t0", "ft1")                       \
    FLW("ft3", "%[b]", 4) LARGER("t1", "ft2") "slli t0, t0, 2\n" LARGER("t2", "ft3")                                  \
    "neg t1, t1\n and t1, t1, %[below]\n neg t2, t2\n and t2, t2, %[across]\n"                                        \
    MAX_UNSIGNED("t0", "t0", "t1") MAX_UNSIGNED("t0", "t0", "t2") ADD("t0", "%[dx]")
#define PAIR_NEXT ADD("%[a]", "%[next]") ADD("%[b]", "%[next]") ADD("%[dx]", "%[next]")

#define LINE(place, line) ADD("%[" place "]", "%[" line "]")
#define OPERANDS(w) [a] "+&r"(w.a), [b] "+&r"(w.b), [dx] "+&r"(w.dx), [dy] "+&r"(w.dy)
#define CONSTANTS(w)                                                                                                  \
    [infinite] "f"(float_in_fpu(0x7f800000u)), [zero] "f"(0.0f), [next] "r"(w.next), [count] "r"(w.count),            \
        [lines] "r"(w.lines), [dy_line] "r"(w.dy_line), [x_line] "r"(w.x_line), [dx_line] "r"(w.dx_line)

#define PAIRS(DY, length)                                                                                             \
    __asm__ volatile(LOOP_OUTER("%[lines]", length + 5) LOOP("%[count]", length) PAIR DY PAIR_NEXT LOOP_END(length)   \
                     LINE("a", "x_line") LINE("b", "x_line") LINE("dx", "dx_line") LINE("dy", "dy_line")              \
                     LOOP_OUTER_END(length + 5)                                                                       \
                     : OPERANDS(w) : CONSTANTS(w), [below] "r"(dx_row), [across] "r"(dx_row + 4)                      \
                     : "t0", "t1", "t2", "ft0", "ft1", "ft2", "ft3", "fa0", "memory")

/* Squares of two; rows of dX are `dx_row` bytes apart. */
static inline void pairs(windows_t w, uint32_t dx_row, uint32_t gated) {
    if (gated)
        PAIRS(GATE_DY, 32);
    else
        PAIRS(ADD_DY, 27);
}

/* Element k of nine, loaded before: a bit says that it is larger. 5 instructions with the load of the next one. */
#define NTH(k, x, load) load "flt.s t0, fa0, " x "\n slli t0, t0, " k "\n fmax.s fa0, fa0, " x "\n or t1, t1, t0\n"
/* 48 instructions: the highest bit says where the maximum is. */
#define NINE                                                                                                          \
    FLW("ft0", "%[a]", 0) FLW("ft1", "%[a]", 4) BEGIN "li t1, 1\n" NTH("1", "ft1", FLW("ft2", "%[a]", 8))             \
    NTH("2", "ft2", FLW("ft1", "%[b]", 0)) NTH("3", "ft1", FLW("ft2", "%[b]", 4))                                     \
    NTH("4", "ft2", FLW("ft1", "%[b]", 8)) NTH("5", "ft1", FLW("ft2", "%[c]", 0))                                     \
    NTH("6", "ft2", FLW("ft1", "%[c]", 4)) NTH("7", "ft1", FLW("ft2", "%[c]", 8)) NTH("8", "ft2", "")                 \
    HIGHEST_BIT("t1", "t1") "slli t1, t1, 2\n" ADD("t1", "%[places]") "lw t0, 0(t1)\n" ADD("%[a]", "%[next]")         \
    ADD("t0", "%[dx]")
#define NINE_NEXT ADD("%[b]", "%[next]") ADD("%[c]", "%[next]") ADD("%[dx]", "%[next]")

#define NINES(DY, length)                                                                                             \
    __asm__ volatile(LOOP_OUTER("%[lines]", length + 6) LOOP("%[count]", length) NINE DY NINE_NEXT LOOP_END(length)   \
                     LINE("a", "x_line") LINE("b", "x_line") LINE("c", "x_line") LINE("dx", "dx_line")                \
                     LINE("dy", "dy_line") LOOP_OUTER_END(length + 6)                                                 \
                     : OPERANDS(w), [c] "+&r"(w.c) : CONSTANTS(w), [places] "r"(places)                               \
                     : "t0", "t1", "t2", "ft0", "ft1", "ft2", "fa0", "memory")

static inline void nines(windows_t w, const uint32_t *places, uint32_t gated) {
    if (gated)
        NINES(GATE_DY, 62);
    else
        NINES(ADD_DY, 57);
}

/* A window of so many rows from `a` and `dx` on, and of the columns from `begin` to before `end`. */
static inline void narrow(const max_pool_grad_f32_args_t *p, float dy, const float *a, float *dx, uint32_t rows, uint32_t begin,
                          uint32_t end) {
    float max = a[begin], *best = dx + begin;
    for (; rows > 0; rows--, a += p->x_r, dx += p->dx_r)
        for (uint32_t k = begin; k < end; k++)
            if (a[k] > max) max = a[k], best = dx + k;
    if (!p->gated || max > 0.0f) add_to(best, dy);
}

/* Windows of a row whose first begins in `column`: those that reach over a border, or have not all of their rows. */
static __attribute__((noinline)) void clipped(const max_pool_grad_f32_args_t *p, const float *dy, const float *a, float *dx,
                                              uint32_t rows, int32_t column, uint32_t count) {
    for (; count > 0; count--, column += (int32_t)p->stride_w) {
        const uint32_t begin = column < 0 ? 0 : (uint32_t)column;
        narrow(p, *dy++, a, dx, rows, begin, hal_min((uint32_t)(column + (int32_t)p->kernel_w), p->x_w));
    }
}

static __attribute__((noinline)) void any(const max_pool_grad_f32_args_t *p, const float *dy, const float *x, float *dx,
                                          int32_t above, uint32_t row, uint32_t height) {
    add_windows(p, dy, x, dx, above, row, height, 0, p->y_w);
}

void max_pool_grad_f32(const void *args) {
    const max_pool_grad_f32_args_t *p = args;
    const uint32_t size = p->kernel_h, width = p->x_w, stride = p->stride_w, dx_row = 4 * p->dx_r, gated = p->gated;
    const uint32_t reach = (size - 1) * p->dilation_h + 1;
    const uint32_t is_square = size == p->kernel_w && size - 2 <= 1 && p->dilation_h == 1 && p->dilation_w == 1 &&
                               p->x_left == 0 && width <= p->w;
    uint32_t begin = 0, inside = 0; /* windows with all columns inside of X, and those before them */
    uint32_t places[9];
    if (is_square) {
        const int32_t last = (int32_t)(width - size);
        int32_t column = -p->left;
        for (uint32_t w = 0; w < p->y_w && column <= last; w++, column += (int32_t)stride)
            if (column < 0)
                begin++;
            else
                inside++;
        for (uint32_t r = 0, k = 0; r < 3; r++)
            for (uint32_t place = 0; place < 3; place++) places[k++] = r * dx_row + 4 * place;
    }
    const uint32_t behind = begin + inside, x_next = p->stride_h * p->x_r, dx_next = p->stride_h * p->dx_r;
    const int32_t first = (int32_t)(begin * stride) - p->left;
    windows_t w = {.next = 4 * stride, .count = inside, .lines = 1, .dy_line = 4 * (p->dy_r - inside),
                   .x_line = 4 * (x_next - inside * stride), .dx_line = 4 * (dx_next - inside * stride)};
    /* Squares that share no rows are not cut: cores share rows of them. */
    const uint32_t together = is_square && p->top == 0 && p->stride_h >= size ? p->stride_h : 1;
    const uint32_t parts = (p->h + together - 1) / together;
    const share_t share = share_of(p->c * parts);
    for (uint32_t i = share.begin, taken; i < share.end; i += taken) {
        const uint32_t c = i / parts, part = i - c * parts, row = part * together;
        taken = rows_from(part, parts, share.end - i);
        const uint32_t rows = hal_min(taken * together, p->h - row);
        const float *dy = p->dy + c * p->dy_c, *const x = p->x + c * p->x_c;
        float *const dx = p->dx + c * p->dx_c + row * p->dx_r;
        if (p->dx_r == p->w)
            fill_line_f32(dx, 0.0f, rows * p->w);
        else
            fill_lines_f32(dx, p->dx_r, 0.0f, rows, p->w);
        int32_t above = -p->top;
        for (uint32_t h = p->y_h; h > 0;) {
            const int32_t from = above - (int32_t)row, x_row = above + p->x_top, room = (int32_t)(rows - size) - from;
            if (from >= (int32_t)rows) break;
            /* The rows of the window that are in X, which must be the core's. */
            const int32_t top = x_row < 0 ? -x_row : 0, left = (int32_t)p->x_h - x_row;
            const int32_t end = left < (int32_t)size ? left : (int32_t)size;
            w.lines = 1;
            if (from + (int32_t)reach <= 0) {
                /* it is above the core's rows */
            } else if (!is_square || from + top < 0 || from + end > (int32_t)rows)
                any(p, dy, x, dx, above, row, rows);
            else {
                const float *const a = x + (uint32_t)(x_row + top) * p->x_r;
                float *const to = dx + (uint32_t)(from + top) * p->dx_r;
                const uint32_t high = (uint32_t)(end - top);
                if (high < size || inside == 0)
                    clipped(p, dy, a, to, high, -p->left, p->y_w);
                else {
                    if (begin) clipped(p, dy, a, to, size, -p->left, begin);
                    w.dy = dy + begin, w.a = a + first, w.b = w.a + p->x_r, w.c = w.b + p->x_r, w.dx = to + first;
                    if (inside == p->y_w)
                        for (int32_t more = (int32_t)p->stride_h; w.lines < h && more <= room; more += (int32_t)p->stride_h)
                            w.lines++;
                    if (size == 2)
                        pairs(w, dx_row, gated);
                    else
                        nines(w, places, gated);
                    if (behind < p->y_w)
                        clipped(p, dy + behind, a, to, size, first + (int32_t)(inside * stride), p->y_w - behind);
                }
            }
            h -= w.lines, above += (int32_t)(w.lines * p->stride_h), dy += w.lines * p->dy_r;
        }
    }
}
