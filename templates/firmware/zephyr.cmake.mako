# ${v.provenance}
if(CONFIG_${v.upper})
    zephyr_library_named(${v.name})
    zephyr_library_sources(
% for name in v.sources:
        ../src/${name}.c
% endfor
    )
    zephyr_library_compile_options(${v.flags})
    zephyr_include_directories(../include)
endif()
