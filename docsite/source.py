"""Writes the source of the site. Links in the copied pages lead to pages of the site."""

import os
import re
import shutil
from pathlib import Path

from docsite.pages import (
    DECISIONS,
    HOME,
    ROOT,
    all_pages,
    outside_blocks,
    page_text,
    purpose,
    sections,
    site_name,
    title,
)

_LINK = re.compile(r"(\]\()([^)\s#]*)(#[^)\s]*)?(\))")


def write_source(folder: Path) -> None:
    """Write all pages, and the files that they link to, into a new folder."""
    shutil.rmtree(folder, ignore_errors=True)
    texts = {page: page_text(page) for page in all_pages()}
    for page, text in texts.items():
        file = folder / site_name(page)
        file.parent.mkdir(parents=True, exist_ok=True)
        more = {HOME: _contents, DECISIONS: _decisions}.get(page, str)()
        file.write_text(_relink(text, page, folder) + more, "utf-8")
    (folder / "llms.txt").write_text(_llms(texts), "utf-8")


def _relink(text: str, page: Path, folder: Path) -> str:
    def relink(match: re.Match[str]) -> str:
        opening, target, anchor, closing = match.groups(default="")
        if not target or ":" in target:
            return match[0]
        path = Path(os.path.normpath(page.parent / target))
        here = site_name(page).parent
        return f"{opening}{os.path.relpath(_copied(path, folder), here)}{anchor}{closing}"

    return "".join(
        _LINK.sub(relink, part) if outside else part for outside, part in outside_blocks(text)
    )


def _copied(path: Path, folder: Path) -> Path:
    """Return the path of a page or file in the site. Copies a file there."""
    if path in all_pages():
        return site_name(path)
    if not (ROOT / path).is_file():
        raise SystemExit(f"A page links to {path}, which is not a file")
    target = path.relative_to("docs") if path.is_relative_to("docs/images") else "files" / path
    (folder / target).parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(ROOT / path, folder / target)
    return target


def _contents() -> str:
    return "".join(
        _toctree(section.title, [str(site_name(page).with_suffix("")) for page in section.pages])
        for section in sections()
    )


def _decisions() -> str:
    return _toctree("", ["decisions/0*"], "glob")


def _toctree(caption: str, names: list[str], *flags: str) -> str:
    options = ["hidden", *flags, *([f"caption: {caption}"] if caption else [])]
    head = [f":{option}" if ":" in option else f":{option}:" for option in options]
    return "\n".join(["\n```{toctree}", *head, "", *names, "```\n"])


def _llms(texts: dict[Path, str]) -> str:
    """Return an index of the site for language models: every page of the navigation, and its
    purpose.
    """
    lines = [f"# {title(texts[HOME])}", "", f"> {purpose(texts[HOME])}"]
    for section in sections():
        lines += ["", f"## {section.title}", ""]
        lines += [
            f"- [{title(texts[page])}]({site_name(page)}): {purpose(texts[page])}"
            for page in section.pages
        ]
    return "\n".join(lines) + "\n"
