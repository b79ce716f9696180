/* A rack: many simulated devices on one machine, each a struct of a packaged library that the library's own code trains.
 *
 * A group of lanes runs at a time: a thread block of a GPU, or threads that emulate one. Either the whole group is one device,
 * whose kernels the lanes share as cores do, or each lane is a device of its own. */
#ifndef RACK_H
#define RACK_H

#include <stdint.h>

/* Arguments of every entry; arrays lie in the machine's memory, with a row for each of `count` devices. */
typedef struct {
    uint64_t models;   /* structs of the library */
    uint64_t statuses; /* uint32_t: the first result of a call of the library that was not 0; such a device does nothing more */
    uint64_t samples;  /* all samples, each with its inputs one behind the other */
    uint64_t order;    /* uint32_t [count][passes]: the sample of each pass */
    uint64_t losses;   /* float [count][passes] */
    uint64_t rates;    /* float [count][groups] */
    uint64_t images;   /* images of states, `stride` bytes from one to the next */
    uint64_t digests;  /* uint64_t [count] */
    uint32_t count;
    uint32_t passes;
    uint32_t image_bytes;
    uint32_t stride; /* 0 if all devices load the same image */
    uint32_t keep;   /* kind of image that is saved */
    uint32_t spare;
} rack_call_t;

#endif
