/* Values on request: after steps of one pass, ranges of the levels go to a file. The list of them is a file of words: the
 * pass, then for each range its step, level, address and bytes, in the order of steps. */
#include "hal_host.h"

#include <stdio.h>

typedef struct {
    uint32_t step, level, address, bytes;
} range_t;

static struct {
    FILE *list, *values;
    uint32_t pass, more;
    range_t next;
} watch;

static void read_next(void) { watch.more = fread(&watch.next, sizeof watch.next, 1, watch.list) == 1; }

void watch_init(FILE *list, FILE *values) {
    if (!list || !values) return;
    watch.list = list;
    watch.values = values;
    if (fread(&watch.pass, sizeof watch.pass, 1, list) != 1) host_usage("--watch: the list has no pass");
    read_next();
}

static void write_range(const range_t *range) {
    uint8_t chunk[4096];
    if (range->level >= hal_sim.level_count || range->address > hal_sim.levels[range->level].bytes ||
        range->bytes > hal_sim.levels[range->level].bytes - range->address)
        host_usage("--watch: %u B at %u of level %u", range->bytes, range->address, range->level);
    const uint8_t *source = hal_sim.levels[range->level].memory + range->address;
    for (uint32_t done = 0; done < range->bytes;) {
        const uint32_t want = range->bytes - done < sizeof chunk ? range->bytes - done : (uint32_t)sizeof chunk;
        memory_copy(chunk, source + done, want);
        if (fwrite(chunk, 1, want, watch.values) < want) host_usage("--watched: writing failed");
        done += want;
    }
}

void watch_step(uint32_t step) {
    if (!watch.more || order_pass() != watch.pass) return;
    for (; watch.more && watch.next.step == step; read_next()) write_range(&watch.next);
}

void watch_exit(void) {
    if (watch.values && fclose(watch.values)) host_usage("--watched: writing failed");
}
