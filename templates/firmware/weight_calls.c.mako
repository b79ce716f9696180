static const struct {
    ${v.name}_weight_t info;
    uint32_t at;
} weights[] = {
% for w in v.weight_views:
    {{"${w.label}", "${w.shape}", ${w.count}u, ${w.whole}u}, ${w.home}},
% endfor
};

${v.name}_status_t ${v.name}_weight_info(uint32_t index, ${v.name}_weight_t *info) {
    if (!info) return ${v.upper}_ERROR_POINTER;
    if (index >= ${v.upper}_WEIGHTS) return ${v.upper}_ERROR_INDEX;
    *info = weights[index].info;
    return ${v.upper}_OK;
}

${v.name}_status_t ${v.name}_weight_index(const char *name, uint32_t *index) {
    if (!name || !index) return ${v.upper}_ERROR_POINTER;
    for (uint32_t i = 0; i < ${v.upper}_WEIGHTS; i++)
        if (strcmp(weights[i].info.name, name) == 0) {
            *index = i;
            return ${v.upper}_OK;
        }
    return ${v.upper}_ERROR_NAME;
}

static ${v.name}_status_t weight_fits(const ${v.name}_t *model, uint32_t index, const void *values, size_t bytes) {
    const ${v.name}_status_t status = ${v.name}_usable(model);
    if (status) return status;
    if (!values) return ${v.upper}_ERROR_POINTER;
    if (index >= ${v.upper}_WEIGHTS) return ${v.upper}_ERROR_INDEX;
    return bytes == sizeof(uint32_t) * weights[index].info.count ? ${v.upper}_OK : ${v.upper}_ERROR_SIZE;
}

${v.name}_status_t ${v.name}_get_weight(${v.name}_t *model, uint32_t index, void *values, size_t bytes) {
    const ${v.name}_status_t status = weight_fits(model, index, values, bytes);
    if (!status) memcpy(values, &model->memory.u32[weights[index].at], bytes);
    return ${v.name}_usable(model) ? status : ${v.name}_ended(model, status);
}

${v.name}_status_t ${v.name}_set_weight(${v.name}_t *model, uint32_t index, const void *values, size_t bytes) {
    const ${v.name}_status_t busy = ${v.name}_idle(model);
    if (busy) return busy;
    const ${v.name}_status_t status = weight_fits(model, index, values, bytes);
    if (!status) memcpy(&model->memory.u32[weights[index].at], values, bytes);
    return ${v.name}_ended(model, status);
}
