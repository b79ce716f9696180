/* The number by which an update multiplies its gradient. FACTOR of the update's body is one of these: NO_FACTOR where its
 * arguments have none (the compiler drops a product with 1, which has the same bits), and SCALE where they have one. */
#ifndef GRADIENT_SCALE_H
#define GRADIENT_SCALE_H

#define NO_FACTOR(p) 1.0f
#define SCALE(p) (*(p)->scale)

#endif
