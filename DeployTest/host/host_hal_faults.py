"""Faults to plant in the small program of the host simulator, each with what the simulator must say."""

# id: check, words of its message, edits "place: old => new": the place is a function of PROGRAM, the map or the
# header, and the old text stands exactly once in it.
FAULTS = {
    "no_wait_for_ingress": (
        "forgotten-wait",
        "operand 'a' of kernel call 0 is 'x_l1' part 0",
        "step_0: hal_dma_wait(in[p]); => (void)in[p];",
    ),
    "no_wait_at_end": ("forgotten-wait", "the step ends", "step_0: hal_dma_wait(out[1]); => "),
    "egress_read_early": (
        "forgotten-wait",
        "begins to read L2",
        "step_2: hal_dma_wait(hal_dma_out_1d(0, V_L2(o) + t * 64, V_L1, 64)); => "
        "in[0] = hal_dma_out_1d(0, V_L2(o) + t * 64, V_L1, 64); if (t == 0) hal_dma_wait(in[0]);",
    ),
    "refill_in_flight": (
        "forgotten-wait",
        "begins to write L1",
        "step_0: hal_step(0); => hal_step(0); hal_dma_in_1d(0, X_L1(0), X, 64);",
    ),
    "hidden_write_to_ingress": (
        "forgotten-wait",
        "was written before the wait",
        "step_0: hal_dma_wait(in[p]); => X_L1(p)[5] ^= 1; hal_dma_wait(in[p]);",
    ),
    "kernel_reads_other_part": (
        "forgotten-wait",
        "operand 'a' of kernel call 0 is 'x_l1' part 1",
        "step_0: call(X_L1(p), X_L1(p), => call(X_L1(1 - p), X_L1(1 - p),",
    ),
    "staged_other_part": (
        "forgotten-wait",
        "begins to read L2",
        "step_2: U_L2(o) + t * 64, 64 => U_L2(1 - o) + t * 64, 64",
    ),
    "no_wait_for_egress": (
        "write-while-read",
        "kernel call 2 writes operand 'y'",
        "step_0: hal_dma_wait(out[p]); => ",
    ),
    "in_place_refill": ("write-while-read", "begins to write L1", "step_1: hal_dma_wait(out[1 - p]); => "),
    "hidden_write_to_egress": (
        "write-while-read",
        "changed between start and wait",
        "step_0: Y_L1(p), size(t)); => Y_L1(p), size(t)); Y_L1(p)[9] ^= 1;",
    ),
    "egress_of_other_part": (
        "trace",
        "is to move 64 B at L2 + 0x110 and L1 + 0xf0, found 64 B at L2 + 0x110 and L1 + 0x130",
        "step_0: Y + t * 64, Y_L1(p) => Y + t * 64, Y_L1(1 - p)",
    ),
    "kernel_writes_other_part": (
        "argument",
        "operand 'y' of kernel call 0, of tile i=0+16, is to be 'y_l1' part 0 + 0",
        "step_0: X_L1(p), Y_L1(p), => X_L1(p), Y_L1(1 - p),",
    ),
    "staged_egress_short": (
        "trace",
        "transfer 1 of operand 'y' out through hop 0, of tile k=16+16, is to move 64 B",
        "step_2: t * 64, V_L1, 64) => t * 64, V_L1, 64 - 4 * t)",
    ),
    "source_past_end": (
        "outside-buffer",
        "ends 4 B past the end of 'x'",
        "step_0: size(t + 1)); => size(t + 1) + 4 * (t == 2));",
    ),
    "source_before": ("outside-buffer", "begins 4 B before 'x'", "step_0: X_L1(0), X, => X_L1(0), X - 4,"),
    "box_too_wide": (
        "outside-buffer",
        "ends 4 B past the end of 'y'",
        "step_1: width(next), 2, 124 => width(next) + 4 * (t == 2), 2, 124",
    ),
    "slot_overrun": (
        "outside-buffer",
        "ends 4 B past the end of part 0 of 'x_l1'",
        "step_0: X_L1(0), X, size(0) => X_L1(0), X, size(0) + 4",
    ),
    "stride_too_long": (
        "outside-buffer",
        "ends 8 B past the end of 'y'",
        "step_1: width(0), 2, 124 => width(0), 2, 224",
    ),
    "dead_buffer": (
        "outside-buffer",
        "'x', live in steps 0 to 0 only",
        "step_1: YZ_L1(0), Y, => YZ_L1(0), X,",
    ),
    "operand_astray": (
        "outside-buffer",
        "begins 4 B past the end of 'w'",
        "step_1: YZ_L1(p), W, => YZ_L1(p), W + 68,",
    ),
    "wrong_level": ("outside-buffer", "not in L1", "step_0: X_L1(0), X, => Y, X,"),
    "no_level": ("outside-buffer", "lies in no level", "step_0: X_L1(0), X, => in, X,"),
    "harness_reads_slot": ("outside-buffer", "hal_read", "main: hal_read(X, 248) => hal_read(X_L1(0), 248)"),
    "harness_reads_past_home": (
        "outside-buffer",
        "hal_read of 64 B is not inside one home buffer: L1 + 0x14 ends 4 B past the end of 'w'",
        "main: hal_read(W, 64) => hal_read(W + 4, 64)",
    ),
    "double_wait": (
        "double-wait",
        "was waited for already",
        "step_0: hal_dma_wait(out[1]); => hal_dma_wait(out[0]);",
    ),
    "ticket_of_other_step": (
        "double-wait",
        "earlier step",
        "step_1: hal_step(1); => hal_step(1); hal_dma_wait(1);",
    ),
    "unknown_ticket": (
        "unknown-ticket",
        "ticket 1000",
        "step_1: hal_step(1); => hal_step(1); hal_dma_wait(1000);",
    ),
    "guard_after": ("guard", "0 B past the end of 'w'", "step_1: hal_step(1); => hal_step(1); W[64] = 0;"),
    "guard_before": ("guard", "1 B before 'w'", "step_1: hal_step(1); => hal_step(1); *(W - 1) = 0;"),
    "guard_at_step_end": (
        "guard",
        "step 1 'add_w': guard: kernel call 3 or what followed it wrote where it must not, 0x9e instead of 0xde: "
        "L2 + 0x11 lies in 'x', live in steps 0 to 0 only",
        "step_1: hal_dma_wait(out[1]); => hal_dma_wait(out[1]); X[1] ^= 64;",
    ),
    "live_home_of_no_operand": (
        "guard",
        "step 0 'double': guard: kernel call 3 or what followed it wrote where it must not",
        "step_0: hal_dma_wait(out[1]); => hal_dma_wait(out[1]); U[8] ^= 1;",
    ),
    "kernel_past_its_box": (
        "guard",
        "kernel call 3 wrote where it must not, 0x00 instead of 0x70: 'y_l1' part 1 + 58 (L1 + 0x16a), 2 B past "
        "the end of the box of operand 'y' in tile i=48+14",
        "add: p->y[i] = p->a[i] + p->b[i]; => p->y[i] = p->a[i] + p->b[i];\n    if (p->n == 14) p->y[14] = 0;",
    ),
    "guard_between_graphs": (
        "guard",
        "0 B past the end of 'v'",
        'main: print_cycles("end "); => V[256] = 1;',
    ),
    "source_shifted": (
        "trace",
        "transfer 1 of operand 'a' in through hop 0, of tile i=16+16, is to move 64 B at L2 + 0x50",
        "step_0: X + (t + 1) * 64, => X + (t + 1) * 64 + 4 * (t == 0),",
    ),
    "source_short": (
        "trace",
        "found 60 B at L2 + 0x50",
        "step_0: size(t + 1)); => size(t + 1) - 4 * (t == 0));",
    ),
    "egress_shifted": (
        "trace",
        "found 64 B at L2 + 0x154",
        "step_0: Y + t * 64, => Y + t * 64 + 4 * (t == 1),",
    ),
    "egress_twice": (
        "trace",
        "transfer 3 of operand 'y' out through hop 0, of tile j=24+7",
        "step_1: Z + t * 32, => Z + (t - (t == 3)) * 32,",
    ),
    "row_missing": (
        "trace",
        "64 B at L2 + 0x110 in runs of 32 B, 2 times every 124 B and L1 + 0x70, found 32 B at",
        "step_1: width(0), 2, 124 => width(0), 1, 124",
    ),
    "ingress_again": (
        "trace",
        "operand 'a' has no more than 2 transfers in through hop 1 in this step",
        "step_2: hal_dma_wait(out[0]); => hal_dma_wait(out[0]); hal_dma_wait(hal_dma_in_1d(1, U_L2(0), U, 128));",
    ),
    "ingress_into_output": (
        "trace",
        "the plan moves nothing in through hop 0 there in this step",
        "step_0: hal_step(0); => hal_step(0); hal_dma_wait(hal_dma_in_1d(0, Y_L1(0), X, 64));",
    ),
    "ingress_into_home": (
        "trace",
        "the plan moves nothing in through hop 0 there in this step",
        "step_0: hal_step(0); => hal_step(0); hal_dma_wait(hal_dma_in_1d(0, W, X, 64));",
    ),
    "wrong_stride": (
        "trace",
        "2 times every 124 B and L1 + 0x70, found 64 B at L2 + 0x110 in runs of 32 B, 2 times every 128 B",
        "step_1: width(0), 2, 124 => width(0), 2, 128",
    ),
    "tiles_swapped": (
        "trace",
        "transfer 1 of operand 'a' in through hop 0, of tile i=16+16",
        "step_0: X + (t + 1) * 64, size(t + 1) => X + (t < 2 ? 2 - t : t + 1) * 64, size(t + 1)",
    ),
    "scalar": (
        "argument",
        "'n' of kernel call 3, of tile i=48+14, is to be 14 (0xe), found 13 (0xd)",
        "step_0: size(t) / 4); => size(t) / 4 - (t == 3));",
    ),
    "scalar_of_box": (
        "argument",
        "'n' of kernel call 0, of tile j=0+8, is to be 16 (0x10), found 15 (0xf)",
        "step_1: width(t) / 2 => width(t) / 2 - 1",
    ),
    "pointer_inside": (
        "argument",
        "operand 'b' of kernel call 0, of tile j=0+8, is to be 'w' + 0 (L1 + 0x10), found 'w' + 4 (L1 + 0x14)",
        "step_1: YZ_L1(p), W, => YZ_L1(p), W + 4,",
    ),
    "pointer_null": (
        "argument",
        "of tile j=0+8, is to be 'w' + 0 (L1 + 0x10), found address (nil) lies in no level",
        "step_1: YZ_L1(p), W, => YZ_L1(p), NULL,",
    ),
    "pointer_not_null": (
        "argument",
        "operand 'b' of kernel call 0 is to be NULL, found 'w' + 0",
        "map: operands_1, 3, scalars_1, 1 => operands_1, 1, scalars_null, 1",
    ),
    "tile_too_many": (
        "tile-count",
        "kernel call 4 of a step of 3",
        "map: scalars_0, 1, cycles, 4, 11 => scalars_0, 1, cycles, 3, 11",
    ),
    "tile_missing": (
        "tile-count",
        "4 kernel calls in a step of 5",
        "map: scalars_0, 1, cycles, 4, 11 => scalars_0, 1, cycles, 5, 11",
    ),
    "step_out_of_range": (
        "order",
        "hal_step(3, of 3 in all) where step 1 'add_w' of graph 'pass' in pass 0 of 2 is due",
        "step_1: hal_step(1) => hal_step(3)",
    ),
    "step_backwards": (
        "order",
        "hal_step(0 'double') where step 1 'add_w'",
        "one_pass: step_0(); => step_0(); step_0();",
    ),
    "first_step_left_out": (
        "order",
        "hal_step(1 'add_w') where step 0 'double'",
        "one_pass: step_0(); => (void)step_0;",
    ),
    "step_left_out": ("order", "hal_step(2 'staged') where step 1 'add_w'", "one_pass: step_1(); => (void)step_1;"),
    "last_step_left_out": (
        "order",
        "hal_step(HAL_NO_STEP) where step 2 'staged'",
        "one_pass: step_2(); => (void)step_2;",
    ),
    "steps_swapped": (
        "order",
        "hal_step(1 'add_w') where step 0 'double'",
        "one_pass: step_0(); => step_1(); step_0();",
        "one_pass: step_1();\n    step_2(); => step_2();",
    ),
    "graph_not_ended": (
        "order",
        "hal_step(0 'double') where HAL_NO_STEP, the end of graph 'pass'",
        "one_pass: hal_step(HAL_NO_STEP); => ",
    ),
    "pass_too_many": (
        "order",
        "hal_step(0 'double') where the end, after 2 passes, is due",
        'main: print_cycles("end "); => one_pass();',
    ),
    "transfer_between_graphs": (
        "order",
        "a transfer through hop 0 outside of any step",
        "step_0: hal_step(0); => ",
    ),
    "kernel_between_graphs": (
        "order",
        "a kernel runs outside of any step",
        "main: hal_read(W, 64); => call(W, W, W, 16);",
    ),
    "ends_inside_step": (
        "order",
        "the program ends where HAL_NO_STEP, the end of graph 'pass' in pass 0 of 2, is due",
        "one_pass: hal_step(HAL_NO_STEP); => hal_exit(0);",
    ),
    "last_tile_other_part": (
        "argument",
        "operand 'a' of kernel call 3, of tile i=48+14, is to be 'x_l1' part 1 + 0",
        "step_0: call(X_L1(p), X_L1(p), => call(X_L1(t == 3 ? 0 : p), X_L1(t == 3 ? 0 : p),",
    ),
    "reads_empty_part": (
        "argument",
        "operand 'b' of kernel call 0, of tile k=0+16, is to be 'u_l1' + 0",
        "step_2: call(U_L1, U_L1, => call(U_L1, V_L1,",
    ),
    "ingress_to_other_part": (
        "trace",
        "is to move 64 B at L2 + 0x50 and L1 + 0xa0, found 64 B at L2 + 0x50 and L1 + 0x60",
        "step_0: if (t < 3) in[1 - p] = hal_dma_in_1d(0, X_L1(1 - p), => "
        "hal_dma_wait(in[p]); in[p] = HAL_DONE; if (t < 3) in[1 - p] = hal_dma_in_1d(0, X_L1(p),",
    ),
    "written_not_sent": (
        "trace",
        "the step ends without transfer 3 of operand 'y' out through hop 0, of tile i=48+14",
        "step_0: out[p] = hal_dma_out_1d => out[p] = HAL_DONE; if (t < 3) out[p] = hal_dma_out_1d",
    ),
    "empty_over_unread": (
        "trace",
        "found 0 B and L1 + 0x60",
        "step_0: hal_dma_in_1d(0, X_L1(0), X, size(0)); => hal_dma_in_1d(0, X_L1(0), X, size(0)); "
        "hal_dma_wait(in[0]); in[0] = hal_dma_in_1d(0, X_L1(0), X, 0);",
    ),
    "empty_in_flight": (
        "forgotten-wait",
        "an empty transfer takes the place of ticket 1",
        "step_0: hal_dma_in_1d(0, X_L1(0), X, size(0)); => hal_dma_in_1d(0, X_L1(0), X, size(0)); "
        "hal_dma_in_2d(0, X_L1(0), X, 4, 0, 8);",
    ),
    "empty_elsewhere": (
        "outside-buffer",
        "an empty transfer through hop 0 has no slot",
        "step_1: hal_step(1); => hal_step(1); hal_dma_in_3d(0, W, Y, 4, 2, 8, 0, 32);",
    ),
    "staged_source_shifted": (
        "trace",
        "is to move 64 B at L2 + 0x10 and L1 + 0x60, found 64 B at L2 + 0x14",
        "step_2: U_L2(o) + t * 64, 64 => U_L2(o) + t * 64 + 4 * (t == 0), 64",
    ),
    "staged_from_other_slot": (
        "trace",
        "is to move 64 B at L2 + 0x10 and L1 + 0x60, found 64 B at L2 + 0x110",
        "step_2: U_L2(o) + t * 64, 64 => V_L2(o) + t * 64, 64",
    ),
    "call_before_ingress": (
        "swapped-slot",
        "kernel call 0 reads box 1 of operand 'a' from part 0 of 'u_l1', which nobody filled in this step",
        "step_2: hal_dma_wait(hal_dma_in_1d(0, U_L1, U_L2(o) + t * 64, 64)); => ",
    ),
    "call_on_tile_before": (
        "swapped-slot",
        "kernel call 1 reads box 2 of operand 'a' from part 0 of 'u_l1', which holds box 1",
        "step_2: hal_dma_wait(hal_dma_in_1d(0, U_L1, => if (t == 0) hal_dma_wait(hal_dma_in_1d(0, U_L1,",
    ),
    "ingress_over_needed": (
        "swapped-slot",
        "overwrites box 1 in part 0 of 'u_l1', which is still needed",
        "step_2: call(U_L1, U_L1, => hal_dma_wait(hal_dma_in_1d(0, U_L1, U_L2(o) + 64, 64)); call(U_L1, U_L1,",
    ),
    "call_over_unsent": (
        "swapped-slot",
        "kernel call 1 overwrites box 1 in part 0 of 'v_l1', which was never sent out",
        "step_2: hal_dma_wait(hal_dma_out_1d(0, V_L2(o) + t * 64, V_L1, 64)); => ",
    ),
    "egress_before_call": (
        "stale-egress",
        "sends box 1 from part 0 of 'y_l1', which holds box 0",
        "step_0: hal_dma_wait(out[p]); => hal_dma_wait(out[p]); hal_dma_out_1d(0, Y + t * 64, Y_L1(p), size(t));",
    ),
    "egress_of_half_a_box": (
        "stale-egress",
        "sends box 1 from part 0 of 'y_l1', which is not finished",
        "map: NONE, 1, 0, 4, 1, axes_0}}; => NONE, 0, 0, 4, 1, axes_all}};",
        "step_0: size(t)); => t == 0 ? 248 : size(t));",
        'map: {"y_l1", HAL_SIM_SLOT, 0, 240, 128, 2 => {"y_l1", HAL_SIM_SLOT, 0, 240, 248, 1',
        "step_0: X_L1(p), Y_L1(p), => X_L1(p), Y_L1(0),",
    ),
    "stage_read_before_filled": (
        "swapped-slot",
        "reads box 1 from part 0 of 'u_l2', which nobody filled in this step",
        "step_2: hal_step(2); => hal_step(2); hal_dma_wait(hal_dma_in_1d(0, U_L1, U_L2(0), 64));",
    ),
    "stage_ingress_over_needed": (
        "swapped-slot",
        "overwrites box 1 in part 0 of 'u_l2', which is still needed",
        "header: 16 + 128 * (p)) => 16 + 0 * (p))",
        'map: {"u_l2", HAL_SIM_SLOT, 1, 16, 256, 2, => {"u_l2", HAL_SIM_SLOT, 1, 16, 128, 1,',
        "step_2: if (o < 1) in[1] = => if (o < 1) hal_dma_wait(in[0]), in[0] = HAL_DONE, in[1] =",
    ),
    "stage_over_unsent": (
        "swapped-slot",
        "overwrites box 1 in part 0 of 'v_l2', which was never sent out",
        "header: 272 + 128 * (p)) => 272 + 0 * (p))",
        'map: {"v_l2", HAL_SIM_SLOT, 1, 272, 256, 2, => {"v_l2", HAL_SIM_SLOT, 1, 272, 128, 1,',
        "step_2: out[o] = => out[o] = HAL_DONE; if (o > 0) out[o] =",
    ),
    "stage_egress_early": (
        "stale-egress",
        "sends box 1 from part 0 of 'v_l2', which holds box 0",
        "step_2: hal_dma_wait(in[o]); => hal_dma_wait(in[o]); hal_dma_out_1d(1, V + o * 128, V_L2(o), 128);",
    ),
    "stage_egress_of_half": (
        "stale-egress",
        "sends box 1 from part 0 of 'v_l2', which is not finished",
        "step_2: hal_dma_wait(hal_dma_out_1d(0, V_L2(o) + t * 64, V_L1, 64)); => "
        "hal_dma_wait(hal_dma_out_1d(0, V_L2(o) + t * 64, V_L1, 64)); hal_dma_out_1d(1, V, V_L2(0), 128);",
    ),
    "accumulator_without_ingress": (
        "swapped-slot",
        "kernel call 0 reads box 1 of operand 'y' from part 0 of 'y_l1', which nobody filled in this step",
        "map: offsetof(add_args_t, y), 1, 0, 1, 0, 1, 7 => offsetof(add_args_t, y), 1, 1, 1, 1, 1, 7",
        "map: graphs, 1, 2, 1, 8 => graphs, 1, 2, 2, 8",
    ),
}
