"""Reasons why core operators of ATen have no lowering, and what to do instead."""

from collections.abc import Mapping, Sequence

_REASONS: Mapping[tuple[str, str], Sequence[str]] = {
    (
        "the shape of its result depends on the values of its inputs, and every tensor has a place and a size here",
        "a mask of the same shape, and torch.where",
    ): ("nonzero", "masked_select", "_unique", "_unique2", "unique_dim", "unique_consecutive", "repeat_interleave"),
    (
        "it makes a Python number of a tensor, which is not known before the program runs",
        "a number in the module, or tensors throughout",
    ): ("_local_scalar_dense", "item", "equal"),
    (
        "it changes the memory of a tensor, and a step has no memory of its own while it is traced",
        "a new tensor in the module",
    ): ("resize_",),
    (
        "it computes with complex numbers, and numbers are float32 here",
        "real and imaginary parts, or a matrix product with sines and cosines",
    ): ("_fft_r2c", "_fft_c2r", "_fft_c2c", "view_as_real", "view_as_complex", "_conj", "complex", "polar"),
    (
        "it decomposes a matrix or solves equations, for which there is no kernel",
        "the decomposition as data, or a few steps of an iteration in the module",
    ): (
        *("cholesky", "cholesky_inverse", "cholesky_solve", "triangular_solve", "lu_unpack", "geqrf", "ormqr"),
        *("linalg_cholesky_ex", "linalg_eig", "_linalg_eigh", "linalg_householder_product", "linalg_inv_ex"),
        *("linalg_ldl_factor_ex", "linalg_ldl_solve", "linalg_lstsq", "linalg_lu", "linalg_lu_factor_ex"),
        *("linalg_lu_solve", "linalg_matrix_exp", "linalg_pinv", "linalg_qr", "_linalg_det", "_linalg_slogdet"),
        *("_linalg_solve_ex", "_linalg_svd"),
    ),
    (
        "its memory is sparse, and tensors are dense here",
        "to_dense() in the module",
    ): ("_to_sparse", "_to_dense", "sparse_mask", "sparse_sampled_addmm", "_sparse_sum"),
    (
        "it is a special function that no kernel computes",
        "an approximation in the module",
    ): ("polygamma", "digamma", "lgamma", "erf_inv", "erfcx", "ndtri", "bessel_i0", "bessel_i1", "bessel_i0e",
        "bessel_i1e"),
}  # fmt: skip
ABSENT: Mapping[str, tuple[str, str]] = {name: why for why, names in _REASONS.items() for name in names}
"""Reason and way out by operator, without namespace."""
SYMBOLIC = "it is of sizes that are not known, and all are known while a step is traced"
"""Reason why operators whose names begin with `sym_` are never met."""
