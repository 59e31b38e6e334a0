-- The address to which Postfix forwards copies of the account's mail. NULL if mail is not
-- forwarded.
ALTER TABLE accounts ADD COLUMN forward_to TEXT;
-- The time at which the account is deleted. The account is disabled until then. NULL if the account
-- is not to be deleted.
ALTER TABLE accounts ADD COLUMN deletes_at BIGINT;
-- Whether the deletion has begun. The service can then log in to the mailbox, and the account can no
-- longer be enabled.
ALTER TABLE accounts ADD COLUMN removing BOOLEAN NOT NULL DEFAULT FALSE;
CREATE INDEX accounts_by_deletion ON accounts (deletes_at) WHERE deletes_at IS NOT NULL;
-- For lists of the accounts that are not to be deleted, in pages.
CREATE INDEX accounts_to_stay ON accounts (id) WHERE deletes_at IS NULL;
CREATE INDEX accounts_by_forward ON accounts (forward_to) WHERE forward_to IS NOT NULL;

-- How mail is delivered to addresses of a domain that are no account and no alias.
CREATE TABLE domain_settings (
    domain            TEXT PRIMARY KEY, -- in lower case, ASCII (IDNA)
    owner             TEXT REFERENCES accounts (id) ON DELETE CASCADE, -- the account that has verified
                                        -- the domain. NULL for a platform domain. The settings apply
                                        -- only while this is the owner
    catch_all         TEXT,             -- an address of the account that receives mail for unknown
                                        -- addresses. NULL if such mail is refused
    catch_all_account TEXT REFERENCES accounts (id) ON DELETE SET NULL, -- the account with this address
    separator         TEXT              -- the character before the extension of an address. NULL if
                                        -- addresses have no extensions
);
CREATE INDEX domain_settings_by_owner ON domain_settings (owner);
CREATE INDEX domain_settings_by_catch_all ON domain_settings (catch_all_account);
