"""Start the web server: `python -m benchlab.web.server --host ADDRESS --port PORT`.

`manage.py up`, the container image and the tests start it in this way, so that what protects it stands in one place.
"""

from __future__ import annotations

import argparse

import uvicorn

GRACE_SECONDS = 3  # then open event streams are cut, which would hold a stop for ever


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchlab.web.server")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000)
    options = parser.parse_args()
    uvicorn.run(
        "benchlab.asgi:application",
        host=options.host,
        port=options.port,
        # X-Forwarded-For of whoever connects from this machine would become the client's address, in log-in limits and
        # in the audit log. Django's side reads it, and only behind as many proxies as BENCHLAB_PROXIES says.
        proxy_headers=False,
        loop="uvloop",
        http="httptools",
        ws="none",
        lifespan="off",
        access_log=False,
        timeout_graceful_shutdown=GRACE_SECONDS,
    )


if __name__ == "__main__":
    main()
