"""What the stand-in servers share: JSON in, JSON out, silent."""

from __future__ import annotations

import json
from http.server import BaseHTTPRequestHandler
from typing import Any


class JsonHandler(BaseHTTPRequestHandler):
    """Answers each POST with what `answer` gives for its JSON body."""

    def answer(self, body: Any) -> tuple[int, Any]:
        """Status and reply of one request."""
        raise NotImplementedError

    def do_POST(self) -> None:
        """Reads a request and writes its reply."""
        status, reply = self.answer(json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0)))))
        data = json.dumps(reply).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        """Silent: the rehearsal's own report is enough."""
