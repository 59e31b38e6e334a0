-- What a milter of the mail server's reads, to sign what clients submit themselves: filled by the service where `dkim.milter` is set, else
-- empty. Dovecot and Postfix cannot read it (../mailserver/milter_postgres.sql). On SQLite it is a file of its own.

CREATE TABLE mailserver_dkim_keys (
    domain      TEXT PRIMARY KEY,
    selector    TEXT NOT NULL,
    private_key TEXT NOT NULL                  -- PEM
);

-- In the very transaction, whichever query it is that releases the domain.
CREATE FUNCTION withdraw_dkim_key() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM mailserver_dkim_keys WHERE domain = OLD.domain;
    RETURN NULL;
END
$$;
CREATE TRIGGER withdraw_dkim_key AFTER DELETE OR UPDATE OF domain, verified_at, dkim_selector ON domains
    FOR EACH ROW WHEN (OLD.verified_at IS NOT NULL) EXECUTE FUNCTION withdraw_dkim_key();
