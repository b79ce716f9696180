/* ${v.provenance}
 *
 * Images of the state, in memory and in flash: a header, the words of the tensors, and a digest of both, little-endian. */
% for _ in v.gradients:
#include <string.h>

% endfor
#include "${v.name}_own.h"
#include "${v.name}_weights.h"

#define MAGIC ${v.magic}u
#define FORMAT ${v.format}u
#define HEAD_BYTES ${v.head_bytes}u
#define SEAL_BYTES ${v.seal_bytes}u
#define SLOT_MAGIC ${v.slot_magic}u
#define DONE_MAGIC ${v.done_magic}u
#define KEPT_MAGIC ${v.kept_magic}u
#define FNV_OFFSET 0xcbf29ce484222325u
#define FNV_PRIME 0x100000001b3u

/* Identity of the model, and largest image, for each kind. */
static const struct {
    uint32_t low, high, most;
} kinds[] = {
% for low, high, most in v.image_kinds:
    {${low}u, ${high}u, ${most}u},
% endfor
};

/* Tensors of the state: position and size in words, whether it is a weight, and the index of its initial contents. */
static const struct {
    uint32_t at, count, is_weight, first;
} kept[] = {
% for k in v.kept:
    {${k.at}u, ${k.count}u, ${k.is_weight}u, ${k.first}}, /* ${k.title} */
% endfor
};

#define KINDS (sizeof kinds / sizeof *kinds)
#define KEPT (sizeof kept / sizeof *kept)
#define OWN ${v.own_kept}u /* tensors of the training: those behind them are no other with other weights */

static uint64_t digested(uint64_t digest, uint8_t byte) { return (digest ^ byte) * FNV_PRIME; }

/* ---- writing ---- */

/* Destination of bytes: memory, flash in whole units, or none if only the digest is needed. */
typedef struct {
    uint64_t digest;
    uint8_t *memory;
    const ${v.name}_flash_t *flash;
    uint32_t at, filled;
    int failed;
    uint8_t unit[${v.upper}_SLOT_UNIT_MOST];
} ${v.name}_sink_t;

static void put_byte(${v.name}_sink_t *to, uint8_t byte) {
    to->digest = digested(to->digest, byte);
    if (to->memory) *to->memory++ = byte;
    if (!to->flash || to->failed) return;
    to->unit[to->filled++] = byte;
    if (to->filled < to->flash->unit_bytes) return;
    to->failed = to->flash->write(to->flash->context, to->at, to->unit, to->filled) != 0;
    to->at += to->filled;
    to->filled = 0;
}

static void put_word(${v.name}_sink_t *to, uint32_t word) {
    for (uint32_t i = 0; i < 4; i++) put_byte(to, (uint8_t)(word >> (8u * i)));
}

/* Write the digest of everything written so far. */
static void put_seal(${v.name}_sink_t *to) {
    const uint64_t digest = to->digest;
    put_word(to, (uint32_t)digest);
    put_word(to, (uint32_t)(digest >> 32));
}

/* Fill the last unit. */
static void fill_unit(${v.name}_sink_t *to) {
    while (to->filled && !to->failed) put_byte(to, 0xff);
}

static uint32_t first_word(uint32_t tensor, uint32_t place) {
    ${v.upper}_ASSERT(tensor < KEPT && place < kept[tensor].count);
    if (kept[tensor].first == NOWHERE) return 0;
    const ${v.name}_initial_t *part = &${v.name}_initial[kept[tensor].first];
    return part->words ? part->words[place] : part->fill;
}

/* Return whether an image of this kind contains the tensor. */
static int is_held(const ${v.name}_t *model, ${v.name}_keep_t keep, uint32_t tensor) {
    if (keep == ${v.upper}_KEEP_STATE || !kept[tensor].is_weight) return keep == ${v.upper}_KEEP_STATE;
    if (keep == ${v.upper}_KEEP_WEIGHTS) return 1;
    for (uint32_t k = 0; k < kept[tensor].count; k++)
        if (model->memory.u32[kept[tensor].at + k] != first_word(tensor, k)) return 1;
    return 0;
}

static uint32_t image_bytes(const ${v.name}_t *model, ${v.name}_keep_t keep) {
    uint32_t words = 0;
    for (uint32_t i = 0; i < KEPT; i++)
        if (is_held(model, keep, i)) words += kept[i].count + (keep == ${v.upper}_KEEP_CHANGES);
    return HEAD_BYTES + 4u * words + SEAL_BYTES;
}

/* Write an image without its digest. */
static void put_image(${v.name}_sink_t *to, const ${v.name}_t *model, ${v.name}_keep_t keep) {
    const int waits = keep == ${v.upper}_KEEP_STATE && ${v.upper}_ACCUMULATE > 1u; /* otherwise gradients are not kept */
    const uint32_t head[] = {MAGIC, FORMAT, (uint32_t)keep, kinds[keep].low, kinds[keep].high, image_bytes(model, keep),
                             waits ? model->passes & ~SPOILT : 0};
    for (uint32_t i = 0; i < sizeof head / sizeof *head; i++) put_word(to, head[i]);
    for (uint32_t i = 0; i < KEPT; i++) {
        if (!is_held(model, keep, i)) continue;
        if (keep == ${v.upper}_KEEP_CHANGES) put_word(to, i);
        for (uint32_t k = 0; k < kept[i].count; k++) put_word(to, model->memory.u32[kept[i].at + k]);
    }
}

/* Check that an image can be saved now: its kind exists, and it contains all that the next update needs. */
static ${v.name}_status_t savable(const ${v.name}_t *model, ${v.name}_keep_t keep) {
    if ((uint32_t)keep >= KINDS) return ${v.upper}_ERROR_INDEX;
    if (keep == ${v.upper}_KEEP_STATE && (model->passes & SPOILT)) return ${v.upper}_ERROR_LOSS;
    const int is_whole = keep != ${v.upper}_KEEP_STATE || ${v.upper}_ACCUMULATE > 1u || model->passes == 0;
    return is_whole ? ${v.upper}_OK : ${v.upper}_ERROR_DUE;
}

/* ---- reading ---- */

/* Source of bytes, and the number of bytes left. */
typedef struct {
    uint64_t digest;
    const uint8_t *memory;
    const ${v.name}_flash_t *flash;
    uint32_t at, left, used, filled;
    int failed;
    uint8_t chunk[32];
} ${v.name}_source_t;

static uint8_t get_byte(${v.name}_source_t *from) {
    uint8_t byte = 0;
    if (from->left == 0) from->failed = 1;
    if (from->failed) return 0;
    if (from->memory) byte = *from->memory++;
    else {
        if (from->used == from->filled) {
            from->filled = from->left < sizeof from->chunk ? from->left : (uint32_t)sizeof from->chunk;
            from->failed = from->flash->read(from->flash->context, from->at, from->chunk, from->filled) != 0;
            from->at += from->filled;
            from->used = 0;
        }
        byte = from->chunk[from->used++];
    }
    from->left--;
    from->digest = digested(from->digest, byte);
    return byte;
}

static uint32_t get_word(${v.name}_source_t *from) {
    uint32_t word = 0;
    for (uint32_t i = 0; i < 4; i++) word |= (uint32_t)get_byte(from) << (8u * i);
    return word;
}

/* Read a digest, and compare it with that of everything read so far. */
static int is_sealed(${v.name}_source_t *from) {
    const uint64_t digest = from->digest;
    const uint32_t low = get_word(from), high = get_word(from);
    return !from->failed && low == (uint32_t)digest && high == (uint32_t)(digest >> 32);
}

typedef struct {
    uint32_t keep, words, passes;
} ${v.name}_head_t;

/* Read a header, and check that it is of this model and fits its source. Nothing behind the image is read afterwards: in
 * flash that may be a unit that a power cut damaged. */
static ${v.name}_status_t get_head(${v.name}_source_t *from, ${v.name}_head_t *head) {
    const uint32_t room = from->left;
    if (room > HEAD_BYTES) from->left = HEAD_BYTES;
    const int ours = get_word(from) == MAGIC && get_word(from) == FORMAT;
    head->keep = get_word(from);
    if (!ours || head->keep >= KINDS) return ${v.upper}_ERROR_FOREIGN;
    const uint32_t low = get_word(from), high = get_word(from), bytes = get_word(from), most = kinds[head->keep].most;
    head->passes = get_word(from);
    if (low != kinds[head->keep].low || high != kinds[head->keep].high) return ${v.upper}_ERROR_FOREIGN;
    const int fits = head->keep == ${v.upper}_KEEP_CHANGES ? bytes >= HEAD_BYTES + SEAL_BYTES && bytes <= most && bytes % 4u == 0
                                                    : bytes == most;
    if (!fits) return ${v.upper}_ERROR_DAMAGED;
    head->words = (bytes - HEAD_BYTES - SEAL_BYTES) / 4u;
    if (bytes <= room) from->left = bytes - HEAD_BYTES;
    return bytes <= room ? ${v.upper}_OK : ${v.upper}_ERROR_SIZE;
}

static void get_tensor(${v.name}_source_t *from, uint32_t tensor, ${v.name}_t *model) {
    ${v.upper}_ASSERT(tensor < KEPT && kept[tensor].at + kept[tensor].count <= ${v.upper}_MEMORY_WORDS);
    for (uint32_t k = 0; k < kept[tensor].count; k++) {
        const uint32_t word = get_word(from);
        if (model) model->memory.u32[kept[tensor].at + k] = word;
    }
}

/* Read tensors, into the model unless it is null; return whether they are the model's. */
static int get_body(${v.name}_source_t *from, const ${v.name}_head_t *head, ${v.name}_t *model) {
    if (head->keep != ${v.upper}_KEEP_CHANGES) {
        for (uint32_t i = 0; i < KEPT; i++)
            if (head->keep == ${v.upper}_KEEP_STATE || kept[i].is_weight) get_tensor(from, i, model);
        return 1;
    }
    for (uint32_t left = head->words, next = 0; left > 0;) {
        const uint32_t tensor = get_word(from);
        if (tensor < next || tensor >= KEPT || !kept[tensor].is_weight || kept[tensor].count >= left) return 0;
        get_tensor(from, tensor, model);
        left -= kept[tensor].count + 1u;
        next = tensor + 1u;
    }
    return 1;
}

/* Check for a whole image of this model. */
static ${v.name}_status_t examined(${v.name}_source_t from, ${v.name}_head_t *head) {
    const ${v.name}_status_t status = get_head(&from, head);
    if (status) return from.failed ? ${v.upper}_ERROR_FLASH : status;
    const int whole = get_body(&from, head, 0) && is_sealed(&from) && head->passes <= ${v.upper}_ACCUMULATE;
    return from.failed ? ${v.upper}_ERROR_FLASH : whole ? ${v.upper}_OK : ${v.upper}_ERROR_DAMAGED;
}

/* Load an image that was examined. If it reads differently now, the struct must be prepared again. */
static ${v.name}_status_t taken(${v.name}_t *model, ${v.name}_source_t from, const ${v.name}_head_t *head) {
    ${v.name}_head_t again;
    const int same = get_head(&from, &again) == ${v.upper}_OK && again.keep == head->keep && again.words == head->words;
    for (uint32_t i = 0; head->keep != ${v.upper}_KEEP_STATE && i < OWN; i++)
        for (uint32_t k = 0; k < kept[i].count; k++) model->memory.u32[kept[i].at + k] = first_word(i, k);
    model->passes = head->passes;
    if (same && get_body(&from, head, model) && is_sealed(&from)) return ${v.upper}_OK;
    model->ready = 0;
    return ${v.upper}_ERROR_FLASH;
}

/* ---- memory ---- */

size_t ${v.name}_state_size(${v.name}_keep_t keep) { return (uint32_t)keep < KINDS ? kinds[keep].most : 0; }

${v.name}_status_t ${v.name}_save(${v.name}_t *model, ${v.name}_keep_t keep, void *image, size_t bytes, size_t *used) {
    ${v.name}_sink_t to = {.digest = FNV_OFFSET, .memory = image};
    const ${v.name}_status_t busy = ${v.name}_idle(model);
    if (busy) return busy;
    if (!image) return ${v.name}_ended(model, ${v.upper}_ERROR_POINTER);
    const ${v.name}_status_t status = savable(model, keep);
    if (status) return ${v.name}_ended(model, status);
    const uint32_t needed = image_bytes(model, keep);
    if (bytes < needed) return ${v.name}_ended(model, ${v.upper}_ERROR_SIZE);
    put_image(&to, model, keep);
    put_seal(&to);
    if (used) *used = needed;
    return ${v.name}_ended(model, ${v.upper}_OK);
}

${v.name}_status_t ${v.name}_load(${v.name}_t *model, const void *image, size_t bytes) {
    ${v.name}_source_t from = {.digest = FNV_OFFSET, .memory = image, .left = bytes < UINT32_MAX ? (uint32_t)bytes : UINT32_MAX};
    const ${v.name}_status_t status = ${v.name}_idle(model);
    if (status) return status;
    if (!image) return ${v.name}_ended(model, ${v.upper}_ERROR_POINTER);
    if (bytes < HEAD_BYTES + SEAL_BYTES) return ${v.name}_ended(model, ${v.upper}_ERROR_SIZE);
    ${v.name}_head_t head;
    const ${v.name}_status_t found = examined(from, &head);
    return ${v.name}_ended(model, found ? found : taken(model, from, &head));
}

${v.name}_status_t ${v.name}_digest(${v.name}_t *model, uint64_t *digest) {
    ${v.name}_sink_t to = {.digest = FNV_OFFSET};
    const ${v.name}_status_t status = ${v.name}_idle(model);
    if (status) return status;
    if (!digest) return ${v.name}_ended(model, ${v.upper}_ERROR_POINTER);
    put_image(&to, model, ${v.upper}_KEEP_STATE);
    *digest = to.digest;
    return ${v.name}_ended(model, ${v.upper}_OK);
}

% for g in v.gradients:
/* ---- gradients of other devices ---- */

#define GRADIENTS ${g.kind}u      /* the kind of their images */
#define GRADIENTS_BEGIN ${g.begin}u /* the first tensor among those of the state, and the one behind the last */
#define GRADIENTS_END ${g.end}u

${v.name}_status_t ${v.name}_get_gradients(${v.name}_t *model, void *image, size_t bytes) {
    ${v.name}_sink_t to = {.digest = FNV_OFFSET, .memory = image};
    const ${v.name}_status_t status = ${v.name}_idle(model);
    if (status) return status;
    if (!image) return ${v.name}_ended(model, ${v.upper}_ERROR_POINTER);
    if (model->passes == 0) return ${v.name}_ended(model, ${v.upper}_ERROR_EARLY);
    if (model->passes & SPOILT) return ${v.name}_ended(model, ${v.upper}_ERROR_LOSS);
    if (bytes < ${v.upper}_GRADIENTS_BYTES) return ${v.name}_ended(model, ${v.upper}_ERROR_SIZE);
    const uint32_t low = kinds[${v.upper}_KEEP_STATE].low, high = kinds[${v.upper}_KEEP_STATE].high;
    const uint32_t head[] = {MAGIC, FORMAT, GRADIENTS, low, high, ${v.upper}_GRADIENTS_BYTES, model->passes};
    for (uint32_t i = 0; i < sizeof head / sizeof *head; i++) put_word(&to, head[i]);
    for (uint32_t i = GRADIENTS_BEGIN; i < GRADIENTS_END; i++)
        for (uint32_t k = 0; k < kept[i].count; k++) put_word(&to, model->memory.u32[kept[i].at + k]);
    put_seal(&to);
    return ${v.name}_ended(model, ${v.upper}_OK);
}

/* Check for whole gradients of this model, and count their passes. */
static ${v.name}_status_t examined_gradients(${v.name}_source_t from, uint32_t *passes) {
    const uint32_t room = from.left;
    int ours = get_word(&from) == MAGIC;
    ours &= get_word(&from) == FORMAT;
    ours &= get_word(&from) == GRADIENTS;
    ours &= get_word(&from) == kinds[${v.upper}_KEEP_STATE].low;
    ours &= get_word(&from) == kinds[${v.upper}_KEEP_STATE].high;
    if (!ours) return ${v.upper}_ERROR_FOREIGN;
    if (get_word(&from) != ${v.upper}_GRADIENTS_BYTES) return ${v.upper}_ERROR_DAMAGED;
    if (room != ${v.upper}_GRADIENTS_BYTES) return ${v.upper}_ERROR_SIZE;
    *passes = get_word(&from);
    while (from.left > SEAL_BYTES) (void)get_byte(&from);
    return is_sealed(&from) && *passes > 0 && *passes <= ${v.upper}_ACCUMULATE ? ${v.upper}_OK : ${v.upper}_ERROR_DAMAGED;
}

/* Add a tensor as a pass adds its gradients: the first one of an update is copied. */
static void add_tensor(${v.name}_source_t *from, uint32_t tensor, ${v.name}_t *model) {
    for (uint32_t k = 0; k < kept[tensor].count; k++) {
        const uint32_t word = get_word(from), at = kept[tensor].at + k;
        float gradient;
        memcpy(&gradient, &word, sizeof gradient);
        model->memory.f32[at] = model->passes == 0 ? gradient : model->memory.f32[at] + gradient;
    }
}

${v.name}_status_t ${v.name}_add_gradients(${v.name}_t *model, const void *image, size_t bytes) {
    ${v.name}_source_t from = {.digest = FNV_OFFSET, .memory = image, .left = bytes < UINT32_MAX ? (uint32_t)bytes : UINT32_MAX};
    uint32_t passes = 0;
    const ${v.name}_status_t status = ${v.name}_idle(model);
    if (status) return status;
    if (!image) return ${v.name}_ended(model, ${v.upper}_ERROR_POINTER);
    if (model->passes & SPOILT) return ${v.name}_ended(model, ${v.upper}_ERROR_LOSS);
    if (bytes < HEAD_BYTES + SEAL_BYTES) return ${v.name}_ended(model, ${v.upper}_ERROR_SIZE);
    const ${v.name}_status_t found = examined_gradients(from, &passes);
    if (found) return ${v.name}_ended(model, found);
    if (passes > ${v.upper}_ACCUMULATE - model->passes) return ${v.name}_ended(model, ${v.upper}_ERROR_DUE);
    for (uint32_t i = 0; i < HEAD_BYTES; i++) (void)get_byte(&from);
    for (uint32_t i = GRADIENTS_BEGIN; i < GRADIENTS_END; i++) add_tensor(&from, i, model);
    model->passes += passes;
    return ${v.name}_ended(model, ${v.upper}_OK);
}

EXACT_FLAGS(${g.proof})

% endfor
/* ---- flash ---- */

/* Contents of a slot. `number` counts saves. `done`: a record says that the save is done. `sure`: the second record says
 * so, too. `image` and `head` are the start and the header of the image. */
typedef struct {
    ${v.name}_status_t status;
    uint32_t number;
    int done, sure;
    ${v.name}_source_t image;
    ${v.name}_head_t head;
} ${v.name}_slot_t;

static int is_flash(const ${v.name}_flash_t *flash) {
    if (!flash || !flash->read || !flash->write || !flash->erase) return 0;
    const uint32_t unit = flash->unit_bytes, bytes = flash->slot_bytes, *slots = flash->slots;
    if (unit == 0 || unit > ${v.upper}_SLOT_UNIT_MOST || (unit & (unit - 1u)) != 0) return 0;
    if (bytes % unit || slots[0] % unit || slots[1] % unit) return 0;
    const uint32_t low = slots[0] < slots[1] ? slots[0] : slots[1], high = slots[0] < slots[1] ? slots[1] : slots[0];
    return high - low >= bytes && bytes - 1u <= UINT32_MAX - high;
}

static uint32_t in_units(const ${v.name}_flash_t *flash, uint32_t bytes) {
    return (bytes + flash->unit_bytes - 1u) & ~(flash->unit_bytes - 1u);
}

/* Size of a slot with an image of this size and this number of records. */
static uint32_t slot_bytes(const ${v.name}_flash_t *flash, uint32_t image, uint32_t records) {
    return in_units(flash, ${v.upper}_SLOT_HEAD + image) + records * in_units(flash, ${v.upper}_SLOT_DONE);
}

/* Find the address of a record behind the image; return whether there is room for it. The first record says that the save
 * is done, the second one that it was done when the next save began. */
static int find_record(const ${v.name}_flash_t *flash, uint32_t index, const ${v.name}_slot_t *slot, uint32_t record, uint32_t *at) {
    const uint32_t image = HEAD_BYTES + 4u * slot->head.words + SEAL_BYTES;
    *at = flash->slots[index] + slot_bytes(flash, image, record);
    return flash->slot_bytes >= slot_bytes(flash, image, record + 1u);
}

/* Return whether a record exists and is intact. It is written after everything before it. */
static int has_record(const ${v.name}_flash_t *flash, uint32_t index, const ${v.name}_slot_t *slot, uint32_t record) {
    ${v.name}_source_t from = {.flash = flash, .left = ${v.upper}_SLOT_DONE};
    if (!find_record(flash, index, slot, record, &from.at)) return 0;
    const int ours = get_word(&from) == (record ? KEPT_MAGIC : DONE_MAGIC);
    return get_word(&from) == slot->number && ours && !from.failed;
}

/* Write the second record if its units are erased. It protects against a damaged first record; a failed write is ignored. */
static void confirm(const ${v.name}_flash_t *flash, uint32_t index, const ${v.name}_slot_t *slot) {
    ${v.name}_sink_t to = {.flash = flash};
    ${v.name}_source_t from = {.flash = flash, .left = in_units(flash, ${v.upper}_SLOT_DONE)};
    if (!find_record(flash, index, slot, 1, &to.at)) return;
    from.at = to.at;
    while (from.left && !from.failed)
        if (get_byte(&from) != 0xff) return;
    if (from.failed) return;
    put_word(&to, KEPT_MAGIC);
    put_word(&to, slot->number);
    fill_unit(&to);
}

static void examine_slot(const ${v.name}_flash_t *flash, uint32_t index, ${v.name}_slot_t *slot) {
    ${v.name}_source_t from = {.digest = FNV_OFFSET, .flash = flash, .at = flash->slots[index], .left = flash->slot_bytes};
    const uint32_t magic = get_word(&from);
    slot->number = get_word(&from);
    const int sealed = is_sealed(&from);
    from.digest = FNV_OFFSET;
    slot->image = from;
    if (from.failed) slot->status = ${v.upper}_ERROR_FLASH;
    else if (magic == slot->number && (magic == 0 || magic == UINT32_MAX)) slot->status = ${v.upper}_ERROR_EMPTY;
    else if (magic != SLOT_MAGIC) slot->status = ${v.upper}_ERROR_FOREIGN;
    else slot->status = sealed ? examined(from, &slot->head) : ${v.upper}_ERROR_DAMAGED;
    slot->sure = slot->status == ${v.upper}_OK && has_record(flash, index, slot, 1);
    slot->done = slot->status == ${v.upper}_OK && (slot->sure || has_record(flash, index, slot, 0));
}

/* Return the slot with the newest whole image of this model, or 2. Numbers wrap from the highest to 0.
 *
 * After a power cut, bytes may read correctly once and change later. Therefore an image whose save is not done counts only
 * if no other image is done. If another one is done, the cut hit a save that had begun after it, so it has no such bytes.
 * Its `done` record may have been cut, too: a second record repeats it before the other slot is erased. */
static uint32_t newest(const ${v.name}_slot_t slots[2]) {
    const int done = slots[0].done || slots[1].done;
    const int first = done ? slots[0].done : slots[0].status == ${v.upper}_OK;
    const int second = done ? slots[1].done : slots[1].status == ${v.upper}_OK;
    if (first && second) return (slots[1].number - slots[0].number) >> 31 ? 0 : 1;
    return first ? 0 : second ? 1 : 2;
}

${v.name}_status_t ${v.name}_flash_save(${v.name}_t *model, ${v.name}_keep_t keep, const ${v.name}_flash_t *flash) {
    ${v.name}_slot_t slots[2];
    const ${v.name}_status_t busy = ${v.name}_idle(model);
    if (busy) return busy;
    if (!is_flash(flash)) return ${v.name}_ended(model, ${v.upper}_ERROR_FLASH);
    const ${v.name}_status_t status = savable(model, keep);
    if (status) return ${v.name}_ended(model, status);
    if (flash->slot_bytes < slot_bytes(flash, image_bytes(model, keep), 2))
        return ${v.name}_ended(model, ${v.upper}_ERROR_SIZE);
    for (uint32_t i = 0; i < 2; i++) examine_slot(flash, i, &slots[i]);
    const uint32_t last = newest(slots), next = last == 0 ? 1 : 0, number = last < 2 ? slots[last].number + 1u : 1u;
    if (last < 2 && slots[last].done && !slots[last].sure) confirm(flash, last, &slots[last]);
    if (flash->erase(flash->context, flash->slots[next], flash->slot_bytes)) return ${v.name}_ended(model, ${v.upper}_ERROR_FLASH);
    ${v.name}_sink_t to = {.digest = FNV_OFFSET, .flash = flash, .at = flash->slots[next]};
    put_word(&to, SLOT_MAGIC);
    put_word(&to, number);
    put_seal(&to);
    to.digest = FNV_OFFSET;
    put_image(&to, model, keep);
    put_seal(&to);
    fill_unit(&to);
    examine_slot(flash, next, &slots[next]);
    const int whole = !to.failed && slots[next].status == ${v.upper}_OK && slots[next].number == number;
    if (whole) {
        put_word(&to, DONE_MAGIC);
        put_word(&to, number);
        fill_unit(&to);
    }
    const int lasts = whole && !to.failed && has_record(flash, next, &slots[next], 0);
    return ${v.name}_ended(model, lasts ? ${v.upper}_OK : ${v.upper}_ERROR_FLASH);
}

${v.name}_status_t ${v.name}_flash_load(${v.name}_t *model, const ${v.name}_flash_t *flash) {
    ${v.name}_slot_t slots[2];
    const ${v.name}_status_t status = ${v.name}_idle(model);
    if (status) return status;
    if (!is_flash(flash)) return ${v.name}_ended(model, ${v.upper}_ERROR_FLASH);
    for (uint32_t i = 0; i < 2; i++) examine_slot(flash, i, &slots[i]);
    const uint32_t last = newest(slots);
    if (last < 2) return ${v.name}_ended(model, taken(model, slots[last].image, &slots[last].head));
    /* Neither slot has an image: report the status of one that is not empty. */
    return ${v.name}_ended(model, slots[0].status != ${v.upper}_ERROR_EMPTY ? slots[0].status : slots[1].status);
}
