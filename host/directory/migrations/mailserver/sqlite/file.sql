-- The data for mail servers, on SQLite: the contract `mailserver_*`, version 1, in a separate file.
--
-- The file is separate, because a reader of a database in WAL mode must be able to write the database. Mail daemons can open this file, but not the main file.
-- This file contains only the data that mail daemons need. It contains no passwords of people, no sealed secrets and no sessions. Within a version of the
-- contract, columns can only be added. On PostgreSQL, views with the same names contain the same data (../../postgres/0001_initial.sql).
--
-- Runs at every start, in one transaction. The file is a copy of data in the main file: `src/db/sqlite/projection.rs` keeps it in sync, and repair.sql corrects
-- it. If the columns of a table change, this script must drop the old table first.

CREATE VIEW IF NOT EXISTS mailserver_version AS
    SELECT 1 AS version;

-- Log-ins, including expired ones until the service deletes them. The view below excludes expired ones.
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

-- Log-ins. `address` is the log-in name. The password that a person types begins with `selector`. `password` contains the scheme and the digest in Dovecot's
-- format. Uses strftime, because unixepoch() is missing in the SQLite of some daemons.
CREATE VIEW IF NOT EXISTS mailserver_passwords AS
    SELECT address, selector, app_password_id, password, kind
    FROM projected_log_ins
    WHERE expires_at IS NULL OR expires_at > CAST(strftime('%s', 'now') AS INTEGER) * 1000;

-- The mail server's own log-in names, for accounts whose name is not the address. Only an existing mail server that has its own users needs these names.
CREATE TABLE IF NOT EXISTS mailserver_login_names (
    address TEXT PRIMARY KEY,
    login   TEXT NOT NULL
);

-- Mailboxes: the address, and the name of the mailbox's directory on the mail server.
CREATE TABLE IF NOT EXISTS mailserver_users (
    address TEXT PRIMARY KEY,
    mailbox TEXT NOT NULL
);

-- The domains for which the mail server accepts mail.
CREATE TABLE IF NOT EXISTS mailserver_domains (
    domain TEXT PRIMARY KEY
);

-- The domains that receive mail only through aliases: verified domains of accounts that are not also domains of the platform.
CREATE TABLE IF NOT EXISTS mailserver_custom_domains (
    domain TEXT PRIMARY KEY
);

-- Aliases, including expired ones. The view below excludes expired ones, so that an alias expires in time while the service does not run.
CREATE TABLE IF NOT EXISTS projected_aliases (
    address     TEXT PRIMARY KEY,
    destination TEXT NOT NULL,
    expires_at  BIGINT                         -- milliseconds since the epoch, UTC
);
CREATE INDEX IF NOT EXISTS projected_aliases_by_destination ON projected_aliases (destination);

-- Aliases: the address of the alias, and the address that receives its mail.
CREATE VIEW IF NOT EXISTS mailserver_aliases AS
    SELECT address, destination
    FROM projected_aliases
    WHERE expires_at IS NULL OR expires_at > CAST(strftime('%s', 'now') AS INTEGER) * 1000;

-- The addresses from which each log-in may send, including expired aliases.
CREATE TABLE IF NOT EXISTS projected_senders (
    address    TEXT NOT NULL,
    login      TEXT NOT NULL,
    expires_at BIGINT,                         -- milliseconds since the epoch, UTC
    PRIMARY KEY (address, login)
);
CREATE INDEX IF NOT EXISTS projected_senders_by_login ON projected_senders (login);

-- The addresses from which each log-in may send.
CREATE VIEW IF NOT EXISTS mailserver_senders AS
    SELECT address, login
    FROM projected_senders
    WHERE expires_at IS NULL OR expires_at > CAST(strftime('%s', 'now') AS INTEGER) * 1000;

-- The quotas of mailboxes, in bytes. An account without a limit has no row.
CREATE TABLE IF NOT EXISTS mailserver_quotas (
    address TEXT   PRIMARY KEY,
    storage BIGINT NOT NULL
);

-- The key with which the milter marks its results in messages. At most one row.
CREATE TABLE IF NOT EXISTS mailserver_results_key (
    secret TEXT PRIMARY KEY
);

-- Mailboxes that are being deleted: they receive no mail, but the service can log in.
CREATE TABLE IF NOT EXISTS mailserver_removals (
    address TEXT PRIMARY KEY,
    mailbox TEXT NOT NULL
);

-- Every address that an account has or had, and every address that the operator reserves. No catch-all receives mail for these addresses.
CREATE TABLE IF NOT EXISTS mailserver_addresses (
    address TEXT PRIMARY KEY,
    domain  TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS mailserver_addresses_by_domain ON mailserver_addresses (domain);

-- The addresses to which copies of the mail of accounts are forwarded.
CREATE TABLE IF NOT EXISTS mailserver_forwards (
    address     TEXT PRIMARY KEY,
    destination TEXT NOT NULL
);

-- The domains whose addresses can have an extension, and the character before the extension.
CREATE TABLE IF NOT EXISTS mailserver_separators (
    domain    TEXT PRIMARY KEY,
    separator TEXT NOT NULL
);

-- The accounts that receive mail for unknown addresses of a domain.
CREATE TABLE IF NOT EXISTS mailserver_catch_alls (
    domain      TEXT PRIMARY KEY,
    destination TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS mailserver_catch_alls_by_destination ON mailserver_catch_alls (destination);
