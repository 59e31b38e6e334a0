-- Credentials for one request, which are parts of URLs. A row is deleted when the ticket is used or
-- expired.
CREATE TABLE tickets (
    hash       TEXT   PRIMARY KEY,   -- SHA-256 of the ticket, hexadecimal
    account_id TEXT   NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
    target     TEXT   NOT NULL,      -- the method and the path of the request
    sealed     BYTEA  NOT NULL,      -- the caller's access token, sealed with a key that is derived
                                     -- from the ticket
    expires_at BIGINT NOT NULL
);
CREATE INDEX tickets_by_account ON tickets (account_id, expires_at);
CREATE INDEX tickets_by_expiry ON tickets (expires_at);
