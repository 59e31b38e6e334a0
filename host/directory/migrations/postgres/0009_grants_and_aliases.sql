-- The time at which the owner suspended an API token or an OAuth grant. NULL if the credential is
-- not suspended.
ALTER TABLE app_passwords ADD COLUMN suspended_at BIGINT;

-- A suspension closes the connections of the app password on all hosts, as its end does.
CREATE TRIGGER credential_suspended AFTER UPDATE OF suspended_at ON app_passwords
    FOR EACH ROW WHEN (NEW.suspended_at IS NOT NULL) EXECUTE FUNCTION add_host_event('credential_ended');

CREATE OR REPLACE VIEW mailserver_passwords WITH (security_barrier) AS
    SELECT a.address, p.selector, p.id AS app_password_id, '{SHA256.HEX}' || p.secret_hash AS password, p.kind
    FROM app_passwords p JOIN accounts a ON a.id = p.account_id
    WHERE a.active AND p.suspended_at IS NULL
        AND (p.expires_at IS NULL OR p.expires_at > extract(epoch FROM statement_timestamp()) * 1000);

-- The owner's note about an alias, and the time from which the alias receives no mail.
ALTER TABLE addresses ADD COLUMN note TEXT;
ALTER TABLE addresses ADD COLUMN expires_at BIGINT;

-- `mailserver_senders` reads this view, so an expired alias is not a sender either.
CREATE OR REPLACE VIEW mailserver_aliases WITH (security_barrier) AS
    SELECT d.address, a.address AS destination
    FROM addresses d JOIN accounts a ON a.id = d.account_id
    WHERE d.kind = 'alias' AND d.live AND d.active AND a.active
        AND (d.expires_at IS NULL OR d.expires_at > extract(epoch FROM statement_timestamp()) * 1000)
        AND (
            EXISTS (SELECT 1 FROM platform_domains p WHERE p.domain = d.domain)
            OR EXISTS (SELECT 1 FROM domains o WHERE o.domain = d.domain AND o.account_id = d.account_id AND o.verified_at IS NOT NULL));

-- The mail that aliases received, as the milter counts it. Only the milter's role writes rows. The
-- table has no foreign key, because the milter could otherwise lock the row of an alias.
CREATE TABLE mailserver_alias_receipts (
    address          TEXT   PRIMARY KEY,
    received         BIGINT NOT NULL,           -- messages since the alias was created
    last_received_at BIGINT NOT NULL            -- seconds since the Unix epoch
);
