/* All outputs of a class of rows and a class of columns, rectangle by rectangle. Before it is included, EACH_RECTANGLE(v, r,
 * list, turn) computes one, or lists it, and gives the turn that follows; LIST is what `list` points to. */
static __attribute__((noinline)) uint32_t rectangles(const conv_t *v, const axis_t *rows, const axis_t *columns, LIST *list,
                                                     uint32_t turn) {
    run_t h, w;
    rectangle_t r;
    r.y_row = rows->step * v->y_h, r.y_column = columns->step;
    r.w_step[0] = (int32_t)columns->tap_step, r.w_step[1] = (int32_t)(rows->tap_step * v->w_h);
    r.x_row = rows->move * (int32_t)v->x_h, r.x_column = columns->move;
    r.x_step[0] = columns->apart, r.x_step[1] = rows->apart * (int32_t)v->x_h;
    r.w_step[2] = (int32_t)v->w_c, r.x_step[2] = (int32_t)v->x_c;
    const float *const first = v->x + rows->at * (int32_t)v->x_h + columns->at;
    const float *const tap = v->w + rows->tap * v->w_h + columns->tap;
    float *const to = v->y + rows->first * v->y_h + columns->first;
    for (uint32_t i = 0; i < rows->count; i += h.count) {
        h = run_at(rows, i);
        const float *const x = first + (int32_t)i * r.x_row + (int32_t)h.tap * r.x_step[1];
        const float *const weights = tap + (int32_t)h.tap * r.w_step[1];
        float *const y = to + i * r.y_row;
        for (uint32_t j = 0; j < columns->count; j += w.count) {
            w = run_at(columns, j);
            r.rows = h.count, r.columns = w.count, r.h = h.taps, r.w = w.taps;
            r.x = x + (int32_t)j * r.x_column + (int32_t)w.tap * r.x_step[0];
            r.weights = weights + (int32_t)w.tap * r.w_step[0], r.y = y + j * r.y_column;
            if (w.taps == 0) r.h = 0;
            turn = EACH_RECTANGLE(v, &r, list, turn);
        }
    }
    return turn;
}
