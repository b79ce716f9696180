version: "${v.version}"
description: ${v.purpose} of ${v.name} in C11, without heap and stdio
license: Apache-2.0
