/* All outputs of a class of rows and a class of columns, rectangle by rectangle. Before it is included, EACH_RECTANGLE(v, r,
 * list, turn) computes one, or lists it, and gives the turn that follows; LIST is what `list` points to. */
static __attribute__((noinline)) uint32_t rectangles(const conv_t *v, const axis_t *rows, const axis_t *columns, LIST *list,
                                                     uint32_t turn) {
    run_t h, w;
    rectangle_t r;
    r.y_row = rows->step * v->y_h, r.y_column = columns->step;
    r.w_h = rows->tap_step * v->w_h, r.w_w = columns->tap_step;
    r.x_row = rows->move * (int32_t)v->x_h, r.x_column = columns->move;
    r.x_h = rows->apart * (int32_t)v->x_h, r.x_w = columns->apart;
    for (uint32_t i = 0; i < rows->count; i += h.count) {
        h = run_at(rows, i);
        const float *x = v->x + rows->at * (int32_t)v->x_h + (int32_t)i * r.x_row + (int32_t)h.tap * r.x_h;
        const float *weights = v->w + rows->tap * v->w_h + h.tap * r.w_h;
        float *y = v->y + rows->first * v->y_h + i * r.y_row;
        for (uint32_t j = 0; j < columns->count; j += w.count) {
            w = run_at(columns, j);
            r.rows = h.count, r.columns = w.count, r.h = h.taps, r.w = w.taps;
            r.x = x + columns->at + (int32_t)j * columns->move + (int32_t)w.tap * columns->apart;
            r.weights = weights + columns->tap + w.tap * columns->tap_step;
            r.y = y + columns->first + j * columns->step;
            if (w.taps == 0) r.h = 0;
            turn = EACH_RECTANGLE(v, &r, list, turn);
        }
    }
    return turn;
}
