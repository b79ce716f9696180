"""C integer expressions with constants folded, so that generated code shows only what varies."""

Expr = int | str


def add(*terms: Expr) -> Expr:
    """Sum; zeros vanish, constants gather at the end."""
    constant = sum(t for t in terms if isinstance(t, int))
    parts = [t for t in terms if isinstance(t, str)]
    if constant or not parts:
        parts.append(str(constant))
    return int(parts[0]) if len(parts) == 1 and parts[0].isdigit() else " + ".join(parts)


def mul(*factors: Expr) -> Expr:
    """Product; ones vanish, a zero wins, sums are bracketed, the constants gather at the end."""
    constant = 1
    parts: list[str] = []
    for factor in factors:
        if isinstance(factor, int):
            constant *= factor
        elif " + " in factor:
            parts.append(f"({factor})")
        else:
            *names, last = factor.split(" * ")
            parts += names if last.isdigit() else [factor]
            constant *= int(last) if last.isdigit() else 1
    if constant == 0 or not parts:
        return constant
    if constant != 1:
        parts.append(str(constant))
    return " * ".join(parts)


def product(factors: list[Expr]) -> Expr:
    """Product of a list; 1 when empty."""
    return mul(*factors)


def sub(value: Expr, less: Expr) -> Expr:
    """Difference; equal terms and zeros vanish."""
    if value == less:
        return 0
    if isinstance(value, int) and isinstance(less, int):
        return value - less
    if less == 0:
        return value
    return f"({value} - {f'({less})' if isinstance(less, str) and ' + ' in less else less})"
