/* ${v.provenance}
 *
 * Only the shared library has this source: ${v.name}.py asks of which sources it was built. */
const char *${v.name}_build(void);
const char *${v.name}_build(void) { return "${v.build}"; }
