name: ${v.name}
build:
  cmake: zephyr
  kconfig: zephyr/Kconfig
