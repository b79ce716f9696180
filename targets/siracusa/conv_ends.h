/* A convolution and its dX as one: the kernel's arguments by names for both. CONV_APART is 1 for a convolution, whose taps
 * go on through the operand, and -1 for a dX, whose taps go back. */
#ifndef CONV_ENDS_H
#define CONV_ENDS_H

#include "hints.h"

#if CONV_APART == 1
#include "conv_f32.h"
typedef conv_f32_args_t ends_t;
#define IN(rest) x##rest
#define OUT(rest) y##rest
#define SIZE(axis) o##axis
#else
#include "conv_grad_x_f32.h"
typedef conv_grad_x_f32_args_t ends_t;
#define IN(rest) dy##rest
#define OUT(rest) dx##rest
#define SIZE(axis) i##axis
#endif

#endif
