-- The networks from which the credentials of accounts were used. The first use from a network is a
-- security event.
CREATE TABLE credential_networks (
    app_password_id TEXT   NOT NULL REFERENCES app_passwords (id) ON DELETE CASCADE,
    network         TEXT   NOT NULL,    -- an IPv4 address or IPv6 /64 network
    first_used_at   BIGINT NOT NULL,
    PRIMARY KEY (app_password_id, network)
);
