/* Labels of classes with weights, whose loss takes a share from all classes: of a label with weight w[label] the class c
 * counts near * w[label] if it is the label, and even * w[c] in any case. Sums are in the order of sum_f32.h. */
#ifndef WEIGHTED_LABELS_F32_H
#define WEIGHTED_LABELS_F32_H

#include "labels_f32.h"
#include "sum_f32.h"

/* The weight of a class; without weights all are 1. */
static inline float class_weight(const float *weights, uint32_t c) {
    return weights ? weights[c] : 1.0f;
}

/* The sum over all classes of weight * factor; `factors` are `stride` elements apart, or all 1 where there are none. */
static inline float class_sum(const float *weights, uint32_t classes, const float *factors, uint32_t stride) {
    sum_t sum = sum_begin(1, SUM_BLOCK, 0.0f, 0);
    for (uint32_t c = 0; c < classes;)
        for (const uint32_t end = c + sum_next(&sum, SUM_BLOCK, c, classes - c); c < end; c++)
            sum.block = __builtin_fmaf(class_weight(weights, c), factors ? factors[c * stride] : 1.0f, sum.block);
    return sum_value(&sum, SUM_BLOCK);
}

/* `count`, or the sum of the weights of the first `counted` labels that are not ignored; one outside of all classes has
 * the weight 1. */
static inline float weight_divisor(const float *weights, uint32_t classes, const int32_t *labels, uint32_t counted,
                                   uint32_t has_ignore, int32_t ignore, float count) {
    if (counted == 0) return count;
    sum_t sum = sum_begin(1, SUM_BLOCK, 0.0f, 0);
    for (uint32_t i = 0; i < counted;)
        for (const uint32_t end = i + sum_next(&sum, SUM_BLOCK, i, counted - i); i < end; i++)
            if (!label_ignored(labels[i], has_ignore, ignore))
                sum.block += (uint32_t)labels[i] < classes ? class_weight(weights, (uint32_t)labels[i]) : 1.0f;
    return sum_value(&sum, SUM_BLOCK);
}

#endif
