-- The key of a platform domain is the configuration's, that of another its row's, and a domain may stand in both tables. So the row takes with it the
-- key that was its own, which the selector tells, and a domain that is the platform's no longer takes the configuration's.

CREATE OR REPLACE FUNCTION withdraw_dkim_key() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM mailserver_dkim_keys WHERE domain = OLD.domain AND selector = OLD.dkim_selector;
    RETURN NULL;
END
$$;

CREATE FUNCTION withdraw_configured_dkim_key() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM mailserver_dkim_keys k WHERE domain = OLD.domain AND NOT EXISTS (
        SELECT 1 FROM domains d WHERE d.domain = k.domain AND d.dkim_selector = k.selector AND d.verified_at IS NOT NULL);
    RETURN NULL;
END
$$;
CREATE TRIGGER withdraw_configured_dkim_key AFTER DELETE ON platform_domains
    FOR EACH ROW EXECUTE FUNCTION withdraw_configured_dkim_key();
