"""Compare servers loaded in turn, by the median of the rounds: noise hits single rounds."""

from collections.abc import Mapping, Sequence
from statistics import median
from typing import NamedTuple

Round = Mapping[str, float]
"""`rate` in requests per second, `p50_ms` and `p99_ms`."""


class Comparison(NamedTuple):
    """Medians by server, and the ratios of our rate to the baseline's, round by round."""

    connections: int
    servers: Mapping[str, Round]
    ratios: Sequence[float]

    @property
    def ratio(self) -> float:
        return median(self.ratios)


def compare(
    rounds: Mapping[str, Sequence[Round]], connections: int, *, ours: str, bare: str
) -> Comparison:
    """rounds: by server. ours, bare: the servers that the ratios compare."""
    servers = {
        server: {
            name: median([figures[name] for figures in server_rounds])
            for name in ("rate", "p50_ms", "p99_ms")
        }
        for server, server_rounds in rounds.items()
    }
    return Comparison(
        connections,
        servers,
        [
            our_round["rate"] / bare_round["rate"]
            for our_round, bare_round in zip(rounds[ours], rounds[bare], strict=True)
        ],
    )


def rounds_section(
    figures: Comparison, names: Mapping[str, str], *, bare: str, target: float
) -> list[str]:
    """A table and the ratios, as Markdown. names: labels of the servers."""
    ratios = ", ".join(f"{ratio:.2f}" for ratio in figures.ratios)
    bare_rate = figures.servers[bare]["rate"]
    return [
        f"One process each, {figures.connections} connections, in turn; medians of the rounds. "
        "Data of earlier rounds remain.",
        "",
        f"| server | requests per s | p50, ms | p99, ms | of {names[bare]} |",
        "|---|---:|---:|---:|---:|",
        *(
            f"| {names[server]} | {server_figures['rate']:,.0f} | {server_figures['p50_ms']:.1f} "
            f"| {server_figures['p99_ms']:.1f} | {server_figures['rate'] / bare_rate:.2f} |"
            for server, server_figures in figures.servers.items()
        ),
        "",
        f"Ratio to {names[bare]}, by round: {ratios}. Median {figures.ratio:.3f}, target {target}.",
        "",
    ]
