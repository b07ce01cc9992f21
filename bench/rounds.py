"""What servers that were loaded in turn tell: the median of the rounds, so that a moment in which the machine was busy does not decide."""

from collections.abc import Mapping, Sequence
from statistics import median
from typing import NamedTuple

Round = Mapping[str, float]
"""`rate` in requests a second, `p50_ms` and `p99_ms`."""


class Compared(NamedTuple):
    """servers: the median of each one's rounds. ratios: of ours to the bare server's rate, round by round, in their order."""

    connections: int
    servers: Mapping[str, Round]
    ratios: Sequence[float]

    @property
    def ratio(self) -> float:
        return median(self.ratios)


def compared(rounds: Mapping[str, Sequence[Round]], connections: int, *, ours: str, bare: str) -> Compared:
    """rounds: by server. ours, bare: which of them the ratios are of."""
    servers = {
        server: {name: median([one[name] for one in told]) for name in ("rate", "p50_ms", "p99_ms")} for server, told in rounds.items()
    }
    return Compared(connections, servers, [one["rate"] / other["rate"] for one, other in zip(rounds[ours], rounds[bare], strict=True)])


def told_rounds(figures: Compared, names: Mapping[str, str], *, bare: str, target: float) -> list[str]:
    """A table and the ratios, as Markdown. names: what each server is called there."""
    least = figures.servers[bare]["rate"]
    return [
        f"One process each, {figures.connections} connections, in turn; the median of the rounds. What earlier rounds stored stays.",
        "",
        f"| server | requests per s | p50, ms | p99, ms | of {names[bare]} |",
        "|---|---:|---:|---:|---:|",
        *(
            f"| {names[server]} | {told['rate']:,.0f} | {told['p50_ms']:.1f} | {told['p99_ms']:.1f} | {told['rate'] / least:.2f} |"
            for server, told in figures.servers.items()
        ),
        "",
        f"Ours to {names[bare]}, round by round: {', '.join(f'{one:.2f}' for one in figures.ratios)}. "
        f"Their median is {figures.ratio:.3f}; the target is {target}.",
        "",
    ]
