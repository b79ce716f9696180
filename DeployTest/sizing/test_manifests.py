"""Descriptions of a library for build tools, by the rules of their formats; sources with the tools' usual flags."""

import importlib.util
import json
import os
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from packaging.version import Version

from deployer.firmware.sources import library_rules
from deployer.sizing.boards import core_of
from DeployTest.firmware import nets
from DeployTest.firmware.test_library import packaged, ran
from DeployTest.targets.simulators import needs_core

pytestmark = [pytest.mark.host]
KINDS = ("trains", "predicts")
CATEGORIES = {"doc", "include", "header", "source"}
SEMANTIC = re.compile(r"\d+\.\d+\.\d+")
TYPICAL = ("-Wall", "-Wextra", "-Werror", "-ffunction-sections", "-fdata-sections")


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A library that trains, and one that only predicts."""
    root = tmp_path_factory.mktemp("libraries")
    case = nets.dense_case(root / "case")
    [model] = case.parent.glob("*.onnx")
    return {"trains": packaged("net", case, root / "trains"), "predicts": packaged("net", model, root / "predicts")}


def pairs(path: Path, separator: str) -> dict[str, str]:
    """Keys and values of a file with one of each on a line."""
    lines = [line for line in path.read_text().splitlines() if line]
    assert all(separator in line for line in lines)
    return dict(line.split(separator, 1) for line in lines)


@pytest.mark.parametrize("kind", KINDS)
def test_platformio(kind: str, libraries: dict[str, Path]) -> None:
    """Required keys are there, of their types and lengths; folders and header exist."""
    folder = libraries[kind]
    manifest = json.loads((folder / "library.json").read_text())
    assert {"name", "version", "description", "keywords"} <= {*manifest}
    assert len(manifest["name"]) <= 50
    assert not re.search(r"[:;/,@<>]", manifest["name"])
    assert SEMANTIC.fullmatch(manifest["version"])
    assert len(manifest["version"]) <= 20
    assert 0 < len(manifest["description"]) <= 255
    assert ("Training" in manifest["description"]) == (kind == "trains")
    assert manifest["keywords"]
    assert all(0 < len(word) <= 255 and "," not in word for word in manifest["keywords"])
    assert manifest["license"] == "Apache-2.0"
    assert {*manifest} <= {
        *("name", "version", "description", "keywords", "license", "headers", "frameworks", "platforms", "build")
    }
    assert {*manifest["build"]} <= {"includeDir", "srcDir", "flags"}
    assert (folder / manifest["build"]["includeDir"] / manifest["headers"]).is_file()
    assert (folder / manifest["build"]["srcDir"]).is_dir()
    assert manifest["build"]["flags"] == [*library_rules().flags]


@pytest.mark.parametrize("kind", KINDS)
def test_arduino(kind: str, libraries: dict[str, Path]) -> None:
    """Required properties are there, the included header lies beside sources, and the category is one of its."""
    folder = libraries[kind]
    found = pairs(folder / "library.properties", "=")
    needed = ("name", "version", "author", "maintainer", "sentence", "paragraph", "category", "architectures")
    assert all(found[key] for key in needed)
    assert re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9 _.-]{0,62}", found["name"])
    assert SEMANTIC.fullmatch(found["version"])
    assert found["category"] == "Data Processing"
    assert (folder / "src" / found["includes"]).is_file()


@pytest.mark.parametrize("kind", KINDS)
def test_esp_idf(kind: str, libraries: dict[str, Path]) -> None:
    """The component's manifest has keys of its format alone, and a version by its rules."""
    found = pairs(libraries[kind] / "idf_component.yml", ": ")
    assert {*found} == {"version", "description", "license"}
    assert SEMANTIC.fullmatch(found["version"].strip('"'))
    assert found["license"] == "Apache-2.0"
    assert not re.search(r": |#|^[\[{&*!|>%@`'\"]", found["description"])


@pytest.mark.parametrize("kind", KINDS)
def test_zephyr(kind: str, libraries: dict[str, Path]) -> None:
    """The module's file names folders that exist, by keys of its format."""
    folder = libraries[kind]
    lines = (folder / "zephyr/module.yml").read_text().splitlines()
    assert lines == ["name: net", "build:", "  cmake: zephyr", "  kconfig: zephyr/Kconfig"]
    assert (folder / "zephyr/CMakeLists.txt").is_file()
    assert (folder / "zephyr/Kconfig").is_file()


@pytest.mark.parametrize("kind", KINDS)
def test_cmsis_pack(kind: str, libraries: dict[str, Path]) -> None:
    """The description is named by vendor and name, has what is required, and lists all sources and no other file."""
    folder = libraries[kind]
    [path] = folder.glob("*.pdsc")
    package = ElementTree.parse(path).getroot()
    vendor, name = (package.findtext(key) or "" for key in ("vendor", "name"))
    assert path.name == f"{vendor}.{name}.pdsc"
    assert all(re.fullmatch(r"[-_A-Za-z0-9]+", text) for text in (vendor, name))
    assert package.findtext("description")
    assert package.find("url") is not None
    assert (folder / (package.findtext("license") or "")).is_file()
    [release] = package.findall("releases/release")
    assert Version(release.attrib["version"]).release
    assert SEMANTIC.fullmatch(release.attrib["version"])
    [component] = package.findall("components/component")
    assert {"Cclass", "Cgroup", "Cversion"} <= {*component.attrib}
    assert all(2 <= len(component.attrib[key]) <= 32 for key in ("Cclass", "Cgroup"))
    assert len(component.attrib["Csub"]) <= 32
    files = [file.attrib for file in component.findall("files/file")]
    assert {file["category"] for file in files} == CATEGORIES
    assert all((folder / file["name"]).exists() for file in files)
    sources = sorted(file["name"] for file in files if file["category"] == "source")
    assert sources == sorted(str(source.relative_to(folder)) for source in folder.glob("src/*.c"))


@pytest.mark.parametrize("kind", KINDS)
def test_cmsis_pack_by_its_schema(kind: str, libraries: dict[str, Path]) -> None:
    """PACK.xsd itself accepts the description."""
    schema = os.environ.get("PACK_XSD", "")
    if not schema or importlib.util.find_spec("xmlschema") is None:
        pytest.skip("PACK_XSD names no schema of CMSIS packs, or the package xmlschema is not installed")
    xmlschema = importlib.import_module("xmlschema")
    [path] = libraries[kind].glob("*.pdsc")
    xmlschema.validate(path, schema)


@pytest.mark.parametrize("standard", ["gnu11", "gnu17"])
@pytest.mark.parametrize("kind", KINDS)
def test_typical_flags(kind: str, standard: str, libraries: dict[str, Path], tmp_path: Path) -> None:
    """Sources have no warning as the tools compile them; C++ takes the header."""
    folder = libraries[kind]
    flags = [f"-std={standard}", "-Os", *TYPICAL, *library_rules().flags, f"-I{folder}/include"]
    for source in sorted(folder.glob("src/*.c")):
        ran("gcc", *flags, "-c", source, "-o", tmp_path / f"{source.stem}.o")
    (tmp_path / "main.cpp").write_text(
        "#include <net.h>\nstatic net_t model;\nint main() { return net_init(&model); }\n"
    )
    dialect = "-std=gnu++11" if standard == "gnu11" else "-std=gnu++17"
    ran("g++", dialect, *TYPICAL, f"-I{folder}/include", "-c", tmp_path / "main.cpp", "-o", tmp_path / "main.o")
    ran("g++", *sorted(tmp_path.glob("*.o")), "-Wl,--gc-sections", "-lm", "-o", tmp_path / "main")
    ran(tmp_path / "main")


@pytest.mark.cortex_m
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("core", ["cortex-m4", "cortex-m0plus"])
def test_typical_flags_for_a_core(core: str, kind: str, libraries: dict[str, Path], tmp_path: Path) -> None:
    """Nor has the compiler for a Cortex-M, with newlib's smaller library."""
    needs_core(core)
    folder, machine = libraries[kind], core_of(core)
    flags = ["-std=gnu17", "-Os", *TYPICAL, *machine.flags, *library_rules().flags, "--specs=nano.specs"]
    for source in sorted(folder.glob("src/*.c")):
        ran(machine.compiler, *flags, f"-I{folder}/include", "-c", source, "-o", tmp_path / f"{source.stem}.o")
