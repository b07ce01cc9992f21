"""Settings for Sphinx."""

from pathlib import Path
from typing import Any

from pygments.lexers.special import TextLexer
from sphinx.highlighting import lexers

from penstock import __version__

project = "Penstock"
author = "The Penstock authors"
version = release = __version__
extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["files"]
nitpicky = True
smartquotes = False

myst_heading_anchors = 4

html_theme = "furo"
html_title = f"Penstock {version}"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_search_scorer = str(Path(__file__).with_name("scorer.js"))
html_favicon = "../src/penstock/web/static/icon.svg"
html_show_copyright = False
html_show_sphinx = False
html_copy_source = False
html_use_index = False
html_theme_options: dict[str, Any] = {
    "light_css_variables": {
        "font-stack": "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', sans-serif",
        "color-brand-primary": "#0b6477",
        "color-brand-content": "#0b6477",
        "color-brand-visited": "#0b6477",
    },
    "dark_css_variables": {
        "color-brand-primary": "#66c7da",
        "color-brand-content": "#66c7da",
        "color-brand-visited": "#66c7da",
    },
}

lexers["csv"] = TextLexer()
