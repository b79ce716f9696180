/* A state with a ring of latents in flash whose bits only clear, whose sectors are erased, and whose units are written once. The
 * power goes at each byte that a save erases or writes, and at each STRIDE-th of the save after it. What is loaded then is the
 * whole ring of the last save or of the one that was cut. Prints the cuts and the rings that were lost. */
#include "net.h"

#include <string.h>

#include "../power_cut.h"

enum { UNIT = 8, SECTOR = 64, SLOT = (NET_SLOT_HEAD + NET_STATE_BYTES + 3 * UNIT + 2 * SECTOR) / SECTOR * SECTOR, BYTES = 2 * SLOT };

static uint8_t flash[BYTES], used[BYTES];

static int flash_read(void *context, uint32_t address, void *bytes, uint32_t count) {
    NEED(context == flash && address < BYTES && count <= BYTES - address);
    memcpy(bytes, flash + address, count);
    return 0;
}

/* A cut leaves bits of the whole unit that are cleared or not yet. */
static int flash_write(void *context, uint32_t address, const void *bytes, uint32_t count) {
    const uint8_t *new = bytes;
    NEED(context == flash && address % UNIT == 0 && count == UNIT && address < BYTES);
    for (uint32_t i = 0; i < count; i++) {
        NEED(!used[address + i] || flash[address + i] == 0xff);
        if (is_last()) {
            for (uint32_t k = i; k < count; k++) flash[address + k] &= (uint8_t)(new[k] | drawn());
            memset(used + address, 1, count);
            longjmp(cut, 1);
        }
        flash[address + i] &= new[i];
    }
    memset(used + address, 1, count);
    return 0;
}

/* A cut leaves a sector with any bits. */
static int flash_erase(void *context, uint32_t address, uint32_t count) {
    NEED(context == flash && address % SECTOR == 0 && count % SECTOR == 0 && count <= BYTES - address);
    for (uint32_t i = 0; i < count; i++) {
        if (is_last()) {
            for (uint32_t k = i / SECTOR * SECTOR; k < (i / SECTOR + 1) * SECTOR; k++) flash[address + k] = drawn();
            longjmp(cut, 1);
        }
        flash[address + i] = 0xff;
        used[address + i] = 0;
    }
    return 0;
}

static const net_flash_t device = {flash_read, flash_write, flash_erase, flash, {0, SLOT}, SLOT, UNIT};

static uint64_t digest_of(net_t *model) {
    uint64_t digest = 0;
    NEED(net_digest(model, &digest) == NET_OK);
    return digest;
}

/* Adds records, more than the ring has room for after a few calls, and trains on some of them. */
static void go_on(net_t *model, uint32_t seed) {
    static LATENT latents[NET_BATCH * NET_LATENT_SIZE];
    int32_t labels[NET_BATCH];
    for (uint32_t i = 0; i < NET_REPLAY_SLOTS / 2u + 1u; i++) {
        for (uint32_t k = 0; k < NET_LATENT_SIZE; k++) latents[k] = (LATENT)((seed + 7u * i + k) % 11u) - (LATENT)5;
        labels[0] = (int32_t)((seed + i) % NUMBER_OF_CLASSES);
        NEED(net_replay_add(model, latents, labels) == NET_OK);
    }
    for (uint32_t pass = 0; pass < NET_ACCUMULATE; pass++) NEED(net_replay_train(model, latents, labels, 1, 0) == NET_OK);
}

static int saved(net_t *model, long bytes) {
    power = bytes;
    if (setjmp(cut)) {
        power = ALWAYS;
        return 0;
    }
    NEED(net_flash_save(model, NET_KEEP_STATE, &device) == NET_OK);
    power = ALWAYS;
    return 1;
}

/* The digest of what is loaded, by which passes go on as if nothing had been; 0 where that is nothing. */
static uint64_t loaded(void) {
    static net_t reader;
    NEED(net_init(&reader) == NET_OK);
    return net_flash_load(&reader, &device) == NET_OK ? digest_of(&reader) : 0;
}

int main(int argc, char **argv) {
    static net_t model[4];
    static uint8_t before[BYTES], used_before[BYTES], after[BYTES], used_after[BYTES];
    uint64_t digest[4];
    long cuts = 0, lost = 0;
    NEED(argc == 2);
    const long stride = strtol(argv[1], 0, 10);
    NEED(net_init(&model[0]) == NET_OK);
    for (uint32_t i = 0; i < 4; i++) {
        if (i) model[i] = model[i - 1];
        go_on(&model[i], 3 * i);
        digest[i] = digest_of(&model[i]);
        NEED(i == 0 || digest[i] != digest[i - 1]);
    }
    memset(flash, 0xff, sizeof flash);
    NEED(saved(&model[3], -1) && saved(&model[0], -1) && loaded() == digest[0]);
    memcpy(before, flash, BYTES), memcpy(used_before, used, BYTES);
    int second = 0;
    for (long at = 0; !second; at++, cuts++) {
        memcpy(flash, before, BYTES), memcpy(used, used_before, BYTES);
        second = saved(&model[1], at);
        const uint64_t last = loaded();
        lost += last != digest[1] && (second || last != digest[0]);
        memcpy(after, flash, BYTES), memcpy(used_after, used, BYTES);
        int third = 0;
        for (long next = at % stride; !third; next += stride, cuts++) {
            memcpy(flash, after, BYTES), memcpy(used, used_after, BYTES);
            third = saved(&model[2], next);
            const uint64_t found = loaded();
            lost += found != digest[2] && (third || found != last);
        }
    }
    printf("cuts %ld lost %ld\n", cuts, lost);
    return lost != 0;
}
