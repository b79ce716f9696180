/* Schedules of taps, printed by `python -m DeployTest.support.kernels.tap_schedules`: a macro for each, and how many
 * instructions it has. Loads run two ahead of the taps, so that no value is used right after its load.
 *
 * ROWS_hw, for conv_lines.h: h rows of w taps of an output, with STEP in front of the last one.
 * ROW_.., for conv_planes.h: a row of three taps of four outputs, ROW_ONE.. of one. Output p meets values p to p + 2.
 * _BEGIN has no value in front of the first output, _END none behind the last one, _BOTH neither.
 * FOURS_.., for conv_fours.h: a row of taps of four channels and four outputs; _BUT_FIRST without the first tap of
 * output 0, _BUT_LAST without the last one of output 3. SIXTEEN_n and SHARED_n, for conv_taps.h: a row of n taps of
 * four by four sums, and of four sums that share a factor. */
#ifndef SCHEDULED_TAPS_H
#define SCHEDULED_TAPS_H

#define ROWS_11 FLW("ft0", "%[x0]", 0) STEP FIRST_TAP
#define ROWS_11_LENGTH 3
#define ROWS_12 FLW("ft0", "%[x0]", 0) FLW("ft1", "%[x0]", TAP_1) FIRST_TAP STEP TAP("ft1", 01)
#define ROWS_12_LENGTH 5
#define ROWS_13                                                                                                       \
    FLW("ft0", "%[x0]", 0) FLW("ft1", "%[x0]", TAP_1) FIRST_TAP FLW("ft2", "%[x0]", TAP_2) TAP("ft1", 01) STEP        \
    TAP("ft2", 02)
#define ROWS_13_LENGTH 7
#define ROWS_21 FLW("ft0", "%[x0]", 0) FLW("ft1", "%[x1]", 0) FIRST_TAP STEP TAP("ft1", 10)
#define ROWS_21_LENGTH 5
#define ROWS_22                                                                                                       \
    FLW("ft0", "%[x0]", 0) FLW("ft1", "%[x0]", TAP_1) FIRST_TAP FLW("ft2", "%[x1]", 0) TAP("ft1", 01)                 \
    FLW("ft3", "%[x1]", TAP_1) TAP("ft2", 10) STEP TAP("ft3", 11)
#define ROWS_22_LENGTH 9
#define ROWS_23                                                                                                       \
    FLW("ft0", "%[x0]", 0) FLW("ft1", "%[x0]", TAP_1) FIRST_TAP FLW("ft2", "%[x0]", TAP_2) TAP("ft1", 01)             \
    FLW("ft3", "%[x1]", 0) TAP("ft2", 02) FLW("ft0", "%[x1]", TAP_1) TAP("ft3", 10) FLW("ft1", "%[x1]", TAP_2)        \
    TAP("ft0", 11) STEP TAP("ft1", 12)
#define ROWS_23_LENGTH 13
#define ROWS_31                                                                                                       \
    FLW("ft0", "%[x0]", 0) FLW("ft1", "%[x1]", 0) FIRST_TAP FLW("ft2", "%[x2]", 0) TAP("ft1", 10) STEP TAP("ft2", 20)
#define ROWS_31_LENGTH 7
#define ROWS_32                                                                                                       \
    FLW("ft0", "%[x0]", 0) FLW("ft1", "%[x0]", TAP_1) FIRST_TAP FLW("ft2", "%[x1]", 0) TAP("ft1", 01)                 \
    FLW("ft3", "%[x1]", TAP_1) TAP("ft2", 10) FLW("ft0", "%[x2]", 0) TAP("ft3", 11) FLW("ft1", "%[x2]", TAP_1)        \
    TAP("ft0", 20) STEP TAP("ft1", 21)
#define ROWS_32_LENGTH 13
#define ROWS_33                                                                                                       \
    FLW("ft0", "%[x0]", 0) FLW("ft1", "%[x0]", TAP_1) FIRST_TAP FLW("ft2", "%[x0]", TAP_2) TAP("ft1", 01)             \
    FLW("ft3", "%[x1]", 0) TAP("ft2", 02) FLW("ft0", "%[x1]", TAP_1) TAP("ft3", 10) FLW("ft1", "%[x1]", TAP_2)        \
    TAP("ft0", 11) FLW("ft2", "%[x2]", 0) TAP("ft1", 12) FLW("ft3", "%[x2]", TAP_1) TAP("ft2", 20)                    \
    FLW("ft0", "%[x2]", TAP_2) TAP("ft3", 21) STEP TAP("ft0", 22)
#define ROWS_33_LENGTH 19
#define ROW_MIDDLE(FIRST, a, x)                                                                                       \
    GET(0, x) GET(1, x) FIRST(0, 0, a##0) GET(2, x) FIRST(1, 1, a##0) GET(3, x) FIRST(2, 2, a##0) GET(4, x)           \
    FIRST(3, 3, a##0) GET(5, x) GO_ON(0, 1, a##1) GO_ON(1, 2, a##1) GO_ON(2, 3, a##1) GO_ON(3, 4, a##1)               \
    GO_ON(0, 2, a##2) GO_ON(1, 3, a##2) GO_ON(2, 4, a##2) GO_ON(3, 5, a##2)
#define ROW_MIDDLE_LENGTH 18
#define ROW_BEGIN(FIRST, a, x)                                                                                        \
    GET(1, x) GET(2, x) FIRST(1, 1, a##0) GET(3, x) FIRST(2, 2, a##0) GET(4, x) FIRST(3, 3, a##0) GET(5, x)           \
    FIRST(0, 1, a##1) GO_ON(1, 2, a##1) GO_ON(2, 3, a##1) GO_ON(3, 4, a##1) GO_ON(0, 2, a##2) GO_ON(1, 3, a##2)       \
    GO_ON(2, 4, a##2) GO_ON(3, 5, a##2)
#define ROW_BEGIN_LENGTH 16
#define ROW_END(FIRST, a, x)                                                                                          \
    GET(0, x) GET(1, x) FIRST(0, 0, a##0) GET(2, x) FIRST(1, 1, a##0) GET(3, x) FIRST(2, 2, a##0) GET(4, x)           \
    FIRST(3, 3, a##0) GO_ON(0, 1, a##1) GO_ON(1, 2, a##1) GO_ON(2, 3, a##1) GO_ON(3, 4, a##1) GO_ON(0, 2, a##2)       \
    GO_ON(1, 3, a##2) GO_ON(2, 4, a##2)
#define ROW_END_LENGTH 16
#define ROW_BOTH(FIRST, a, x)                                                                                         \
    GET(1, x) GET(2, x) FIRST(1, 1, a##0) GET(3, x) FIRST(2, 2, a##0) GET(4, x) FIRST(3, 3, a##0) FIRST(0, 1, a##1)   \
    GO_ON(1, 2, a##1) GO_ON(2, 3, a##1) GO_ON(3, 4, a##1) GO_ON(0, 2, a##2) GO_ON(1, 3, a##2) GO_ON(2, 4, a##2)
#define ROW_BOTH_LENGTH 14
#define ROW_ONE(FIRST, a, x)                                                                                          \
    GET_ONE(0, x) GET_ONE(1, x) FIRST(0, 0, a##0) GET_ONE(2, x) GO_ON(0, 1, a##1) GO_ON(0, 2, a##2)
#define ROW_ONE_LENGTH 6
#define ROW_ONE_BEGIN(FIRST, a, x) GET_ONE(1, x) GET_ONE(2, x) FIRST(0, 1, a##1) GO_ON(0, 2, a##2)
#define ROW_ONE_BEGIN_LENGTH 4
#define ROW_ONE_END(FIRST, a, x) GET_ONE(0, x) GET_ONE(1, x) FIRST(0, 0, a##0) GO_ON(0, 1, a##1)
#define ROW_ONE_END_LENGTH 4
#define FOURS_THREE                                                                                                   \
    VALUE(0) EVEN(0, 0) VALUE(1) SUM(0, 0, 0, 0) EVEN(1, 0) SUM(0, 1, 0, 1) VALUE(2) SUM(1, 0, 1, 0) SUM(1, 1, 1, 1)  \
    EVEN(2, 0) SUM(0, 2, 0, 2) SUM(1, 2, 1, 2) VALUE(3) SUM(2, 0, 2, 0) SUM(2, 1, 2, 1) EVEN(3, 0) SUM(2, 2, 2, 2)    \
    SUM(0, 3, 0, 3) ODD(0, 1, 4) SUM(1, 3, 1, 3) SUM(2, 3, 2, 3) VALUE(4) SUM(3, 0, 3, 0) SUM(3, 1, 3, 1)             \
    ODD(1, 1, 5) SUM(3, 2, 3, 2) SUM(3, 3, 3, 3) SUM(0, 0, 4, 1) ODD(2, 1, 6) SUM(0, 1, 4, 2) SUM(0, 2, 4, 3)         \
    ODD(3, 1, 7) SUM(0, 3, 4, 4) SUM(1, 0, 5, 1) EVEN(0, 2) SUM(1, 1, 5, 2) SUM(1, 2, 5, 3) EVEN(1, 2)                \
    SUM(1, 3, 5, 4) SUM(2, 0, 6, 1) VALUE(5) SUM(2, 1, 6, 2) SUM(2, 2, 6, 3) EVEN(2, 2) SUM(2, 3, 6, 4)               \
    SUM(3, 0, 7, 1) EVEN(3, 2) SUM(3, 1, 7, 2) SUM(3, 2, 7, 3) ADD("t4", "%[x_h]") SUM(3, 3, 7, 4) SUM(0, 0, 0, 2)    \
    SUM(0, 1, 0, 3) ADD("t0", "%[w_h]") SUM(0, 2, 0, 4) SUM(0, 3, 0, 5) SUM(1, 0, 1, 2) SUM(1, 1, 1, 3)               \
    ADD("t1", "%[w_h]") SUM(1, 2, 1, 4) SUM(1, 3, 1, 5) SUM(2, 0, 2, 2) SUM(2, 1, 2, 3) ADD("t2", "%[w_h]")           \
    SUM(2, 2, 2, 4) SUM(2, 3, 2, 5) SUM(3, 0, 3, 2) SUM(3, 1, 3, 3) ADD("t3", "%[w_h]") SUM(3, 2, 3, 4)               \
    SUM(3, 3, 3, 5)
#define FOURS_THREE_LENGTH 71
#define FOURS_THREE_BUT_LAST                                                                                          \
    VALUE(0) EVEN(0, 0) VALUE(1) SUM(0, 0, 0, 0) EVEN(1, 0) SUM(0, 1, 0, 1) VALUE(2) SUM(1, 0, 1, 0) SUM(1, 1, 1, 1)  \
    EVEN(2, 0) SUM(0, 2, 0, 2) SUM(1, 2, 1, 2) VALUE(3) SUM(2, 0, 2, 0) SUM(2, 1, 2, 1) EVEN(3, 0) SUM(2, 2, 2, 2)    \
    SUM(0, 3, 0, 3) ODD(0, 1, 4) SUM(1, 3, 1, 3) SUM(2, 3, 2, 3) VALUE(4) SUM(3, 0, 3, 0) SUM(3, 1, 3, 1)             \
    ODD(1, 1, 5) SUM(3, 2, 3, 2) SUM(3, 3, 3, 3) SUM(0, 0, 4, 1) ODD(2, 1, 6) SUM(0, 1, 4, 2) SUM(0, 2, 4, 3)         \
    ODD(3, 1, 7) SUM(0, 3, 4, 4) SUM(1, 0, 5, 1) EVEN(0, 2) SUM(1, 1, 5, 2) SUM(1, 2, 5, 3) EVEN(1, 2)                \
    SUM(1, 3, 5, 4) SUM(2, 0, 6, 1) SUM(2, 1, 6, 2) SUM(2, 2, 6, 3) EVEN(2, 2) SUM(2, 3, 6, 4) SUM(3, 0, 7, 1)        \
    EVEN(3, 2) SUM(3, 1, 7, 2) SUM(3, 2, 7, 3) ADD("t4", "%[x_h]") SUM(3, 3, 7, 4) SUM(0, 0, 0, 2) SUM(0, 1, 0, 3)    \
    ADD("t0", "%[w_h]") SUM(0, 2, 0, 4) SUM(1, 0, 1, 2) SUM(1, 1, 1, 3) ADD("t1", "%[w_h]") SUM(1, 2, 1, 4)           \
    SUM(2, 0, 2, 2) SUM(2, 1, 2, 3) ADD("t2", "%[w_h]") SUM(2, 2, 2, 4) SUM(3, 0, 3, 2) SUM(3, 1, 3, 3)               \
    ADD("t3", "%[w_h]") SUM(3, 2, 3, 4)
#define FOURS_THREE_BUT_LAST_LENGTH 66
#define FOURS_MOVING                                                                                                  \
    WIDE(0, 0) EVEN(0, 0) WIDE(2, 1) SUM(0, 0, 0, 0) EVEN(1, 0) SUM(0, 1, 0, 1) WIDE(4, 2) SUM(1, 0, 1, 0)            \
    SUM(1, 1, 1, 1) EVEN(2, 0) SUM(0, 2, 0, 2) SUM(1, 2, 1, 2) WIDE(6, 3) SUM(2, 0, 2, 0) SUM(2, 1, 2, 1) EVEN(3, 0)  \
    SUM(2, 2, 2, 2) SUM(0, 3, 0, 3) ODD(0, 1, 4) SUM(1, 3, 1, 3) SUM(2, 3, 2, 3) WIDE(1, 4) SUM(3, 0, 3, 0)           \
    WIDE(3, 5) SUM(3, 1, 3, 1) ODD(1, 1, 5) SUM(3, 2, 3, 2) SUM(3, 3, 3, 3) SUM(0, 0, 4, 4) WIDE(5, 6)                \
    SUM(0, 1, 4, 5) ODD(2, 1, 6) SUM(1, 0, 5, 4) WIDE(7, 7) SUM(1, 1, 5, 5) ODD(3, 1, 7) SUM(0, 2, 4, 6)              \
    SUM(1, 2, 5, 6) EVEN(0, 2) SUM(0, 3, 4, 7) SUM(1, 3, 5, 7) EVEN(1, 2) SUM(2, 0, 6, 4) WIDE(8, 0) SUM(2, 1, 6, 5)  \
    SUM(2, 2, 6, 6) EVEN(2, 2) SUM(2, 3, 6, 7) SUM(3, 0, 7, 4) EVEN(3, 2) SUM(3, 1, 7, 5) ADD("t4", "%[x_h]")         \
    SUM(3, 2, 7, 6) SUM(3, 3, 7, 7) SUM(0, 0, 0, 1) SUM(0, 1, 0, 2) ADD("t0", "%[w_h]") SUM(0, 2, 0, 3)               \
    SUM(0, 3, 0, 0) SUM(1, 0, 1, 1) SUM(1, 1, 1, 2) ADD("t1", "%[w_h]") SUM(1, 2, 1, 3) SUM(1, 3, 1, 0)               \
    SUM(2, 0, 2, 1) SUM(2, 1, 2, 2) ADD("t2", "%[w_h]") SUM(2, 2, 2, 3) SUM(2, 3, 2, 0) SUM(3, 0, 3, 1)               \
    SUM(3, 1, 3, 2) ADD("t3", "%[w_h]") SUM(3, 2, 3, 3) SUM(3, 3, 3, 0)
#define FOURS_MOVING_LENGTH 74
#define FOURS_TWO                                                                                                     \
    VALUE(0) EVEN(0, 0) VALUE(1) SUM(0, 0, 0, 0) EVEN(1, 0) SUM(0, 1, 0, 1) VALUE(2) SUM(1, 0, 1, 0) SUM(1, 1, 1, 1)  \
    EVEN(2, 0) SUM(0, 2, 0, 2) SUM(1, 2, 1, 2) VALUE(3) SUM(2, 0, 2, 0) SUM(2, 1, 2, 1) EVEN(3, 0) SUM(2, 2, 2, 2)    \
    SUM(0, 3, 0, 3) ODD(0, 2, 4) SUM(1, 3, 1, 3) SUM(2, 3, 2, 3) VALUE(4) SUM(3, 0, 3, 0) SUM(3, 1, 3, 1)             \
    ODD(1, 2, 5) SUM(3, 2, 3, 2) SUM(3, 3, 3, 3) SUM(0, 0, 4, 1) ODD(2, 2, 6) SUM(0, 1, 4, 2) SUM(0, 2, 4, 3)         \
    ODD(3, 2, 7) SUM(0, 3, 4, 4) SUM(1, 0, 5, 1) ADD("t0", "%[w_h]") SUM(1, 1, 5, 2) SUM(1, 2, 5, 3)                  \
    ADD("t1", "%[w_h]") SUM(1, 3, 5, 4) SUM(2, 0, 6, 1) ADD("t2", "%[w_h]") SUM(2, 1, 6, 2) SUM(2, 2, 6, 3)           \
    ADD("t3", "%[w_h]") SUM(2, 3, 6, 4) SUM(3, 0, 7, 1) ADD("t4", "%[x_h]") SUM(3, 1, 7, 2) SUM(3, 2, 7, 3)           \
    SUM(3, 3, 7, 4)
#define FOURS_TWO_LENGTH 50
#define FOURS_THREE_BUT_FIRST                                                                                         \
    VALUE(1) EVEN(0, 0) VALUE(2) SUM(0, 1, 0, 1) EVEN(1, 0) SUM(0, 2, 0, 2) VALUE(3) SUM(1, 1, 1, 1) SUM(1, 2, 1, 2)  \
    EVEN(2, 0) SUM(0, 3, 0, 3) SUM(1, 3, 1, 3) EVEN(3, 0) SUM(2, 1, 2, 1) SUM(2, 2, 2, 2) ODD(0, 1, 4)                \
    SUM(2, 3, 2, 3) VALUE(4) SUM(3, 1, 3, 1) SUM(3, 2, 3, 2) ODD(1, 1, 5) SUM(3, 3, 3, 3) SUM(0, 0, 4, 1)             \
    ODD(2, 1, 6) SUM(0, 1, 4, 2) SUM(0, 2, 4, 3) ODD(3, 1, 7) SUM(0, 3, 4, 4) SUM(1, 0, 5, 1) EVEN(0, 2)              \
    SUM(1, 1, 5, 2) SUM(1, 2, 5, 3) EVEN(1, 2) SUM(1, 3, 5, 4) SUM(2, 0, 6, 1) VALUE(5) SUM(2, 1, 6, 2)               \
    SUM(2, 2, 6, 3) EVEN(2, 2) SUM(2, 3, 6, 4) SUM(3, 0, 7, 1) EVEN(3, 2) SUM(3, 1, 7, 2) SUM(3, 2, 7, 3)             \
    ADD("t4", "%[x_h]") SUM(3, 3, 7, 4) SUM(0, 0, 0, 2) SUM(0, 1, 0, 3) ADD("t0", "%[w_h]") SUM(0, 2, 0, 4)           \
    SUM(0, 3, 0, 5) SUM(1, 0, 1, 2) SUM(1, 1, 1, 3) ADD("t1", "%[w_h]") SUM(1, 2, 1, 4) SUM(1, 3, 1, 5)               \
    SUM(2, 0, 2, 2) SUM(2, 1, 2, 3) ADD("t2", "%[w_h]") SUM(2, 2, 2, 4) SUM(2, 3, 2, 5) SUM(3, 0, 3, 2)               \
    SUM(3, 1, 3, 3) ADD("t3", "%[w_h]") SUM(3, 2, 3, 4) SUM(3, 3, 3, 5)
#define FOURS_THREE_BUT_FIRST_LENGTH 66
#define FOURS_MOVING_BUT_FIRST                                                                                        \
    WIDE(2, 1) EVEN(0, 0) WIDE(4, 2) SUM(0, 1, 0, 1) EVEN(1, 0) SUM(0, 2, 0, 2) WIDE(6, 3) SUM(1, 1, 1, 1)            \
    SUM(1, 2, 1, 2) EVEN(2, 0) SUM(0, 3, 0, 3) SUM(1, 3, 1, 3) EVEN(3, 0) SUM(2, 1, 2, 1) SUM(2, 2, 2, 2)             \
    ODD(0, 1, 4) SUM(2, 3, 2, 3) WIDE(1, 4) SUM(3, 1, 3, 1) WIDE(3, 5) SUM(3, 2, 3, 2) ODD(1, 1, 5) SUM(3, 3, 3, 3)   \
    SUM(0, 0, 4, 4) WIDE(5, 6) SUM(0, 1, 4, 5) ODD(2, 1, 6) SUM(1, 0, 5, 4) WIDE(7, 7) SUM(1, 1, 5, 5) ODD(3, 1, 7)   \
    SUM(0, 2, 4, 6) SUM(1, 2, 5, 6) EVEN(0, 2) SUM(0, 3, 4, 7) SUM(1, 3, 5, 7) EVEN(1, 2) SUM(2, 0, 6, 4) WIDE(8, 0)  \
    SUM(2, 1, 6, 5) SUM(2, 2, 6, 6) EVEN(2, 2) SUM(2, 3, 6, 7) SUM(3, 0, 7, 4) EVEN(3, 2) SUM(3, 1, 7, 5)             \
    ADD("t4", "%[x_h]") SUM(3, 2, 7, 6) SUM(3, 3, 7, 7) SUM(0, 0, 0, 1) SUM(0, 1, 0, 2) ADD("t0", "%[w_h]")           \
    SUM(0, 2, 0, 3) SUM(0, 3, 0, 0) SUM(1, 0, 1, 1) SUM(1, 1, 1, 2) ADD("t1", "%[w_h]") SUM(1, 2, 1, 3)               \
    SUM(1, 3, 1, 0) SUM(2, 0, 2, 1) SUM(2, 1, 2, 2) ADD("t2", "%[w_h]") SUM(2, 2, 2, 3) SUM(2, 3, 2, 0)               \
    SUM(3, 0, 3, 1) SUM(3, 1, 3, 2) ADD("t3", "%[w_h]") SUM(3, 2, 3, 3) SUM(3, 3, 3, 0)
#define FOURS_MOVING_BUT_FIRST_LENGTH 69
#define FOURS_TWO_BUT_FIRST                                                                                           \
    VALUE(1) EVEN(0, 0) VALUE(2) SUM(0, 1, 0, 1) EVEN(1, 0) SUM(0, 2, 0, 2) VALUE(3) SUM(1, 1, 1, 1) SUM(1, 2, 1, 2)  \
    EVEN(2, 0) SUM(0, 3, 0, 3) SUM(1, 3, 1, 3) EVEN(3, 0) SUM(2, 1, 2, 1) SUM(2, 2, 2, 2) ODD(0, 2, 4)                \
    SUM(2, 3, 2, 3) VALUE(4) SUM(3, 1, 3, 1) SUM(3, 2, 3, 2) ODD(1, 2, 5) SUM(3, 3, 3, 3) SUM(0, 0, 4, 1)             \
    ODD(2, 2, 6) SUM(0, 1, 4, 2) SUM(0, 2, 4, 3) ODD(3, 2, 7) SUM(0, 3, 4, 4) SUM(1, 0, 5, 1) ADD("t0", "%[w_h]")     \
    SUM(1, 1, 5, 2) SUM(1, 2, 5, 3) ADD("t1", "%[w_h]") SUM(1, 3, 5, 4) SUM(2, 0, 6, 1) ADD("t2", "%[w_h]")           \
    SUM(2, 1, 6, 2) SUM(2, 2, 6, 3) ADD("t3", "%[w_h]") SUM(2, 3, 6, 4) SUM(3, 0, 7, 1) ADD("t4", "%[x_h]")           \
    SUM(3, 1, 7, 2) SUM(3, 2, 7, 3) SUM(3, 3, 7, 4)
#define FOURS_TWO_BUT_FIRST_LENGTH 45
#define FOURS_ONE                                                                                                     \
    VALUE(0) EVEN(0, 0) VALUE(1) SUM(0, 0, 0, 0) EVEN(1, 0) SUM(0, 1, 0, 1) VALUE(2) SUM(1, 0, 1, 0) SUM(1, 1, 1, 1)  \
    EVEN(2, 0) SUM(0, 2, 0, 2) SUM(1, 2, 1, 2) VALUE(3) SUM(2, 0, 2, 0) SUM(2, 1, 2, 1) EVEN(3, 0) SUM(2, 2, 2, 2)    \
    ADD("t0", "%[w_h]") SUM(0, 3, 0, 3) ADD("t1", "%[w_h]") SUM(1, 3, 1, 3) ADD("t2", "%[w_h]") SUM(2, 3, 2, 3)       \
    ADD("t4", "%[x_h]") SUM(3, 0, 3, 0) SUM(3, 1, 3, 1) ADD("t3", "%[w_h]") SUM(3, 2, 3, 2) SUM(3, 3, 3, 3)
#define FOURS_ONE_LENGTH 29
#define SIXTEEN_2                                                                                                     \
    FLW("ft0", "t0", 0) FLW("fa0", "t4", 0) FLW("ft1", "t1", 0) FLW("ft2", "t2", 0) FLW("ft3", "t3", 0)               \
    FLW("fa1", "t5", 0) FLW("fa2", "t6", 0) MAC(00, 0, 0) FLW("fa3", "a7", 0) MAC(10, 1, 0) MAC(20, 2, 0)             \
    MAC(30, 3, 0) FLW("fa0", "t4", TAP_1) MAC(01, 0, 1) MAC(11, 1, 1) MAC(21, 2, 1) MAC(31, 3, 1)                     \
    FLW("fa1", "t5", TAP_1) MAC(02, 0, 2) MAC(12, 1, 2) MAC(22, 2, 2) MAC(32, 3, 2) FLW("fa2", "t6", TAP_1)           \
    MAC(03, 0, 3) FLW("ft0", "t0", 8) MAC(13, 1, 3) FLW("ft1", "t1", 8) MAC(23, 2, 3) FLW("ft2", "t2", 8)             \
    MAC(33, 3, 3) FLW("ft3", "t3", 8) MAC(00, 0, 0) FLW("fa3", "a7", TAP_1) MAC(10, 1, 0) ADD("a7", "%[b_k]")         \
    MAC(20, 2, 0) ADD("t4", "%[b_k]") MAC(30, 3, 0) ADD("t5", "%[b_k]") MAC(01, 0, 1) ADD("t6", "%[b_k]")             \
    MAC(11, 1, 1) ADD("t0", "%[a_k]") MAC(21, 2, 1) ADD("t1", "%[a_k]") MAC(31, 3, 1) ADD("t2", "%[a_k]")             \
    MAC(02, 0, 2) ADD("t3", "%[a_k]") MAC(12, 1, 2) MAC(22, 2, 2) MAC(32, 3, 2) MAC(03, 0, 3) MAC(13, 1, 3)           \
    MAC(23, 2, 3) MAC(33, 3, 3)
#define SIXTEEN_2_LENGTH 56
#define SIXTEEN_3                                                                                                     \
    FLW("ft0", "t0", 0) FLW("fa0", "t4", 0) FLW("ft1", "t1", 0) FLW("ft2", "t2", 0) FLW("ft3", "t3", 0)               \
    FLW("fa1", "t5", 0) FLW("fa2", "t6", 0) MAC(00, 0, 0) FLW("fa3", "a7", 0) MAC(10, 1, 0) MAC(20, 2, 0)             \
    MAC(30, 3, 0) FLW("fa0", "t4", TAP_1) MAC(01, 0, 1) MAC(11, 1, 1) MAC(21, 2, 1) MAC(31, 3, 1)                     \
    FLW("fa1", "t5", TAP_1) MAC(02, 0, 2) MAC(12, 1, 2) MAC(22, 2, 2) MAC(32, 3, 2) FLW("fa2", "t6", TAP_1)           \
    MAC(03, 0, 3) FLW("ft0", "t0", 4) MAC(13, 1, 3) FLW("ft1", "t1", 4) MAC(23, 2, 3) FLW("ft2", "t2", 4)             \
    MAC(33, 3, 3) FLW("ft3", "t3", 4) MAC(00, 0, 0) FLW("fa3", "a7", TAP_1) MAC(10, 1, 0) MAC(20, 2, 0) MAC(30, 3, 0) \
    FLW("fa0", "t4", TAP_2) MAC(01, 0, 1) MAC(11, 1, 1) MAC(21, 2, 1) MAC(31, 3, 1) FLW("fa1", "t5", TAP_2)           \
    MAC(02, 0, 2) MAC(12, 1, 2) MAC(22, 2, 2) MAC(32, 3, 2) FLW("fa2", "t6", TAP_2) MAC(03, 0, 3) FLW("ft0", "t0", 8) \
    MAC(13, 1, 3) FLW("ft1", "t1", 8) MAC(23, 2, 3) FLW("ft2", "t2", 8) MAC(33, 3, 3) FLW("ft3", "t3", 8)             \
    MAC(00, 0, 0) FLW("fa3", "a7", TAP_2) MAC(10, 1, 0) ADD("a7", "%[b_k]") MAC(20, 2, 0) ADD("t4", "%[b_k]")         \
    MAC(30, 3, 0) ADD("t5", "%[b_k]") MAC(01, 0, 1) ADD("t6", "%[b_k]") MAC(11, 1, 1) ADD("t0", "%[a_k]")             \
    MAC(21, 2, 1) ADD("t1", "%[a_k]") MAC(31, 3, 1) ADD("t2", "%[a_k]") MAC(02, 0, 2) ADD("t3", "%[a_k]")             \
    MAC(12, 1, 2) MAC(22, 2, 2) MAC(32, 3, 2) MAC(03, 0, 3) MAC(13, 1, 3) MAC(23, 2, 3) MAC(33, 3, 3)
#define SIXTEEN_3_LENGTH 80
#define SHARED_1                                                                                                      \
    FLW("fa0", "t4", 0 * W_W) FLW("ft0", "t0", 0 * X_W) FLW("ft1", "t1", 0 * X_W) FMA("%[s0]", "ft0", "fa0")          \
    FLW("ft2", "t2", 0 * X_W) FMA("%[s1]", "ft1", "fa0") FLW("ft3", "t3", 0 * X_W) FMA("%[s2]", "ft2", "fa0")         \
    FMA("%[s3]", "ft3", "fa0")
#define SHARED_1_LENGTH 9
#define SHARED_2                                                                                                      \
    FLW("fa0", "t4", 0 * W_W) FLW("ft0", "t0", 0 * X_W) FLW("ft1", "t1", 0 * X_W) FMA("%[s0]", "ft0", "fa0")          \
    FLW("ft2", "t2", 0 * X_W) FMA("%[s1]", "ft1", "fa0") FLW("ft3", "t3", 0 * X_W) FMA("%[s2]", "ft2", "fa0")         \
    FMA("%[s3]", "ft3", "fa0") FLW("fa0", "t4", 1 * W_W) FLW("ft0", "t0", 1 * X_W) FLW("ft1", "t1", 1 * X_W)          \
    FMA("%[s0]", "ft0", "fa0") FLW("ft2", "t2", 1 * X_W) FMA("%[s1]", "ft1", "fa0") FLW("ft3", "t3", 1 * X_W)         \
    FMA("%[s2]", "ft2", "fa0") FMA("%[s3]", "ft3", "fa0")
#define SHARED_2_LENGTH 18
#define SHARED_3                                                                                                      \
    FLW("fa0", "t4", 0 * W_W) FLW("ft0", "t0", 0 * X_W) FLW("ft1", "t1", 0 * X_W) FMA("%[s0]", "ft0", "fa0")          \
    FLW("ft2", "t2", 0 * X_W) FMA("%[s1]", "ft1", "fa0") FLW("ft3", "t3", 0 * X_W) FMA("%[s2]", "ft2", "fa0")         \
    FMA("%[s3]", "ft3", "fa0") FLW("fa0", "t4", 1 * W_W) FLW("ft0", "t0", 1 * X_W) FLW("ft1", "t1", 1 * X_W)          \
    FMA("%[s0]", "ft0", "fa0") FLW("ft2", "t2", 1 * X_W) FMA("%[s1]", "ft1", "fa0") FLW("ft3", "t3", 1 * X_W)         \
    FMA("%[s2]", "ft2", "fa0") FMA("%[s3]", "ft3", "fa0") FLW("fa0", "t4", 2 * W_W) FLW("ft0", "t0", 2 * X_W)         \
    FLW("ft1", "t1", 2 * X_W) FMA("%[s0]", "ft0", "fa0") FLW("ft2", "t2", 2 * X_W) FMA("%[s1]", "ft1", "fa0")         \
    FLW("ft3", "t3", 2 * X_W) FMA("%[s2]", "ft2", "fa0") FMA("%[s3]", "ft3", "fa0")
#define SHARED_3_LENGTH 27
#define SHARED_4                                                                                                      \
    FLW("fa0", "t4", 0 * W_W) FLW("ft0", "t0", 0 * X_W) FLW("ft1", "t1", 0 * X_W) FMA("%[s0]", "ft0", "fa0")          \
    FLW("ft2", "t2", 0 * X_W) FMA("%[s1]", "ft1", "fa0") FLW("ft3", "t3", 0 * X_W) FMA("%[s2]", "ft2", "fa0")         \
    FMA("%[s3]", "ft3", "fa0") FLW("fa0", "t4", 1 * W_W) FLW("ft0", "t0", 1 * X_W) FLW("ft1", "t1", 1 * X_W)          \
    FMA("%[s0]", "ft0", "fa0") FLW("ft2", "t2", 1 * X_W) FMA("%[s1]", "ft1", "fa0") FLW("ft3", "t3", 1 * X_W)         \
    FMA("%[s2]", "ft2", "fa0") FMA("%[s3]", "ft3", "fa0") FLW("fa0", "t4", 2 * W_W) FLW("ft0", "t0", 2 * X_W)         \
    FLW("ft1", "t1", 2 * X_W) FMA("%[s0]", "ft0", "fa0") FLW("ft2", "t2", 2 * X_W) FMA("%[s1]", "ft1", "fa0")         \
    FLW("ft3", "t3", 2 * X_W) FMA("%[s2]", "ft2", "fa0") FMA("%[s3]", "ft3", "fa0") FLW("fa0", "t4", 3 * W_W)         \
    FLW("ft0", "t0", 3 * X_W) FLW("ft1", "t1", 3 * X_W) FMA("%[s0]", "ft0", "fa0") FLW("ft2", "t2", 3 * X_W)          \
    FMA("%[s1]", "ft1", "fa0") FLW("ft3", "t3", 3 * X_W) FMA("%[s2]", "ft2", "fa0") FMA("%[s3]", "ft3", "fa0")
#define SHARED_4_LENGTH 36
#define SHARED_5                                                                                                      \
    FLW("fa0", "t4", 0 * W_W) FLW("ft0", "t0", 0 * X_W) FLW("ft1", "t1", 0 * X_W) FMA("%[s0]", "ft0", "fa0")          \
    FLW("ft2", "t2", 0 * X_W) FMA("%[s1]", "ft1", "fa0") FLW("ft3", "t3", 0 * X_W) FMA("%[s2]", "ft2", "fa0")         \
    FMA("%[s3]", "ft3", "fa0") FLW("fa0", "t4", 1 * W_W) FLW("ft0", "t0", 1 * X_W) FLW("ft1", "t1", 1 * X_W)          \
    FMA("%[s0]", "ft0", "fa0") FLW("ft2", "t2", 1 * X_W) FMA("%[s1]", "ft1", "fa0") FLW("ft3", "t3", 1 * X_W)         \
    FMA("%[s2]", "ft2", "fa0") FMA("%[s3]", "ft3", "fa0") FLW("fa0", "t4", 2 * W_W) FLW("ft0", "t0", 2 * X_W)         \
    FLW("ft1", "t1", 2 * X_W) FMA("%[s0]", "ft0", "fa0") FLW("ft2", "t2", 2 * X_W) FMA("%[s1]", "ft1", "fa0")         \
    FLW("ft3", "t3", 2 * X_W) FMA("%[s2]", "ft2", "fa0") FMA("%[s3]", "ft3", "fa0") FLW("fa0", "t4", 3 * W_W)         \
    FLW("ft0", "t0", 3 * X_W) FLW("ft1", "t1", 3 * X_W) FMA("%[s0]", "ft0", "fa0") FLW("ft2", "t2", 3 * X_W)          \
    FMA("%[s1]", "ft1", "fa0") FLW("ft3", "t3", 3 * X_W) FMA("%[s2]", "ft2", "fa0") FMA("%[s3]", "ft3", "fa0")        \
    FLW("fa0", "t4", 4 * W_W) FLW("ft0", "t0", 4 * X_W) FLW("ft1", "t1", 4 * X_W) FMA("%[s0]", "ft0", "fa0")          \
    FLW("ft2", "t2", 4 * X_W) FMA("%[s1]", "ft1", "fa0") FLW("ft3", "t3", 4 * X_W) FMA("%[s2]", "ft2", "fa0")         \
    FMA("%[s3]", "ft3", "fa0")
#define SHARED_5_LENGTH 45

#endif
