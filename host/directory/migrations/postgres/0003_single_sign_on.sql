-- The networks of the clients that started the sign-ins, as in `oauth_clients`. Programs before
-- this migration leave them empty.
ALTER TABLE provider_sign_ins ADD COLUMN network TEXT NOT NULL DEFAULT '';
ALTER TABLE provider_sign_ins ADD COLUMN region TEXT NOT NULL DEFAULT '';
ALTER TABLE oauth_devices ADD COLUMN network TEXT NOT NULL DEFAULT '';
ALTER TABLE oauth_devices ADD COLUMN region TEXT NOT NULL DEFAULT '';

-- The provider's refresh token, sealed with the service's key. NULL if the provider issued none.
ALTER TABLE sign_in_codes ADD COLUMN sealed_provider_token BYTEA;
ALTER TABLE sessions ADD COLUMN sealed_provider_token BYTEA;
-- The time at which a host last began to use the provider's refresh token. NULL if it was never
-- used.
ALTER TABLE sessions ADD COLUMN provider_checked_at BIGINT;
