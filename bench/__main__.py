"""`make bench`: runs all measurements and writes `bench/results.md`."""

import os
import platform
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench import export, funnel, intake, pages, redirects
from bench.rounds import Compared, told_rounds

RESULTS = Path(__file__).with_name("results.md")


def main() -> None:
    text = "\n".join(
        [
            *heading(),
            *told_funnel(funnel.run()),
            *told_export(export.run()),
            *told_intake(intake.run()),
            *told_redirects(redirects.run()),
            *told_pages(pages.run()),
        ]
    )
    RESULTS.write_text(text + "\n", encoding="utf-8")
    print(text)


def heading() -> list[str]:
    today = datetime.now(UTC).date()
    return [
        "# Measurements",
        "",
        f"Made by `make bench` on {today}: {os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}.",
        "Times of one run compare with each other, not with another run's.",
        "",
    ]


def told_funnel(figures: dict[str, Any]) -> list[str]:
    seconds: dict[str, float] = figures["seconds"]
    ours = seconds[next(iter(funnel.FUNNELS))]
    return [
        "## A six-step funnel",
        "",
        f"{figures['events']:,} events, {figures['step_events']:,} of them of a step, {figures['attempts']:,} attempts, in chDB. "
        "Least time of each in turn; a report counts every field, with the query for coverage.",
        "",
        "| what | seconds | three breakdowns take |",
        "|---|---:|---:|",
        *(f"| report: {name} | {seconds[name]:.2f} | {ours / seconds[name]:.2f} x |" for name in funnel.FUNNELS),
        *(f"| {name} | {value:.2f} | {ours / value:.2f} x |" for name, value in seconds.items() if name not in funnel.FUNNELS),
        "",
        f"Memory of the process after the first report: {figures['memory_gb']:.2f} GB at its peak.",
        "What dominates, each stage with those before it:",
        "",
        "| stage | seconds |",
        "|---|---:|",
        *(f"| {name} | {value:.2f} |" for name, value in figures["parts"].items()),
        "",
    ]


def told_export(figures: dict[str, Any]) -> list[str]:
    return [
        "## An export",
        "",
        f"The report of {figures['attempts']:,} attempts in {export.COHORTS:,} cohorts as a file, each format in a process of its own.",
        "",
        "| format | seconds | file, MB | peak memory, GB | of it before |",
        "|---|---:|---:|---:|---:|",
        *(
            f"| {name} | {row['seconds']:.1f} | {row['megabytes']:.1f} | {row['peak_gb']:.2f} | {row['before_gb']:.2f} |"
            for name, row in figures["formats"].items()
        ),
        "",
    ]


def told_intake(figures: Compared) -> list[str]:
    names = {"empty": "the framework's empty handler", "durable": "an event, on disk when answered"}
    return ["## Single events, answered durably", "", *told_rounds(figures, names, bare="empty", target=intake.TARGET)]


def told_redirects(figures: Compared) -> list[str]:
    names = {"nginx": "nginx, `return 302`", "bare": "the framework's bare 302", "penstock": "a managed link, with its click kept"}
    return ["## Redirects", "", *told_rounds(figures, names, bare="bare", target=redirects.TARGET)]


def told_pages(figures: dict[str, Any]) -> list[str]:
    return [
        "## Pages of the dashboard",
        "",
        f"On the demo data, warm, each {figures['rounds']} times. A part that a page loads by itself stands after it, one row each. "
        "Statements to each store are those of one request, where a report that still holds is not asked again. KB are sent, compressed, "
        "without the files that browsers keep.",
        "",
        "| page | median, ms | slowest, ms | metadata DB, statements | warehouse, statements | KB |",
        "|---|---:|---:|---:|---:|---:|",
        *(
            f"| {page['name']} | {page['median_ms']:.1f} | {page['slowest_ms']:.1f} | {page['metadb']} | {page['warehouse']} "
            f"| {page['bytes'] / 1000:.1f} |"
            for page in figures["pages"]
        ),
        "",
    ]


if __name__ == "__main__":
    main()
