"""Lets handlers look up their services themselves.

The framework would provide each service to each request in a separate task, and would prepare this
for each handler when the application is built. Services are the same for all requests, so each
handler looks them up by name when it runs. The framework only provides objects that depend on the
request.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from copy import copy
from functools import wraps
from inspect import iscoroutinefunction, signature
from typing import Any, cast

from litestar.di import Provide
from litestar.handlers import HTTPRouteHandler


class BoundServices:
    """Fills in those parameters of handlers and dependencies that name a service.

    services: an object with the services as attributes. names: services that handlers may request.
    """

    def __init__(self, services: object, names: Collection[str]) -> None:
        self._services, self._names = services, frozenset(names)
        # The keys are id() values, because the framework compares providers by value.
        self._providers: dict[int, Provide] = {}

    def handlers(self, handlers: Iterable[HTTPRouteHandler]) -> list[HTTPRouteHandler]:
        """Return copies of the handlers without the parameters for services."""
        return [self._handler(handler) for handler in handlers]

    def dependencies(self, dependencies: Mapping[str, Provide]) -> dict[str, Provide]:
        """Return the dependencies by name, without the parameters for services.

        Equal inputs return the same object, so the framework prepares each only once.
        """
        return {name: self._provider(provider) for name, provider in dependencies.items()}

    def _handler(self, handler: HTTPRouteHandler) -> HTTPRouteHandler:
        bound = copy(handler)
        if handler.dependencies:
            bound.dependencies = self.dependencies(
                cast("Mapping[str, Provide]", handler.dependencies)
            )
        return bound(self._function(handler.fn))

    def _provider(self, provider: Provide) -> Provide:
        if id(provider) not in self._providers:
            self._providers[id(provider)] = Provide(self._function(provider.dependency))
        return self._providers[id(provider)]

    def _function(self, function: Callable[..., Any]) -> Callable[..., Any]:
        complete = signature(function)
        names = self._names & complete.parameters.keys()
        if not names:
            return function

        if iscoroutinefunction(function):

            @wraps(function)
            async def call(**arguments: Any) -> Any:
                return await function(**arguments, **self._services_named(names))
        else:

            @wraps(function)
            def call(**arguments: Any) -> Any:
                return function(**arguments, **self._services_named(names))

        rest = [value for name, value in complete.parameters.items() if name not in names]
        call.__signature__ = complete.replace(parameters=rest)  # type: ignore[attr-defined]
        call.__annotations__ = {
            name: value for name, value in function.__annotations__.items() if name not in names
        }
        return call

    def _services_named(self, names: Collection[str]) -> dict[str, Any]:
        return {name: getattr(self._services, name) for name in names}
