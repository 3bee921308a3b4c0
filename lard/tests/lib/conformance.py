# SPDX-License-Identifier: GPL-2.0
"""Other people's suites for TLS against a server: tlsfuzzer's scripts and what they are to come to (suite/expected)."""

import fnmatch
import json
import os
import re
import subprocess
import tempfile
from dataclasses import dataclass, field

from lardd import kit
from secure import make_certificate

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "suite")
CACHE = os.environ.get("FLOTILLA_CACHE") or os.path.join(
    os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "flotilla")
SUITE = os.environ.get("TLSFUZZER") or os.path.join(CACHE, "tlsfuzzer")
PYTHON = os.path.join(SUITE, "venv/bin/python")
ALL = os.environ.get("ALL", "") not in ("", "0")
LONGEST = 300               # seconds for a script
GCM = {"rsa": "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "ec": "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"}
FINE = ("OK", "INFO", "LOW", "WARN", "DEBUG")
# What testssl.sh finds that is no matter of the server's, and why.
NOT_OURS = dict.fromkeys(("cert_trust", "cert_chain_of_trust", "cert_expirationStatus", "cert_notAfter",
                          "cert_revocation"), "the test's certificate, self-signed and for two days")
NOT_OURS["security_headers"] = "fields of the answer are the back-end's"


@dataclass
class Script:
    """A line of the list, and those below it: probes that fail, and why."""
    server: str
    name: str
    arguments: list
    often: bool
    fails: dict = field(default_factory=dict)

    @property
    def claim(self):
        more = [word.strip("-").replace("@", "") for word in self.arguments]
        return re.sub(r"\W+", "_", "_".join(["tlsfuzzer", self.server, self.name] + more)).strip("_")


def read_list():
    """Scripts to run, and {script: why not}."""
    scripts, left_out = [], {}
    with open(os.path.join(HERE, "expected"), encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            text = line.strip()
            if not text or text.startswith("#"):
                continue
            what, _, why = text.partition(": ")
            if line[0].isspace() or what.startswith("- "):
                assert why, f"expected:{number}: no reason"
            if line[0].isspace():
                scripts[-1].fails[what] = why
            elif what.startswith("- "):
                left_out.update(dict.fromkeys(what[2:].split(), why))
            else:
                often = text.startswith("* ")
                server, name, *arguments = text[2 * often:].split()
                scripts.append(Script(server, name, arguments, often))
    return scripts, left_out


def missing():
    """Why the suite cannot be run; None: it can."""
    if not os.path.exists(os.path.join(SUITE, "tlsfuzzer/_apps")):
        return f"tlsfuzzer is not in {SUITE} (make deps-nightly)"
    return None if os.access(PYTHON, os.X_OK) else f"{PYTHON} is not there (make deps-nightly)"


def verdicts(text):
    """How many probes passed, and which failed; None: it did not come to its end."""
    passed = re.search(r"^PASS: (\d+)$", text, re.M)
    if not passed or not re.search(r"^FAIL: \d+$", text, re.M):
        return None
    failed = text.rpartition("\nFAILED:\n")[2] if "\nFAILED:\n" in text else ""
    return int(passed[1]), {line.strip().strip("'\"") for line in failed.splitlines() if line.startswith("\t")}


def judge(script, text):
    """What is not as the list says; empty: all is."""
    found = verdicts(text)
    if not found:
        return ["it did not come to its end"]
    passed, failed = found
    wrong = [f"fails: {probe}" for probe in sorted(failed)
             if not any(fnmatch.fnmatchcase(probe, one.removeprefix("~ ")) for one in script.fails)]
    wrong += [f"does not fail any more: {one}" for one in script.fails
              if not one.startswith("~ ") and not fnmatch.filter(failed, one)]
    if not passed:
        wrong.append("no probe passed")
    return wrong


def said_of(text, wrong):
    """The first probes that are not as they should be, with what the script said of them."""
    probes = re.split(r"^(?=.* \.\.\.$)", text, flags=re.M)
    names = [line.partition(": ")[2] for line in wrong if line.startswith("fails: ")][:3]
    shown = [probe for probe in probes if probe.partition(" ...\n")[0] in names]
    lines = "".join(shown or probes[-1:]).splitlines()
    return "\n".join(line[:300] for line in lines if not line.startswith("Error encountered"))[-3000:]


def play(script, port, files):
    """Runs it; what it said. FILES: paths for words that begin with @."""
    words = {"@gcm": GCM.get(script.server, GCM["rsa"]), **files}
    command = [PYTHON, "-W", "ignore", os.path.join(HERE, "play.py"), SUITE, script.name, "-h", "127.0.0.1", "-p",
               str(port)] + [words.get(word, word) for word in script.arguments]
    try:
        run = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=LONGEST, check=False,
                             cwd=SUITE)
    except subprocess.TimeoutExpired as over:
        return (over.output or b"").decode(errors="replace") + f"\nno end after {LONGEST} s\n"
    return run.stdout.decode(errors="replace")


def holds(script, port, files):
    """The claim: its probes pass, but for those in the list."""
    text = play(script, port, files)
    wrong = judge(script, text)
    if wrong:
        raise AssertionError(f"{script.name}: " + "; ".join(wrong[:12]) + "\n" + said_of(text, wrong))


def clients(stack):
    """Certificates of clients, which are there as long as STACK: files by their words in the list, and @ca for all."""
    directory = stack.enter_context(tempfile.TemporaryDirectory())
    os.chmod(directory, 0o755)
    chain, key = make_certificate(directory, "client", "rsa")
    ecchain, eckey = make_certificate(directory, "ecclient")
    both = os.path.join(directory, "both.pem")
    with open(both, "w", encoding="ascii") as out:
        for path in (chain, ecchain):
            with open(path, encoding="ascii") as file:
                out.write(file.read())
    return {"@key": key, "@chain": chain, "@eckey": eckey, "@ecchain": ecchain, "@ca": both}


def findings(port):
    """What testssl.sh says of it that is of medium severity or worse, as {id: text}."""
    with tempfile.TemporaryDirectory() as directory:
        out = os.path.join(directory, "out.json")
        try:
            run = subprocess.run(["testssl", "--quiet", "--warnings", "off", "--color", "0", "--jsonfile", out,
                                  f"127.0.0.1:{port}"], capture_output=True, timeout=3000, check=False,
                                 stdin=subprocess.DEVNULL)
        except FileNotFoundError:
            raise kit.Skip("testssl.sh is not installed (make deps-nightly)") from None
        with open(out, encoding="utf-8") as file:
            said = json.load(file)
    assert any(one["id"] == "TLS1_3" for one in said), run.stdout[-2000:]
    return {one["id"]: f"{one['severity']}: {one['finding']}" for one in said if one["severity"] not in FINE}


def nothing_is_found(port):
    """The claim of testssl.sh."""
    if not ALL:
        raise kit.Skip("it takes minutes; `make test ALL=1` runs it")
    found = findings(port)
    wrong = {what: text for what, text in found.items() if what not in NOT_OURS}
    wrong.update((what, "is not found any more") for what in NOT_OURS if what not in found)
    if wrong:
        raise AssertionError("\n".join(f"{what}: {text}" for what, text in wrong.items()))


def main(name, daemons, serve, kinds):
    """Claims: the list's scripts of these kinds, against SERVE(kind) = (port, files), testssl.sh, and that what is in
    DAEMONS ends well; the exit status."""
    scripts, _ = read_list()
    why = missing()
    if why:
        kit.skip_all(why)
    chosen = [s for s in scripts if s.server in kinds and (s.often or ALL)]

    def ends_well():
        """No sanitizer has spoken, nothing has leaked."""
        assert serve("rsa")
        daemons.close()

    with daemons:
        return kit.run([(s.claim, lambda s=s: holds(s, *serve(s.server))) for s in chosen] +
                       [("testssl_finds_nothing_of_medium_or_worse", lambda: nothing_is_found(serve("rsa")[0])),
                        (f"after_all_that_{name}_ends_well", ends_well)])
