"""Builds route handlers from plain functions, whose types declare requests and responses.

`@route("PATCH", "/api/segments/{segment_id:str}", "Change a segment", tag="segments")` makes a
handler of a function. The type of a parameter, or else its name, says what it receives:

- `AnyRequest`: the request.
- a `Query`: the query parameters, validated.
- an `Input`: the JSON body, validated. `Input | None`: None without a body. `bytes`: the JSON body,
  for a function that parses it.
- `ReadOnlyFields`: the fields of the body that only the returned record has.
- a name in the path: that part of the path.
- any other name: an object of the request, such as `caller` (`Room.request_objects`), or a service.

Objects of the request come first, so that a stranger gets 401 whatever the body is. A function runs
in a thread, and an `async def` on the event loop. It returns a record, a `Listing` of records,
None, or a whole response.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from inspect import isawaitable, iscoroutinefunction, signature
from types import NoneType, UnionType
from typing import Any, Literal, NamedTuple, get_args, get_origin, get_type_hints

from anyio import to_thread
from litestar import Response
from litestar.handlers import HTTPRouteHandler
from pydantic import BaseModel

from penstock.base.fair_queue import FairQueue
from penstock.base.paging import Listing
from penstock.base.value_budget import DEFINITION, FORM
from penstock.http.answers import answer, listing
from penstock.http.bodies import (
    DEFAULT_BODY_BYTES,
    FORM_BYTES,
    compute_on,
    has_body,
    parse_model,
    read_bytes,
    read_query,
    require_json,
)
from penstock.http.openapi import Description
from penstock.http.read_only import ReadOnlyFields, split_read_only
from penstock.http.requests import AnyRequest
from penstock.http.schema import Input, Query

Provider = Callable[..., Any]
"""Provides an object of a request: a class, or a coroutine function if it must wait for something.
Its parameters are objects by their names.
"""

Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]

_STATUS = {"POST": 201, "DELETE": 204}


def route(
    method: Method,
    path: str | list[str],
    summary: str = "",
    *,
    status: int | None = None,
    max_bytes: int | None = None,
    validated_by: str | None = None,
    queue: str = "definition_checks",
    context: str | None = None,
    runs_in: str | None = None,
    body: type[BaseModel] | None = None,
    query: type[Query] | None = None,
    answers: type[BaseModel] | None = None,
    receives: Mapping[str, str] | None = None,
    opt: Mapping[str, Any] | None = None,
    handler_options: Mapping[str, Any] | None = None,
    **description: Any,
) -> Callable[[Callable[..., Any]], HTTPRouteHandler]:
    """Make a handler of a function. Raises TypeError if a parameter's type says too little.

    summary: without one, the route is not in the OpenAPI document. max_bytes: maximum size of the
    body; by default 64 KB, or 1 MB if a service or the function parses it. validated_by: name of
    the service whose `read(workspace_id, body, model)` validates the body, in the named `queue`.
    context: name of the object that is passed to the validators of the body. runs_in: name of an
    object of the request that runs the function. body, query, answers: models for the document that
    the function does not name. receives: names of the objects that parameters receive, for those
    that do not receive the object with their own name. opt: options that rules for all routes read.
    handler_options: passed to the framework. description: additional fields of `Description`.
    """

    def register(function: Callable[..., Any]) -> HTTPRouteHandler:
        endpoint = _Endpoint(
            function,
            method,
            status,
            max_bytes,
            validated_by=validated_by,
            queue=queue,
            context=context,
            runs_in=runs_in,
            receives=receives or {},
        )

        async def handle(request: AnyRequest) -> Response[Any]:
            return await endpoint.respond(request)

        handle.__name__, handle.__doc__ = function.__name__, function.__doc__
        handle.__module__ = function.__module__
        handle.__annotations__["return"] = endpoint.response_type
        own_opt: dict[str, Any] = {"endpoint": endpoint, **(opt or {})}
        if summary:
            own_opt["description"] = Description(
                summary,
                name=function.__name__,
                text=(function.__doc__ or "").strip(),
                needs_session="current_user" in endpoint.objects,
                body=body or endpoint.body_model,
                is_body_optional=endpoint.is_body_optional,
                answers=answers or endpoint.record,
                query=query or endpoint.query_model,
                listed=endpoint.is_listed,
                takes_read_only=endpoint.read_only is not None,
                **description,
            )
        options = {"status_code": endpoint.status, "opt": own_opt, **(handler_options or {})}
        return HTTPRouteHandler(path, http_method=method, **options)(handle)

    return register


class _Endpoint:
    """A function and the information in its types.

    query, body, read_only: names of these parameters; None without one. objects: names of the
    objects that the others receive, by parameter. body_model: None for a body that the function
    parses. is_body_optional: whether a request may have no body. record: the model of the response,
    or of its entries; None without one.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        method: Method,
        status: int | None,
        max_bytes: int | None,
        *,
        validated_by: str | None,
        queue: str,
        context: str | None,
        runs_in: str | None,
        receives: Mapping[str, str],
    ) -> None:
        """See `route` for the parameters."""
        self.validated_by, self.queue, self.context = validated_by, queue, context
        self.runs_in = runs_in
        hints = get_type_hints(function)
        for name in (*signature(function).parameters, "return"):
            if name not in hints:
                raise TypeError(f"{_name_of(function)}: {name!r} needs a type.")
        self.function, self._result = function, hints.pop("return")
        self.query, self.query_model = _only(function, hints, Query)
        self.body, model = _only(function, hints, Input, bytes)
        self.is_body_optional = self.body is not None and hints[self.body] is not model
        self.body_model = None if model is bytes else model
        self.read_only, _ = _only(function, hints, ReadOnlyFields)
        self.objects = {
            name: receives.get(name, name)
            for name in hints
            if name not in (self.query, self.body, self.read_only)
        }
        self.is_listed = get_origin(self._result) is Listing
        record = get_args(self._result)[0] if self.is_listed else self._result
        self.record = record if _is_kind(record, BaseModel) else None
        default_status = 204 if self._result is NoneType else _STATUS.get(method, 200)
        self.status = status or default_status
        is_large = validated_by is not None or self.body_model is None
        self.max_bytes = max_bytes or (DEFAULT_BODY_BYTES if is_large else FORM_BYTES)

    @property
    def response_type(self) -> Any:
        """The type that tells the framework how to send the response."""
        if self.status == 204:
            return Response[None]
        is_built = self.record is not None or self._result is NoneType
        return Response[Any] if is_built else self._result

    async def respond(self, request: AnyRequest) -> Response[Any]:
        objects = _RequestObjects(request)
        arguments = {name: await objects.find(each) for name, each in self.objects.items()}
        if self.query is not None:
            arguments[self.query] = objects.known["query"] = read_query(request, self.query_model)
        if self.body is not None:
            arguments |= await self._read_body(request, objects)
        call = partial(self.function, **arguments)
        if self.runs_in is not None:
            run = await objects.find(self.runs_in)
            response: Response[Any] = await run(lambda: self._convert(call()))
            return response
        if not iscoroutinefunction(self.function):
            return await to_thread.run_sync(lambda: self._convert(call()))
        value = await call()
        if self.is_listed:  # converting a hundred entries would block the event loop
            return await to_thread.run_sync(self._convert, value)
        return self._convert(value)

    async def _read_body(self, request: AnyRequest, objects: "_RequestObjects") -> dict[str, Any]:
        """Read the body. Returns it with its read-only fields, under the parameters' names."""
        assert self.body is not None
        if self.is_body_optional and not has_body(request):
            return {self.body: None}
        require_json(request)
        body, read = await read_bytes(request, max_bytes=self.max_bytes), dict[str, Any]()
        if self.read_only is not None:
            body, read[self.read_only] = await compute_on(
                body, split_read_only, body, self.body_model, self.record
            )
        if self.body_model is None:
            return read | {self.body: body}
        if self.validated_by is not None:
            checks: FairQueue = await objects.find(self.queue)
            workspace_id = (await objects.find("caller")).workspace_id
            read_model = (await objects.find(self.validated_by)).read
            arguments = (workspace_id, body, self.body_model)
            return read | {self.body: await checks.run(workspace_id, read_model, *arguments)}
        budget = FORM if self.max_bytes <= FORM_BYTES else DEFINITION
        context = None if self.context is None else await objects.find(self.context)
        parsed = await compute_on(body, parse_model, body, self.body_model, context, budget)
        return read | {self.body: parsed}

    def _convert(self, value: Any) -> Response[Any]:
        """Convert the function's result to a response."""
        if self.is_listed:
            return listing(value)
        if self.record is not None:
            return answer(value, self.status)
        return Response(None, status_code=self.status) if value is None else value


class _BoundProvider(NamedTuple):
    provide: Provider
    needs: tuple[str, ...]


class Objects:
    """The objects that functions can name: services, and what providers provide to a request."""

    def __init__(
        self, services: object, names: Collection[str], providers: Mapping[str, Provider]
    ) -> None:
        """services: an object with the services as attributes. names: the names of these."""
        self.services, self._names = services, frozenset(names)
        self.providers = {
            name: _BoundProvider(provider, tuple(signature(provider).parameters))
            for name, provider in providers.items()
        }

    def check(self, handlers: Iterable[HTTPRouteHandler]) -> None:
        """Raise TypeError if a function has a parameter that nothing provides."""
        for handler in handlers:
            endpoint = handler.opt["endpoint"]
            in_path = {
                part[1:-1].partition(":")[0]
                for path in handler.paths
                for part in path.split("/")
                if part.startswith("{")
            }
            others = filter(None, (endpoint.runs_in, endpoint.context))
            for name in (*endpoint.objects.values(), *others):
                if name not in self._names | self.providers.keys() | in_path | {"request"}:
                    raise TypeError(
                        f"{_name_of(endpoint.function)}: there is no object for {name!r}. It is no "
                        "part of the path, no service, and no provider has this name."
                    )


class _RequestObjects:
    """Finds the objects that a request needs, each once."""

    def __init__(self, request: AnyRequest) -> None:
        self.known: dict[str, Any] = {"request": request, **request.path_params}
        self._objects: Objects = request.app.state.objects

    async def find(self, name: str) -> Any:
        if name not in self.known:
            provider = self._objects.providers.get(name)
            if provider is None:
                return getattr(self._objects.services, name)
            needs = {each: await self.find(each) for each in provider.needs}
            provided = provider.provide(**needs)
            self.known[name] = await provided if isawaitable(provided) else provided
        return self.known[name]


def _only(
    function: Callable[..., Any], hints: Mapping[str, Any], *kinds: type
) -> tuple[str | None, Any]:
    """Return the name and the type of the only parameter of some kinds, which may be optional;
    None, None without one.
    """
    types = {name: _without_none(hint) for name, hint in hints.items()}
    names = [name for name, hint in types.items() if _is_kind(hint, *kinds)]
    if len(names) > 1:
        raise TypeError(f"{_name_of(function)}: {names[1]!r} is a second {kinds[0].__name__}.")
    return (names[0], types[names[0]]) if names else (None, None)


def _without_none(hint: Any) -> Any:
    """Return the type T of `T | None`, and any other type as it is."""
    if not isinstance(hint, UnionType):
        return hint
    return next(each for each in get_args(hint) if each is not NoneType)


def _is_kind(hint: Any, *kinds: type) -> bool:
    return isinstance(hint, type) and issubclass(hint, kinds)


def _name_of(function: Callable[..., Any]) -> str:
    return f"{function.__module__}.{function.__name__}"
