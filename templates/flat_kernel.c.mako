/* ${v.note} */
% for header in v.headers:
#include "${header}.h"
% endfor

void ${v.symbol}(const void *args) {
    const ${v.symbol}_args_t *p = args;
    const share_t share = share_of(p->n);
% for name in v.settings:
    const float ${name} = p->${name};
% endfor
% for line in v.pragmas:
#pragma ${line}
% endfor
    for (uint32_t i = share.begin; i < share.end; i++) {
% for operand in v.operands:
        const ${operand.type} ${operand.name} = p->${operand.name}[i];
% endfor
% for line in v.statements:
        ${line};
% endfor
        p->${v.result.name}[i] = ${v.value};
% for result, value in v.further:
        p->${result.name}[i] = ${value};
% endfor
    }
}
