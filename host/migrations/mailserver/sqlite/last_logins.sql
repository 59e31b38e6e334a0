-- What the mail server tells of log-ins, on SQLite: a file of its own beside the one that it reads, so that a log-in's write never
-- waits for the service's nor the service's for a log-in's. The twin on PostgreSQL is in ../../postgres/0005_last_logins.sql.

CREATE TABLE IF NOT EXISTS mailserver_last_logins (
    app_password_id TEXT   PRIMARY KEY,
    last_login      BIGINT NOT NULL            -- seconds since the epoch, UTC, as Dovecot has them
);
