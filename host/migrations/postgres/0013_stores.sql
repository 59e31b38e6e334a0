-- What modules keep for accounts: keys and values of their own.

-- One for each module and account that ever kept something.
CREATE TABLE stores (
    account_id TEXT   NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
    module     TEXT   NOT NULL,                 -- its name
    used       BIGINT NOT NULL,                 -- bytes of all entries, as they count towards the quota
    PRIMARY KEY (account_id, module)
);
CREATE INDEX stores_by_module ON stores (module);

CREATE TABLE store_entries (
    account_id TEXT   NOT NULL,
    module     TEXT   NOT NULL,
    key        TEXT   COLLATE "C" NOT NULL,     -- in the order of their bytes, as SQLite has them
    value      BYTEA  NOT NULL,
    PRIMARY KEY (account_id, module, key),
    FOREIGN KEY (account_id, module) REFERENCES stores (account_id, module) ON DELETE CASCADE
);
