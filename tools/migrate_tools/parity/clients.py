"""HTTP clients that talk to the tape: small stand-ins for aiohttp, httpx, requests and openai, and urllib's urlopen.

They replace the real packages on both sides alike, so that a recipe's code for requests and answers runs unchanged.
Runs inside the sandbox: standard library only.
"""

from __future__ import annotations

import asyncio
import importlib.machinery
import io
import json
import os
import sys
import time
import types
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from email.message import Message
from types import SimpleNamespace
from typing import Any

from migrate_tools.parity import children
from migrate_tools.parity.credentials import credentials
from migrate_tools.parity.tape import LOG, Answer, Tape

_installed: list[Tape] = []


def install(settings: dict[str, Any]) -> Tape:
    """Replaces the clients in this process (once) and returns their tape; sleeping becomes short.

    Python processes that this one starts do the same when they begin.
    """
    if _installed:
        return _installed[0]
    tape = Tape(settings)
    _installed.append(tape)
    os.environ[LOG] = str(tape.log)
    children.pass_on("PARITY_TAPE", json.dumps(settings))
    for module in (_aiohttp(tape), _httpx(tape), _requests(tape), _openai(tape)):
        _register(module)
    urllib.request.urlopen = _urlopen(tape)
    short, pause = time.sleep, asyncio.sleep
    time.sleep = lambda seconds: short(min(float(seconds), 0.001))

    async def soon(delay: float, result: Any = None) -> Any:
        return await pause(min(delay, 0.001), result)

    asyncio.sleep = soon
    return tape


def _register(module: types.ModuleType) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == module.__name__]:
        del sys.modules[name]
    module.__path__ = []
    module.__spec__ = importlib.machinery.ModuleSpec(module.__name__, None, is_package=True)
    sys.modules[module.__name__] = module
    for name, value in vars(module).copy().items():
        if isinstance(value, types.ModuleType):
            sys.modules[f"{module.__name__}.{name}"] = value


def _encoded(json_body: Any, data: Any) -> bytes:
    if json_body is not None:
        return json.dumps(json_body, sort_keys=True).encode()
    if isinstance(data, bytes):
        return data
    if isinstance(data, str):
        return data.encode()
    return b"" if data is None else json.dumps(data, sort_keys=True, default=str).encode()


def _full(base: str, url: Any, params: Any) -> str:
    text = urllib.parse.urljoin(base, str(url)) if base else str(url)
    return f"{text}?{urllib.parse.urlencode(params)}" if params else text


class Response:
    """Answer in the shape of requests and httpx."""

    def __init__(self, url: str, answer: Answer, error: type[Exception]) -> None:
        self.url, self.status_code, self.content = url, answer.status, answer.body
        self.text = answer.body.decode()
        self.headers = {"content-type": "application/json"}
        self.ok = self.is_success = answer.status < 400
        self.reason = self.reason_phrase = "OK" if self.ok else "Internal Server Error"
        self._error = error

    def json(self, **_: Any) -> Any:
        return json.loads(self.content)

    def raise_for_status(self) -> Response:
        if not self.ok:
            raise self._error(f"{self.status_code} {self.reason} for url: {self.url}")
        return self


class _Accepting:
    """A settings object of a client library: takes anything."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.__dict__.update({name: value for name, value in kwargs.items() if name.isidentifier()})

    def mount(self, *_: Any) -> None:
        return


def _errors(module: types.ModuleType, base: str, *names: str) -> None:
    parent = type(base, (Exception,), {"__module__": module.__name__})
    setattr(module, base, parent)
    for name in names:
        setattr(module, name, type(name, (parent,), {"__module__": module.__name__}))


def _requests(tape: Tape) -> types.ModuleType:
    module: Any = types.ModuleType("requests")
    errors: Any = types.ModuleType("requests.exceptions")
    _errors(errors, "RequestException", "HTTPError", "ConnectionError", "Timeout", "ReadTimeout", "JSONDecodeError")
    vars(module).update({name: value for name, value in vars(errors).items() if isinstance(value, type)})
    module.exceptions = errors
    module.adapters = types.ModuleType("requests.adapters")
    module.adapters.HTTPAdapter = _Accepting

    def request(
        method: str, url: str, *, params: Any = None, data: Any = None, json: Any = None, who: str = "", **others: Any
    ) -> Response:
        address, asks = _full("", url, params), who or credentials(others.get("headers"), others.get("auth"))
        return Response(address, tape.answer(method, address, _encoded(json, data), asks), errors.HTTPError)

    class Session(_Accepting):
        auth: Any = None

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            self.headers: dict[str, str] = {}
            super().__init__(*args, **kwargs)

        def __enter__(self) -> Session:
            return self

        def __exit__(self, *_: object) -> None:
            return

        def request(self, method: str, url: str, **kwargs: Any) -> Response:
            return request(method, url, who=_who(self, kwargs), **kwargs)

        def post(self, url: str, data: Any = None, json: Any = None, **kwargs: Any) -> Response:
            return self.request("POST", url, data=data, json=json, **kwargs)

        def get(self, url: str, **kwargs: Any) -> Response:
            return self.request("GET", url, **kwargs)

        def close(self) -> None:
            return

    plain = Session()
    module.Session = module.session = Session
    module.Response = Response
    module.request, module.post, module.get = request, plain.post, plain.get
    return module  # type: ignore[no-any-return]


def _httpx(tape: Tape) -> types.ModuleType:
    module: Any = types.ModuleType("httpx")
    _errors(module, "HTTPError", "RequestError", "HTTPStatusError", "TimeoutException", "ConnectError", "ReadTimeout")
    module.Timeout = module.Limits = module.HTTPTransport = module.AsyncHTTPTransport = _Accepting

    def request(method: str, url: Any, *, base: str = "", params: Any = None, who: str = "", **kwargs: Any) -> Response:
        address, asks = _full(base, url, params), who or credentials(kwargs.get("headers"), kwargs.get("auth"))
        body = _encoded(kwargs.get("json"), kwargs.get("content", kwargs.get("data")))
        return Response(address, tape.answer(method, address, body, asks), module.HTTPStatusError)

    class Client(_Accepting):
        base_url = ""

        def __enter__(self) -> Client:
            return self

        def __exit__(self, *_: object) -> None:
            return

        def request(self, method: str, url: Any, **kwargs: Any) -> Response:
            return request(method, url, base=str(self.base_url), who=_who(self, kwargs), **kwargs)

        def post(self, url: Any, **kwargs: Any) -> Response:
            return self.request("POST", url, **kwargs)

        def get(self, url: Any, **kwargs: Any) -> Response:
            return self.request("GET", url, **kwargs)

        def close(self) -> None:
            return

    class AsyncClient(_Accepting):
        base_url = ""

        async def __aenter__(self) -> AsyncClient:
            return self

        async def __aexit__(self, *_: object) -> None:
            return

        async def request(self, method: str, url: Any, **kwargs: Any) -> Response:
            return request(method, url, base=str(self.base_url), who=_who(self, kwargs), **kwargs)

        async def post(self, url: Any, **kwargs: Any) -> Response:
            return await self.request("POST", url, **kwargs)

        async def get(self, url: Any, **kwargs: Any) -> Response:
            return await self.request("GET", url, **kwargs)

        async def aclose(self) -> None:
            return

    module.Client, module.AsyncClient, module.Response = Client, AsyncClient, Response
    module.post = lambda url, **kwargs: request("POST", url, **kwargs)
    module.get = lambda url, **kwargs: request("GET", url, **kwargs)
    return module  # type: ignore[no-any-return]


class _Reply:
    """aiohttp's answer: the context manager and the response in one."""

    def __init__(self, response: Response) -> None:
        self._response = response
        self.status, self.ok, self.headers, self.reason = (
            response.status_code,
            response.ok,
            response.headers,
            response.reason,
        )

    async def __aenter__(self) -> _Reply:
        return self

    async def __aexit__(self, *_: object) -> None:
        return

    def __await__(self) -> Any:
        return self.__aenter__().__await__()

    async def text(self, *_: Any, **__: Any) -> str:
        return self._response.text

    async def json(self, *_: Any, **__: Any) -> Any:
        return self._response.json()

    async def read(self) -> bytes:
        return self._response.content

    def raise_for_status(self) -> None:
        self._response.raise_for_status()

    def release(self) -> None:
        return


def _aiohttp(tape: Tape) -> types.ModuleType:
    module: Any = types.ModuleType("aiohttp")
    names = ("ClientConnectionError", "ClientConnectorError", "ClientResponseError", "ServerTimeoutError")
    _errors(module, "ClientError", *names)
    module.ClientTimeout = module.TCPConnector = _Accepting

    class ClientSession(_Accepting):
        base_url = ""
        closed = False

        async def __aenter__(self) -> ClientSession:
            return self

        async def __aexit__(self, *_: object) -> None:
            return

        def request(
            self, method: str, url: Any, *, params: Any = None, data: Any = None, json: Any = None, **others: Any
        ) -> _Reply:
            address = _full(str(self.base_url), url, params)
            answer = tape.answer(method, address, _encoded(json, data), _who(self, others))
            return _Reply(Response(address, answer, module.ClientResponseError))

        def post(self, url: Any, **kwargs: Any) -> _Reply:
            return self.request("POST", url, **kwargs)

        def get(self, url: Any, **kwargs: Any) -> _Reply:
            return self.request("GET", url, **kwargs)

        async def close(self) -> None:
            self.closed = True

    module.ClientSession = ClientSession
    return module  # type: ignore[no-any-return]


def _openai(tape: Tape) -> types.ModuleType:
    module: Any = types.ModuleType("openai")
    names = (
        "APIError",
        "APIConnectionError",
        "APITimeoutError",
        "RateLimitError",
        "InternalServerError",
        "BadRequestError",
    )
    _errors(module, "OpenAIError", *names)

    def complete(base: str, path: str, client: Any, kwargs: Mapping[str, Any]) -> Any:
        who = credentials(client.api_key, client.default_headers, kwargs.get("extra_headers"))
        answer = tape.answer("POST", f"{base.rstrip('/')}/{path}", _encoded(dict(kwargs), None), who)
        if answer.status >= 400:
            raise module.InternalServerError("taped failure")
        return json.loads(answer.body, object_hook=_namespace)

    def models(base: str) -> Any:
        tape.answer("GET", f"{base.rstrip('/')}/models", b"")
        return SimpleNamespace(object="list", data=[SimpleNamespace(id="taped", object="model")])

    def build(is_async: bool) -> type:
        class Client(_Accepting):
            base_url = "https://api.openai.com/v1"
            api_key: Any = None
            default_headers: Any = None

            def __init__(self, *args: Any, **kwargs: Any) -> None:
                super().__init__(*args, **kwargs)
                base = str(self.base_url or "https://api.openai.com/v1")
                self.chat = SimpleNamespace(completions=SimpleNamespace(create=_create(self, base, "chat/completions")))
                self.completions = SimpleNamespace(create=_create(self, base, "completions"))
                self.models = SimpleNamespace(list=_list(base))

            def with_options(self, **_: Any) -> Client:
                return self

            def close(self) -> Any:
                return _nothing() if is_async else None

        def _create(client: Any, base: str, path: str) -> Any:
            if not is_async:
                return lambda **kwargs: complete(base, path, client, kwargs)

            async def create(**kwargs: Any) -> Any:
                return complete(base, path, client, kwargs)

            return create

        def _list(base: str) -> Any:
            async def found(**_: Any) -> Any:
                return models(base)

            return found if is_async else lambda **_: models(base)

        return Client

    module.OpenAI = module.AzureOpenAI = build(False)
    module.AsyncOpenAI = module.AsyncAzureOpenAI = build(True)
    return module  # type: ignore[no-any-return]


def _who(client: Any, given: Mapping[str, Any]) -> str:
    """Who asks: what the request says, or else its client."""
    own = getattr(client, "headers", None)
    return credentials(own, getattr(client, "auth", None), given.get("headers"), given.get("auth"))


async def _nothing() -> None:
    return


def _namespace(fields: dict[str, Any]) -> SimpleNamespace:
    namespace = SimpleNamespace(**fields)
    namespace.model_dump = lambda **_: fields
    return namespace


def _urlopen(tape: Tape) -> Any:
    def urlopen(url: Any, data: Any = None, *_: Any, **__: Any) -> Any:
        request = url if isinstance(url, urllib.request.Request) else urllib.request.Request(url, data)
        body = request.data if isinstance(request.data, bytes) else b""
        answer = tape.answer(request.get_method(), request.full_url, body, credentials(dict(request.header_items())))
        if answer.status >= 400:
            raise urllib.error.HTTPError(
                request.full_url, answer.status, "taped failure", Message(), io.BytesIO(answer.body)
            )
        reply: Any = io.BytesIO(answer.body)
        reply.status = reply.code = answer.status
        return reply

    return urlopen
