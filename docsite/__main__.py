"""Builds the site without network access: `python -m docsite build/docs`. Any warning is a
failure.
"""

import shutil
import sys
from pathlib import Path

from sphinx.cmd.build import build_main

from docsite.pages import ROOT, all_pages, site_name
from docsite.source import write_source


def build(folder: Path) -> int:
    """Write the site's source, cache and pages into subfolders of a folder; the pages go into
    `html`. Returns an exit code.
    """
    source, site = folder / "source", folder / "html"
    write_source(source)
    shutil.rmtree(site, ignore_errors=True)
    flags = ["-b", "html", "-q", "-W", "--keep-going", "-c", str(ROOT / "docsite")]
    failed = build_main([*flags, "-d", str(folder / "cache"), str(source), str(site)])
    if not failed:
        shutil.copyfile(source / "llms.txt", site / "llms.txt")
        for page in map(site_name, all_pages()):
            shutil.copyfile(source / page, site / page)
    return failed


if __name__ == "__main__":
    target = Path(sys.argv[1]).resolve()
    exit_code = build(target)
    if not exit_code:
        print(f"Open {target / 'html/index.html'}")
    sys.exit(exit_code)
