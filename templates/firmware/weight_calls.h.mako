typedef struct {
    const char *name;
    const char *shape;
    uint32_t count;
    uint32_t is_int32;
} ${v.name}_weight_t;

/* Describe the weight `index` (below ${v.upper}_WEIGHTS); find the index of a name. */
${v.name}_status_t ${v.name}_weight_info(uint32_t index, ${v.name}_weight_t *info);
${v.name}_status_t ${v.name}_weight_index(const char *name, uint32_t *index);

/* Copy a weight out or in; `bytes` is the size of all its elements, 4 bytes each. */
${v.name}_status_t ${v.name}_get_weight(${v.name}_t *model, uint32_t index, void *values, size_t bytes);
${v.name}_status_t ${v.name}_set_weight(${v.name}_t *model, uint32_t index, const void *values, size_t bytes);
