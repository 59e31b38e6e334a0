-- Last log-ins that the mail server records, on SQLite. The file is separate from the one that the mail server reads, so that the mail server's writes and the
-- service's writes never wait for each other. The counterpart on PostgreSQL is ../../postgres/0001_initial.sql.

CREATE TABLE IF NOT EXISTS mailserver_last_logins (
    app_password_id TEXT   PRIMARY KEY,
    last_login      BIGINT NOT NULL            -- seconds since the Unix epoch, as Dovecot writes them
);

-- The mail that aliases received, as the milter counts it.
CREATE TABLE IF NOT EXISTS mailserver_alias_receipts (
    address          TEXT   PRIMARY KEY,
    received         BIGINT NOT NULL,          -- messages since the alias was created
    last_received_at BIGINT NOT NULL           -- seconds since the Unix epoch
);

-- The submissions from the outbox that the milter accepted.
CREATE TABLE IF NOT EXISTS mailserver_submissions (
    id          TEXT   PRIMARY KEY,            -- the secret id of a submission
    accepted_at BIGINT NOT NULL                -- seconds since the Unix epoch
);

-- The states that delivery reports have, as the milter records them.
CREATE TABLE IF NOT EXISTS mailserver_delivery_reports (
    envelope    TEXT   NOT NULL,               -- SHA-256 of the envelope id, in hexadecimal digits
    recipient   TEXT   NOT NULL,               -- in lower case
    state       BIGINT NOT NULL,               -- 1 delayed, 2 sent, 3 delivered, 4 bounced
    detail      TEXT,                          -- the reason, for the states 1 and 4
    reported_at BIGINT NOT NULL,               -- seconds since the Unix epoch
    PRIMARY KEY (envelope, recipient)
) WITHOUT ROWID;

-- The messages that log-ins submitted, as the milter saw them.
CREATE TABLE IF NOT EXISTS mailserver_sent_mail (
    login       TEXT   NOT NULL,               -- the log-in name, without the id of an app password
    message_id  TEXT   NOT NULL,               -- with angle brackets
    in_reply_to TEXT,                          -- with angle brackets
    ancestors   TEXT   NOT NULL,               -- a JSON array: the Message-IDs in References
    people      TEXT   NOT NULL,               -- a JSON array: the addresses in To and Cc
    sent_at     BIGINT NOT NULL,               -- seconds since the Unix epoch
    PRIMARY KEY (login, message_id)
) WITHOUT ROWID;
