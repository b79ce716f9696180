"""A library as other build systems have it: their files by format, and CMake with stubs of what the systems give."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from DeployTest.firmware import nets
from DeployTest.support.building.command_line import deployer

pytestmark = [pytest.mark.host, pytest.mark.training]
PROPERTIES = {"name", "version", "author", "maintainer", "sentence", "paragraph", "category", "url", "architectures"}
"""What Arduino's specification of libraries asks for."""
STUBS = {
    "esp": """function(idf_component_register)
    cmake_parse_arguments(A "" "" "SRCS;INCLUDE_DIRS" ${ARGN})
    add_library(component STATIC ${A_SRCS})
    target_include_directories(component PUBLIC ${A_INCLUDE_DIRS})
    set(COMPONENT_LIB component PARENT_SCOPE)
endfunction()
set(ESP_PLATFORM 1)
add_subdirectory(${LIBRARY} library)
""",
    "zephyr": """function(zephyr_library_named name)
    add_library(${name} STATIC)
    set(ZEPHYR_CURRENT_LIBRARY ${name} PARENT_SCOPE)
endfunction()
function(zephyr_library_sources)
    target_sources(${ZEPHYR_CURRENT_LIBRARY} PRIVATE ${ARGN})
endfunction()
function(zephyr_library_compile_options)
    target_compile_options(${ZEPHYR_CURRENT_LIBRARY} PRIVATE ${ARGN})
endfunction()
function(zephyr_include_directories)
    include_directories(${ARGN})
endfunction()
set(CONFIG_DENSE y)
add_subdirectory(${LIBRARY}/zephyr library)
""",
}
BEGIN = "cmake_minimum_required(VERSION 3.13)\nproject(stub C)\ncmake_policy(SET CMP0076 NEW)\n"


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library of the dense net."""
    folder = tmp_path_factory.mktemp("layouts")
    assert deployer("package", nets.dense_case(folder / "case"), "--name", "dense", "-o", folder / "dense") == 0
    return folder / "dense"


def test_formats(library: Path) -> None:
    """Names, versions and paths as the systems' descriptions ask for."""
    described = json.loads((library / "library.json").read_text())
    assert re.fullmatch(r"\d+\.\d+\.\d+", described["version"])
    assert described["name"] == "dense"
    assert (library / described["build"]["includeDir"] / described["headers"]).is_file()
    assert (library / described["build"]["srcDir"]).is_dir()
    lines = dict(line.split("=", 1) for line in (library / "library.properties").read_text().splitlines() if line)
    assert lines.keys() >= PROPERTIES
    module = (library / "zephyr/module.yml").read_text().splitlines()
    assert module == ["name: dense", "build:", "  cmake: zephyr", "  kconfig: zephyr/Kconfig"]
    assert (library / "zephyr/Kconfig").read_text().startswith('config DENSE\n\tbool "')
    component = dict(line.split(": ", 1) for line in (library / "idf_component.yml").read_text().splitlines())
    assert component.keys() == {"version", "description", "license"}


@pytest.mark.slow
@pytest.mark.parametrize("system", STUBS)
def test_built_with_stubs(system: str, library: Path, tmp_path: Path) -> None:
    """Each system's CMake builds all sources, with the flags that decide about the bits."""
    if shutil.which("cmake") is None:
        pytest.skip("not installed: cmake")
    (tmp_path / "CMakeLists.txt").write_text(BEGIN + STUBS[system])
    words = ["cmake", "-S", tmp_path, "-B", tmp_path / "build", f"-DLIBRARY={library}"]
    for command in (words, ["cmake", "--build", tmp_path / "build", "--verbose"]):
        run = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
        assert run.returncode == 0, run.stdout + run.stderr
    compiled = [line for line in run.stdout.splitlines() if re.search(r" -c \S+\.c$", line)]
    assert {Path(line.split()[-1]).name for line in compiled} == {path.name for path in library.glob("src/*.c")}
    assert all("-ffp-contract=off" in line for line in compiled)
