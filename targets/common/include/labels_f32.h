/* Labels of the classification losses: which count, and what the mean divides by. */
#ifndef LABELS_F32_H
#define LABELS_F32_H

#include <stdint.h>

static inline int label_ignored(int32_t label, uint32_t has_ignore, int32_t ignore) {
    return has_ignore && label == ignore;
}

/* `count`, or the number of the first `counted` labels that are not ignored. */
static inline float label_divisor(const int32_t *labels, uint32_t counted, int32_t ignore, float count) {
    if (counted == 0) return count;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < counted; i++) kept += labels[i] != ignore;
    return (float)kept;
}

#endif
