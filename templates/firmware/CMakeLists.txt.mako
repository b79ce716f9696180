# ${v.provenance}
if(ESP_PLATFORM) # a component of ESP-IDF
    idf_component_register(
        SRCS
% for name in v.sources:
            src/${name}.c
% endfor
        INCLUDE_DIRS include
    )
    target_compile_options(<%text>${COMPONENT_LIB}</%text> PRIVATE ${v.flags})
    return()
endif()

cmake_minimum_required(VERSION 3.13)
project(${v.name} LANGUAGES C)
string(COMPARE EQUAL "<%text>${CMAKE_SOURCE_DIR}" "${CMAKE_CURRENT_SOURCE_DIR}</%text>" ${v.upper}_IS_TOP) # not within another project

add_library(${v.name} STATIC
% for name in v.sources:
    src/${name}.c
% endfor
)
add_library(${v.name}::${v.name} ALIAS ${v.name})
set_target_properties(${v.name} PROPERTIES C_STANDARD ${v.standard} C_STANDARD_REQUIRED ON C_EXTENSIONS OFF)
target_include_directories(${v.name} PUBLIC <%text>$<BUILD_INTERFACE:${CMAKE_CURRENT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:include></%text>)
# Without these flags a compiler may round differently, and results are not bit-identical.
target_compile_options(${v.name} PRIVATE ${v.flags})
if(UNIX)
    target_link_libraries(${v.name} PUBLIC ${v.linked})
endif()

option(${v.upper}_EXAMPLE "build the example" <%text>${</%text>${v.upper}_IS_TOP<%text>}</%text>)
if(${v.upper}_EXAMPLE)
    add_executable(${v.name}_example examples/main.c)
    set_target_properties(${v.name}_example PROPERTIES C_STANDARD ${v.standard} C_STANDARD_REQUIRED ON C_EXTENSIONS OFF)
    target_link_libraries(${v.name}_example PRIVATE ${v.name})
endif()

% for _ in v.python:
# The shared library of ${v.name}.py, which is looked for in the folder build beside it: cmake --build build --target ${v.name}_shared
include(CheckCCompilerFlag)
check_c_compiler_flag(${v.native_flag} ${v.upper}_NATIVE)
add_library(${v.name}_shared SHARED EXCLUDE_FROM_ALL
% for path in v.shared_sources:
    ${path}.c
% endfor
)
set_target_properties(${v.name}_shared PROPERTIES C_STANDARD ${v.standard} C_STANDARD_REQUIRED ON C_EXTENSIONS OFF
    OUTPUT_NAME ${v.name} PREFIX lib SUFFIX .so ARCHIVE_OUTPUT_NAME ${v.name}_shared WINDOWS_EXPORT_ALL_SYMBOLS ON)
target_include_directories(${v.name}_shared PRIVATE include src)
target_compile_options(${v.name}_shared PRIVATE ${v.shared_flags} ${v.flags} <%text>$<$<BOOL:${</%text>${v.upper}_NATIVE<%text>}>:</%text>${v.native_flag}>)
if(UNIX)
    target_link_libraries(${v.name}_shared PRIVATE ${v.linked})
endif()

% endfor
install(TARGETS ${v.name} EXPORT ${v.name}-targets ARCHIVE DESTINATION lib)
install(FILES include/${v.name}.h DESTINATION include)
install(EXPORT ${v.name}-targets FILE ${v.name}-config.cmake NAMESPACE ${v.name}:: DESTINATION lib/cmake/${v.name})
