-- The policy of an API token or of an OAuth grant, as JSON. NULL if only its scopes limit the grant.
ALTER TABLE app_passwords ADD COLUMN policy TEXT;

-- The caps of policies: what a grant has sent on a day. A row is deleted after two days.
CREATE TABLE grant_sends (
    app_password_id TEXT   NOT NULL REFERENCES app_passwords (id) ON DELETE CASCADE,
    day             BIGINT NOT NULL,    -- days since the Unix epoch, in UTC
    messages        BIGINT NOT NULL,
    recipients      BIGINT NOT NULL,
    PRIMARY KEY (app_password_id, day)
);

-- Messages that left an account: who wrote them, to whom, and which message they answer. Policies
-- allow mail to the people to whom a person wrote in a thread. A row is deleted after 400 days.
CREATE TABLE sent_records (
    account_id  TEXT    NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
    message_id  TEXT    NOT NULL,       -- with angle brackets
    by_person   BOOLEAN NOT NULL,       -- sent with a session or with a mail client
    in_reply_to TEXT,                   -- with angle brackets
    ancestors   TEXT    NOT NULL,       -- a JSON array: the Message-IDs in References
    people      TEXT    NOT NULL,       -- a JSON array: the addresses in To and Cc
    sent_at     BIGINT  NOT NULL,
    PRIMARY KEY (account_id, message_id)
);
CREATE INDEX sent_records_by_answer ON sent_records (account_id, in_reply_to);
CREATE INDEX sent_records_by_time ON sent_records (sent_at);

-- The messages that log-ins submitted, as the milter saw them. Only the milter's role writes rows.
-- The service moves the rows to `sent_records`.
CREATE TABLE mailserver_sent_mail (
    login       TEXT   NOT NULL,        -- the log-in name, without the id of an app password
    message_id  TEXT   NOT NULL,        -- with angle brackets
    in_reply_to TEXT,                   -- with angle brackets
    ancestors   TEXT   NOT NULL,        -- a JSON array: the Message-IDs in References
    people      TEXT   NOT NULL,        -- a JSON array: the addresses in To and Cc
    sent_at     BIGINT NOT NULL,        -- seconds since the Unix epoch
    PRIMARY KEY (login, message_id)
);
