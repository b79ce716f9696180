/* Y = X * W + B with groups; the portable kernel defines the bits: each output sums channels, kernel rows and kernel
 * columns in blocks of whole channels, to what waits in Y, skips taps in padding, adds the bias, then does Relu. */
#include "conv_forward.h"
#define CONV_CHANNELS 5
#define CONV_TAPS 0
#include "conv.h"

void conv_f32(const void *args) { convolve(args); }
