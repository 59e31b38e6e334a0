-- App passwords that are gone, until the mail server has ended what was begun with them.
--
-- Written by a trigger, in the transaction that takes them away, wherever that is.
CREATE TABLE ended_app_passwords (
    app_password_id TEXT   PRIMARY KEY,
    ended_at        BIGINT NOT NULL             -- milliseconds since the epoch, by the database's clock
);
CREATE INDEX ended_app_passwords_by_end ON ended_app_passwords (ended_at);

CREATE FUNCTION remember_ended_app_password() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO ended_app_passwords VALUES (OLD.id, extract(epoch FROM clock_timestamp())::bigint * 1000) ON CONFLICT DO NOTHING;
    RETURN NULL;
END
$$;

CREATE TRIGGER remember_ended_app_password AFTER DELETE ON app_passwords
    FOR EACH ROW EXECUTE FUNCTION remember_ended_app_password();
