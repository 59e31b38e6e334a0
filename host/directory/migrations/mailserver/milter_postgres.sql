-- Grants a milter access to the keys with which it signs, on PostgreSQL. Runs at every start if `dkim.milter` is set.
--
-- The role `latchmail_milter` cannot log in; an operator grants it to the role that the milter logs in as. The role is created in the same way as the role of
-- the mail servers (postgres.sql), and has no access to the data for mail servers.

DO $$
BEGIN
    -- Services that start concurrently wait for each other, as in postgres.sql.
    PERFORM pg_advisory_xact_lock(6016254201);

    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'latchmail_milter') THEN
        BEGIN
            CREATE ROLE latchmail_milter NOLOGIN;
        EXCEPTION
            WHEN insufficient_privilege THEN
                RAISE WARNING 'the role latchmail_milter is missing and this role may not create it, so a milter cannot read its keys';
                RETURN;
            WHEN duplicate_object OR unique_violation THEN
                NULL; -- created concurrently by a service on another database of the server
        END;
    END IF;

    IF NOT has_schema_privilege('latchmail_milter', current_schema(), 'USAGE') THEN
        EXECUTE format('GRANT USAGE ON SCHEMA %I TO latchmail_milter', current_schema());
    END IF;
    IF NOT has_table_privilege('latchmail_milter', 'mailserver_dkim_keys', 'SELECT') THEN
        GRANT SELECT ON mailserver_dkim_keys TO latchmail_milter;
    END IF;
END
$$;
