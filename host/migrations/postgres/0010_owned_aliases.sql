-- An alias is one while its domain is the platform's or its account's: a domain may leave the configuration, or its account, with aliases on it.

CREATE OR REPLACE VIEW mailserver_aliases WITH (security_barrier) AS
    SELECT d.address, a.address AS destination
    FROM addresses d JOIN accounts a ON a.id = d.account_id
    WHERE d.kind = 'alias' AND d.live AND d.active AND a.active AND (
        EXISTS (SELECT 1 FROM platform_domains p WHERE p.domain = d.domain)
        OR EXISTS (SELECT 1 FROM domains o WHERE o.domain = d.domain AND o.account_id = d.account_id AND o.verified_at IS NOT NULL));
