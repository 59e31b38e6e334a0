-- The keys for a milter, on SQLite. They are in a separate file in a separate folder, so that neither Dovecot nor Postfix can read private keys. The
-- counterpart on PostgreSQL is ../../postgres/0001_initial.sql.

CREATE TABLE IF NOT EXISTS mailserver_dkim_keys (
    domain      TEXT PRIMARY KEY,
    selector    TEXT NOT NULL,
    private_key TEXT NOT NULL                  -- PEM
);
