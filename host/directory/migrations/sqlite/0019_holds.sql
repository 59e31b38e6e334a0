-- Messages that the policy of a grant holds until the owner decides. Each is an entry of the outbox
-- with the state held. An approved entry becomes scheduled, any other becomes rejected.
CREATE TABLE holds (
    entry_id     TEXT   PRIMARY KEY REFERENCES outbox (id) ON DELETE CASCADE,
    account_id   TEXT   NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
    grant_id     TEXT   NOT NULL,
    grant_name   TEXT   NOT NULL,    -- the label of the grant, for people
    reason       TEXT   NOT NULL,    -- why the policy holds the message
    hash         TEXT   NOT NULL,    -- SHA-256 of the message, its sender and its recipients, lower-case hexadecimal
    status       TEXT   NOT NULL,    -- pending, approved, rejected or expired
    created_at   BIGINT NOT NULL,
    expires_at   BIGINT NOT NULL,    -- a pending message is rejected at this time
    decided_at   BIGINT,
    notified_at  BIGINT,             -- the time of the notice to the owner
    sealed_files BLOB   NOT NULL     -- JSON: the attachments, sealed with the key of the entry
);
CREATE INDEX holds_by_account ON holds (account_id, status);
