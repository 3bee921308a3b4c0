#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 120
"""afpad's configuration and its files of tokens: what it does not start with, and why."""
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "lib"))
import door                                     # noqa: E402
from door import Door, PRETEND, TOKEN           # noqa: E402
from kit import claim, equal, main, wait        # noqa: E402


def says(*lines, token=True, arguments=("--check",), files=()):
    """The sentence without the program's name and the directory."""
    with tempfile.TemporaryDirectory() as directory:
        for name, text, mode in (("t", TOKEN + "\n", 0o600), ("p", door.PEER + "\n", 0o600), *files):
            with open(os.path.join(directory, name), "w", encoding="utf-8") as file:
                file.write(text)
            os.chmod(os.path.join(directory, name), mode)
        lines = [line.replace("@", directory + "/") for line in lines]
        said = door.refused(PRETEND, directory, *(["token %s/t" % directory] if token else []), "user nobody", *lines,
                            arguments=arguments)
        return said.replace(directory + "/", "@").replace("afpad: ", "", 1)


@claim
def directives_that_are_wrong_are_named():
    for line, should in (
            ("nothing 1", "@conf:3: nothing is not a directive"),
            ("listen", "@conf:3: listen takes one value"),
            ("listen 1 2", "@conf:3: listen takes one value"),
            ("listen 10.0.0.300", '@conf:3: listen must be an address and a port such as 10.0.0.2:7473 or '
             '[fd00::2]:7473, not "10.0.0.300"'),
            ("listen " + "1" * 300, '@conf:3: listen must be an address and a port such as 10.0.0.2:7473 or '
             '[fd00::2]:7473, not "%s"' % ("1" * 300)),
            ("site x", '@conf:3: site must be such as 0.0.0.0:80 or [::]:80, not "x"'),
            ("max-connections 7", '@conf:3: max-connections must be a number from 8 to 10000, not "7"'),
            ("timeout 1us", "@conf:3: timeout must be from 100ms to 1h"),
            ("max-body 1X", '@conf:3: max-body must be a size such as 64K, 16M or 1G, not "1X"'),
            ("max-body 1T", '@conf:3: max-body must be a size such as 64K, 16M or 1G, not "1T"'),
            ("max-body -1", '@conf:3: max-body must be a size such as 64K, 16M or 1G, not "-1"'),
            ("queue 0", '@conf:3: queue must be a number from 1 to 100000, not "0"'),
            ("certificate x", "@conf:3: certificate must be a path that begins with a slash"),
            ("certificate /x", "@conf: certificate and key go together"),
            ("memory 1M", "@conf: memory is less than max-body"),
            ("peer ftp://x", "@conf:3: peer must begin with http:// or https://"),
            ("peer http://name:7473", '@conf:3: peer must be http://ADDRESS:PORT, an address and not a name, not '
             '"http://name:7473"'),
            ("peer https://a/b", '@conf:3: peer must be https://NAME:PORT without a path, not "https://a/b"'),
            ("peer https://u@a", '@conf:3: peer must be https://NAME:PORT without a path, not "https://u@"'),
            ("peer http://10.0.0.2:7473", "@conf: peers need a peer-token"),
            ("peer http://192.0.2.1:7473", "@conf:3: the token would go to http://192.0.2.1:7473 in the clear: use "
             "https://, or --insecure"),
            ("peer-token @t", "@conf: token and peer-token are one file: what clients know is not for peers"),
            ("user nosuchuser", "user nosuchuser: there is none (systemd-sysusers, or 'user' in the configuration)")):
        if "nosuchuser" in line and os.getuid():
            continue
        if line == "peer https://u@a":
            continue        # "@" is this test's own sign
        equal(line[:60], says(line), should)
    equal("no token", says(token=False), "@conf: there is no token")
    equal("twice", says("peer https://a:1", "peer https://a:1"), "@conf:4: peer https://a:1 is there twice")
    equal("too many", says(*("peer https://a:%d" % number for number in range(1, 66))), "@conf:67: more than 64 peers")


@claim
def a_site_is_no_control_address():
    for listen, site in (("0.0.0.0:80", "0.0.0.0:80"), ("127.0.0.1:80", "0.0.0.0:80"), ("[::1]:80", "[::]:80"),
                         ("127.0.0.1:80", "[::]:80"), ("10.0.0.1:80", "10.0.0.1:80"), ("0.0.0.0:80", "10.0.0.1:80"),
                         ("[::]:80", "10.0.0.1:80")):
        should = "%s: it is a site, where everybody comes" % listen
        equal(listen, says("listen " + listen, "site " + site), "@conf: listen " + should.replace(": it", " it", 1)
              .replace(" it is", " is", 1))
        if listen.startswith("127"):
            os.environ["AFPAD_SITES"] = site
            equal(listen, says("listen " + listen, "state none", arguments=()), should)


@claim
def tokens_do_not_come_in_the_clear_from_everywhere():
    for listen in ("0.0.0.0", "[::]", "192.0.2.1", "8.8.8.8", "172.15.0.1", "172.32.0.1", "11.0.0.1", "[2001:db8::1]",
                   "[::ffff:8.8.8.8]", "100.64.0.1"):
        equal(listen, says("listen " + listen), "@conf: tokens would come to %s:7473 in the clear: give it a "
              "certificate and a key, a private address, or --insecure" % listen)
    for listen in ("127.1.2.3", "10.0.0.1", "172.16.0.1", "172.31.0.1", "192.168.1.1", "169.254.0.1", "[::1]",
                   "[fe80::1]", "[fd00::1]", "[::ffff:10.0.0.1]"):
        with Door("listen " + listen, start=False) as d:
            subprocess.run([PRETEND, "--check", "--config", d.path("conf")], check=True)
            d.stop = lambda: 0
    with Door("listen 0.0.0.0:%d" % door.port(), arguments=("--insecure",)) as d:
        equal("it is said", b"level=error event=insecure" in d.log(), True)


@claim
def files_of_tokens_are_secret():
    equal("mode", says("token @x", token=False, files=(("x", TOKEN, 0o640),)),
          "@x: others may read or write it (chmod 600)")
    for text, should in (
            ("", "it has no token"), ("# none\n\n", "it has no token"),
            ("short", "a token is shorter than 16 characters (openssl rand -hex 32)"),
            ("x" * 256, "a token is longer than 255 characters"),
            ("a b " * 5, "a token has other characters than A-Z a-z 0-9 - . _ ~ + / ="),
            ("äöü" * 10, "a token has other characters than A-Z a-z 0-9 - . _ ~ + / ="),
            ("\0" * 20, "it has a NUL byte"),
            ("".join("%032d\n" % n for n in range(17)), "there are more than 16 tokens"),
            (("x" * 200 + "\n") * 100, "it is too long")):
        equal(repr(text[:20]), says("token @x", token=False, files=(("x", text, 0o600),)), "@x: " + should)
    equal("not there", says("token @y", token=False), "@y: No such file or directory")
    equal("a directory", says("token /tmp", token=False), "/tmp: it is not a regular file")
    equal("shared", says("peer-token @x", files=(("x", TOKEN + "\n", 0o600),)), "@x: a token is one of clients', too")
    with tempfile.TemporaryDirectory() as directory:
        os.symlink("t", directory + "/link")
        equal("a link", says("token %s/link" % directory, token=False), directory + "/link: it is a link")
        if not os.getuid():
            with open(directory + "/other", "w", encoding="ascii") as file:
                file.write(TOKEN)
            os.chmod(directory + "/other", 0o600)
            os.chown(directory + "/other", 12345, -1)
            equal("somebody's", says("token %s/other" % directory, token=False), directory +
                  "/other: it belongs neither to root nor to the user that afpad runs as")


@claim
def tokens_are_changed_without_an_end():
    with Door() as d:
        equal("before", d.put("h/a")[0], 201)
        d.write("token", "# new and old\n%s\n%s\n" % (door.OTHER, TOKEN))
        d.process.send_signal(1)
        wait(lambda: b"event=reload tokens=2" in d.log())
        equal("both", [d.put("h/a", token=token)[0] for token in (TOKEN, door.OTHER)], [200, 200])
        d.write("token", door.OTHER + "\n")
        d.process.send_signal(1)
        wait(lambda: b"event=reload tokens=1" in d.log())
        equal("one", [d.put("h/a", token=token)[0] for token in (TOKEN, door.OTHER)], [401, 200])
        d.write("token", "bad\n")
        d.process.send_signal(1)
        wait(lambda: b"the tokens stay as they are" in d.log())
        equal("a bad file changes nothing", d.put("h/a", token=door.OTHER)[0], 200)


@claim
def arguments_are_what_help_says():
    for arguments, status in ((["--help"], 0), (["--version"], 0), (["--nonsense"], 2), (["more"], 2),
                              (["--config", "/nonexistent"], 1)):
        done = subprocess.run([PRETEND, *arguments], capture_output=True, text=True, check=False, timeout=30)
        equal(arguments, done.returncode, status)
    equal("it says", done.stderr, "afpad: cannot read /nonexistent: No such file or directory\n")


main()
