-- The addresses to which the rules of an account can forward mail.
CREATE TABLE forward_addresses (
    id           TEXT    PRIMARY KEY,   -- opaque
    account_id   TEXT    NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
    address      TEXT    NOT NULL,      -- in lower case
    code_hash    TEXT    NOT NULL,      -- SHA-256 of the code, in hexadecimal digits
    requested_at BIGINT  NOT NULL,
    confirmed_at BIGINT,                -- NULL until the address is confirmed
    deleted      BOOLEAN NOT NULL DEFAULT FALSE -- a deleted row counts as a request for a day
);
CREATE INDEX forward_addresses_by_account ON forward_addresses (account_id, address);
CREATE INDEX forward_addresses_by_time ON forward_addresses (requested_at);
