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
