#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""server.py PORT [uvloop]: GET /N answers with N bytes, GET /child with what a child prints. asyncio."""
import asyncio
import sys


async def answer(path):
    if path == "/child":
        child = await asyncio.create_subprocess_exec("echo", "child", stdout=asyncio.subprocess.PIPE)
        return (await child.communicate())[0]
    return b"x" * int(path[1:])


async def connection(reader, writer):
    try:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            body = await answer(head.split()[1].decode())
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    writer.close()


async def main():
    server = await asyncio.start_server(connection, "127.0.0.1", int(sys.argv[1]), backlog=1000)
    async with server:
        await server.serve_forever()


async def app(scope, receive, send):
    """The same for an ASGI server."""
    if scope["type"] != "http":
        return
    body = await answer(scope["path"])
    await send({"type": "http.response.start", "status": 200,
                "headers": [(b"content-length", str(len(body)).encode())]})
    await send({"type": "http.response.body", "body": body})


if __name__ == "__main__":
    if sys.argv[2:] == ["uvloop"]:
        import uvloop
        uvloop.run(main())
    else:
        asyncio.run(main())
