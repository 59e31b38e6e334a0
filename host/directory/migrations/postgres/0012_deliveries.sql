-- Messages that the service sent, for the states of their deliveries. A row is deleted after 30
-- days.
CREATE TABLE sent_messages (
    account_id  TEXT   NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
    message_id  TEXT   NOT NULL,        -- with angle brackets
    envelope    TEXT   NOT NULL,        -- SHA-256 of the envelope id, in hexadecimal digits
    sender      TEXT   NOT NULL,        -- the id of the account that sent the message: the
                                        -- mailbox's own account or a member's account
    outcome     TEXT   NOT NULL,        -- queued, unreported or unknown
    recipients  TEXT   NOT NULL,        -- a JSON array of addresses
    sent_at     BIGINT NOT NULL,
    PRIMARY KEY (account_id, message_id)
);
CREATE INDEX sent_messages_by_time ON sent_messages (sent_at);
CREATE INDEX sent_messages_by_account ON sent_messages (account_id, sent_at);

-- The states that delivery reports have, as the milter records them. Only the milter's role writes
-- rows.
CREATE TABLE mailserver_delivery_reports (
    envelope    TEXT   NOT NULL,        -- SHA-256 of the envelope id, in hexadecimal digits
    recipient   TEXT   NOT NULL,        -- in lower case
    state       BIGINT NOT NULL,        -- 1 delayed, 2 sent, 3 delivered, 4 bounced
    detail      TEXT,                   -- the reason, for the states 1 and 4
    reported_at BIGINT NOT NULL,        -- seconds since the Unix epoch
    PRIMARY KEY (envelope, recipient)
);
CREATE INDEX mailserver_delivery_reports_by_time ON mailserver_delivery_reports (reported_at);
