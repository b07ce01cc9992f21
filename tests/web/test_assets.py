"""Static files: whatever a template or a module names exists."""

import re
from pathlib import Path

import penstock.web

WEB = Path(penstock.web.__file__).parent
STATIC = WEB / "static"
MODULES = [path for path in sorted(STATIC.rglob("*.js")) if "vendor" not in path.parts]


def test_every_asset_of_a_template_exists() -> None:
    named = {
        name
        for template in (WEB / "templates").rglob("*.html")
        for name in re.findall(r'asset\("([^"]+)"\)', template.read_text("utf-8"))
    }
    assert named
    assert [name for name in sorted(named) if not (STATIC / name).is_file()] == []


def test_every_import_of_a_module_exists() -> None:
    imported = [
        (module, name)
        for module in MODULES
        for name in re.findall(
            r'(?:from|^import) "(\.[^"]+)"', module.read_text("utf-8"), re.MULTILINE
        )
    ]
    assert [
        f"{module.name}: {name}"
        for module, name in imported
        if not (module.parent / name).is_file()
    ] == []
