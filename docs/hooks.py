"""Builds the parts of the site that follow from the repository itself.

The navigation lists the pages that exist. Generated pages: an index of the names of each package
with a page per name, a page per example, the map from claims to tests, the figures of the studies,
the results of the benchmarks, contributing, security and changelog. In written pages,
`<!-- generated: NAME -->` is replaced by a table, and what stands between `<!-- only: AREA -->` and
`<!-- end -->` is kept only if that area is part of the library.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

sys.path.insert(0, str(Path(__file__).parents[1] / "src"))
sys.path.insert(0, str(Path(__file__).parent))

import pages
import reference
import speed
import versions
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Build the navigation."""
    docs = Path(config.docs_dir)
    written = {path.stem for path in (docs / "areas").glob("*.md")}
    areas = sorted(written, key=lambda name: (_place(name), name))
    config.nav = [
        {
            "Home": [
                "index.md",
                {"Start here": "start.md"},
                {"Getting started": "getting-started.md"},
            ]
        },
        {
            "Tutorials": [
                {"A data scientist with a table": "tutorials/data-scientist.md"},
                {"A Flower engineer": "tutorials/flower-engineer.md"},
                {"A coordinator of a campaign": "tutorials/coordinator.md"},
                {"A researcher": "tutorials/researcher.md"},
            ]
        },
        {"Guides": [{_short(name): f"areas/{name}.md"} for name in areas]},
        {
            "Tools": [
                {"The audit": "audit.md"},
                {"The studio": "studio.md"},
                {"Operating the studio": "studio-operating.md"},
                {"Bring your table": "tables.md"},
                {"Sessions that prove themselves": "verify.md"},
                {"Data sets": "data.md"},
                {"Studies and reports": "studies.md"},
                {"Figures of the studies": "gallery.md"},
            ]
        },
        {"Examples": "examples.md"},
        {
            "Theory": [
                "theory/index.md",
                *({pages.chapter_title(path): f"theory/{path.name}"} for path in pages.chapters()),
                {"From theorem to code": "claims.md"},
                {"Literature": "theory/literature.md"},
                {"Glossary": "glossary.md"},
            ]
        },
        {
            "Reference": [
                "api/index.md",
                *({name: f"api/{name}/index.md"} for name in reference.api_packages()),
            ]
        },
        {
            "Project": [
                {"Other libraries": "comparison.md"},
                {"Speed and quality": "speed.md"},
                {"Extending": "extending.md"},
                {"Contributing": "contributing.md"},
                {"Security": "security.md"},
                {"Changelog": "changelog.md"},
            ]
        },
    ]
    if not areas:
        config.nav = [entry for entry in config.nav if "Guides" not in entry]
    return config


def _place(name: str) -> int:
    """Return the place of a guide: after the guide of the area whose name it begins with."""
    order = list(pages.SITUATIONS)
    area = name.split("-")[0]
    return order.index(area) if area in order else len(order)


def _short(name: str) -> str:
    """Return the name of a guide in the navigation: ``Strategic: Graphs``."""
    area, _, part = name.partition("-")
    return f"{area.capitalize()}: {part.capitalize()}" if part else area.capitalize()


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages and the figures of the gallery."""
    for uri, content in {**pages.generated(), "speed.md": speed.speed_page()}.items():
        files.append(File.generated(config, uri, content=content))
    if picture := speed.growth_picture():
        files.append(File.generated(config, speed.PICTURE, content=picture))
    for uri, path in pages.figures().items():
        if files.get_file_from_path(uri) is None:  # else it is kept in the repository
            files.append(File.generated(config, uri, abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Fill in tables, leave out sections of areas that do not exist, say where a search leads.

    There are a thousand pages of single names: among pages that have a word, guides come first.
    """
    named = page.file.src_uri.split("/")
    page.meta["search"] = {"boost": 0.3 if named[0] == "api" and len(named) > 2 else 1}
    return pages.fill(markdown)


def on_page_content(html: str, page: Page, **_: Any) -> str:
    """Wrap printed sentences; turn the few reStructuredText habits of docstrings into HTML."""
    html = pages.wrapped(html)
    if not page.file.src_uri.startswith("api/"):
        return html
    html = re.sub(r":(?:class|func|meth|mod|attr|exc|data):(<code>)(?:~[\w.]*\.)?", r"\1", html)
    html = reference.public_signature(html)
    root = "../" * page.url.count("/")
    return reference.linked(html.replace("::</p>", ":</p>"), root)


def on_post_template(output: str, template_name: str, config: MkDocsConfig) -> str:
    """Lead from the page of a wrong address, which is served anywhere, into this version."""
    if template_name != "404.html":
        return output
    root = urlsplit(config.site_url or f"/{versions.current_version()}/").path
    told = (
        "<h1>This page does not exist</h1><p>Perhaps it does in another version. "
        f'Search for it, or begin with <a href="{root}start/">Start here</a>.</p>'
    )
    if not config.site_url:  # else the theme has led there already
        output = pages.below(output, root)
    return re.sub("<h1>404.*?</h1>", told, output)


def on_post_page(output: str, page: Page, **_: Any) -> str:
    """Let long names break at their dots and underscores; after the search index was made."""
    return pages.breakable(output)
