"""What the tests of greedy clients and of greedy programs have in common."""
import os
import stat

GET = "GET /file HTTP/1.1\r\nHost: t\r\n\r\n"


def programs(s, **texts):
    """CGI programs."""
    os.mkdir(os.path.join(s.dir, "cgi"))
    for name, text in texts.items():
        path = os.path.join(s.dir, "cgi", name)
        with open(path, "w", encoding="ascii") as f:
            f.write("#!/bin/sh\necho A: b\necho\n%s\n" % text)
        os.chmod(path, stat.S_IRWXU)


def refused(c):
    """Has a client been told to come again?"""
    c.sock.settimeout(0.5)
    try:
        r = c.response()
    except (OSError, EOFError):
        return False
    return (r.status, r["retry-after"], r["connection"]) == (503, "1", "close")
