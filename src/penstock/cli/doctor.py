"""`penstock doctor`: check the machine, the settings and the service, with advice."""

import json
from itertools import chain
from typing import Annotated

import typer

from penstock.cli.configuration import read_configuration
from penstock.cli.logs import configure_logs
from penstock.cli.machine_checks import Check, Status, machine_checks
from penstock.cli.options import FAILED, Config, Data, Host, Port
from penstock.cli.stores import one_line_for_errors


def doctor(
    host: Host = None,
    port: Port = None,
    data: Data = None,
    config: Config = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Check the installation and say how to fix it. Exits with 1 if a check fails."""
    from penstock.cli.service_checks import service_checks

    configuration = read_configuration(config, host=host, port=port, data=data)
    settings = configuration.settings
    configure_logs("error")  # the checks say what is wrong
    done = list[Check]()
    with one_line_for_errors(settings):
        for check in chain(machine_checks(configuration), service_checks(settings)):
            done.append(check)
            if not as_json:
                _print(check)
    status = max((check.status for check in done), key=list(Status).index)
    if as_json:
        checks = [check._asdict() for check in done]
        print(json.dumps({"status": status, "checks": checks}, indent=2))
    if status is Status.FAILURE:
        raise typer.Exit(FAILED)


def _print(check: Check) -> None:
    print(f"{check.status:<8}{check.name}: {check.message}", flush=True)
    if check.advice:
        print(f"{'':<8}{check.advice}")
