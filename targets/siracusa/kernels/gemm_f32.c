/* Y = alpha * A B + beta * C on strided operands; the portable kernel defines the bits: each output sums k ascending by
 * fmaf from zero or from what waits in Y.
 *
 * Full blocks of 4 x 4 outputs first; then the rows and the columns left over, 4 outputs of a vector times a matrix at
 * once; outer products (k = 1) by themselves. Each part is shared evenly between all cores. Strides of the loops are
 * bytes. Every load is two instructions ahead of its use, and every second instruction is a multiply-add where two cores
 * share an FPU. */
#include "gemm_f32.h"
#include "hal.h"
#include "pulp.h"
#include "share_f32.h"

static inline int finishes(const gemm_f32_args_t *p) {
    const union {
        float value;
        uint32_t bits;
    } alpha = {p->alpha};
    return p->last && (p->c || alpha.bits != 0x3f800000); /* not 1.0f, which would be read from L2 */
}

/* The epilogue of four outputs whose sums lie in Y. */
__attribute__((noinline)) static void finish(const gemm_f32_args_t *p, float *y, const float *c) {
    const float alpha = p->alpha, beta = p->beta;
    const uint32_t c_n = p->c_n;
    for (float *end = y + 4; y < end; y++, c += c_n) {
        float sum = alpha * *y; /* by 1 as well: the bits stay */
        if (p->c) sum = __builtin_fmaf(beta, *c, sum);
        *y = sum;
    }
}

/* ---- blocks of 4 x 4 ---- */

#define ROW_IN(c0, c1, c2, c3)                                                                                        \
    FLW("%[" #c0 "]", "t0", 0) FLW("%[" #c1 "]", "t0", 4) FLW("%[" #c2 "]", "t0", 8) FLW("%[" #c3 "]", "t0", 12)
#define MAC(c, a, b) FMA("%[c" #c "]", "ft" #a, "fa" #b) /* A in ft0..3, B in fa0..3 */
#define COLUMN(n) MAC(0##n, 0, n) MAC(1##n, 1, n) MAC(2##n, 2, n) MAC(3##n, 3, n)

static inline void block(const gemm_f32_args_t *p, const float *a, const float *b, float *y) {
    const float zeros[4] = {0};
    const float *const sums = p->first ? zeros : y;
    const uint32_t sums_m = p->first ? 0 : 4 * p->y_m;
    float c00, c01, c02, c03, c10, c11, c12, c13, c20, c21, c22, c23, c30, c31, c32, c33;
    __asm__ volatile(
        "mv t0, %[sums]\n"
        ROW_IN(c00, c01, c02, c03) ADD("t0", "%[sums_m]")
        ROW_IN(c10, c11, c12, c13) ADD("t0", "%[sums_m]")
        ROW_IN(c20, c21, c22, c23) ADD("t0", "%[sums_m]")
        ROW_IN(c30, c31, c32, c33)
        /* rows of A in t0..t3, columns of B in t4..t6 and a7 */
        "mv t0, %[a]\n add t1, t0, %[a_m]\n add t2, t1, %[a_m]\n add t3, t2, %[a_m]\n"
        "mv t4, %[b]\n add t5, t4, %[b_n]\n add t6, t5, %[b_n]\n add a7, t6, %[b_n]\n"
        FLW("ft0", "t0", 0) FLW("ft1", "t1", 0) FLW("ft2", "t2", 0) FLW("ft3", "t3", 0)
        FLW("fa0", "t4", 0) FLW("fa1", "t5", 0) FLW("fa2", "t6", 0) FLW("fa3", "a7", 0)
        "beqz %[more], 1f\n"
        LOOP("%[more]", 32)
        MAC(00, 0, 0) FLW("fa3", "a7", 0)
        MAC(10, 1, 0) ADD("a7", "%[b_k]")
        MAC(20, 2, 0) ADD("t4", "%[b_k]")
        MAC(30, 3, 0) FLW("fa0", "t4", 0)
        MAC(01, 0, 1) ADD("t5", "%[b_k]")
        MAC(11, 1, 1) ADD("t6", "%[b_k]")
        MAC(21, 2, 1) ADD("t0", "%[a_k]")
        MAC(31, 3, 1) FLW("fa1", "t5", 0)
        MAC(02, 0, 2) ADD("t1", "%[a_k]")
        MAC(12, 1, 2) ADD("t2", "%[a_k]")
        MAC(22, 2, 2) ADD("t3", "%[a_k]")
        MAC(32, 3, 2) FLW("fa2", "t6", 0)
        MAC(03, 0, 3) FLW("ft0", "t0", 0)
        MAC(13, 1, 3) FLW("ft1", "t1", 0)
        MAC(23, 2, 3) FLW("ft2", "t2", 0)
        MAC(33, 3, 3) FLW("ft3", "t3", 0)
        LOOP_END(32)
        "1: flw fa3, 0(a7)\n"
        COLUMN(0) COLUMN(1) COLUMN(2) COLUMN(3)
        : [c00] "=&f"(c00), [c01] "=&f"(c01), [c02] "=&f"(c02), [c03] "=&f"(c03), [c10] "=&f"(c10), [c11] "=&f"(c11),
          [c12] "=&f"(c12), [c13] "=&f"(c13), [c20] "=&f"(c20), [c21] "=&f"(c21), [c22] "=&f"(c22), [c23] "=&f"(c23),
          [c30] "=&f"(c30), [c31] "=&f"(c31), [c32] "=&f"(c32), [c33] "=&f"(c33)
        : [sums] "r"(sums), [sums_m] "r"(sums_m), [a] "r"(a), [a_m] "r"(4 * p->a_m), [a_k] "r"(4 * p->a_k), [b] "r"(b),
          [b_n] "r"(4 * p->b_n), [b_k] "r"(4 * p->b_k), [more] "r"(p->k - 1)
        : "t0", "t1", "t2", "t3", "t4", "t5", "t6", "a7", "ft0", "ft1", "ft2", "ft3", "fa0", "fa1", "fa2", "fa3", "memory");
    const uint32_t y_m = p->y_m;
    y[0] = c00, y[1] = c01, y[2] = c02, y[3] = c03, y += y_m;
    y[0] = c10, y[1] = c11, y[2] = c12, y[3] = c13, y += y_m;
    y[0] = c20, y[1] = c21, y[2] = c22, y[3] = c23, y += y_m;
    y[0] = c30, y[1] = c31, y[2] = c32, y[3] = c33;
}

__attribute__((noinline)) static void blocks(const gemm_f32_args_t *p) {
    const uint32_t rows = p->m / 4, columns = p->n / 4, cores = hal_core_count();
    uint32_t b = 0, row = 0, n = hal_core_id();
    for (;; n += cores) {
        while (n >= columns) {
            n -= columns;
            if (++row == rows) row = 0, b++;
        }
        if (b >= p->batch) return;
        const float *c = p->c + b * p->c_b + 4 * row * p->c_m + 4 * n * p->c_n;
        float *y = p->y + b * p->y_b + 4 * row * p->y_m + 4 * n;
        block(p, p->a + b * p->a_b + 4 * row * p->a_m, p->b + b * p->b_b + 4 * n * p->b_n, y);
        if (finishes(p))
            for (uint32_t m = 0; m < 4; m++, y += p->y_m, c += p->c_m) finish(p, y, c);
    }
}

/* ---- a vector times a matrix: 4 outputs at once ---- */

typedef struct {
    const float *v; /* the vector */
    const float *w; /* the matrix */
    const float *c;
    float *y;
    uint32_t v_k, w_k, w_n, c_n, y_n, n;
} line_t;

#define ALL_IN(o) FLW("fa0", "%[w0]", o) FLW("fa1", "%[w1]", o) FLW("fa2", "%[w2]", o) FLW("fa3", "%[w3]", o)
#define ALL_MAC(v) FMA("%[s0]", v, "fa0") FMA("%[s1]", v, "fa1") FMA("%[s2]", v, "fa2") FMA("%[s3]", v, "fa3")
#define ALL_STEP(step) ADD("%[w0]", step) ADD("%[w1]", step) ADD("%[w2]", step) ADD("%[w3]", step)
#define SUMS [s0] "+f"(s0), [s1] "+f"(s1), [s2] "+f"(s2), [s3] "+f"(s3)
#define COLUMNS [w0] "+r"(w0), [w1] "+r"(w1), [w2] "+r"(w2), [w3] "+r"(w3)

/* Four outputs from n on; where fewer are left, the last one is computed and stored more than once. */
static inline void columns(const gemm_f32_args_t *p, const line_t *l, uint32_t n) {
    const uint32_t left = l->n - n, n1 = left > 1, n2 = n1 + (left > 2), n3 = n2 + (left > 3);
    const uint32_t v_k = 4 * l->v_k, w_k = 4 * l->w_k, y_n = l->y_n;
    const float *w0 = l->w + n * l->w_n, *w1 = w0 + n1 * l->w_n, *w2 = w0 + n2 * l->w_n, *w3 = w0 + n3 * l->w_n, *v = l->v;
    float *const y = l->y + n * y_n;
    float s0 = 0, s1 = 0, s2 = 0, s3 = 0;
    if (!p->first) s0 = *y, s1 = y[n1 * y_n], s2 = y[n2 * y_n], s3 = y[n3 * y_n];
    uint32_t k = p->k;
    if (w_k == 4 && v_k == 4 && k >= 4) {
        __asm__ volatile(
            LOOP("%[quarter]", 41)
            FLW("fa0", "%[w0]", 0) FLW("ft0", "%[v]", 0) FLW("fa1", "%[w0]", 4) FLW("ft1", "%[v]", 4)
            FMA("%[s0]", "ft0", "fa0") FLW("fa2", "%[w0]", 8) FLW("ft2", "%[v]", 8)
            FMA("%[s0]", "ft1", "fa1") FLW("fa3", "%[w0]", 12) FLW("ft3", "%[v]", 12)
            FMA("%[s0]", "ft2", "fa2") FLW("fa0", "%[w1]", 0) FMA("%[s0]", "ft3", "fa3") FLW("fa1", "%[w1]", 4)
            FMA("%[s1]", "ft0", "fa0") FLW("fa2", "%[w1]", 8) FMA("%[s1]", "ft1", "fa1") FLW("fa3", "%[w1]", 12)
            FMA("%[s1]", "ft2", "fa2") FLW("fa0", "%[w2]", 0) FMA("%[s1]", "ft3", "fa3") FLW("fa1", "%[w2]", 4)
            FMA("%[s2]", "ft0", "fa0") FLW("fa2", "%[w2]", 8) FMA("%[s2]", "ft1", "fa1") FLW("fa3", "%[w2]", 12)
            FMA("%[s2]", "ft2", "fa2") FLW("fa0", "%[w3]", 0) FMA("%[s2]", "ft3", "fa3") FLW("fa1", "%[w3]", 4)
            FMA("%[s3]", "ft0", "fa0") FLW("fa2", "%[w3]", 8) FMA("%[s3]", "ft1", "fa1") FLW("fa3", "%[w3]", 12)
            FMA("%[s3]", "ft2", "fa2") ADDI("%[w0]", 16) FMA("%[s3]", "ft3", "fa3") ADDI("%[w1]", 16)
            ADDI("%[w2]", 16) ADDI("%[w3]", 16) ADDI("%[v]", 16)
            LOOP_END(41)
            : SUMS, COLUMNS, [v] "+r"(v)
            : [quarter] "r"(k >> 2)
            : "ft0", "ft1", "ft2", "ft3", "fa0", "fa1", "fa2", "fa3", "memory");
        k &= 3;
    } else if (l->w_n == 1 && left >= 4) {
        __asm__ volatile(
            LOOP("%[k]", 11)
            FLW("ft0", "%[v]", 0) FLW("fa0", "%[w0]", 0)
            ADD("%[v]", "%[v_k]") FMA("%[s0]", "ft0", "fa0")
            FLW("fa1", "%[w0]", 4) FLW("fa2", "%[w0]", 8)
            FMA("%[s1]", "ft0", "fa1") FLW("fa3", "%[w0]", 12)
            FMA("%[s2]", "ft0", "fa2") ADD("%[w0]", "%[w_k]")
            FMA("%[s3]", "ft0", "fa3")
            LOOP_END(11)
            : SUMS, [w0] "+r"(w0), [v] "+r"(v)
            : [v_k] "r"(v_k), [w_k] "r"(w_k), [k] "r"(k)
            : "ft0", "fa0", "fa1", "fa2", "fa3", "memory");
        k = 0;
    }
    if (k > 0)
        __asm__ volatile(
            LOOP("%[k]", 14)
            FLW("ft0", "%[v]", 0) ALL_IN(0) ADD("%[v]", "%[v_k]") ALL_MAC("ft0") ALL_STEP("%[w_k]")
            LOOP_END(14)
            : SUMS, COLUMNS, [v] "+r"(v)
            : [v_k] "r"(v_k), [w_k] "r"(w_k), [k] "r"(k)
            : "ft0", "fa0", "fa1", "fa2", "fa3", "memory");
    if (finishes(p)) {
        const float alpha = p->alpha, beta = p->beta, *const c = l->c + n * l->c_n;
        s0 *= alpha, s1 *= alpha, s2 *= alpha, s3 *= alpha;
        if (p->c) {
            s0 = __builtin_fmaf(beta, *c, s0), s1 = __builtin_fmaf(beta, c[n1 * l->c_n], s1);
            s2 = __builtin_fmaf(beta, c[n2 * l->c_n], s2), s3 = __builtin_fmaf(beta, c[n3 * l->c_n], s3);
        }
    }
    *y = s0, y[n1 * y_n] = s1, y[n2 * y_n] = s2, y[n3 * y_n] = s3;
}

__attribute__((noinline)) static void line(const gemm_f32_args_t *p, const line_t *l) {
    for (uint32_t n = 4 * hal_core_id(); n < l->n; n += 4 * hal_core_count()) columns(p, l, n);
}

/* Rows from `row` on over all columns, then columns from `column` on over the rows before. */
__attribute__((noinline)) static void lines(const gemm_f32_args_t *p, uint32_t row, uint32_t column) {
    const float *a = p->a, *b = p->b, *c = p->c;
    float *y = p->y;
    for (uint32_t batch = 0; batch < p->batch; batch++, a += p->a_b, b += p->b_b, c += p->c_b, y += p->y_b) {
        for (uint32_t m = row; m < p->m; m++) {
            const line_t l = {a + m * p->a_m, b, c + m * p->c_m, y + m * p->y_m, p->a_k, p->b_k, p->b_n, p->c_n, 1, p->n};
            line(p, &l);
        }
        if (row == 0) continue;
        for (uint32_t n = column; n < p->n; n++) {
            const line_t l = {b + n * p->b_n, a, c + n * p->c_n, y + n, p->b_k, p->a_k, p->a_m, p->c_m, p->y_m, row};
            line(p, &l);
        }
    }
}

/* ---- outer products ---- */

/* Rows of 8 outputs: Y[m, n..n+7] = A[m] B[n..n+7]. */
static inline void outer8(const float *a, uint32_t a_m, const float *b, uint32_t b_n, float *y, uint32_t y_m, uint32_t rows) {
    __asm__ volatile(
        "fmv.w.x ft0, zero\n"
        FLW("fa0", "%[b]", 0) ADD("%[b]", "%[b_n]") FLW("fa1", "%[b]", 0) ADD("%[b]", "%[b_n]")
        FLW("fa2", "%[b]", 0) ADD("%[b]", "%[b_n]") FLW("fa3", "%[b]", 0) ADD("%[b]", "%[b_n]")
        FLW("fa4", "%[b]", 0) ADD("%[b]", "%[b_n]") FLW("fa5", "%[b]", 0) ADD("%[b]", "%[b_n]")
        FLW("fa6", "%[b]", 0) ADD("%[b]", "%[b_n]") FLW("fa7", "%[b]", 0)
        LOOP("%[rows]", 19)
        FLW("ft1", "%[a]", 0) ADD("%[a]", "%[a_m]")
        "fmadd.s ft2, ft1, fa0, ft0\n fmadd.s ft3, ft1, fa1, ft0\n" FSW("ft2", "%[y]", 0)
        "fmadd.s ft2, ft1, fa2, ft0\n" FSW("ft3", "%[y]", 4) "fmadd.s ft3, ft1, fa3, ft0\n" FSW("ft2", "%[y]", 8)
        "fmadd.s ft2, ft1, fa4, ft0\n" FSW("ft3", "%[y]", 12) "fmadd.s ft3, ft1, fa5, ft0\n" FSW("ft2", "%[y]", 16)
        "fmadd.s ft2, ft1, fa6, ft0\n" FSW("ft3", "%[y]", 20) "fmadd.s ft3, ft1, fa7, ft0\n" FSW("ft2", "%[y]", 24)
        FSW("ft3", "%[y]", 28) ADD("%[y]", "%[y_m]")
        LOOP_END(19)
        : [a] "+r"(a), [b] "+r"(b), [y] "+r"(y)
        : [a_m] "r"(4 * a_m), [b_n] "r"(4 * b_n), [y_m] "r"(4 * y_m), [rows] "r"(rows)
        : "ft0", "ft1", "ft2", "ft3", "fa0", "fa1", "fa2", "fa3", "fa4", "fa5", "fa6", "fa7", "memory");
}

static inline void outer1(const float *a, uint32_t a_m, const float *b, float *y, uint32_t y_m, uint32_t rows) {
    __asm__ volatile(
        "fmv.w.x ft0, zero\n"
        FLW("fa0", "%[b]", 0)
        LOOP("%[rows]", 5)
        FLW("ft1", "%[a]", 0) ADD("%[a]", "%[a_m]") "fmadd.s ft2, ft1, fa0, ft0\n" FSW("ft2", "%[y]", 0)
        ADD("%[y]", "%[y_m]")
        LOOP_END(5)
        : [a] "+r"(a), [y] "+r"(y)
        : [b] "r"(b), [a_m] "r"(4 * a_m), [y_m] "r"(4 * y_m), [rows] "r"(rows)
        : "ft0", "ft1", "ft2", "fa0", "memory");
}

static inline void outer_piece(const gemm_f32_args_t *p, uint32_t b, uint32_t n, uint32_t width, uint32_t m, uint32_t rows) {
    const float *a = p->a + b * p->a_b + m * p->a_m, *w = p->b + b * p->b_b + n * p->b_n;
    float *y = p->y + b * p->y_b + m * p->y_m + n;
    if (width == 8)
        outer8(a, p->a_m, w, p->b_n, y, p->y_m, rows);
    else
        outer1(a, p->a_m, w, y, p->y_m, rows);
}

/* `parts` strips of columns: a whole strip per core as long as all cores get one, then even shares of the others' rows. */
static void outer_part(const gemm_f32_args_t *p, uint32_t b, uint32_t n, uint32_t width, uint32_t parts) {
    const uint32_t cores = hal_core_count(), step = width * cores;
    for (; parts >= cores; parts -= cores, n += step) outer_piece(p, b, n + width * hal_core_id(), width, 0, p->m);
    if (parts == 0) return;
    const share_t share = share_of(parts * p->m);
    uint32_t left = share.end - share.begin;
    if (left == 0) return;
    const uint32_t part = share.begin / p->m;
    n += part * width;
    for (uint32_t m = share.begin - part * p->m, rows; left > 0; left -= rows, n += width, m = 0) {
        rows = hal_min(left, p->m - m);
        outer_piece(p, b, n, width, m, rows);
    }
}

__attribute__((noinline)) static void outer(const gemm_f32_args_t *p) {
    for (uint32_t b = 0; b < p->batch; b++) {
        outer_part(p, b, 0, 8, p->n / 8);
        outer_part(p, b, p->n & ~7u, 1, p->n & 7u);
    }
}

void gemm_f32(const void *args) {
    const gemm_f32_args_t *p = args;
    if (p->k == 1 && p->first && !finishes(p)) {
        outer(p);
        return;
    }
    const uint32_t tall = p->m >= 4 && p->n >= 4;
    if (tall) blocks(p);
    lines(p, tall ? p->m & ~3u : 0, p->n & ~3u);
}
