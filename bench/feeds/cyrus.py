"""Runs a Cyrus IMAP server with JMAP in the folder of a Debian 13 (see README.md)."""

import os

from dovecot import Dovecot, free_port

IMAPD = """
configdirectory: {folder}/lib
proc_path: {folder}/proc
mboxname_lockpath: {folder}/lock
defaultpartition: default
partition-default: {folder}/mail
sievedir: {folder}/sieve
altnamespace: yes
unixhierarchysep: yes
virtdomains: off
admins: cyrus
autocreate_quota: 100000
allowplaintext: yes
sasl_pwcheck_method: alwaystrue
sasl_mech_list: PLAIN LOGIN
httpmodules: jmap
conversations: 1
conversations_db: twoskip
search_engine: xapian
defaultsearchtier: t1
t1searchpartition-default: {folder}/search
lmtpsocket: {folder}/socket/lmtp
idlesocket: {folder}/socket/idle
notifysocket: {folder}/socket/notify
"""
CYRUS = """
START {{
  recover cmd="/usr/sbin/cyrus ctl_cyrusdb -C {folder}/imapd.conf -r"
}}
SERVICES {{
  imap cmd="imapd -C {folder}/imapd.conf -U 30" listen="127.0.0.1:{imap}" prefork=1 maxchild=50
  http cmd="httpd -C {folder}/imapd.conf -U 1000" listen="127.0.0.1:{http}" prefork=1 maxchild=50
}}
EVENTS {{
  checkpoint cmd="/usr/sbin/cyrus ctl_cyrusdb -C {folder}/imapd.conf -c" period=30
}}
"""
USER, GROUP = 101, 8


class Cyrus(Dovecot):
    """A Cyrus with any account and any password."""

    def __init__(self, folder, root, in_root):
        imap, http = free_port(), free_port()
        folder.mkdir()
        for name in ("lib", "proc", "lock", "mail", "sieve", "search", "socket"):
            (folder / name).mkdir()
        for path in (folder, *folder.iterdir()):
            os.chown(path, USER, GROUP)
        values = {"folder": folder, "imap": imap, "http": http}
        (folder / "imapd.conf").write_text(IMAPD.format(**values))
        (folder / "cyrus.conf").write_text(CYRUS.format(**values))
        super().__init__(folder / "imapd.conf", ("127.0.0.1", imap))
        self.http = ("127.0.0.1", http)
        self.command = [in_root, root, "/usr/sbin/cyrmaster", "-D", "-C", folder / "imapd.conf",
                        "-M", folder / "cyrus.conf", "-p", folder / "pid"]

    def stop(self):
        if self.process and self.process.poll() is None:
            self.kill()
