"""Documentation that is tested: every setting is told, with its true default."""

from pathlib import Path

from pydantic_core import PydanticUndefined

from penstock.settings import Settings

DOCS = Path(__file__).parent.parent / "docs"


def test_every_setting_is_documented_with_its_default():
    told = (DOCS / "settings.md").read_text("utf-8").splitlines()
    for name, field in Settings.model_fields.items():
        assert field.default is not PydanticUndefined
        default = "" if field.default is None else f"`{str(field.default).lower() if isinstance(field.default, bool) else field.default}`"
        row = f"| `PENSTOCK_{name.upper()}` | {default} | {field.description} |"
        assert row in told, f"docs/settings.md lacks this row:\n{row}"


def test_no_documented_setting_is_gone():
    told = [line.split("`")[1] for line in (DOCS / "settings.md").read_text("utf-8").splitlines() if line.startswith("| `PENSTOCK_")]
    known = {f"PENSTOCK_{name.upper()}" for name in Settings.model_fields} | {"PENSTOCK_URL", "PENSTOCK_API_KEY"}
    assert set(told) <= known
