/* Y = alpha * A B + beta * C on strided operands; the portable kernel defines the bits: each output sums k in blocks,
 * as products_f32.h says, and adds them to what waits in Y.
 *
 * Outer products (k = 1) and vectors times a matrix by themselves; else matrix_blocks.h, and what is left of rows and
 * columns as vectors. The loops here keep the rules of gemm_block.h. */
#include "gemm_f32.h"
#define MATRICES gemm_f32_args_t
#include "hal.h"
#include "matrix_blocks.h"
#include "outer_rows.h"
#include "products_f32.h"
#include "pulp.h"

/* What `single` says, by deployer/operators/matrix/gemm.py: from ONE_BLOCK on, sums are of one block, in further forms. */
enum { SEVERAL_BLOCKS, ONE_BLOCK, FEW, FEW_ROWS, OUTER, ADDED };

static inline int finishes(const gemm_f32_args_t *p) {
    return p->last && (p->c || p->relu || p->gate || scales(p));
}

/* The sum where all bits of the mask are set, else zero: a branch per output would take longer. */
static inline float masked(float sum, uint32_t mask) {
    union {
        float value;
        uint32_t bits;
    } number = {sum};
    number.bits &= mask;
    return number.value;
}

/* What is fused to a complete sum: relu_f32_of and gated_f32. */
static inline float rectified(float sum) { return masked(sum, (uint32_t)(sum <= 0.0f) - 1u); }
static inline float let_through(float sum, float gate) { return masked(sum, 0u - (uint32_t)(gate > 0.0f)); }
static inline float activated(const gemm_f32_args_t *p, float sum, const float *gate) {
    if (p->relu) sum = rectified(sum);
    return p->gate ? let_through(sum, *gate) : sum;
}

/* What is fused to four complete sums, where c and gate have them c_n and gate_n apart. */
static __attribute__((noinline)) void finish_4(const gemm_f32_args_t *p, float s[4], const float *c, uint32_t c_n, const float *g,
                            uint32_t gate_n) {
    const float alpha = p->alpha, beta = p->beta;
    s[0] *= alpha, s[1] *= alpha, s[2] *= alpha, s[3] *= alpha; /* by 1 as well: the bits stay */
    if (p->c) {
        s[0] = __builtin_fmaf(beta, c[0], s[0]), s[1] = __builtin_fmaf(beta, c[c_n], s[1]);
        s[2] = __builtin_fmaf(beta, c[2 * c_n], s[2]), s[3] = __builtin_fmaf(beta, c[3 * c_n], s[3]);
    }
    if (p->relu) s[0] = rectified(s[0]), s[1] = rectified(s[1]), s[2] = rectified(s[2]), s[3] = rectified(s[3]);
    if (p->gate) {
        s[0] = let_through(s[0], g[0]), s[1] = let_through(s[1], g[gate_n]);
        s[2] = let_through(s[2], g[2 * gate_n]), s[3] = let_through(s[3], g[3 * gate_n]);
    }
}

/* ---- a vector times a matrix: four or two outputs at once ---- */

#define MAC_2(v) FMA("%[s0]", v, "fa0") FMA("%[s1]", v, "fa1")
#define STEP_2(step) ADD("%[w0]", step) ADD("%[w1]", step)
#define OPERANDS_2 [s0] "+&f"(s[0]), [s1] "+&f"(s[1]), [w0] "+&r"(w0), [w1] "+&r"(w1), [v] "+&r"(v)
#define OPERANDS_4 OPERANDS_2, [s2] "+&f"(s[2]), [s3] "+&f"(s[3]), [w2] "+&r"(w2), [w3] "+&r"(w3)
/* The rest of one column's four products, while the first two of the next one are loaded. */
#define QUARTER(s, w, next)                                                                                           \
    FMA(s, "ft0", "fa0") FLW("fa2", w, 8) FMA(s, "ft1", "fa1") FLW("fa3", w, 12)                                      \
    FMA(s, "ft2", "fa2") FLW("fa0", next, 0) FMA(s, "ft3", "fa3") FLW("fa1", next, 4)
#define LAST_QUARTER(s, w)                                                                                            \
    FMA(s, "ft0", "fa0") FLW("fa2", w, 8) FMA(s, "ft1", "fa1") FLW("fa3", w, 12)                                      \
    FMA(s, "ft2", "fa2") ADDI("%[w0]", 16) FMA(s, "ft3", "fa3") ADDI("%[w1]", 16) ADDI("%[v]", 16)
#define VECTOR                                                                                                        \
    FLW("ft0", "%[v]", 0) FLW("fa0", "%[w0]", 0) FLW("ft1", "%[v]", 4) FLW("fa1", "%[w0]", 4)                         \
    FLW("ft2", "%[v]", 8) FLW("ft3", "%[v]", 12)

typedef struct {
    uint32_t v_k, w_k, w_n; /* bytes */
} steps_t;

/* s[0..3] += v times the columns w, w + w_n, .. */
static __attribute__((noinline)) void add_4(const steps_t *step, uint32_t k, const float *v, const float *w0, float s[4]) {
    const float *w1 = at(w0, step->w_n), *w2 = at(w1, step->w_n), *w3 = at(w2, step->w_n);
    if (step->w_k == 4 && step->v_k == 4 && k >= 4) {
        __asm__ volatile(LOOP("%[turns]", 41)
                         VECTOR QUARTER("%[s0]", "%[w0]", "%[w1]") QUARTER("%[s1]", "%[w1]", "%[w2]")
                         QUARTER("%[s2]", "%[w2]", "%[w3]") LAST_QUARTER("%[s3]", "%[w3]")
                         ADDI("%[w2]", 16) ADDI("%[w3]", 16)
                         LOOP_END(41)
                         : OPERANDS_4 : [turns] "r"(k >> 2) : CLOBBERS);
        k &= 3;
    } else if (step->w_n == 4) {
        __asm__ volatile(LOOP("%[turns]", 11)
                         FLW("ft0", "%[v]", 0) FLW("fa0", "%[w0]", 0) ADD("%[v]", "%[v_k]") FMA("%[s0]", "ft0", "fa0")
                         FLW("fa1", "%[w0]", 4) FLW("fa2", "%[w0]", 8)
                         FMA("%[s1]", "ft0", "fa1") FLW("fa3", "%[w0]", 12)
                         FMA("%[s2]", "ft0", "fa2") ADD("%[w0]", "%[w_k]") FMA("%[s3]", "ft0", "fa3")
                         LOOP_END(11)
                         : OPERANDS_4 : [turns] "r"(k), [v_k] "r"(step->v_k), [w_k] "r"(step->w_k) : CLOBBERS);
        return;
    }
    if (k > 0)
        __asm__ volatile(LOOP("%[turns]", 14)
                         FLW("ft0", "%[v]", 0) FLW("fa0", "%[w0]", 0) FLW("fa1", "%[w1]", 0) FLW("fa2", "%[w2]", 0)
                         FLW("fa3", "%[w3]", 0) ADD("%[v]", "%[v_k]") MAC_2("ft0") FMA("%[s2]", "ft0", "fa2")
                         FMA("%[s3]", "ft0", "fa3") STEP_2("%[w_k]") ADD("%[w2]", "%[w_k]") ADD("%[w3]", "%[w_k]")
                         LOOP_END(14)
                         : OPERANDS_4 : [turns] "r"(k), [v_k] "r"(step->v_k), [w_k] "r"(step->w_k) : CLOBBERS);
}

/* s[0..1] += v times the columns w0 and w1. */
static inline void add_2(const steps_t *step, uint32_t k, const float *v, const float *w0, const float *w1,
                         float s[2]) {
    if (step->w_k == 4 && step->v_k == 4 && k >= 4) {
        __asm__ volatile(LOOP("%[turns]", 23)
                         VECTOR QUARTER("%[s0]", "%[w0]", "%[w1]") LAST_QUARTER("%[s1]", "%[w1]")
                         LOOP_END(23)
                         : OPERANDS_2 : [turns] "r"(k >> 2) : CLOBBERS);
        k &= 3;
    }
    if (k > 0)
        __asm__ volatile(LOOP("%[turns]", 8)
                         FLW("ft0", "%[v]", 0) FLW("fa0", "%[w0]", 0) FLW("fa1", "%[w1]", 0) ADD("%[v]", "%[v_k]")
                         MAC_2("ft0") STEP_2("%[w_k]")
                         LOOP_END(8)
                         : OPERANDS_2 : [turns] "r"(k), [v_k] "r"(step->v_k), [w_k] "r"(step->w_k) : CLOBBERS);
}

/* Loops over n turn once or twice: what the compiler would prepare for every turn costs more than it saves. */
#define HIDE(n) __asm__("" : "+r"(n))

/* `count` outputs: a row of Y, or (`down`) a column, where A and B change roles. Sums are one block, or `several`. */
static inline __attribute__((always_inline)) void line_of(const uint32_t several, const gemm_f32_args_t *p,
                                                          const float *v, const float *w, const float *c,
                                                          const float *gate, float *y, uint32_t count, uint32_t down) {
    const steps_t step = {4 * (down ? p->b_k : p->a_k), 4 * (down ? p->a_k : p->b_k), 4 * (down ? p->a_m : p->b_n)};
    const uint32_t y_n = down ? p->y_m : 1, c_n = down ? p->c_m : p->c_n, finished = finishes(p);
    const uint32_t gate_n = down ? p->gate_m : 1;
    const uint32_t cores = hal_core_count(), fours = count > 2 * cores ? count & ~3u : 0;
    for (uint32_t n = 4 * hal_core_id(); n < fours; n += 4 * cores) {
        HIDE(n);
        float *to = y + n * y_n, s[4] = {0};
        if (several) {
            const float *a = v, *b = at(w, n * step.w_n);
            s[0] = s[1] = s[2] = s[3] = LITERAL_F32(-0.0f); /* plus the first block: that itself */
            if (!p->first) s[0] = to[0], s[1] = to[y_n], s[2] = to[2 * y_n], s[3] = to[3 * y_n];
            for (uint32_t left = p->k, k; left > 0; left -= k) {
                float t[4] = {0};
                k = hal_min(left, PRODUCTS_BLOCK);
                add_4(&step, k, a, b, t);
                a = at(a, PRODUCTS_BLOCK * step.v_k), b = at(b, PRODUCTS_BLOCK * step.w_k);
                s[0] += t[0], s[1] += t[1], s[2] += t[2], s[3] += t[3];
            }
        } else {
            if (!p->first && p->single) s[0] = to[0], s[1] = to[y_n], s[2] = to[2 * y_n], s[3] = to[3 * y_n];
            add_4(&step, p->k, v, at(w, n * step.w_n), s);
            if (!p->first && !p->single) s[0] += to[0], s[1] += to[y_n], s[2] += to[2 * y_n], s[3] += to[3 * y_n];
        }
        if (finished) finish_4(p, s, c + n * c_n, c_n, gate + n * gate_n, gate_n);
        to[0] = s[0], to[y_n] = s[1], to[2 * y_n] = s[2], to[3 * y_n] = s[3];
    }
    /* the last cores have the fewest fours; a column without a neighbour is its own */
    for (uint32_t n = fours + 2 * (cores - 1 - hal_core_id()); n < count; n += 2 * cores) {
        HIDE(n);
        const uint32_t other = n + 1 < count ? n + 1 : n;
        float *to = y + n * y_n, *second = y + other * y_n, s[2] = {0};
        if (several) {
            const float *a = v, *b = at(w, n * step.w_n), *next = at(w, other * step.w_n);
            s[0] = s[1] = LITERAL_F32(-0.0f);
            if (!p->first) s[0] = *to, s[1] = *second;
            for (uint32_t left = p->k, k; left > 0; left -= k) {
                float t[2] = {0};
                k = hal_min(left, PRODUCTS_BLOCK);
                add_2(&step, k, a, b, next, t);
                a = at(a, PRODUCTS_BLOCK * step.v_k);
                b = at(b, PRODUCTS_BLOCK * step.w_k), next = at(next, PRODUCTS_BLOCK * step.w_k);
                s[0] += t[0], s[1] += t[1];
            }
        } else {
            if (!p->first && p->single) s[0] = *to, s[1] = *second;
            add_2(&step, p->k, v, at(w, n * step.w_n), at(w, other * step.w_n), s);
            if (!p->first && !p->single) s[0] += *to, s[1] += *second;
        }
        if (finished) {
            const float alpha = p->alpha, beta = p->beta;
            s[0] *= alpha, s[1] *= alpha;
            if (p->c) s[0] = __builtin_fmaf(beta, c[n * c_n], s[0]), s[1] = __builtin_fmaf(beta, c[other * c_n], s[1]);
            s[0] = activated(p, s[0], gate + n * gate_n), s[1] = activated(p, s[1], gate + other * gate_n);
        }
        *to = s[0], *second = s[1];
    }
}

__attribute__((noinline)) static void long_line(const gemm_f32_args_t *p, const float *v, const float *w,
                                                const float *c, const float *gate, float *y, uint32_t count,
                                                uint32_t down) {
    line_of(1, p, v, w, c, gate, y, count, down);
}

static __attribute__((noinline)) void line(const gemm_f32_args_t *p, const float *v, const float *w, const float *c,
                                           const float *gate, float *y, uint32_t count, uint32_t down) {
    if (p->k > PRODUCTS_BLOCK)
        long_line(p, v, w, c, gate, y, count, down);
    else
        line_of(0, p, v, w, c, gate, y, count, down);
}

/* ---- outer products ---- */

/* Strips of eight columns and what is left of them: every core takes some rows of each, or, where they can be dealt out
 * evenly or there are too few rows, whole strips. */
static __attribute__((noinline)) void outer(const gemm_f32_args_t *p, const float *a, const float *b, float *y) {
    const uint32_t cores = hal_core_count(), id = hal_core_id(), strips = p->n >> 3, b_n = 4 * p->b_n, m = p->m;
    uint32_t a_m = 4 * p->a_m, y_m = 4 * p->y_m, n = p->n, i = 0, next = 8, rows = m;
    uint32_t whole = strips >= cores && ((strips & (cores - 1)) == 0 || m < cores);
    if (whole) i = 8 * id, next = 8 * cores;
    for (;; whole = 0, i = 8 * strips) {
        if (!whole) {
            if (id >= m) return;
            rows = turns_of(m - id, cores);
            a = at(a, id * a_m), y += id * p->y_m;
            a_m *= cores, y_m *= cores;
        }
        for (; i + 8 <= n; i += next) outer_8(a, a_m, at(b, i * b_n), b_n, y + i, y_m, rows);
        if ((n & 7) == 0) return;
        if (!whole) break;
    }
    for (i = 8 * strips; i < n; i++) outer_1(a, a_m, at(b, i * b_n), y + i, y_m, rows);
}

/* The same in strips of four columns. */
__attribute__((noinline)) static void added(const gemm_f32_args_t *p, const float *a, const float *b, const float *c,
                                            float *y) {
    const uint32_t cores = hal_core_count(), id = hal_core_id(), strips = p->n >> 2, b_n = 4 * p->b_n, m = p->m;
    const uint32_t own = id < m ? turns_of(m - id, cores) : 0;
    const float beta = p->beta;
    uint32_t i = 0, next = 4, row = id, step = cores, rows = own;
    if (strips >= cores && ((strips & (cores - 1)) == 0 || m < cores)) i = 4 * id, next = 4 * cores, row = 0, step = 1, rows = m;
    for (; i < 4 * strips && rows > 0; i += next)
        added_4(at(a, 4 * row * p->a_m), 4 * step * p->a_m, at(b, i * b_n), b_n, c + row * p->c_m + i, 4 * step * p->c_m,
                y + row * p->y_m + i, 4 * step * p->y_m, rows, beta);
    for (i = 4 * strips; i < p->n && own > 0; i++)
        added_1(at(a, 4 * id * p->a_m), 4 * cores * p->a_m, at(b, i * b_n), c + id * p->c_m + i, 4 * cores * p->c_m,
                y + id * p->y_m + i, 4 * cores * p->y_m, own, beta);
}

static inline void outer_of(const gemm_f32_args_t *p, const float *a, const float *b, const float *c, float *y) {
    if (p->single == ADDED)
        added(p, a, b, c, y);
    else
        outer(p, a, b, y);
}

/* ---- few products ---- */

/* A vector times a matrix. What takes the time is code that is fetched, so this is one short loop; a core has every
 * `cores`-th output. */
static __attribute__((noinline)) void few(const gemm_f32_args_t *p) {
    const uint32_t columns = p->n, b_n = 4 * p->b_n;
    for (uint32_t n = hal_core_id(); n < columns; n += hal_core_count()) {
        const float *a = p->a, *b = at(p->b, n * b_n);
        float *y = p->y + n, sum = p->first ? 0.0f : *y;
        __asm__ volatile(LOOP("%[turns]", 5)
                         FLW("ft0", "%[a]", 0) FLW("ft1", "%[b]", 0) ADD("%[a]", "%[a_k]") ADD("%[b]", "%[b_k]")
                         FMA("%[sum]", "ft0", "ft1")
                         LOOP_END(5)
                         : [a] "+&r"(a), [b] "+&r"(b), [sum] "+&f"(sum)
                         : [a_k] "r"(4 * p->a_k), [b_k] "r"(4 * p->b_k), [turns] "r"(p->k)
                         : "ft0", "ft1", "memory");
        if (p->last) {
            sum *= p->alpha;
            if (p->c) sum = __builtin_fmaf(p->beta, p->c[n * p->c_n], sum);
            sum = activated(p, sum, p->gate + n);
        }
        *y = sum;
    }
}

/* Rows of an outer product, of which a core has every `cores`-th. */
static __attribute__((noinline)) void few_rows(const gemm_f32_args_t *p) {
    for (uint32_t m = hal_core_id(); m < p->m; m += hal_core_count()) {
        const float *b = p->b;
        float *y = p->y + m * p->y_m;
        __asm__ volatile("fmv.w.x ft2, zero\n" LOOP("%[columns]", 5)
                         FLW("ft0", "%[b]", 0) ADD("%[b]", "%[b_n]") "fmadd.s ft1, %[a], ft0, ft2\n"
                         FSW("ft1", "%[y]", 0) ADDI("%[y]", 4)
                         LOOP_END(5)
                         : [b] "+&r"(b), [y] "+&r"(y)
                         : [a] "f"(p->a[m * p->a_m]), [b_n] "r"(4 * p->b_n), [columns] "r"(p->n)
                         : "ft0", "ft1", "ft2", "memory");
    }
}

/* Of each batch, the rows from `row` on and, before them, the columns from `column` on. */
static __attribute__((noinline)) void edges(const gemm_f32_args_t *p, uint32_t row, uint32_t column) {
    const float *a = p->a, *b = p->b, *c = p->c, *gate = p->gate;
    float *y = p->y;
    for (uint32_t i = 0; i < p->batch; i++, a += p->a_b, b += p->b_b, c += p->c_b, gate += p->gate_b, y += p->y_b) {
        for (uint32_t m = row; m < p->m; m++)
            line(p, a + m * p->a_m, b, c + m * p->c_m, gate + m * p->gate_m, y + m * p->y_m, p->n, 0);
        for (uint32_t n = column; n < p->n && row > 0; n++)
            line(p, b + n * p->b_n, a, c + n * p->c_n, gate + n, y + n, row, 1);
    }
}

/* Outer products of several batches. */
static __attribute__((noinline)) void outers(const gemm_f32_args_t *p) {
    const float *a = p->a, *b = p->b, *c = p->c;
    float *y = p->y;
    for (uint32_t i = 0; i < p->batch; i++, a += p->a_b, b += p->b_b, c += p->c_b, y += p->y_b) outer_of(p, a, b, c, y);
}

/* Lines along the longer side of what is less than four outputs wide. */
__attribute__((noinline)) void gemm_f32(const void *args) {
    const gemm_f32_args_t *p = args;
    const uint32_t form = p->single;
    if (form == FEW) {
        few(p);
    } else if (form == FEW_ROWS) {
        few_rows(p);
    } else if (form > FEW_ROWS && p->batch > 1) {
        outers(p);
    } else if (form > FEW_ROWS) {
        outer_of(p, p->a, p->b, p->c, p->y);
    } else if (p->m >= 4 && p->n >= 4) {
        matrix_blocks(p);
        if ((p->m | p->n) & 3) edges(p, p->m & ~3u, p->n & ~3u);
    } else if (p->batch == 1 && p->m == 1) {
        line(p, p->a, p->b, p->c, p->gate, p->y, p->n, 0);
    } else if (p->m > p->n) {
        edges(p, p->m, 0);
    } else {
        edges(p, 0, p->n);
    }
}
