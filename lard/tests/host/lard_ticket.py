#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 240
"""Session tickets by keys of a file: for several front-ends, over their ends, until the keys are changed."""

import contextlib
import os
import secrets
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "../lib")]
from lardd import LARDD, content, kit, main, until      # noqa: E402
from lard_client import VERSIONS, Gate                  # noqa: E402
from secure import Site, count_is, is_nobody_elses, session_of, site   # noqa: E402
from lardd import cluster                               # noqa: E402


def write_keys(path, *keys):
    with open(path, "w", encoding="ascii") as file:
        file.write("# the first makes tickets\n" + "".join(f"{key}\n" for key in keys) + "\n")
    os.chmod(path, 0o600)


def reload(s, extra):
    before = s.lardd.control("status")["reloads"]
    s.configure(s.files, extra)
    s.lardd.reload()
    until(lambda: s.lardd.control("status")["reloads"] > before, what="the reload")


@contextlib.contextmanager
def two():
    """Two front-ends with the same certificate, and where their keys are."""
    with site() as a, site() as b:
        b.files = a.files
        yield a, b, [os.path.join(s.lardd.directory.name, "tickets") for s in (a, b)]


def front_ends_resume_each_others_sessions():
    """With the same keys and not with others; and a process goes on where another has ended."""
    key = secrets.token_hex(80)
    with two() as (a, b, paths):
        for keys, wanted in (((key, key), True), ((key, secrets.token_hex(80)), False)):
            for s, path, one in zip((a, b), paths, keys):
                write_keys(path, one)
                reload(s, f"ticket-keys {path}\nworkers 2")
            for version in VERSIONS:
                context = a.context()
                session, reused = session_of(a, context, version)
                assert not reused
                session, reused = session_of(b, context, version, session)
                assert reused == wanted, (version, wanted)
        count_is(b.lardd, "LardTlsTicketUnknown", 2)
        context = a.context()
        session, _ = session_of(a, context, VERSIONS[1])
        assert a.lardd.take_over().wait(kit.PATIENCE) == 0
        assert session_of(a, context, VERSIONS[1], session)[1], "not after a takeover"


def keys_change_by_a_reload():
    """The old one is known for as long as it stands there, and its sessions get tickets of the new one."""
    first, second, third = (secrets.token_hex(80) for _ in range(3))
    with site() as s:
        path = os.path.join(s.lardd.directory.name, "tickets")
        for version in VERSIONS:
            context = s.context()
            write_keys(path, first)
            reload(s, f"ticket-keys {path}")
            old, _ = session_of(s, context, version)
            write_keys(path, f" \t{second} # new", first)
            assert session_of(s, context, version, old)[1], "before the reload"
            reload(s, f"ticket-keys {path}")
            new, reused = session_of(s, context, version, old)
            assert reused, "the key is still there"
            write_keys(path, third, second)
            reload(s, f"ticket-keys {path}")
            newer, reused = session_of(s, context, version, new)
            assert reused, "its ticket was not of the new key"
            assert not session_of(s, context, version, old)[1], "its key is gone"
            reload(s, "")
            assert not session_of(s, context, version, newer)[1], "the process's own keys know it"
        count_is(s.lardd, "LardTlsTicketUnknown", 4)


def share_keys(s, *keys):
    """The file that has them from now on."""
    path = os.path.join(s.lardd.directory.name, "tickets")
    write_keys(path, *keys)
    reload(s, f"ticket-keys {path}")
    return path


def files_that_are_no_good_refuse_a_reload():
    """As keys of certificates; the old keys stay."""
    key = secrets.token_hex(80)
    with site() as s:
        path = share_keys(s, key)
        context = s.context()
        session, _ = session_of(s, context, VERSIONS[1])

        def refused(word):
            failures = s.lardd.log().count("level=error event=reload")
            s.lardd.reload()
            until(lambda: s.lardd.log().count("level=error event=reload") > failures, what="the refusal")
            run = subprocess.run([LARDD, "-c", s.lardd.config_path, "--check"], capture_output=True, text=True,
                                 check=False)
            assert run.returncode == 1 and word in run.stderr and word in s.lardd.log(), (word, run)
            assert key not in run.stderr and key not in s.lardd.log()
            assert session_of(s, context, VERSIONS[1], session)[1], word
        for keys, word in (((), "no key"), ((key, key), "twice"), ((key[:-2],), "160 hexadecimal"),
                           ((key + "00",), "160 hexadecimal"), ((key[:-1] + "x",), "160 hexadecimal"),
                           ((key + " more",), "more in a line"), ((key, "#\0", "x"), "more in a line"),
                           ((key, "#" * 511 + key), "longer than"), (("x #", key), "160 hexadecimal"),
                           ([secrets.token_hex(80) for _ in range(17)], "more than 16")):
            write_keys(path, *keys)
            refused(word)
        write_keys(path, key)
        is_nobody_elses(path, refused)
        os.unlink(path)
        refused("No such file")


def shared_keys_open_no_other_door():
    """Of another front-end: one that has another certificate, or other authorities, resumes nothing."""
    key = secrets.token_hex(80)
    with two() as (a, b, paths), cluster(1) as third:
        write_keys(paths[0], key)
        reload(a, f"ticket-keys {paths[0]}")
        b.files = Site(third).files                     # of the same name, another
        reload(b, f"ticket-keys {paths[0]}")
        context = a.context()
        context.load_verify_locations(b.files["one.test"][0])
        for version in VERSIONS:
            session, _ = session_of(a, context, version)
            assert session_of(a, context, version, session)[1]
            assert not session_of(b, context, version, session)[1]
        count_is(b.lardd, "LardTlsTicketUnknown", 0)
    with cluster(1) as one, cluster(1) as other:
        a, b = Gate(one), Gate(other)
        path = os.path.join(one.directory.name, "tickets")
        write_keys(path, key)
        b.files = a.files
        for s in (a, b):
            s.reload(f"ticket-keys {path}")
        who = a.authority.issue("ann")
        for version in VERSIONS:
            context = a.client(who, version)
            _, session, _ = a.ask(a.required, context)
            assert a.ask(a.required, context, session=session)[2]
            assert b.refused(b.required, context, session=session)
            b.authority, before = a.authority, b.authority
            b.reload(f"ticket-keys {path}")
            assert b.ask(b.required, context, session=session)[2], "the same authorities"
            b.authority = before
            b.reload(f"ticket-keys {path}")


def s_client(s, version, *words):
    """What `openssl s_client` says of a connection that asks for something and waits for the server's end."""
    ask = b"GET /size/5 HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"
    run = subprocess.run(["openssl", "s_client", "-connect", f"127.0.0.1:{s.port}", "-servername", "one.test", "-msg",
                          "-ign_eof", f"-tls{version}", *words], input=ask, capture_output=True, timeout=120,
                         check=False)
    assert content(5) in run.stdout, (version, words, run)
    return run.stdout.decode("latin-1")


def seen(text):
    """Tickets that came, and connections that were resumed."""
    return text.count("NewSessionTicket"), text.count("Reused, TLS")


def without_tickets_every_handshake_is_whole():
    """From the start and after a takeover: of neither version one comes, and who connects again is no one known."""
    with site(extra="workers 2") as s:
        path = os.path.join(s.lardd.directory.name, "session")
        for tickets, (of_12, of_13) in (("on", (True, True)), ("off", (False, False))):
            s.configure(s.files, f"tls-tickets {tickets}\nworkers 2")
            assert s.lardd.take_over().wait(kit.PATIENCE) == 0
            came, reused = seen(s_client(s, "1_2", "-reconnect"))
            assert (bool(came), reused) == ((True, 5) if of_12 else (False, 0)), (tickets, came, reused)
            came, _ = seen(s_client(s, "1_3", "-sess_out", path))
            assert came == (2 if of_13 else 0), (tickets, came)
            if of_13:
                assert seen(s_client(s, "1_3", "-sess_in", path)) == (1, 1)
        assert s.lardd.counter("LardTlsResumed") == 0 and s.lardd.counter("LardTlsHandshakes") == 7


def a_reload_ends_and_begins_tickets():
    """Those that were given are known no more, not even when there are tickets again: their keys are gone."""
    with site() as s:
        for version in VERSIONS:
            context = s.context()
            old, _ = session_of(s, context, version)
            assert old.has_ticket and session_of(s, context, version, old)[1]
            resumed, unknown = (s.lardd.counter(f"LardTls{name}") for name in ("Resumed", "TicketUnknown"))
            reload(s, "tls-tickets off")
            for _ in range(2):
                new, reused = session_of(s, context, version, old)
                assert not reused and not (new and new.has_ticket), version
                assert not (new and session_of(s, context, version, new)[1]), "by the session's number"
            assert s.lardd.counter("LardTlsResumed") == resumed
            assert s.lardd.counter("LardTlsTicketUnknown") == unknown, "nobody looked"
            reload(s, "tls-tickets on")
            assert not session_of(s, context, version, old)[1], version
            count_is(s.lardd, "LardTlsTicketUnknown", unknown + 1)
            new, _ = session_of(s, context, version)
            assert session_of(s, context, version, new)[1]
        old, _ = session_of(s, context, version)
        s.configure(s.files, "tls-tickets off\nworkers 0")
        s.lardd.reload()
        s.lardd.wait_log("level=error event=reload")
        assert session_of(s, context, version, old)[1], "a reload that was refused"


def shared_tickets_end_by_a_reload_too():
    """Of a file they are known again with it. A file for tickets that are not given is a mistake, and refused."""
    key = secrets.token_hex(80)
    with site() as s:
        path = share_keys(s, key)
        context = s.context()
        for version in VERSIONS:
            old, _ = session_of(s, context, version)
            reload(s, "tls-tickets off")
            assert not session_of(s, context, version, old)[1], version
            reload(s, f"ticket-keys {path}")
            assert session_of(s, context, version, old)[1], version
        s.configure(s.files, f"tls-tickets off\nticket-keys {path}")
        s.lardd.reload()
        s.lardd.wait_log("level=error event=reload")
        run = subprocess.run([LARDD, "-c", s.lardd.config_path, "--check"], capture_output=True, text=True, check=False)
        why = "ticket-keys: tls-tickets is off"
        assert run.returncode == 1 and why in run.stderr and why in s.lardd.log(), run
        assert session_of(s, context, version, old)[1], "the old configuration stays"


if __name__ == "__main__":
    sys.exit(main([front_ends_resume_each_others_sessions, keys_change_by_a_reload,
                   files_that_are_no_good_refuse_a_reload, shared_keys_open_no_other_door,
                   without_tickets_every_handshake_is_whole, a_reload_ends_and_begins_tickets,
                   shared_tickets_end_by_a_reload_too]))
