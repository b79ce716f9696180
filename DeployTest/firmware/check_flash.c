/* A library's state in flash that is flash: bits only clear, sectors are erased, a unit is written once. The power goes at
 * each byte that is erased or written, in each save, and again at each STRIDE-th of the save that follows; what is loaded
 * then is the last good state. Prints how many cuts were tried and how many states were lost. */
#include "adapted.h"

#include <string.h>

#include "power_cut.h"

enum { SECTOR = 32, SLOT = 224, BEGIN = 64, BYTES = BEGIN + 2 * SLOT, KINDS = 3 };

/* `torn` says of each byte that its unit was cut, `used` that it was
 * written since its sector was erased. A byte that is `weak` reads as `held` until what it holds decays. */
typedef struct {
    uint8_t bytes[BYTES], used[BYTES], torn[BYTES], weak[BYTES], held[BYTES];
} memory_t;
static memory_t flash, good;
static long calls;
static uint32_t unit = 8, refuses_torn, writes_fail, erases_nothing, reads_fail, unsteady, drops, weakens;
static uint8_t weak_cut = 1; /* number of the cut that leaves weak bytes */

static uint8_t reads_as(uint32_t at) { return flash.weak[at] ? flash.held[at] : flash.bytes[at]; }

static int flash_read(void *context, uint32_t address, void *bytes, uint32_t count) {
    NEED(context == &flash && address >= BEGIN && address < BYTES && count <= BYTES - address);
    calls++;
    if (reads_fail) return 1;
    for (uint32_t i = 0; refuses_torn && i < count; i++)
        if (flash.torn[address + i]) return 1;
    for (uint32_t i = 0; i < count; i++) ((uint8_t *)bytes)[i] = reads_as(address + i);
    if (unsteady && calls > unsteady) ((uint8_t *)bytes)[0] ^= 4;
    return 0;
}

/* Whether a cut tore the unit, and left it so that it reads as if it were erased: some flash refuses to write that. */
static int is_torn_blank(uint32_t address) {
    uint32_t torn = 0, blank = 0;
    for (uint32_t i = 0; i < unit; i++) torn += flash.torn[address + i], blank += reads_as(address + i) == 0xff;
    return torn && blank == unit;
}

/* A cut leaves bits of the whole unit that are cleared or not yet. */
static int flash_write(void *context, uint32_t address, const void *bytes, uint32_t count) {
    NEED(context == &flash && address >= BEGIN && address < BYTES && count == unit && address % unit == 0);
    const int again = is_torn_blank(address);
    if (writes_fail || (again && (refuses_torn || drawn() & 1))) return 1;
    for (uint32_t i = 0; i < count; i++) {
        const uint8_t old = flash.bytes[address + i], new = ((const uint8_t *)bytes)[i];
        if (erases_nothing) continue;
        NEED(again || (!flash.used[address + i] && (old & new) == new));
        if (is_last()) {
            const int together = drawn() & 1;
            for (uint32_t k = 0; weakens && k < count; k++) {
                flash.weak[address + k] = weak_cut;
                flash.held[address + k] = ((const uint8_t *)bytes)[k];
            }
            for (uint32_t k = 0; k < count; k++) {
                uint8_t *byte = &flash.bytes[address + k];
                if (k == i || (together && k > i)) *byte &= (uint8_t)(((const uint8_t *)bytes)[k] | drawn());
                flash.used[address + k] = flash.torn[address + k] = 1;
            }
            longjmp(cut, 1);
        }
        flash.bytes[address + i] = again ? old & new : drops && address == BEGIN + SLOT + 5 * unit && i == 0 ? (uint8_t)(new ^ 1) : new;
    }
    if (!erases_nothing) memset(flash.used + address, 1, count);
    if (again) memset(flash.weak + address, 0, count);
    return 0;
}

/* A cut leaves a sector whose bits are set up to here, or some of them in all of it, or any at all. */
static int flash_erase(void *context, uint32_t address, uint32_t count) {
    NEED(context == &flash && address >= BEGIN && address % SECTOR == 0 && count % SECTOR == 0 && count <= BYTES - address);
    if (erases_nothing) return 0;
    for (uint32_t i = 0; i < count; i++) {
        if (is_last()) {
            const uint32_t sector = address + i / SECTOR * SECTOR;
            const int form = drawn() % 3;
            for (uint32_t k = sector; weakens && k < sector + SECTOR; k++) { /* as it was, or as if it were erased */
                flash.weak[k] = weak_cut;
                flash.held[k] = weakens == 1 ? good.bytes[k] : 0xff;
            }
            for (uint32_t k = sector; k < sector + SECTOR; k++) {
                if (form == 0 && k == address + i) flash.bytes[k] |= drawn();
                if (form == 1) flash.bytes[k] = (uint8_t)((k < address + i ? good.bytes[k] : flash.bytes[k]) | drawn());
                if (form == 2) flash.bytes[k] = drawn();
                flash.used[k] = flash.torn[k] = 1;
            }
            longjmp(cut, 1);
        }
        flash.bytes[address + i] = 0xff;
        if (i % SECTOR == SECTOR - 1) {
            memset(flash.used + address + i + 1 - SECTOR, 0, SECTOR);
            memset(flash.torn + address + i + 1 - SECTOR, 0, SECTOR);
            memset(flash.weak + address + i + 1 - SECTOR, 0, SECTOR);
        }
    }
    return 0;
}

static adapted_flash_t device = {flash_read, flash_write, flash_erase, &flash, {BEGIN, BEGIN + SLOT}, SLOT, 8};
static adapted_t reader;

static uint64_t digest_of(adapted_t *model) {
    uint64_t digest = 0;
    NEED(adapted_digest(model, &digest) == ADAPTED_OK);
    return digest;
}

/* The digest that a struct has after it took the model's image of a kind from memory. */
static uint64_t passed_on(adapted_t *model, adapted_keep_t keep) {
    static adapted_t other;
    uint8_t image[ADAPTED_STATE_BYTES];
    size_t used = 0;
    NEED(adapted_save(model, keep, image, sizeof image, &used) == ADAPTED_OK && used <= adapted_state_size(keep));
    NEED(adapted_init(&other) == ADAPTED_OK && adapted_load(&other, image, used) == ADAPTED_OK);
    return digest_of(&other);
}

/* One update more, and a pass that waits for the next. */
static void train(adapted_t *model, uint32_t seed) {
    for (uint32_t pass = 0; pass < 2; pass++) {
        for (uint32_t i = 0; i < ADAPTED_INPUT_X_SIZE; i++) adapted_input_x(model)[i] = (float)((seed + i * 7 + pass) % 5) - 2.0f;
        adapted_input_labels(model)[0] = (int32_t)((seed + pass) % 2);
        NEED(adapted_train_step(model, 0) == ADAPTED_OK);
        if (pass == 0) NEED(adapted_update(model) == ADAPTED_OK);
    }
    NEED(adapted_drop_passes(model) == ADAPTED_OK);
    NEED(adapted_train_step(model, 0) == ADAPTED_OK);
}

static void erase_all(void) {
    memset(&flash, 0, sizeof flash);
    memset(flash.bytes, 0xff, sizeof flash.bytes);
}

/* Saves until the power goes after so many bytes; whether it lasted. */
static int saved(adapted_t *model, adapted_keep_t keep, long bytes) {
    power = bytes;
    if (setjmp(cut)) {
        power = ALWAYS;
        return 0;
    }
    NEED(adapted_flash_save(model, keep, &device) == ADAPTED_OK);
    power = ALWAYS;
    return 1;
}

static uint64_t loaded(void) {
    NEED(adapted_init(&reader) == ADAPTED_OK);
    return adapted_flash_load(&reader, &device) == ADAPTED_OK ? digest_of(&reader) : 0;
}

/* Cuts the second save, and after each cut the third one; counts cuts and states that are neither the last nor the next. */
static void cut_saves(adapted_keep_t keep, long stride, long *cuts, long *lost) {
    static adapted_t model[3];
    uint64_t digest[3];
    NEED(adapted_init(&model[0]) == ADAPTED_OK);
    for (uint32_t i = 0; i < 3; i++) {
        if (i) model[i] = model[i - 1];
        train(&model[i], 3 * i);
        digest[i] = passed_on(&model[i], keep);
        NEED(i == 0 || digest[i] != digest[i - 1]);
    }
    /* The first save of all: a state, or none and a model as it was. */
    int lasted = 0;
    for (long at = 0; !lasted; at++, ++*cuts) {
        erase_all();
        NEED(adapted_init(&reader) == ADAPTED_OK);
        const uint64_t untouched = digest_of(&reader);
        NEED(adapted_flash_load(&reader, &device) == ADAPTED_ERROR_EMPTY);
        lasted = saved(&model[0], keep, at);
        const uint64_t found = loaded();
        *lost += lasted ? found != digest[0] : found ? found != digest[0] : digest_of(&reader) != untouched;
    }
    for (uint32_t before = 0; before < 2; before++) { /* the other slot is empty, or holds an image */
        erase_all();
        if (before) NEED(saved(&model[2], keep, ALWAYS));
        NEED(saved(&model[0], keep, ALWAYS) && loaded() == digest[0]);
        good = flash;
        lasted = 0;
        for (long at = 0; !lasted; at++, ++*cuts) {
            flash = good;
            lasted = saved(&model[1], keep, at);
            const uint64_t found = loaded();
            *lost += lasted ? found != digest[1] : found != digest[0] && found != digest[1];
            const uint64_t last = found;
            const memory_t then = flash;
            int again = 0;
            for (long next = at % stride; !again; next += stride, ++*cuts) {
                flash = then;
                again = saved(&model[2], keep, next);
                const uint64_t seen = loaded();
                *lost += again ? seen != digest[2] : seen != last && seen != digest[2];
            }
        }
    }
}

/* What weak bytes hold is gone. */
static void decay(void) { memset(flash.weak, 0, sizeof flash.weak); }

/* The same of those that one cut left. */
static void decay_of(uint8_t number) {
    for (uint32_t i = 0; i < BYTES; i++)
        if (flash.weak[i] == number) flash.weak[i] = 0;
}

/* Cuts the second save, which leaves bytes that read right until they decay: before the third save, or when that is cut,
 * or when the one after it is; counts these cuts, and saves that ended well and are there no more, nor one after them. */
static void weaken_saves(adapted_keep_t keep, long stride, long *cuts, long *lost) {
    static adapted_t model[4];
    uint64_t digest[4];
    NEED(adapted_init(&model[0]) == ADAPTED_OK);
    for (uint32_t i = 0; i < 4; i++) {
        if (i) model[i] = model[i - 1];
        train(&model[i], 3 * i);
        digest[i] = passed_on(&model[i], keep);
    }
    erase_all();
    NEED(saved(&model[3], keep, ALWAYS) && saved(&model[0], keep, ALWAYS) && loaded() == digest[0]);
    good = flash;
    int second = 0;
    for (long at = 0; !second; at++) {
        flash = good;
        weakens = 1 + (uint32_t)(at % 2);
        second = saved(&model[1], keep, at);
        weakens = 0;
        const memory_t then = flash;
        for (uint32_t decays = 0; decays < 3; decays++) {
            int third = 0;
            for (long next = at % stride; !third; next += stride) {
                flash = then;
                uint64_t seen = loaded();
                *lost += seen != digest[1] && (second || seen != digest[0]);
                if (decays == 0) decay();
                third = saved(&model[2], keep, next);
                if (decays == 1) decay();
                seen = loaded();
                *lost += seen != digest[2] && (third || (seen != digest[1] && (second || seen != digest[0])));
                const memory_t last = flash;
                int fourth = 0;
                for (long further = next % 61; !fourth; further += 61, ++*cuts) {
                    flash = last;
                    fourth = saved(&model[3], keep, further);
                    decay();
                    const uint64_t found = loaded();
                    const int older = found == digest[2] || (!third && (found == digest[1] || (!second && found == digest[0])));
                    *lost += found != digest[3] && (fourth || !older);
                }
            }
        }
    }
}

/* Cuts the second save and the third one, both of which leave bytes that read right until they decay, each before the
 * fourth save, when that is cut, or after it; counts cuts and states that are lost, as above. */
static void weaken_twice(adapted_keep_t keep, long stride, long *cuts, long *lost) {
    static adapted_t model[4];
    uint64_t digest[4];
    NEED(adapted_init(&model[0]) == ADAPTED_OK);
    for (uint32_t i = 0; i < 4; i++) {
        if (i) model[i] = model[i - 1];
        train(&model[i], 3 * i);
        digest[i] = passed_on(&model[i], keep);
    }
    erase_all();
    NEED(saved(&model[3], keep, ALWAYS) && saved(&model[0], keep, ALWAYS) && loaded() == digest[0]);
    const memory_t begun = flash;
    int second = 0;
    for (long at = 0; !second; at++) {
        flash = good = begun;
        weak_cut = 1, weakens = 1 + (uint32_t)(at % 2);
        second = saved(&model[1], keep, at);
        const memory_t then = flash;
        int third = 0;
        for (long next = at % stride; !third; next += stride) {
            flash = good = then;
            weak_cut = 2, weakens = 1 + (uint32_t)(next / stride % 2);
            third = saved(&model[2], keep, next);
            weakens = 0;
            const memory_t last = flash;
            for (uint32_t decays = 0; decays < 9; decays++) {
                int fourth = 0;
                for (long further = next % 61; !fourth; further += 61, ++*cuts) {
                    flash = last;
                    if (decays % 3 == 0) decay_of(1);
                    if (decays / 3 == 0) decay_of(2);
                    fourth = saved(&model[3], keep, further);
                    if (decays % 3 == 1) decay_of(1);
                    if (decays / 3 == 1) decay_of(2);
                    for (uint32_t looks = 0; looks < 2; looks++) {
                        const uint64_t found = loaded();
                        const int older = found == digest[2] || (!third && (found == digest[1] || (!second && found == digest[0])));
                        *lost += found != digest[3] && (fourth || !older);
                        decay();
                    }
                }
            }
        }
    }
    weak_cut = 1;
}

static uint64_t digest_bytes(const uint8_t *bytes, size_t count) {
    uint64_t digest = 0xcbf29ce484222325u;
    for (size_t i = 0; i < count; i++) digest = (digest ^ bytes[i]) * 0x100000001b3u;
    return digest;
}

/* Gives the save in a slot another number, with its digest, by the format's description. */
static void renumber(uint32_t slot, uint32_t number) {
    uint8_t *head = flash.bytes + device.slots[slot];
    for (uint32_t i = 0; i < 4; i++) head[4 + i] = (uint8_t)(number >> (8 * i));
    const uint64_t digest = digest_bytes(head, 8);
    for (uint32_t i = 0; i < 8; i++) head[8 + i] = (uint8_t)(digest >> (8 * i));
}

/* What is damaged is passed over for the other slot; where nothing is left, a model stays as it is. */
static void damage(void) {
    static adapted_t first, second;
    NEED(adapted_init(&first) == ADAPTED_OK);
    train(&first, 1);
    second = first;
    train(&second, 2);
    erase_all();
    NEED(saved(&first, ADAPTED_KEEP_STATE, ALWAYS) && saved(&second, ADAPTED_KEEP_STATE, ALWAYS));
    good = flash;
    const uint32_t used = ADAPTED_SLOT_HEAD + ADAPTED_STATE_BYTES;
    for (uint32_t i = 0; i < used; i++)
        for (uint32_t bit = 0; bit < 8; bit++) {
            flash = good;
            flash.bytes[BEGIN + SLOT + i] ^= (uint8_t)(1u << bit);
            NEED(loaded() == digest_of(&first));
            flash.bytes[BEGIN + (i * 5 + bit) % used] ^= (uint8_t)(1u << bit);
            NEED(adapted_init(&reader) == ADAPTED_OK);
            train(&reader, 5);
            const uint64_t was = digest_of(&reader);
            const adapted_status_t status = adapted_flash_load(&reader, &device);
            NEED(status == ADAPTED_ERROR_DAMAGED || status == ADAPTED_ERROR_FOREIGN);
            NEED(digest_of(&reader) == was);
        }
    flash = good;
    for (uint32_t number = UINT32_MAX - 2; number != 3; number++) { /* numbers go on behind the highest */
        renumber(number % 2, number);
        renumber((number + 1) % 2, number + 1);
        NEED(loaded() == digest_of((number + 1) % 2 ? &second : &first));
    }
    flash = good;
    renumber(0, UINT32_MAX - 1);
    renumber(1, UINT32_MAX);
    for (uint32_t i = 0; i < 3; i++) {
        train(&first, 7 + i);
        NEED(saved(&first, ADAPTED_KEEP_STATE, ALWAYS) && loaded() == digest_of(&first));
    }
}

/* Flash that fails, or is described wrongly. */
static void refuse(void) {
    static adapted_t first, second;
    NEED(adapted_init(&first) == ADAPTED_OK);
    second = first;
    train(&first, 1);
    erase_all();
    NEED(saved(&first, ADAPTED_KEEP_STATE, ALWAYS));
    train(&second, 2);
    good = flash;
    writes_fail = 1;
    NEED(adapted_flash_save(&second, ADAPTED_KEEP_STATE, &device) == ADAPTED_ERROR_FLASH);
    writes_fail = 0;
    NEED(loaded() == digest_of(&first) && saved(&second, ADAPTED_KEEP_STATE, ALWAYS));
    flash = good;
    erases_nothing = 1; /* and nothing is written: all functions say that it went well */
    NEED(adapted_flash_save(&second, ADAPTED_KEEP_STATE, &device) == ADAPTED_ERROR_FLASH);
    erases_nothing = 0;
    drops = 1; /* a bit of the image */
    NEED(adapted_flash_save(&second, ADAPTED_KEEP_STATE, &device) == ADAPTED_ERROR_FLASH);
    drops = 0;
    NEED(saved(&second, ADAPTED_KEEP_STATE, ALWAYS) && loaded() == digest_of(&second));
    erases_nothing = 1; /* where another image lies */
    NEED(adapted_flash_save(&first, ADAPTED_KEEP_STATE, &device) == ADAPTED_ERROR_FLASH);
    erases_nothing = 0;
    flash = good;
    reads_fail = 1;
    NEED(adapted_flash_load(&second, &device) == ADAPTED_ERROR_FLASH && adapted_last_error(&second) == ADAPTED_ERROR_FLASH);
    reads_fail = 0;
    calls = 0;
    NEED(loaded() == digest_of(&first));
    const uint32_t all = (uint32_t)calls; /* both slots, then the image twice, each with its last chunk */
    calls = 0, unsteady = all - 1;
    NEED(adapted_flash_load(&second, &device) == ADAPTED_ERROR_FLASH);
    unsteady = 0;
    NEED(adapted_update(&second) == ADAPTED_ERROR_STRUCT && adapted_init(&second) == ADAPTED_OK);
    NEED(adapted_flash_save(&second, (adapted_keep_t)KINDS, &device) == ADAPTED_ERROR_INDEX);
    NEED(adapted_state_size((adapted_keep_t)KINDS) == 0);
    const adapted_flash_t right = device;
    for (uint32_t i = 0; i < 9; i++) {
        device = right;
        if (i == 0) device.read = 0;
        if (i == 1) device.write = 0;
        if (i == 2) device.erase = 0;
        if (i == 3) device.unit_bytes = 0;
        if (i == 4) device.unit_bytes = 24;
        if (i == 5) device.unit_bytes = 2 * ADAPTED_SLOT_UNIT_MOST;
        if (i == 6) device.slots[1] = BEGIN + SLOT - 8;
        if (i == 7) device.slots[1] = UINT32_MAX - SLOT + 1 - 8 + 16;
        if (i == 8) device.slots[0] = BEGIN + 4;
        NEED(adapted_flash_save(&second, ADAPTED_KEEP_STATE, &device) == ADAPTED_ERROR_FLASH);
        NEED(adapted_flash_load(&second, &device) == ADAPTED_ERROR_FLASH);
    }
    device = right;
    device.slot_bytes = ADAPTED_SLOT_HEAD + ADAPTED_STATE_BYTES + 2 * ADAPTED_SLOT_DONE - 8;
    NEED(adapted_flash_save(&second, ADAPTED_KEEP_STATE, &device) == ADAPTED_ERROR_SIZE);
    device = right;
    NEED(adapted_flash_load(&second, 0) == ADAPTED_ERROR_FLASH && adapted_flash_load(0, &device) == ADAPTED_ERROR_POINTER);
    flash = good;
    NEED(loaded() == digest_of(&first));
}

/* Frozen weights and what did not change are in no image of changes; it holds for the first weights alone. */
static void keep_changes(void) {
    static adapted_t model;
    uint8_t image[ADAPTED_CHANGES_BYTES];
    float values[3];
    size_t used = 0;
    NEED(adapted_init(&model) == ADAPTED_OK);
    const uint64_t first = digest_of(&model);
    NEED(adapted_save(&model, ADAPTED_KEEP_CHANGES, image, sizeof image, &used) == ADAPTED_OK && used == 36);
    train(&model, 1);
    NEED(adapted_load(&model, image, used) == ADAPTED_OK && digest_of(&model) == first);
    NEED(adapted_get_weight(&model, 0, values, sizeof values) == ADAPTED_OK);
    values[1] += 1.0f;
    NEED(adapted_set_weight(&model, 0, values, sizeof values) == ADAPTED_OK);
    NEED(adapted_save(&model, ADAPTED_KEEP_CHANGES, image, 51, &used) == ADAPTED_ERROR_SIZE);
    NEED(adapted_save(&model, ADAPTED_KEEP_CHANGES, image, sizeof image, &used) == ADAPTED_OK && used == 52);
    const uint64_t other = digest_of(&model);
    NEED(other != first && adapted_init(&model) == ADAPTED_OK);
    NEED(adapted_load(&model, image, used) == ADAPTED_OK && digest_of(&model) == other);
    for (uint32_t wrong = 1; wrong < 12; wrong++) { /* tensors that are no weights, or not there: sealed all the same */
        image[28] = (uint8_t)wrong;
        const uint64_t digest = digest_bytes(image, used - 8);
        for (uint32_t i = 0; i < 8; i++) image[used - 8 + i] = (uint8_t)(digest >> (8 * i));
        NEED(adapted_load(&model, image, used) == ADAPTED_ERROR_DAMAGED && digest_of(&model) == other);
    }
}

int main(int argc, char **argv) {
    long cuts = 0, lost = 0;
    NEED(argc == 2);
    keep_changes();
    damage();
    refuse();
    for (uint32_t keep = 0; keep < KINDS; keep++)
        for (refuses_torn = 0; refuses_torn < 2; refuses_torn++)
            for (unit = keep ? 2 : 8; unit <= 32; unit *= 4) {
                device.unit_bytes = unit;
                cut_saves((adapted_keep_t)keep, strtol(argv[1], 0, 10), &cuts, &lost);
            }
    printf("cuts %ld lost %ld\n", cuts, lost);
    long weak = 0, gone = 0;
    refuses_torn = 0;
    for (uint32_t keep = 0; keep < KINDS; keep++)
        for (unit = keep ? 2 : 8; unit <= 32; unit *= 4) {
            device.unit_bytes = unit;
            weaken_saves((adapted_keep_t)keep, 3 * strtol(argv[1], 0, 10), &weak, &gone);
        }
    printf("weak %ld lost %ld\n", weak, gone);
    long twice = 0, missed = 0;
    for (uint32_t keep = 0; keep < KINDS; keep++)
        for (unit = keep ? 2 : 8; unit <= 32; unit *= 4) {
            device.unit_bytes = unit;
            weaken_twice((adapted_keep_t)keep, 3 * strtol(argv[1], 0, 10), &twice, &missed);
        }
    printf("twice %ld lost %ld\n", twice, missed);
    return lost != 0 || gone != 0 || missed != 0;
}
