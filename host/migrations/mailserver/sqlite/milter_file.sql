-- What a milter reads, on SQLite: a file of its own in a folder of its own, so that neither Dovecot nor Postfix can read private keys. The twin
-- on PostgreSQL is in ../../postgres/0009_milter.sql.

CREATE TABLE IF NOT EXISTS mailserver_dkim_keys (
    domain      TEXT PRIMARY KEY,
    selector    TEXT NOT NULL,
    private_key TEXT NOT NULL                  -- PEM
);
