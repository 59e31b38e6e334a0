-- The scopes of grants, and of the codes and devices that become grants: names separated by spaces. Until now every token had all scopes that OAuth tokens
-- can have, so existing rows keep all of them.
ALTER TABLE oauth_grants ADD COLUMN scope TEXT NOT NULL DEFAULT 'mail:read mail:send mail:write aliases:read';
ALTER TABLE oauth_codes ADD COLUMN scope TEXT NOT NULL DEFAULT 'mail:read mail:send mail:write aliases:read';
ALTER TABLE oauth_devices ADD COLUMN scope TEXT NOT NULL DEFAULT 'mail:read mail:send mail:write aliases:read';

-- The scopes of an access token that a refresh narrowed (RFC 6749, section 6). NULL: those of its grant.
ALTER TABLE oauth_tokens ADD COLUMN scope TEXT;
