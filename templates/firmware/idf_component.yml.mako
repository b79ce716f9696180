version: "${v.version}"
description: Training and prediction of ${v.name} in C11, without heap and stdio
license: Apache-2.0
