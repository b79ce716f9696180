/* The maximum of each window. Windows of 2 x 2 and of 3 x 3 neighbours are computed a row of Y at a time. A row outside of X is
 * replaced by one of the window inside of it, which changes no maximum.
 *
 * Of equal elements the first is the maximum, which matters for zeros of two signs: fmax.s takes the positive one. A row of
 * Y with a positive zero is looked through again if there are negative ones in its rows of X, as behind a Relu there are none. */
#include "max_pool_f32.h"
#include "max_pool.h"
#include "pulp.h"

MAX_POOL_RUN(max_pool_f32, float, -__builtin_inff())

static __attribute__((noinline)) void any(const max_pool_f32_args_t *p) {
    max_pool_f32_run(p);
}

/* Rows of windows: y of the first window, column 0 of their rows. */
typedef struct {
    float *y;
    const float *a, *b, *c;
    uint32_t least; /* of the bits of all elements of Y: those of a positive zero are 0 */
} rows_t;

#define LARGER(x) "fmax.s ft0, ft0, " x "\n"
/* The element that is taken was loaded by the step before. */
#define STEP(taken, loaded, at, offset) FLW(loaded, at, offset) LARGER(taken)
#define SETTLE "fmv.x.w t0, ft0\n" MIN_UNSIGNED("%[least]", "%[least]", "t0") FSW("ft0", "%[y]", 0) ADDI("%[y]", 4)

/* Squares from a column on, `next` bytes apart. */
static inline void pairs(rows_t *rows, int32_t column, uint32_t next, uint32_t count) {
    const float *a = rows->a + column, *b = rows->b + column;
    __asm__ volatile(LOOP("%[count]", 14)
                     FLW("ft0", "%[a]", 0) FLW("ft1", "%[a]", 4) LARGER("%[low]") STEP("ft1", "ft2", "%[b]", 0)
                     STEP("ft2", "ft1", "%[b]", 4) ADD("%[a]", "%[next]") LARGER("ft1") ADD("%[b]", "%[next]")
                     SETTLE LOOP_END(14)
                     : [a] "+&r"(a), [b] "+&r"(b), [y] "+&r"(rows->y), [least] "+&r"(rows->least)
                     : [low] "f"(float_in_fpu(0xff800000u)), [next] "r"(next), [count] "r"(count)
                     : "t0", "ft0", "ft1", "ft2", "memory");
}

static inline void triples(rows_t *rows, int32_t column, uint32_t next, uint32_t count) {
    const float *a = rows->a + column, *b = rows->b + column, *c = rows->c + column;
    __asm__ volatile(LOOP("%[count]", 25)
                     FLW("ft0", "%[a]", 0) FLW("ft1", "%[a]", 4) LARGER("%[low]") STEP("ft1", "ft2", "%[a]", 8)
                     STEP("ft2", "ft1", "%[b]", 0) STEP("ft1", "ft2", "%[b]", 4) STEP("ft2", "ft1", "%[b]", 8)
                     STEP("ft1", "ft2", "%[c]", 0) STEP("ft2", "ft1", "%[c]", 4) STEP("ft1", "ft2", "%[c]", 8)
                     ADD("%[a]", "%[next]") LARGER("ft2") ADD("%[b]", "%[next]") ADD("%[c]", "%[next]")
                     SETTLE LOOP_END(25)
                     : [a] "+&r"(a), [b] "+&r"(b), [c] "+&r"(c), [y] "+&r"(rows->y), [least] "+&r"(rows->least)
                     : [low] "f"(float_in_fpu(0xff800000u)), [next] "r"(next), [count] "r"(count)
                     : "t0", "ft0", "ft1", "ft2", "memory");
}

/* A window of `count` columns. */
static inline void narrow(rows_t *rows, uint32_t column, uint32_t count) {
    const float *a = rows->a + column, *b = rows->b + column, *c = rows->c + column;
    __asm__ volatile("fmv.s ft0, %[low]\n" LOOP("%[count]", 9)
                     FLW("ft1", "%[a]", 0) ADDI("%[a]", 4) STEP("ft1", "ft2", "%[b]", 0) ADDI("%[b]", 4)
                     STEP("ft2", "ft1", "%[c]", 0) ADDI("%[c]", 4) LARGER("ft1") LOOP_END(9) SETTLE
                     : [a] "+&r"(a), [b] "+&r"(b), [c] "+&r"(c), [y] "+&r"(rows->y), [least] "+&r"(rows->least)
                     : [low] "f"(float_in_fpu(0xff800000u)), [count] "r"(count)
                     : "t0", "ft0", "ft1", "ft2", "memory");
}

/* Whether some rows have a negative zero, whose bits are the least integer. */
static inline int has_negative_zero(const float *line, uint32_t next, uint32_t width, uint32_t rows) {
    int32_t least = 0;
    for (; rows > 0; rows--, line += next) {
        const float *x = line;
        if (width >= 2)
            __asm__ volatile(LOOP("%[pairs]", 4) LW_NEXT("t0", "%[x]", 4) LW_NEXT("t1", "%[x]", 4)
                             MIN("%[least]", "%[least]", "t0") MIN("%[least]", "%[least]", "t1") LOOP_END(4)
                             : [x] "+&r"(x), [least] "+&r"(least) : [pairs] "r"(width >> 1) : "t0", "t1", "memory");
        if (width & 1) least = least < (int32_t)bits_in_core(*x) ? least : (int32_t)bits_in_core(*x);
    }
    return least == INT32_MIN;
}

/* A row of Y that may have the wrong sign at a zero. */
static __attribute__((noinline)) void again(const max_pool_f32_args_t *p, float *y, const float *line, uint32_t rows) {
    for (uint32_t w = 0; w < p->w; w++)
        if (y[w] == 0.0f)
            y[w] = max_pool_f32_window(p, line, rows, p->dilation_h * p->x_r, p->left + (int32_t)(w * p->stride_w));
}

void max_pool_f32(const void *args) {
    const max_pool_f32_args_t *p = args;
    const uint32_t size = p->kernel_h, stride = p->stride_w, width = p->x_w, next_row = p->dilation_h * p->x_r;
    if (size != p->kernel_w || size - 2 > 1 || p->dilation_w > 1 || width < size) {
        any(p);
        return;
    }
    const int32_t left = p->left, last = (int32_t)(width - size);
    uint32_t inside = 0; /* windows with all columns inside of X */
    for (uint32_t w = 0; w < p->w; w++) inside += (uint32_t)(left + (int32_t)(w * stride)) <= (uint32_t)last;
    const share_t share = share_of(p->c * p->h);
    uint32_t channel = share.begin / p->h, h = share.begin - channel * p->h;
    for (uint32_t turns = share.end - share.begin; turns > 0; turns--) {
        const int32_t row = p->top + (int32_t)(h * p->stride_h);
        const share_t taps = taps_inside(row, size, p->dilation_h, p->x_h);
        const uint32_t count = taps.end - taps.begin;
        const float *const line = p->x + channel * p->x_c + row * (int32_t)p->x_r + (int32_t)(taps.begin * next_row);
        const float *const second = count > 1 ? line + next_row : line, *const third = count > 2 ? second + next_row : second;
        float *const y = p->y + channel * p->y_c + h * p->y_r, *const end = y + p->w;
        rows_t rows = {y, line, second, third, 1};
        for (int32_t column = left; rows.y < end; column += (int32_t)stride) {
            if ((uint32_t)column > (uint32_t)last) {
                const int32_t first = column < 0 ? 0 : column;
                narrow(&rows, (uint32_t)first, hal_min((uint32_t)(column + (int32_t)size), width) - (uint32_t)first);
                continue;
            }
            if (size == 2)
                pairs(&rows, column, 4 * stride, inside);
            else
                triples(&rows, column, 4 * stride, inside);
            column += (int32_t)((inside - 1) * stride);
        }
        if (rows.least == 0 && has_negative_zero(line, next_row, width, count)) again(p, y, line, count);
        if (++h == p->h) h = 0, channel++;
    }
}
