"""Runs a Dovecot of the bench: a plain one with one account, or with a configuration file."""

import os
import pathlib
import signal
import socket
import subprocess
import time

PROGRAM = "/usr/sbin/dovecot"
USER = "ada@example.org"
PASSWORD = "secret"

COMMON = """
protocols = imap lmtp
listen = 127.0.0.1
base_dir = {folder}/run
state_dir = {folder}/run
log_path = {folder}/dovecot.log
ssl = no
mail_uid = mail
mail_gid = mail
first_valid_uid = 1
first_valid_gid = 1
mail_max_userip_connections = 100
# With this index, imap processes of Dovecot 2.3.19 end with signal 11 during the changes
# ("Corrupted mailbox list index").
mailbox_list_index = no
namespace inbox {{
  inbox = yes
  separator = /
}}
service imap-login {{
  inet_listener imap {{
    port = {imap}
  }}
}}
service lmtp {{
  inet_listener lmtp {{
    port = {lmtp}
  }}
}}
"""
V2_3 = """
disable_plaintext_auth = no
mail_location = mdbox:~/mdbox
passdb {{
  driver = static
  args = password=secret
}}
userdb {{
  driver = static
  args = uid=mail gid=mail home={folder}/mail/%u
}}
"""
V2_4 = """
auth_allow_cleartext = yes
mail_driver = mdbox
mail_path = ~/mdbox
passdb static {{
  password = secret
}}
userdb static {{
  fields {{
    uid = mail
    gid = mail
    home = {folder}/mail/%{{user}}
  }}
}}
"""
V2_4_FIRST = "dovecot_config_version = 2.4.1\ndovecot_storage_version = 2.4.1\n"


def free_port():
    """Returns a port of 127.0.0.1 that no program uses."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Dovecot:
    """A Dovecot in the foreground. It can be killed and started again."""

    def __init__(self, config, imap):
        self.command = [PROGRAM, "-F", "-c", config]
        self.imap = imap
        self.process = None

    @classmethod
    def plain(cls, folder):
        """Writes the configuration of a Dovecot with one account into a folder."""
        version = subprocess.run([PROGRAM, "--version"], capture_output=True, text=True, check=True)
        is_2_4 = version.stdout.startswith("2.4")
        imap, lmtp = free_port(), free_port()
        text = (V2_4_FIRST if is_2_4 else "") + COMMON + (V2_4 if is_2_4 else V2_3)
        (folder / "mail").mkdir(parents=True)
        subprocess.run(["chown", "mail:mail", folder / "mail"], check=True)
        config = folder / "dovecot.conf"
        config.write_text(text.format(folder=folder, imap=imap, lmtp=lmtp))
        dovecot = cls(config, ("127.0.0.1", imap))
        dovecot.lmtp = ("127.0.0.1", lmtp)
        return dovecot

    def start(self):
        """Starts Dovecot if it does not run, and waits until it accepts connections."""
        if self.process and self.process.poll() is None:
            return
        self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL,
                                        start_new_session=True, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL)
        until = time.monotonic() + 30
        while True:
            try:
                socket.create_connection(self.imap, 1).close()
                return
            except OSError:
                if self.process.poll() is not None:
                    command = " ".join(map(str, self.command))
                    raise RuntimeError(f"the mail server has ended: {command}") from None
                if time.monotonic() > until:
                    raise
                time.sleep(0.05)

    def kill(self):
        """Kills all processes of Dovecot."""
        processes = [self.process.pid, *_descendants(self.process.pid)]
        for pid in processes:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.process.wait()

    def stop(self):
        """Ends Dovecot."""
        if self.process and self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.kill()


def _descendants(pid):
    """Returns the ids of the processes below a process."""
    parents = {}
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            text = stat.read_text()
        except OSError:
            continue
        parent = int(text.rpartition(")")[2].split()[1])
        parents.setdefault(parent, []).append(int(stat.parent.name))
    found, todo = [], [pid]
    while todo:
        children = parents.get(todo.pop(), [])
        found += children
        todo += children
    return found
