/* Schedules of taps, printed by `python -m DeployTest.support.kernels.tap_schedules`: a macro for each, and how many
 * instructions it has. Loads run two ahead of the taps, so that no value is used right after its load.
 *
 * ROWS_hw, for conv_lines.h: h rows of w taps of an output, with STEP in front of the last one.
 * ROW_.., for conv_planes.h: a row of three taps of four outputs, ROW_ONE.. of one. Output p meets values p to p + 2.
 * _BEGIN has no value in front of the first output, _END none behind the last one, _BOTH neither. */
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

#endif
