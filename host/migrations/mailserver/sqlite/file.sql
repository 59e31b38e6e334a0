-- What mail servers read, on SQLite: the contract `mailserver_*`, version 1, in a file of its own.
--
-- A file of its own, because whoever reads a database in WAL mode must be able to write it: mail daemons can open this file, and
-- can open no other. It holds what they must know and nothing more: no person's password, no sealed secret, no session.
-- Columns are only ever added under one version; on PostgreSQL the same names are views (../../postgres/0002_mailserver.sql).
--
-- Run at every start, in one transaction. The file is a projection: connection.sql keeps it in step, repair.sql makes it anew. So
-- whoever changes a table's shape drops the old one first, in older.sql.

CREATE VIEW IF NOT EXISTS mailserver_version AS
    SELECT 1 AS version;

-- Log-ins, dead ones among them until the service forgets them; the view below leaves those out.
CREATE TABLE IF NOT EXISTS projected_log_ins (
    app_password_id TEXT PRIMARY KEY,
    address         TEXT NOT NULL,
    selector        TEXT NOT NULL,
    password        TEXT NOT NULL,
    kind            TEXT NOT NULL,
    expires_at      BIGINT                     -- milliseconds since the epoch, UTC
);
CREATE INDEX IF NOT EXISTS projected_log_ins_by_address ON projected_log_ins (address);
CREATE INDEX IF NOT EXISTS projected_log_ins_by_selector ON projected_log_ins (selector);

-- Log-ins. The log-in name is `address`; what a person types as the password begins with `selector`. `password` is the scheme
-- and the digest as Dovecot reads them. strftime, since unixepoch() is younger than some daemons' SQLite.
CREATE VIEW IF NOT EXISTS mailserver_passwords AS
    SELECT address, selector, app_password_id, password, kind
    FROM projected_log_ins
    WHERE expires_at IS NULL OR expires_at > CAST(strftime('%s', 'now') AS INTEGER) * 1000;

-- Mailboxes: the address that mail for it carries, and the name of its folder on the mail server.
CREATE TABLE IF NOT EXISTS mailserver_users (
    address TEXT PRIMARY KEY,
    mailbox TEXT NOT NULL
);

-- Domains that mail is taken for.
CREATE TABLE IF NOT EXISTS mailserver_domains (
    domain TEXT PRIMARY KEY
);

-- Further addresses, and where their mail goes.
CREATE TABLE IF NOT EXISTS mailserver_aliases (
    address     TEXT PRIMARY KEY,
    destination TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS mailserver_aliases_by_destination ON mailserver_aliases (destination);

-- Which log-in may send from which address.
CREATE TABLE IF NOT EXISTS mailserver_senders (
    address TEXT NOT NULL,
    login   TEXT NOT NULL,
    PRIMARY KEY (address, login)
);
CREATE INDEX IF NOT EXISTS mailserver_senders_by_login ON mailserver_senders (login);
