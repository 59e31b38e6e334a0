"""Changes a mailbox at random, and compares the clients that follow it with the mailbox."""

import argparse
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

import dovecot
import latchmail
import selftest
from bench import Bench
from changes import Changes
from cyrus import Cyrus
from imap_backend import ImapBackend
from jmap import Jmap
from races import Races
from raw_imap import RawImap
from service import Latchmail

FOLLOWERS = ("stream", "stream-folder", "poll", "poll-folder", "webhook", "imap", "jmap")
SCRIPTS = pathlib.Path(__file__).resolve().parents[2] / "scripts"
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "latchmail"


def parse():
    """Returns the options."""
    parser = argparse.ArgumentParser(prog="./just bench-feeds", description=__doc__)
    add = parser.add_argument
    add("--self-test", action="store_true", help="test the bench with a fake feed, and end")
    add("--races", action="store_true",
        help="explore races between Latchmail and another client (races.py), and end")
    add("--follow", action="append", choices=FOLLOWERS, metavar="FOLLOWER",
        help=f"one of {', '.join(FOLLOWERS)}; can be repeated (default: all but jmap)")
    add("--changes", type=int, default=10000, help="number of changes (default: %(default)s)")
    add("--seed", type=int, default=1, help="seed of the changes (default: %(default)s)")
    add("--rate", type=float, default=20, help="changes per second, 0 for no limit (default: 20)")
    add("--folders", type=int, default=30, help="maximum number of folders (default: 30)")
    add("--kill-service", type=int, default=0, metavar="N", help="kill the service N times")
    add("--kill-mail-server", type=int, default=0, metavar="N", help="kill the server N times")
    add("--settle", type=float, default=90,
        help="seconds after which a follower that lags behind is wrong (default: 90)")
    add("--database", metavar="URL", help="an empty PostgreSQL database (default: SQLite)")
    add("--hosts", type=int, default=1, help="number of hosts of the service on PostgreSQL")
    add("--no-reads", action="store_true", help="do not read messages when their events arrive")
    add("--without-notices", action="store_true",
        help="the service watches the mailbox with a connection instead of notices of Dovecot")
    add("--keep", action="store_true", help="keep the folder with the logs")
    add("--program", help=argparse.SUPPRESS)
    add("--modules", help=argparse.SUPPRESS)
    return parser.parse_args()


def main():
    """Returns the number of divergences."""
    options = parse()
    if options.self_test:
        return 0 if selftest.main(options.seed) else 1
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    names = options.follow or (FOLLOWERS[:-1] if options.program else ["imap"])
    folder = pathlib.Path(tempfile.mkdtemp(prefix="lmfeeds-"))
    folder.chmod(0o711)
    found = 0
    try:
        if options.races:
            return Races(options.program, options.modules, folder).run()
        # Cyrus has a mailbox of its own.
        for group in ([n for n in names if n != "jmap"], [n for n in names if n == "jmap"]):
            if group:
                found += Run(options, group, folder / ("cyrus" if "jmap" in group else "d")).run()
    finally:
        if options.keep:
            print(f"The logs are in {folder}.")
        else:
            shutil.rmtree(folder, ignore_errors=True)
    return found


class Run:
    """A run with one mailbox and its followers."""

    def __init__(self, options, names, folder):
        self.options = options
        self.names = names
        self.folder = folder
        self.chance = random.Random(options.seed)
        self.service = self.server = None
        folder.mkdir()
        folder.chmod(0o711)

    def random(self):
        """Returns a source of random numbers of its own for a follower."""
        return random.Random(self.chance.random())

    def run(self):
        """Returns the number of divergences."""
        try:
            return self._run()
        finally:
            for one in (self.service, self.server):
                if one:
                    one.stop()

    def _run(self):
        options = self.options
        make, login, delivery = self._start()
        backend = ImapBackend(*login, *delivery, self.server.start)
        changes = Changes(random.Random(options.seed), backend, options.folders)
        changes.prepare()
        followers = [make[name](changes) for name in self.names]
        bench = Bench(changes, followers, self.chance, options.settle)
        faults = [(self.server.kill, options.kill_mail_server)]
        if self.service:
            faults.append((self._kill_service, options.kill_service))
        began = time.monotonic()
        try:
            bench.run(options.changes, options.rate, faults)
        finally:
            write_logs(self.folder, changes, followers, began)
        print(f"\n{bench.table()}\n\n{options.changes} changes, seed {options.seed}, "
              f"{time.monotonic() - began:.0f} s, {os.cpu_count()} cores", flush=True)
        return sum(map(len, bench.divergences.values()))

    def _start(self):
        """Starts the servers. Returns the functions that create the followers, the login of the
        changing client, and the address and the recipient of deliveries."""
        if self.names == ["jmap"]:
            self.server = Cyrus(self.folder / "cyrus", cyrus_root(), SCRIPTS / "in-root")
            self.server.start()
            user = ("ada", "secret")
            make = {"jmap": lambda changes: Jmap(
                "jmap", (self.server.http, *user), self.random(), changes.copied)}
            return make, (self.server.imap, *user), (None, None)
        if self.names == ["imap"]:
            self.server = dovecot.Dovecot.plain(self.folder / "dovecot")
            self.server.start()
            login = (self.server.imap, dovecot.USER, dovecot.PASSWORD)
            delivery = (self.server.lmtp, dovecot.USER)
            return {"imap": lambda _: RawImap("imap", login, self.random())}, login, delivery
        options, port = self.options, dovecot.free_port()
        settings = f'\n[webhooks]\nallow = ["127.0.0.1:{port}"]\n'
        self.service = service = Latchmail(
            options.program, options.modules, self.folder / "state", options.hosts,
            options.database, settings, not options.without_notices)
        self.server = service.dovecot
        service.start()
        reader = latchmail.Reader(service, self.random(), options.no_reads)
        login = (service.imap, service.user, service.password)
        make = {"imap": lambda _: RawImap("imap", login, self.random()),
                "webhook": lambda _: latchmail.Webhook(
                    "webhook", service, reader, self.random(), port)}
        for name, kind in (("stream", latchmail.Stream), ("poll", latchmail.Poll)):
            def follower(_, name=name, kind=kind, folder=None):
                return kind(name, service, reader, self.random(), folder)

            make[name] = follower
            make[f"{name}-folder"] = lambda _, name=name, make=follower: make(
                _, f"{name}-folder", folder="Filed")
        return make, login, (service.lmtp, service.user)

    def _kill_service(self):
        """Kills a host, which starts again after a moment."""
        host = self.chance.choice(self.service.hosts)
        host.kill()
        threading.Timer(self.chance.random(), host.start).start()


def cyrus_root():
    """Returns the folder with a Debian 13 and Cyrus. Creates it if it does not exist."""
    root = CACHE / "cyrus"
    if not (root / "usr/sbin/cyrmaster").exists():
        print(f"bench-feeds: installing Cyrus in {root}", flush=True)
        subprocess.run([SCRIPTS / "debian-root", root, "cyrus-imapd", "cyrus-caldav"], check=True)
    return root


def write_logs(folder, changes, followers, began):
    """Writes the changes, and the events of each follower, with their times."""
    with open(folder / "changes.log", "w", encoding="utf-8") as log:
        for at, number, text in changes.log:
            log.write(f"{at - began:9.3f} {number} {text}\n")
    for follower in followers:
        with open(folder / f"{follower.name}.log", "w", encoding="utf-8") as log:
            for at, event in getattr(follower, "events", ()):
                tag = follower.tags.get(event.id)
                log.write(f"{at - began:9.3f} {event.kind} {event.id} {tag} {event.source or ''}"
                          f" -> {event.folder} {sorted(event.flags)}\n")


if __name__ == "__main__":
    sys.exit(1 if main() else 0)
