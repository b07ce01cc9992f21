"""`make bench`: runs all measurements and writes `bench/results.md`."""

import os
import platform
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench import export, funnel, intake, pages, redirects
from bench.rounds import Comparison, rounds_section

RESULTS = Path(__file__).with_name("results.md")


def main() -> None:
    text = "\n".join(
        [
            *heading(),
            *funnel_section(funnel.run()),
            *export_section(export.run()),
            *intake_section(intake.run()),
            *redirects_section(redirects.run()),
            *pages_section(pages.run()),
        ]
    )
    RESULTS.write_text(text + "\n", encoding="utf-8")
    print(text)


def heading() -> list[str]:
    today = datetime.now(UTC).date()
    return [
        "# Measurements",
        "",
        f"Written by `make bench` on {today}: {os.cpu_count()} cores, {platform.machine()}, "
        f"Python {platform.python_version()}.",
        "Compare times within one run, not with another run.",
        "",
    ]


def funnel_section(figures: dict[str, Any]) -> list[str]:
    seconds: dict[str, float] = figures["seconds"]
    ours = seconds[next(iter(funnel.FUNNELS))]
    return [
        "## A six-step funnel",
        "",
        f"{figures['events']:,} events, {figures['step_events']:,} of them step events, "
        f"{figures['attempts']:,} attempts, in chDB.",
        "Best time of each, in turn. A report computes every field and coverage.",
        "",
        "| query | seconds | three breakdowns take |",
        "|---|---:|---:|",
        *(
            f"| report: {name} | {seconds[name]:.2f} | {ours / seconds[name]:.2f} x |"
            for name in funnel.FUNNELS
        ),
        *(
            f"| {name} | {value:.2f} | {ours / value:.2f} x |"
            for name, value in seconds.items()
            if name not in funnel.FUNNELS
        ),
        "",
        f"Peak memory of the process after the first report: {figures['memory_gb']:.2f} GB.",
        "Cumulative time by stage:",
        "",
        "| stage | seconds |",
        "|---|---:|",
        *(f"| {name} | {value:.2f} |" for name, value in figures["parts"].items()),
        "",
        *outcomes_section(figures["outcomes"]),
    ]


def outcomes_section(figures: dict[str, Any]) -> list[str]:
    seconds: dict[str, float] = figures["seconds"]
    bare, direct = (
        seconds["bare windowFunnel, by the attempt's text"],
        seconds["direct report"],
    )
    return [
        "### Its stored outcomes",
        "",
        "The funnel with three breakdowns. A report after new events folds their attempts first.",
        f"On disk they take {figures['share_of_events']:.1%} of what the events take.",
        "",
        "| | seconds | of the bare `windowFunnel` | of the direct report |",
        "|---|---:|---:|---:|",
        *(
            f"| {name} | {value:.2f} | {value / bare:.2f} | {value / direct:.2f} |"
            for name, value in seconds.items()
        ),
        "",
    ]


def export_section(figures: dict[str, Any]) -> list[str]:
    return [
        "## An export",
        "",
        f"The report of {figures['attempts']:,} attempts in {export.COHORTS:,} cohorts as a file, "
        "each format in a process of its own.",
        "",
        "| format | seconds | file, MB | peak memory, GB | before the export, GB |",
        "|---|---:|---:|---:|---:|",
        *(
            f"| {name} | {row['seconds']:.1f} | {row['megabytes']:.1f} | {row['peak_gb']:.2f} "
            f"| {row['before_gb']:.2f} |"
            for name, row in figures["formats"].items()
        ),
        "",
    ]


def intake_section(figures: Comparison) -> list[str]:
    names = {
        "empty": "the framework's empty handler",
        "durable": "an event, on disk before the response",
    }
    return [
        "## Single events, stored durably",
        "",
        *rounds_section(figures, names, bare="empty", target=intake.TARGET),
    ]


def redirects_section(figures: Comparison) -> list[str]:
    names = {
        "nginx": "nginx, `return 302`",
        "bare": "the framework's plain 302",
        "penstock": "a managed link, with its click stored",
    }
    return [
        "## Redirects",
        "",
        *rounds_section(figures, names, bare="bare", target=redirects.TARGET),
    ]


def pages_section(figures: dict[str, Any]) -> list[str]:
    return [
        "## Pages of the dashboard",
        "",
        f"Demo data, warm, {figures['rounds']} requests each. Parts loaded with htmx "
        "have rows of their own.",
        "Statements are those of a repeated request, which may use cached reports. KB: compressed, "
        "without cached files.",
        "",
        "| page | median, ms | slowest, ms | metadata DB statements | warehouse statements | KB |",
        "|---|---:|---:|---:|---:|---:|",
        *(
            f"| {page['name']} | {page['median_ms']:.1f} | {page['slowest_ms']:.1f} "
            f"| {page['metadb']} | {page['warehouse']} | {page['bytes'] / 1000:.1f} |"
            for page in figures["pages"]
        ),
        "",
    ]


if __name__ == "__main__":
    main()
