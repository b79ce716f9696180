/* ${v.note} */
% for header in v.headers:
#include "${header}.h"
% endfor

void ${v.symbol}(const void *args) {
    const ${v.symbol}_args_t *p = args;
    const share_t share = share_of(p->n0 * p->n1 * p->n2 * p->n3);
% for name in v.settings:
    const float ${name} = p->${name};
% endfor
% for operand in v.operands:
    const uint32_t ${operand.name}3 = p->${operand.name}3;
% endfor
    for (uint32_t at = share.begin, run; at < share.end; at += run) {
        const uint32_t i012 = at / p->n3, i3 = at - i012 * p->n3, i01 = i012 / p->n2, i2 = i012 - i01 * p->n2;
        const uint32_t i0 = i01 / p->n1, i1 = i01 - i0 * p->n1;
% for operand in v.operands:
        const ${operand.type} *from_${operand.name} = p->${operand.name} + i0 * p->${operand.name}0 + i1 * p->${operand.name}1 \
+ i2 * p->${operand.name}2 + i3 * ${operand.name}3;
% endfor
        ${v.result.type} *to = p->${v.result.name} + i0 * p->${v.result.name}0 + i1 * p->${v.result.name}1 \
+ i2 * p->${v.result.name}2 + i3 * p->${v.result.name}3;
        run = p->n3 - i3 < share.end - at ? p->n3 - i3 : share.end - at;
        for (uint32_t i = 0; i < run; i++) {
% for operand in v.operands:
            const ${operand.type} ${operand.name} = from_${operand.name}[i * ${operand.name}3];
% endfor
% for line in v.statements:
            ${line};
% endfor
            to[i] = ${v.value};
        }
    }
}
